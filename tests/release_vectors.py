"""Send loops of RocketMQ's own selection classes as the attempts that a hook would record of them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta

from tests.conftest import GOLDEN

VERSIONS = ("4.2.0", "4.7.1", "4.8.0", "4.9.0", "4.9.8", "5.0.0", "5.1.1", "5.1.4", "5.3.3")
_DAY = datetime(2026, 1, 5, tzinfo=UTC)
_EXCEPTIONS = {
    "OK": None,
    "RemotingException": "org.apache.rocketmq.remoting.exception.RemotingTimeoutException",
    "MQClientException": "org.apache.rocketmq.client.exception.MQClientException",
    "MQBrokerException": "org.apache.rocketmq.client.exception.MQBrokerException",
}


def loops(version, folder=GOLDEN / "vectors"):
    """Each send loop of a release: how it was set up, and its attempts as rows."""
    found, init = [], None
    with gzip.open(folder / f"trace_{version}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["type"] == "init":
                init, chosen = line if line["mode"] == "sendloop" else None, {}
                if init is not None:
                    found.append((init, []))
            elif init is None:
                continue
            elif line["op"] == "select" and line["error"] is None:
                chosen[line["msg"], line["times"]] = line
            elif line["op"] == "update" and (line["msg"], line["times"]) in chosen:
                found[-1][1].append(_attempt(f"{version} {init['trace']}", chosen[line["msg"], line["times"]], line))
    return [(init, attempts) for init, attempts in found if attempts]


def _at(ms):
    return _DAY + timedelta(hours=1, milliseconds=ms)


def _attempt(client_id, select, update):
    begin, exception = select["call_now"], _EXCEPTIONS[update["outcome"]]
    return {
        "cluster": "c",
        "event_date": _at(begin).date(),
        "producer_group": "g",
        "client_id": client_id,
        "thread": f"t{select['thread']}",
        "topic": "TopicT",
        "broker_name": select["broker"],
        "broker_named_as": select["broker"],
        "exceptions_observable": True,
        "queue_id": max(select["queueId"], 0),
        "mode": "SYNC",
        "attempt": select["times"],
        "last_broker_name": select["last"],
        "begin_at": _at(begin),
        "end_at": _at(begin + update["latency"]),
        "latency_ms": update["latency"],
        "outcome": "EXCEPTION" if exception else "SEND_OK",
        "exception": exception,
        "msg_id": f"{select['msg']:06}",
        "phase": "result",
        "source": "producer_hook",
        "source_file": "f",
        "source_line": update["step"],
    }
