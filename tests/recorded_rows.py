"""What producers' hooks write in, the rows of send_attempt and producer_instance that ingestion makes of it out."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime

from tests.conftest import CAPTURES
from tests.random_producers import DAY, START_MS, start_of


def at(ms):
    return ms and datetime.fromtimestamp(ms / 1000, UTC)


def attempt_rows(lines):
    """Rows of send_attempt, as ingestion makes them; an ASYNC submit and its callback are one."""
    made = {}
    for number, line in enumerate(lines):
        row = made.setdefault((line["clientId"], line["msgId"], line["times"]), {})
        told = line["status"] or line["exception"] or row
        asynchronous = line["mode"] == "ASYNC"
        phase = (
            ("callback" if told else "submit") if asynchronous else "submit" if line["mode"] == "ONEWAY" else "result"
        )
        row |= {
            "cluster": "c",
            "event_date": at(line["beginMs"]).date(),
            "producer_group": "g",
            "client_id": line["clientId"],
            "thread": line["thread"],
            "topic": line["topic"],
            "broker_name": line["broker"],
            "broker_named_as": line["broker"],
            "exceptions_observable": True,
            "queue_id": line.get("queueId", 0),
            "mode": line["mode"],
            "attempt": None if asynchronous else line["times"],
            "last_broker_name": line["lastBrokerName"],
            "begin_at": at(line["beginMs"]),
            "end_at": at(line["endMs"]),
            "latency_ms": line["endMs"] - line["beginMs"],
            "outcome": line["status"] or ("EXCEPTION" if line["exception"] else "SUBMITTED"),
            "exception": line["exception"],
            "error": line.get("error"),
            "response_code": _code(line.get("error")),
            "msg_id": line["msgId"],
            "phase": phase,
            "source": "producer_hook",
            "source_file": "f",
            "source_line": number,
            "ingested_at": at(START_MS),
            "run_id": "r",
        }
        if asynchronous:
            row[f"{phase}_end_at"] = at(line["endMs"])
    return list(made.values())


def _code(error):
    found = re.search(r"CODE: (-?\d+)", error or "")
    return int(found.group(1)) if found else None


def start_row(version, client_id):
    start = start_of(version)
    return {
        "cluster": "c",
        "event_date": DAY,
        "producer_group": "g",
        "client_id": client_id,
        "started_at": at(START_MS - 1000),
        "client_version": version,
        "latency_fault_enabled": True,
        "detector_enabled": False,
        "latency_max_ms": start["latencyMax"],
        "not_available_ms": start["notAvailableDuration"],
        "source": "producer_hook",
        "source_file": "f",
        "source_line": 0,
        "ingested_at": at(START_MS),
        "run_id": "r",
    }


def captured(name):
    """Attempts and the start of a captured producer, as rows."""
    with gzip.open(CAPTURES / "producers" / f"producer_{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        start, *attempts = [json.loads(line) for line in lines]
    row = start_row(start["version"], start["clientId"]) | {
        "event_date": at(start["ts"]).date(),
        "started_at": at(start["ts"]),
        "latency_fault_enabled": start["sendLatencyFaultEnable"],
        "detector_enabled": start["spec"].get("detector") == "1",
        "retry_times_sync": start["retryTimesWhenSendFailed"],
        "retry_times_async": start["retryTimesWhenSendAsyncFailed"],
        "retry_another_broker": start["spec"].get("another") == "1",
        "send_timeout_ms": start["sendMsgTimeout"],
        "latency_max_ms": start["latencyMax"],
        "not_available_ms": start["notAvailableDuration"],
    }
    return attempt_rows(attempts), [row]
