from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from hindsight.schemas import TABLES
from hindsight.udfs.formats import canonical_lines
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.formats.canonical_lines import (
    CONTRACT,
    lines_of_rows,
    parse_canonical_sends,
    parse_canonical_snapshots,
)
from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.readers.line_checks import GOLDEN, check, check_bytes, lines_of

SENDS = FORMATS["canonical_sends"].tables
SNAPSHOTS = FORMATS["canonical_snapshots"].tables
BEGIN = 1795252691980
SEND = {
    "producer_group": "pg",
    "client_id": "10.0.0.1@7",
    "topic": "T",
    "broker_name": "broker-a",
    "queue_id": 3,
    "mode": "SYNC",
    "begin_at": BEGIN,
    "end_at": BEGIN + 87,
    "outcome": "SEND_OK",
    "msg_id": "A1",
}
OWNED = {"captured_at": BEGIN, "consumer_group": "g", "client_id": "c", "topic": "T", "broker_name": "b", "queue_id": 0}
ROUTE = {
    "captured_at": BEGIN,
    "topic": "T",
    "broker_name": "b",
    "read_queue_nums": 4,
    "write_queue_nums": 4,
    "perm": 6,
    "has_master": True,
}
QUEUE = {"captured_at": BEGIN, "topic": "T", "broker_name": "b", "queue_id": 0}
PROGRESS = {**QUEUE, "consumer_group": "g", "broker_offset": 9, "consumer_offset": 4, "consume_tps": 1.5}
STATUS = {**QUEUE, "min_offset": 2, "max_offset": 9}
MODE = {
    "captured_at": BEGIN,
    "topic": "T",
    "consumer_group": "g",
    "broker_name": "b",
    "told_by": "messageRequestModes",
    "mode": "POP",
    "pop_share_queue_num": -1,
}


def parse_send(**changes):
    (parsed,) = check_bytes(parse_canonical_sends, json.dumps(SEND | changes).encode(), SENDS)
    return parsed


def parse_snapshot(table, row):
    parse = partial(parse_canonical_snapshots, file=LandedFile(f"{table}/part-0.jsonl"))
    (parsed,) = check_bytes(parse, json.dumps(row).encode(), SNAPSHOTS)
    return parsed


@pytest.mark.parametrize("table", sorted(CONTRACT))
def test_the_columns_are_those_of_the_table(table):
    kinds = {
        StringType: {"text_field", "bounded_text", "text_or_empty", "read"},
        TimestampType: {"instant_or_text"},
        BooleanType: {"flag"},
        IntegerType: {"int32", "queue_id", "queue_or_all"},
        LongType: {"whole_number"},
        DoubleType: {"optional_rate"},
        ArrayType: {"_nested", "texts"},
    }
    set_by_ingestion = canonical_lines._PASSED_OVER.split()
    of_table = {f.name: f for f in TABLES[table].columns if f.name not in set_by_ingestion}
    assert of_table.keys() == CONTRACT[table].keys()
    for name, column in CONTRACT[table].items():
        assert column.read.__name__ in kinds[type(of_table[name].dataType)], name


def test_a_row_of_the_contract_is_taken_over_and_what_it_leaves_out_is_derived():
    (record,) = parse_send().records
    derived = {"latency_ms": 87, "phase": "result", "broker_named_as": "broker-a", "exceptions_observable": True}
    assert record.row == SEND | derived


def test_real_attempts_of_a_hook_survive_the_way_over_the_contract():
    checked = 0
    for parsed in parse_hook_lines(lines_of(GOLDEN / "captures/producers/producer_4.9.8_short.jsonl.gz")[:400]):
        for record in parsed.records:
            if record.table == "send_attempt":
                again = parse_send(**{name: record.row.get(name) for name in {**SEND, **record.row}})
                assert again.refusal is None, again.refusal
                assert again.records[0].row == {n: v for n, v in record.row.items() if v is not None}
                checked += 1
    assert checked > 300


def test_real_snapshots_survive_the_way_over_the_contract():
    checked = 0
    for parsed in parse_admin_snapshots(lines_of(GOLDEN / "captures/consumers/admin_snapshots.jsonl.gz")[:60]):
        for table, row in parsed.records:
            if table in CONTRACT:
                again = parse_snapshot(table, row)
                assert again.refusal is None, again.refusal
                kept = {n: v for n, v in again.records[0].row.items() if n != "collector"}
                assert kept == {n: v for n, v in row.items() if v is not None and n != "collector"}
                checked += 1
    assert checked > 100


def test_an_asynchronous_attempt_is_its_two_halves():
    submit, callback = parse_send(
        mode="ASYNC",
        outcome="EXCEPTION",
        exception="X",
        submit_end_at=BEGIN + 1,
        callback_end_at=BEGIN + 90,
        callback_outcome="EXCEPTION",
    ).records
    assert (submit.row["phase"], submit.row["outcome"], submit.row["submit_end_at"]) == (
        "submit",
        "SUBMITTED",
        BEGIN + 1,
    )
    assert (submit.row["end_at"], submit.row["latency_ms"], "exception" in submit.row) == (BEGIN + 1, 1, False)
    assert (callback.row["phase"], callback.row["callback_outcome"]) == ("callback", "EXCEPTION")
    assert (callback.row["callback_end_at"], callback.row["exception"]) == (BEGIN + 90, "X")


