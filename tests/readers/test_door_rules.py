from __future__ import annotations

from time import process_time

import pytest

from hindsight.schemas import TABLES
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.limits.door_rules import RULES
from hindsight.udfs.lines.bounded_lines import Line, Refusal
from hindsight.udfs.lines.parsed_line import ParsedLine, Record
from hindsight.udfs.values.message_queues import is_system_group, is_system_topic

LINE = Line(1, 0, 1, "x", None)
FLAGGED = [name for name, table in TABLES.items() if "doubts" in table.columns.names]
AT = 1795252691980

SEND = {"producer_group": "pg", "topic": "T", "latency_ms": 5, "begin_at": AT, "end_at": AT + 5}
OWNED = {"consumer_group": "g", "topic": "T", "captured_at": AT, "last_pull_at": AT}
PROGRESS = {"consumer_group": "g", "topic": "T", "captured_at": AT, "broker_offset": 9, "consumer_offset": 4, "lag": 5}
ROUTE = {"topic": "T", "captured_at": AT, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6}


def judge(table, row, **overrides):
    parsed = ParsedLine(LINE, (Record(table, row),))
    (one,) = judged([parsed], severities(overrides), FLAGGED)
    return one


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("send_attempt", SEND),
        ("send_attempt", SEND | {"body_length": 1, "delay_level": 18}),
        ("send_attempt", SEND | {"body_length": 4_194_304, "delay_level": 0}),
        ("send_attempt", SEND | {"topic": "t" * 127, "producer_group": "g" * 255}),
        ("send_attempt", SEND | {"topic": "%|azAZ09_-"}),
        ("queue_ownership", OWNED | {"topic": "%RETRY%" + "g" * 255}),
        ("queue_ownership", OWNED | {"topic": "%DLQ%g"}),
        ("queue_ownership", OWNED | {"topic": "%RETRY%g+T"}),
        ("queue_progress", PROGRESS | {"consumer_offset": -1, "lag": 10}),
        ("queue_progress", PROGRESS | {"topic": "%LMQ%$chat_parent$session-7"}),
        ("queue_progress", PROGRESS | {"topic": "%LMQ%home/room+1/" + "x" * 200}),  # of MQTT
        ("topic_route", ROUTE),
        ("topic_route", ROUTE | {"read_queue_nums": 65_536, "write_queue_nums": 65_536}),
        ("client_event", {"kind": "client_created", "topic": None}),
        ("client_event", {"kind": "client_created", "client_id": "c" * 4096, "text": "x" * 5000}),
        ("consumer_heartbeat", {"consumer_group": "g", "client_version": 453}),
    ],
)
def test_what_rocketmq_allows_passes_unchanged(table, row):
    one = judge(table, row)
    assert one.refusal is None
    assert one.records == (Record(table, row),)


@pytest.mark.parametrize(
    ("table", "row", "code"),
    [
        ("send_attempt", SEND | {"topic": "a b"}, "ILLEGAL_TOPIC"),
        ("send_attempt", SEND | {"topic": "téa"}, "ILLEGAL_TOPIC"),
        ("queue_progress", PROGRESS | {"topic": "parent$lite"}, "ILLEGAL_TOPIC"),
        ("queue_progress", PROGRESS | {"topic": "%LMQ%$a b$c"}, "ILLEGAL_TOPIC"),
        ("queue_ownership", OWNED | {"topic": "a+b"}, "ILLEGAL_TOPIC"),
        ("send_attempt", SEND | {"producer_group": "p.g"}, "ILLEGAL_GROUP"),
        ("queue_ownership", OWNED | {"consumer_group": "g\n"}, "ILLEGAL_GROUP"),
        ("client_heartbeat", {"client_group": "a/b"}, "ILLEGAL_GROUP"),
        ("send_attempt", SEND | {"topic": "t" * 256}, "TOPIC_TOO_LONG"),
        ("send_attempt", SEND | {"producer_group": "g" * 256}, "GROUP_TOO_LONG"),
        ("queue_ownership", OWNED | {"topic": "%RETRY%"}, "OWN_TOPIC_WITHOUT_GROUP"),
        ("queue_ownership", OWNED | {"topic": "%RETRY%" + "g" * 4090}, "TOPIC_TOO_LONG"),
        ("queue_progress", PROGRESS | {"broker_offset": -1}, "IMPOSSIBLE_OFFSET"),
        ("topic_route", ROUTE | {"perm": 99}, "IMPOSSIBLE_QUEUES"),
        ("topic_route", ROUTE | {"write_queue_nums": -1}, "IMPOSSIBLE_QUEUES"),
        ("topic_route", ROUTE | {"write_queue_nums": 65_537}, "IMPOSSIBLE_QUEUES"),
        ("topic_route", ROUTE | {"read_queue_nums": 2**31 - 1}, "IMPOSSIBLE_QUEUES"),
        ("send_attempt", SEND | {"delay_level": 19}, "DELAY_LEVEL"),
    ],
)
def test_a_broken_row_refuses_its_line(table, row, code):
    one = judge(table, row)
    assert (one.refusal.code, one.records) == (code, ())


