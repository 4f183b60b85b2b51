from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from udfs.bounded_lines import Line
from udfs.client_log_lines import parse_client_log

SET = "[MessageQueue [topic=T, brokerName=broker-b, queueId=0], MessageQueue [topic=T, brokerName=broker-a, queueId=1]]"
TEXT = (
    "rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=g, topic=T, clientId=c@1, mqAllSize=4, "
    f"cidAllSize=2, rebalanceResultSize=2, rebalanceResultSet={SET}"
)
INNER = "2026-11-21 09:30:07,163 INFO RocketmqClient - "
LOGBACK = "2026-11-21 17:30:11.209 INFO  [7121] [RebalanceService] [o.a.r.c.i.c.RebalanceImpl#?:?] - client "
OLDEST = "2026-01-05 10:15:00 INFO RebalanceService - "


def parse(*texts, zone=UTC):
    lines = [Line(i, 0, len(t), t, None) for i, t in enumerate(texts, 1)]
    return list(parse_client_log(lines, zone=zone))


def row(text, zone=UTC):
    return parse(text, zone=zone)[0].records[0].row


def at(*parts):
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


def test_the_line_of_4_x_gives_what_the_client_saw_and_took():
    made = row(INNER + TEXT)
    assert (made["strategy"], made["consumer_group"], made["topic"], made["client_id"]) == ("AVG", "g", "T", "c@1")
    assert (made["queue_count"], made["member_count"], made["queues_text"]) == (4, 2, "broker-a:1 broker-b:0")


def test_the_inner_layout_is_in_the_zone_of_the_jvm():
    assert row(INNER + TEXT)["logged_at"] == at(2026, 11, 21, 9, 30, 7, 163000)
    assert row(INNER + TEXT, zone=ZoneInfo("Asia/Shanghai"))["logged_at"] == at(2026, 11, 21, 1, 30, 7, 163000)


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("America/New_York")])
def test_the_layout_of_5_1_on_is_always_gmt_8(zone):
    assert row(LOGBACK + TEXT, zone=zone)["logged_at"] == at(2026, 11, 21, 9, 30, 11, 209000)


def test_the_layout_of_4_1_is_gmt_8_to_the_second():
    made = row(OLDEST + TEXT)
    assert (made["logged_at"], made["resolution_ms"]) == (at(2026, 1, 5, 2, 15, 0), 1000)


def test_seconds_repeated_as_the_fraction_tell_nothing():
    made = row("2026-11-21 09:30:07,007 INFO RocketmqClient - " + TEXT)
    assert (made["logged_at"], made["resolution_ms"]) == (at(2026, 11, 21, 9, 30, 7), 1000)


def test_equal_lines_of_one_instant_are_counted():
    first, second, other = parse(INNER + TEXT, INNER + TEXT, INNER.replace("07,163", "08,001") + TEXT)
    assert [p.records[0].row["occurrence"] for p in (first, second, other)] == [1, 2, 1]


def test_an_empty_result_is_an_empty_set():
    empty = TEXT.replace("rebalanceResultSize=2", "rebalanceResultSize=0").replace(SET, "[]")
    assert row(INNER + empty)["queues"] == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (INNER + TEXT[:-30], "BAD_REBALANCE_LINE"),
        (INNER + TEXT.replace("rebalanceResultSize=2", "rebalanceResultSize=3"), "BAD_REBALANCE_LINE"),
        (INNER + TEXT.replace("cidAllSize=2", "cidAllSize=two"), "BAD_REBALANCE_LINE"),
        (INNER + TEXT.replace(", topic=T, clientId", ", clientId"), "BAD_REBALANCE_LINE"),
        ("%PARSER_ERROR[defaultTopicQueueNums] INFO t - " + TEXT, "UNKNOWN_LOG_LAYOUT"),
        ("2026-13-41 09:30:07,163 INFO RocketmqClient - " + TEXT, "BAD_TIMESTAMP"),
    ],
)
def test_a_broken_line_is_refused(text, code):
    assert parse(text)[0].refusal.code == code


def test_other_lines_and_the_brokers_own_assignment_are_ignored():
    broker = (
        "broker rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=g, topic=T, assignmentSet=[]"
    )
    parsed = parse(INNER + "anything else", "\tat a.b.C.d(C.java:1)", INNER + broker)
    assert all(p.records == () and p.refusal is None for p in parsed)