def test_a_half_that_is_not_there_gives_no_row():
    (only,) = parse_send(mode="ASYNC", outcome="SUBMITTED").records
    assert (only.row["phase"], only.row["submit_end_at"]) == ("submit", BEGIN + 87)
    (only,) = parse_send(mode="ASYNC").records
    assert (only.row["phase"], only.row["callback_outcome"]) == ("callback", "SEND_OK")


@pytest.mark.parametrize(
    ("table", "row", "capture"),
    [
        ("queue_ownership", OWNED, ("consumerRunningInfo", "g|c")),
        ("pop_assignment", OWNED | {"queue_id": -1}, ("consumerRunningInfo", "g|c")),
        ("message_request_mode", MODE, ("messageRequestModes", "")),
        ("message_request_mode", MODE | {"told_by": "brokerConfig", "topic": None}, ("brokerConfig", "")),
        ("topic_route", ROUTE, ("topicRoute", "T")),
        ("queue_progress", PROGRESS, ("consumeStats", "g")),
        ("topic_status", STATUS, ("topicStatus", "T")),
        ("consumer_heartbeat", {k: OWNED[k] for k in list(OWNED)[:3]}, ("consumerConnection", "g")),
    ],
)
def test_a_snapshot_row_brings_the_capture_that_it_stands_for(table, row, capture):
    of_table, of_capture = parse_snapshot(table, row).records
    assert of_table.table == table
    assert (of_capture.row["kind"], of_capture.row["subject"]) == capture
    assert of_capture.row["captured_at"] == of_table.row["captured_at"] == BEGIN
    assert of_capture.row["collector"] == of_table.row["collector"] == "canonical"


@pytest.mark.parametrize(
    ("table", "row", "code"),
    [
        ("pop_assignment", OWNED | {"queue_id": -2}, "NEGATIVE_QUEUE_ID"),
        ("queue_ownership", OWNED | {"queue_id": -1}, "NEGATIVE_QUEUE_ID"),
        ("message_request_mode", MODE | {"mode": "PUSH"}, "UNKNOWN_VALUE"),
        ("message_request_mode", MODE | {"broker_name": None}, "MISSING_FIELD"),
    ],
)
def test_a_snapshot_row_outside_the_contract_is_refused(table, row, code):
    assert parse_snapshot(table, row).refusal.code == code


def test_a_members_own_subscriptions_stand_for_its_running_info():
    """A member without queues has no row of ownership: only this says that it was read."""
    member = {k: OWNED[k] for k in ("captured_at", "consumer_group", "client_id")}
    subscription = {"topic": "T", "expression_type": "TAG", "sub_string": "*", "tags": []}
    _, listing, info = parse_snapshot("consumer_heartbeat", member | {"subscriptions": [subscription]}).records
    assert (listing.row["kind"], info.row["kind"]) == ("consumerConnection", "consumerRunningInfo")
    assert (info.row["subject"], info.row["client_id"], info.row["subscriptions"]) == ("g|c", "c", [subscription])
    assert "subscriptions" not in listing.row


@pytest.mark.parametrize(
    "written", [BEGIN, "2026-11-21T09:18:11.980Z", "2026-11-21T17:18:11.980+08:00", "2026-11-21T09:18:11.980000+00:00"]
)
def test_an_instant_is_epoch_ms_or_iso_8601_with_a_zone(written):
    assert parse_send(begin_at=written).records[0].row["begin_at"] == BEGIN


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": None}, "MISSING_FIELD"),
        ({"topci": "T"}, "UNKNOWN_FIELD"),
        ({"mode": "sync"}, "UNKNOWN_VALUE"),
        ({"outcome": "OK"}, "UNKNOWN_VALUE"),
        ({"outcome": "EXCEPTION"}, "MISSING_FIELD"),
        ({"queue_id": -1}, "NEGATIVE_QUEUE_ID"),
        ({"attempt": 2**31}, "OUT_OF_RANGE"),
        ({"begin_at": "2026-11-21T09:18:11.980"}, "BAD_TIMESTAMP"),
        ({"begin_at": "yesterday"}, "BAD_TIMESTAMP"),
        ({"begin_at": "0001-01-01T00:00:00+14:00"}, "TIMESTAMP_OUT_OF_RANGE"),
        ({"begin_at": BEGIN // 1000}, "TIMESTAMP_IN_SECONDS"),
        ({"latency_ms": 1.5}, "WRONG_TYPE"),
        ({"client_id": "\ud800"}, "NOT_UNICODE"),
    ],
)
def test_a_row_outside_the_contract_is_refused(changes, code):
    assert parse_send(**changes).refusal.code == code


def test_the_columns_that_ingestion_sets_are_passed_over():
    (record,) = parse_send(cluster="x", event_date="2026-11-21", source_line=7, run_id="r").records
    assert not {"cluster", "event_date", "source_line", "run_id"} & record.row.keys()


def test_a_folder_that_is_no_table_refuses_its_lines():
    assert parse_snapshot("queue_owner", OWNED).refusal.code == "UNKNOWN_TABLE"


def test_a_parquet_file_reads_as_its_rows():
    rows = [OWNED | {"captured_at": datetime.fromtimestamp(BEGIN / 1000, UTC), "locked": None}, OWNED]
    table = pa.Table.from_pylist(rows[:1])
    file = io.BytesIO()
    pq.write_table(table, file)
    lines = list(lines_of_rows(pq.read_table(file).to_pylist(), max_line_bytes=1 << 20))
    parse = partial(parse_canonical_snapshots, file=LandedFile("queue_ownership/a.parquet"))
    (parsed,) = check(parse, lines, SNAPSHOTS)
    assert parsed.records[0].row == parse_snapshot("queue_ownership", OWNED).records[0].row
