from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import CLIENT_HEARTBEAT
from hindsight.udfs.formats.admin_snapshot_lines import parse_heartbeats
from hindsight.udfs.landing.landing_formats import FORMATS
from tests.lake_rows import LakeRows
from tests.pipeline.random_tables import one_row
from tests.readers.line_checks import GOLDEN, check, check_bytes, counts, lines_of, raw_lines

REAL = GOLDEN / "heartbeats"
TABLES = FORMATS["heartbeat"].tables
T_TAGS = {"topic": "T", "expression_type": "TAG", "sub_string": "a||b", "tags": ["a", "b"]}
RETRY = {"topic": "%RETRY%CG", "expression_type": "TAG", "sub_string": "*", "tags": []}


def rows(release):
    parsed = check(parse_heartbeats, lines_of(REAL / f"heartbeat_{release}.jsonl"), TABLES)
    assert all(p.refusal is None for p in parsed)
    return [record.row for p in parsed for record in p.records]


def parse(**changes):
    line = {"ts": 1795253414272, "broker": "b", "raw": '{"clientID":"c","producerDataSet":[{"groupName":"g"}]}'}
    (parsed,) = check_bytes(parse_heartbeats, json.dumps(line | changes).encode(), TABLES)
    return parsed


@pytest.mark.parametrize(("release", "version"), [("4.7.1", 355), ("4.9.8", 409), ("5.3.3", 479)])
def test_what_the_classes_of_each_release_write_is_read(release, version):
    consumer, producer, *_ = rows(release)
    assert (consumer["role"], consumer["client_group"], consumer["client_id"]) == ("consumer", "CG", "10.0.0.1@5#1")
    assert (consumer["consume_type"], consumer["message_model"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert (consumer["broker_name"], consumer["address"]) == ("broker-a", "10.0.0.1:53788")
    assert (consumer["client_version"], consumer["fingerprint"], consumer["without_sub"]) == (version, 0, False)
    assert consumer["subscriptions"] == [RETRY, T_TAGS]
    assert (producer["role"], producer["client_group"]) == ("producer", "PG")
    assert "subscriptions" not in producer


@pytest.mark.parametrize(("release", "expected"), [("4.7.1", 7), ("4.9.8", 7), ("5.3.3", 14)])
def test_each_group_of_each_heartbeat_is_a_row(release, expected):
    parsed = check(parse_heartbeats, lines_of(REAL / f"heartbeat_{release}.jsonl"), TABLES)
    written = sum(line.count(b"groupName") for line in raw_lines(REAL / f"heartbeat_{release}.jsonl"))
    assert counts(parsed) == {"client_heartbeat": written}
    assert written == expected


def test_sql_expressions_and_pop_are_kept_as_sent():
    sql = next(r for r in rows("5.3.3") if r["client_group"] == "CB")
    assert [(s["expression_type"], s["sub_string"]) for s in sql["subscriptions"]] == [("SQL92", "a > 5 AND b = 'x'")]
    assert next(r for r in rows("5.3.3") if r["client_group"] == "CP")["consume_type"] == "CONSUME_POP"


@pytest.fixture
def subscribed(tmp_path):
    """What the view ``heartbeat_subscription`` says of heartbeats in their order."""

    def of(heartbeats):
        lake = LocalLake(str(tmp_path / str(uuid4())), retention_days=7)
        for second, sent in enumerate(heartbeats):
            at = datetime(2026, 11, 21, 9, 0, second, tzinfo=UTC)
            known = {"cluster": "c", "received_at": at, "event_date": at.date()}
            client = {"client_id": "i", "role": "consumer", "client_group": "CG"}
            lake.append(CLIENT_HEARTBEAT, one_row(CLIENT_HEARTBEAT, **client, **known, **sent))
        told = LakeRows(lake.root).ask("SELECT subscriptions FROM heartbeat_subscription ORDER BY received_at")
        return [row.subscriptions for row in told]

    return of


def test_subscriptions_that_a_v2_heartbeat_leaves_out_are_those_sent_under_its_fingerprint(subscribed):
    sent = [r for r in rows("5.3.3") if r["client_group"] == "CG"]
    assert [r["without_sub"] for r in sent] == [False, False, False, True, True]
    assert [r["subscriptions"] for r in sent[3:]] == [None, None]
    assert sent[2]["fingerprint"] == sent[3]["fingerprint"] != 0
    names = ("fingerprint", "without_sub", "subscriptions", "broker_name")
    assert subscribed([{name: row[name] for name in names} for row in sent]) == [[RETRY, T_TAGS]] * 5


def test_subscriptions_of_another_fingerprint_are_not_carried(subscribed):
    full = {"fingerprint": 7, "subscriptions": [RETRY]}
    bare = [{"fingerprint": 8, "subscriptions": None}, {"fingerprint": 7, "subscriptions": None}]
    assert subscribed([bare[1], full, *bare]) == [None, [RETRY], None, [RETRY]]


def test_an_object_does_as_well_as_its_text():
    as_text = parse().records
    assert parse(raw={"clientID": "c", "producerDataSet": [{"groupName": "g"}]}).records == as_text


def test_a_client_without_groups_is_ignored():
    parsed = parse(raw='{"clientID":"c"}')
    assert parsed.records == () and parsed.refusal is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"raw": "{"}, "BAD_RAW"),
        ({"raw": None}, "MISSING_FIELD"),
        ({"raw": '{"producerDataSet":[{"groupName":"g"}]}'}, "MISSING_FIELD"),
        ({"raw": '{"clientID":"c","consumerDataSet":[{}]}'}, "MISSING_FIELD"),
        ({"raw": '{"clientID":"c","consumerDataSet":{}}'}, None),
        ({"raw": '{"clientID":"c","consumerDataSet":{"a":1}}'}, "BAD_RAW"),
        ({"raw": '{"clientID":"c","heartbeatFingerprint":3000000000}'}, "OUT_OF_RANGE"),
        ({"broker": None}, "MISSING_FIELD"),
        ({"ts": 1795253414}, "TIMESTAMP_IN_SECONDS"),
    ],
)
def test_a_broken_line_is_refused(changes, code):
    parsed = parse(**changes)
    assert (parsed.refusal and parsed.refusal.code) == code