@pytest.mark.parametrize(
    ("table", "row", "code"),
    [
        ("send_attempt", SEND | {"topic": "t" * 128}, "TOPIC_OVER_127"),
        ("send_attempt", SEND | {"topic": "SELF_TEST_TOPIC"}, "FORBIDDEN_TOPIC"),
        ("send_attempt", SEND | {"topic": "%DLQ%g"}, "SENT_TO_OWN_TOPIC"),
        ("send_attempt", SEND | {"producer_group": "DEFAULT_PRODUCER"}, "DEFAULT_PRODUCER"),
        ("send_attempt", SEND | {"body_length": 0}, "BODY_LENGTH"),
        ("send_attempt", SEND | {"body_length": 4_194_305}, "BODY_LENGTH"),
        ("send_attempt", SEND | {"latency_ms": -3, "end_at": AT - 3}, "NEGATIVE_LATENCY"),
        ("send_attempt", SEND | {"latency_ms": 3_600_001, "end_at": AT + 3_600_001}, "EXTREME_LATENCY"),
        ("send_attempt", SEND | {"latency_ms": 6}, "LATENCY_DIFFERS"),
        ("queue_progress", PROGRESS | {"consumer_offset": 12, "lag": -3}, "NEGATIVE_LAG"),
        ("queue_ownership", OWNED | {"last_pull_at": AT + 60_001}, "USED_AFTER_CAPTURE"),
    ],
)
def test_a_doubtful_row_is_stored_with_its_doubt(table, row, code):
    one = judge(table, row)
    assert one.refusal is None
    assert one.records == (Record(table, row | {"doubts": [code]}),)


def test_settings_decide_what_is_broken_and_what_doubtful():
    row = SEND | {"latency_ms": -3, "end_at": AT - 3, "topic": "a b"}
    assert judge("send_attempt", row, ILLEGAL_TOPIC="flag").records[0].row["doubts"] == [
        "ILLEGAL_TOPIC",
        "NEGATIVE_LATENCY",
    ]
    assert (
        judge("send_attempt", row, ILLEGAL_TOPIC="flag", NEGATIVE_LATENCY="quarantine").refusal.code
        == "NEGATIVE_LATENCY"
    )
    one = judge("send_attempt", row, ILLEGAL_TOPIC="ignore", NEGATIVE_LATENCY="ignore")
    assert one.records == (Record("send_attempt", row),)


@pytest.mark.parametrize("overrides", [{"NO_SUCH": "flag"}, {"ILLEGAL_TOPIC": "warn"}])
def test_a_rule_or_severity_that_is_not_known_is_an_error(overrides):
    with pytest.raises(ValueError, match="rules: ILLEGAL_TOPIC"):
        severities(overrides)


def test_one_broken_row_refuses_a_line_of_several_and_refused_lines_stay():
    records = (Record("send_attempt", SEND), Record("send_attempt", SEND | {"topic": "a b"}))
    refused = ParsedLine(LINE, refusal=Refusal("NOT_JSON", "x"))
    first, second, third = judged([ParsedLine(LINE, records), refused, ParsedLine(LINE)], severities({}), FLAGGED)
    assert (first.refusal.code, first.records) == ("ILLEGAL_TOPIC", ())
    assert (second, third) == (refused, ParsedLine(LINE))


def test_a_rule_names_only_columns_that_some_table_has():
    known = {name for table in TABLES.values() for name in table.columns.names}
    assert {column for rule in RULES for column in (*rule.columns, *rule.optional)} <= known
    assert {name for rule in RULES for name in rule.tables} <= TABLES.keys()
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_every_table_that_a_format_feeds_can_hold_doubts():
    fed = {name for landing_format in FORMATS.values() for name in landing_format.tables}
    # a marker, and a count of lines that are not there: neither has a value to doubt
    assert fed - set(FLAGGED) == {"collection_round", "lost_lines"}


@pytest.mark.parametrize(
    ("topic", "is_system"),
    [
        ("TBW102", True),
        ("AUTO_CREATE_TOPIC_KEY", True),
        ("rmq_sys_wheel_timer", True),
        ("CHECKPOINT_TOPIC", True),
        ("RMQ_SYS_TRACE_TOPIC", True),
        ("DefaultHeartBeatSyncerTopic", True),
        ("Orders", False),
        ("%RETRY%g", False),
    ],
)
def test_system_topics_are_known(topic, is_system):
    assert is_system_topic(topic) == is_system


def test_system_groups_are_known():
    assert is_system_group("CID_RMQ_SYS_x") and is_system_group("TOOLS_CONSUMER") and not is_system_group("g")


@pytest.mark.parametrize("column", ["client_id", "broker_name", "collector", "thread", "msg_id", "address"])
def test_a_name_of_megabytes_refuses_its_line(column):
    (table, *_) = (name for name, table in TABLES.items() if column in table.columns.names)
    one = judge(table, {"topic": None, column: "x" * (8 << 20)})
    assert (one.refusal.code, one.records) == ("NAME_TOO_LONG", ())
    assert column in one.refusal.detail and "8388608 characters, more than 4096" in one.refusal.detail
    assert len(one.refusal.detail) < 200


def test_every_line_s_names_are_looked_at_though_its_topic_and_groups_are_known():
    lines = [ParsedLine(LINE, (Record("send_attempt", SEND | {"client_id": "c" * size}),)) for size in (9, 5000, 9)]
    refused = [one.refusal is not None for one in judged(lines, severities({}), FLAGGED)]
    assert refused == [False, True, False]


@pytest.mark.parametrize("topic", ["%RETRY%" + "a" * 500_000 + "é", "+" * 500_000, "%RETRY%" + "a+" * 300_000])
def test_time_is_linear_in_the_length_of_a_name(topic):
    began = process_time()
    judge("send_attempt", SEND | {"topic": topic})
    assert process_time() - began < 0.5
