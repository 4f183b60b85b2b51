from __future__ import annotations

import json
from collections import Counter, defaultdict
from time import process_time

import pytest

from hindsight.jobs.producers.broker_naming import KnownAddress, StoreHosts
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.formats.trace_topic_lines import MOST_RECORDS, parse_trace_topic
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.bounded_lines import Line
from tests.readers.line_checks import GOLDEN, check, check_bytes, counts, lines_of, raw_lines

CAPTURES = GOLDEN / "captures"
CHAOS = CAPTURES / "trace_topic/trace_4.9.8_5.3.3.jsonl.gz"
MIXED = CAPTURES / "trace_topic/trace_4.7.1_4.9.8_5.3.3.jsonl.gz"
ROUTES = {
    CHAOS: CAPTURES / "producers/admin_snapshots.jsonl.gz",
    MIXED: CAPTURES / "trace_topic/routes_4.7.1_4.9.8_5.3.3.jsonl.gz",
}
TABLES = FORMATS["trace_topic"].tables

TIME = "1795253995040"
ID = "7F00000142CF5FFD2B2769121E1F0000"
PUB = ["Pub", TIME, "r", "pg", "T", ID, "TagB", "k1", "h:10911", "18", "220", "0", "7F0000FF", "true"]
BEFORE = ["SubBefore", TIME, "r", "g", "R1", ID, "2", "k1"]
AFTER = ["SubAfter", "R1", ID, "21", "false", "k1", "2"]
END = ["EndTransaction", TIME, "r", "pg", "T", ID, "null", "null", "h:10911", "2", "tx", "COMMIT_MESSAGE", "false"]
RECALL = ["Recall", TIME, "r", "pg", "T", ID, "true"]


def body(*records):
    return "".join("\x01".join(record) + "\x02" for record in records)


def parse(text, **changes):
    line = {"type": "message", "msgId": "M1", "bornTimestamp": int(TIME), "body": text, **changes}
    (parsed,) = check_bytes(parse_trace_topic, json.dumps(line).encode(), TABLES)
    return parsed


def rows(text):
    parsed = parse(text)
    assert parsed.refusal is None, parsed.refusal
    return [record.row for record in parsed.records]


def sends(path):
    return [r.row for p in parse_trace_topic(lines_of(path)) for r in p.records if r.table == "send_attempt"]


def store_hosts(path):
    known = [
        KnownAddress(r.row["captured_at"], r.row["master_address"], r.row["broker_name"])
        for p in parse_admin_snapshots(lines_of(ROUTES[path]))
        for r in p.records
        if r.table == "topic_route" and r.row["master_address"]
    ]
    return StoreHosts(known)


def test_a_cpp_client_s_after_of_six_fields_leaves_its_pub_alone():
    pub, after = rows(body(PUB, AFTER[:6]))
    assert (pub["topic"], after["kind"], after["success"], after["cost_ms"]) == ("T", "sub_after", False, 21)
    assert after["return_type"] is None


@pytest.mark.parametrize("path", [CHAOS, MIXED], ids=["chaos", "mixed"])
def test_every_record_of_a_dump_is_found_as_often_as_its_name_stands_in_the_bodies(path):
    found = counts(check(parse_trace_topic, lines_of(path), TABLES))
    written = Counter(
        record.split("\x01")[0]
        for line in raw_lines(path)
        for record in json.loads(line).get("body", "").split("\x02")
        if record
    )
    names = {"Pub": "send_attempt", "SubBefore": "message_trace sub_before", "SubAfter": "message_trace sub_after"}
    assert found == {names[name]: count for name, count in written.items()}


def test_every_pub_of_a_recorded_producer_is_one_of_its_attempts_that_had_a_result():
    attempts = defaultdict(list)
    recorded = set()
    for path in CAPTURES.glob("producers/producer_*.jsonl.gz"):
        for fields in map(json.loads, raw_lines(path)):
            if fields["type"] == "attempt":
                recorded.add((fields["group"], fields["msgId"][:20]))
                if fields.get("status"):
                    attempts[fields["msgId"]].append(fields)
    hosts = store_hosts(CHAOS)
    without_result = []
    matched = 0
    for row in sends(CHAOS):
        if (row["producer_group"], row["client_id"].removeprefix("process ")) not in recorded:
            continue
        if not attempts[row["msg_id"]]:
            without_result.append(row["message_key"])
            continue
        (attempt,) = attempts[row["msg_id"]]
        assert attempt["broker"] == hosts.broker_of(row["broker_address"], row["begin_at"])
        assert abs(attempt["beginMs"] - row["begin_at"]) <= 50
        assert (attempt["status"] == "SEND_OK") == (row["outcome"] == "SEND_OK")
        matched += 1
    assert without_result == ["async-658"]
    assert matched > 800


def test_every_broker_of_the_run_with_a_late_route_is_named_by_the_nearest():
    hosts = store_hosts(MIXED)
    by_port = {"20911": "broker-a", "20931": "broker-b", "20951": "broker-c"}
    for row in sends(MIXED):
        assert hosts.broker_of(row["broker_address"], row["begin_at"]) == by_port[row["broker_address"][-5:]]


