"""Lines that a hook wrote, and routes, in; what the fold of their dates makes of them out. No Spark, no files."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime

import pyarrow as pa

from hindsight.schemas import LOST_LINES, PRODUCER_INSTANCE, SEND_ATTEMPT, TOPIC_ROUTE
from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.lines.bounded_lines import Line
from tests.folded import OPTIONS, TABLES_OF_FOLD, arrow, epoch_ms
from tests.producer_dates import History, fold_dates, in_one

T = 1_767_700_000_000  # 2026-01-06 11:46:40 UTC
TIMED_OUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
REFUSED = "org.apache.rocketmq.remoting.exception.RemotingConnectException"
_INSTANTS = ("begin_at", "end_at", "submit_end_at", "callback_end_at", "started_at", "told_at", "captured_at")
_TABLES = {t.name: t for t in (SEND_ATTEMPT, PRODUCER_INSTANCE, TOPIC_ROUTE, LOST_LINES)}


def start(ts, version, client="10.0.0.1@1", **more):
    told = {"sendLatencyFaultEnable": True, "startDetectorEnable": False, "sendMsgTimeout": 3000}
    return {"type": "start", "ts": T + ts, "group": "pg", "clientId": client, "version": version, **told, **more}


def dropped(ts, client="10.0.0.1@1"):
    return {"type": "dropped", "group": "pg", "clientId": client, "ts": T + ts, "lines": 1}


class Hook:
    """A hook of one producer; ``head``: what its message ids begin with."""

    def __init__(self, head="AC110002000118B4AAC2", client="10.0.0.1@1", thread="t0"):
        self.head, self.client, self.thread, self.sent = head, client, thread, 0

    def attempt(self, broker, begin, latency, *, exc=None, mode="SYNC", status="SEND_OK", msg=None, last=None, **more):
        self.sent += 1
        return {
            "type": "attempt",
            "group": "pg",
            "clientId": self.client,
            "thread": more.pop("thread", self.thread),
            "topic": more.pop("topic", "T"),
            "broker": broker,
            "queueId": more.pop("queue", 0),
            "times": 0 if last is None else more.pop("times", 1),
            "lastBrokerName": last,
            "beginMs": T + begin,
            "endMs": T + begin + latency,
            "mode": mode,
            "status": None if exc else status,
            "exception": exc,
            "error": "e" if exc else None,
            "msgId": msg or f"{self.head}{self.sent:012X}",
            **more,
        }

    def turns(self, brokers, begin, count, every=100, latency=3, **more):
        """Sends to these brokers in turn."""
        return [self.attempt(brokers[i % len(brokers)], begin + i * every, latency, **more) for i in range(count)]


def route(at, brokers, topic="T", queues=4):
    """Rows of a route, captured so long after ``T``."""
    row = {"topic": topic, "captured_at": T + at, "perm": 6, "read_queue_nums": queues, "write_queue_nums": queues}
    return [{**row, "broker_name": broker, "has_master": True} for broker in brokers]


def folded(lines, routes=(), options=OPTIONS, cut=in_one):
    """Rows of the derived tables by name, of all dates together."""
    rows = defaultdict(lambda: defaultdict(list))
    for name, row in [*_rows_of(lines), *(("topic_route", row) for row in routes)]:
        told = {n: datetime.fromtimestamp(v / 1000, UTC) if n in _INSTANTS and v else v for n, v in row.items()}
        day = told[_TABLES[name].date_of].date()
        rows[name][epoch_ms(day)].append({**told, "cluster": "c", "event_date": day, "source": "producer_hook"})
    tables = [{day: arrow(t, own) for day, own in rows[name].items()} for name, t in _TABLES.items()]
    dates = sorted({day for each in tables for day in each})
    made = list(fold_dates(History("c", dates, *tables), options, cut))
    tables = {name: pa.concat_tables(getattr(each, own) for each in made) for name, own in TABLES_OF_FOLD.items()}
    return {name: table.to_pylist() for name, table in tables.items()}


def _rows_of(lines):
    """What ingestion makes of the lines: two of one ASYNC attempt are one row."""
    sends = {}
    for parsed in parse_hook_lines(Line(n, 0, 0, json.dumps(line), None) for n, line in enumerate(lines, 1)):
        for name, row in parsed.records:
            if name != "send_attempt":
                yield name, row
                continue
            key = row["client_id"], row["msg_id"], row["attempt"], row["mode"], row["begin_at"]
            known = sends.get(key, {})
            submit, callback = sorted((row, known), key=lambda half: half.get("phase") != "submit")
            sends[key] = {**submit, **callback, "thread": submit.get("thread") or row["thread"]}
    yield from (("send_attempt", row) for row in sends.values())
