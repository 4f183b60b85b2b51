"""Real lines of every format through its reader: none gets lost, damaged ones raise nothing, whole ones break no rule.

That every row fits its table is checked beside it.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import TABLES
from tests.readers.line_checks import GOLDEN, check, check_bytes, damaged, lines_of, raw_lines
from udfs.canonical_contract import COLLECTOR
from udfs.door import judged, severities
from udfs.landing_formats import FORMATS
from udfs.parsed_line import LandedFile

CAPTURES = GOLDEN / "captures"
# What tells of a file, where its lines alone do not.
ABOUT = {
    "mqadmin": LandedFile("t/a.txt", "consumerProgress -g g_avg", 1795253675931),
    "broker_log": LandedFile("broker-a/broker.log"),
    "client_log": LandedFile("c/rocketmq_client.log"),
    "canonical_snapshots": LandedFile("queue_ownership/a.jsonl"),
}
SEND = {
    "producer_group": "pg",
    "client_id": "10.0.0.1@7",
    "topic": "T",
    "broker_name": "broker-a",
    "queue_id": 3,
    "mode": "SYNC",
    "begin_at": 1795252691980,
    "end_at": 1795252692067,
    "outcome": "SEND_OK",
    "msg_id": "A1",
}
OWNED = {
    "collector": COLLECTOR,
    "captured_at": 1795252691980,
    "consumer_group": "g",
    "client_id": "c",
    "topic": "T",
    "broker_name": "b",
    "queue_id": 0,
}


def of_files(pattern: str, step: int = 1) -> list[bytes]:
    return [line for path in sorted(GOLDEN.glob(pattern)) for line in raw_lines(path)[::step]]


def of_rows(*rows: dict) -> list[bytes]:
    return [json.dumps(row).encode() + b"\n" for row in rows]


LOGGED = of_files("captures/*/client_logs/*/*.gz", 7)
EVENTS = (b"doRebalance", b"sendKernelImpl", b"result changed")
LINES = {
    "producer_hook": of_files("captures/producers/producer_5.3.3_oneway.jsonl.gz", 40)
    + of_files("captures/producers/producer_4.9.8_async.jsonl.gz", 60),
    "trace_topic": of_files("captures/trace_topic/trace_*.gz", 20),
    "canonical_sends": of_rows(SEND, SEND | {"mode": "ASYNC"}, SEND | {"begin_at": "2026-11-21T09:18:11Z"}),
    "canonical_snapshots": of_rows(OWNED, OWNED | {"locked": True}),
    "admin_snapshots": of_files("captures/consumers/admin_snapshots.jsonl.gz")[:120],
    "mqadmin": [p.read_bytes() for p in sorted((CAPTURES / "mqadmin").rglob("*")) if p.is_file()],
    "heartbeat": of_files("heartbeats/*.jsonl"),
    "client_log": LOGGED + [line for line in LOGGED if any(event in line for event in EVENTS)] * 3,
    "broker_log": of_files("captures/broker_logs/*.gz", 5),
}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_lines_neither_raise_nor_get_lost(name, data):
    parse = partial(FORMATS[name].parse, zone=UTC, file=ABOUT.get(name, LandedFile()))
    raw = data.draw(damaged(LINES[name]))
    parsed = check_bytes(parse, raw, FORMATS[name].tables)
    # Nothing but its terminator is left after the last line.
    assert raw[parsed[-1].line.byte_end if parsed else 0 :] in (b"", b"\n", b"\r\n", b"\r")


WHOLE = [
    ("producer_hook", "captures/producers/producer_4.7.1_laton.jsonl.gz"),
    ("producer_hook", "captures/producers/producer_5.3.3_async.jsonl.gz"),
    ("trace_topic", "captures/trace_topic/trace_4.9.8_5.3.3.jsonl.gz"),
    ("trace_topic", "captures/trace_topic/trace_4.7.1_4.9.8_5.3.3.jsonl.gz"),
    ("admin_snapshots", "captures/consumers/admin_snapshots.jsonl.gz"),
    ("admin_snapshots", "captures/producers/admin_snapshots.jsonl.gz"),
    ("client_log", "captures/producers/client_logs/5.3.3/rocketmq_client.log.gz"),
    ("client_log", "captures/consumers/client_logs/consumer_4.7.1/rocketmq_client.log.gz"),
    ("broker_log", "captures/broker_logs/broker-b.log.gz"),
    ("heartbeat", "heartbeats/heartbeat_5.3.3.jsonl"),
]
FLAGGED = frozenset(name for name, table in TABLES.items() if "doubts" in table.columns.names)


@pytest.mark.parametrize(("name", "path"), WHOLE, ids=[path.rpartition("/")[2] for _, path in WHOLE])
def test_nothing_real_is_broken(name, path):
    landing_format = FORMATS[name]

    def parse(lines):
        return judged(landing_format.parse(lines, UTC, LandedFile(path)), severities({}), FLAGGED)

    parsed = check(parse, lines_of(GOLDEN / path), landing_format.tables)
    assert [p.refusal for p in parsed if p.refusal] == []
    doubts = Counter(code for p in parsed for r in p.records for code in r.row.get("doubts", ()))
    assert doubts.keys() <= {"NEGATIVE_LAG"}