def test_a_pub_is_an_attempt_without_client_queue_and_exceptions():
    (row,) = rows(body(PUB))
    assert (row["producer_group"], row["client_id"]) == ("pg", "process 7F00000142CF5FFD2B27")
    assert (row["begin_at"], row["end_at"], row["latency_ms"]) == (int(TIME), int(TIME) + 220, 220)
    assert (row["broker_address"], row["outcome"], row["message_type"]) == ("h:10911", "SEND_OK", "Normal_Msg")
    assert row["exceptions_observable"] is False
    assert not {"broker_name", "queue_id", "mode"} & row.keys()


@pytest.mark.parametrize(
    ("record", "outcome", "offset_msg_id"),
    [
        ([*PUB[:13], "false"], "NOT_STORE_OK", "7F0000FF"),
        ([*PUB, "10.0.0.1"], "SEND_OK", "7F0000FF"),  # 4.8.0
        ([*PUB[:12], "true"], "SEND_OK", None),  # without the offset message id
    ],
)
def test_each_length_of_a_pub_is_read(record, outcome, offset_msg_id):
    (row,) = rows(body(record))
    assert (row["outcome"], row["offset_msg_id"]) == (outcome, offset_msg_id)


def test_each_length_of_the_consumption_records_is_read():
    short, long = rows(body(AFTER, [*AFTER, TIME, "g"]))
    assert (short["cost_ms"], short["success"], short["return_type"]) == (21, False, "EXCEPTION")
    assert (short["traced_at"], short["client_group"]) == (None, None)
    assert (long["traced_at"], long["client_group"]) == (int(TIME), "g")
    plain, with_host = rows(body(BEFORE, [*BEFORE, "10.0.0.1"]))
    assert (plain["retry_times"], plain["client_host"], with_host["client_host"]) == (2, None, "10.0.0.1")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_cloud_records_without_an_end_run_together_and_are_told_apart(count):
    cloud = "".join("\x01".join([*AFTER, ""]) for _ in range(count))
    assert [r["request_id"] for r in rows(cloud)] == ["R1"] * count
    assert [r["kind"] for r in rows(cloud + body(BEFORE))] == [*["sub_after"] * count, "sub_before"]
    assert [r["kind"] for r in rows(body(BEFORE) + cloud)] == ["sub_before", *["sub_after"] * count]


def test_transactions_and_recalls_are_read():
    end, recall = rows(body(END, RECALL))
    assert (end["kind"], end["transaction_state"], end["from_transaction_check"]) == (
        "end_transaction",
        "COMMIT_MESSAGE",
        False,
    )
    assert (recall["kind"], recall["success"], recall["topic"]) == ("recall", True, "T")


def test_kinds_of_a_later_release_are_left_out_and_other_lines_ignored():
    assert [r["msg_id"] for r in rows(body(["Later", "1"], PUB))] == [ID]
    parsed = parse("x", type="start")
    assert parsed.records == () and parsed.refusal is None


def test_the_word_null_is_no_key():
    (row,) = rows(body([*PUB[:7], "null", *PUB[8:]]))
    assert row["message_key"] is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (body(PUB[:12]), "BAD_TRACE"),
        (body([*PUB[:13], "yes"]), "BAD_TRACE"),
        (body([*PUB[:10], "2x", *PUB[11:]]), "WRONG_TYPE"),
        (body([*PUB[:10], "9" * 18, *PUB[11:]]), "TIMESTAMP_OUT_OF_RANGE"),
        (body(["Pub", "1795253995", *PUB[2:]]), "TIMESTAMP_IN_SECONDS"),
        (body(BEFORE, AFTER[:5]), "BAD_TRACE"),
        (body(*[RECALL] * (MOST_RECORDS + 1)), "BAD_TRACE"),
        ("", "MISSING_FIELD"),
    ],
    ids=lambda value: value[:24],
)
def test_a_broken_body_is_refused(text, code):
    assert parse(text).refusal.code == code


def test_an_address_is_the_brokers_that_last_had_it_and_a_vip_port_counts():
    hosts = StoreHosts([KnownAddress(100, "h:10911", "a"), KnownAddress(200, "h:10911", "b")])
    assert [hosts.broker_of("h:10911", at) for at in (50, 100, 199, 200, 900)] == ["a", "a", "a", "b", "b"]
    assert hosts.broker_of("h:10909", 150) == "a"
    assert [hosts.broker_of(address, 150) for address in ("h:1", "h", "", "[::1]:x")] == [None] * 4


UNENDED = "SubAfter\x01r\x01m\x012\x01true\x01k\x010\x01"


@pytest.mark.parametrize(
    "text",
    [
        "SubAfter\x01" * 60_000,
        UNENDED * 9_000 + "SubAfter" + "\x01" * 400_000,
        "\x01" * 500_000,
        "\x02" * 500_000,
        "SubAfter\x01\x01" * 9,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_time_is_linear_in_the_length_of_a_body(text):
    line = json.dumps({"type": "message", "msgId": "M1", "bornTimestamp": int(TIME), "body": text})
    began = process_time()
    list(parse_trace_topic([Line(1, 0, len(line), line, None)]))  # however long a line may be
    assert process_time() - began < 1.0
