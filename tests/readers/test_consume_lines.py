from __future__ import annotations

import json

import pytest

from hindsight.udfs.formats.consume_lines import parse_consume_lines
from hindsight.udfs.lines.bounded_lines import Line

WHO = {"group": "cg", "clientId": "10.0.0.1@7", "ts": 1795252692000}
BEGIN = WHO | {
    "type": "begin",
    "delivery": "r-1",
    "msgId": "A1",
    "offsetMsgId": "7F00000100002A9F0000000000000000",
    "topic": "T",
    "queueTopic": "%RETRY%cg",
    "broker": "broker-a",
    "queueId": 0,
    "queueOffset": 17,
    "reconsumeTimes": 2,
    "tag": "a",
    "storedMs": 1795252691000,
}


def parse(**fields):
    text = json.dumps(fields)
    (parsed,) = parse_consume_lines([Line(1, 0, len(text), text, None)])
    return parsed


def row(**fields):
    (record,) = parse(**fields).records
    return record.table, record.row


def test_a_begin_says_from_which_place_the_message_came_and_which_message_it_is():
    table, made = row(**BEGIN)
    assert table == "message_trace"
    assert (made["kind"], made["request_id"], made["msg_id"], made["client_id"]) == (
        "sub_before",
        "r-1",
        "A1",
        "10.0.0.1@7",
    )
    place = ("%RETRY%cg", "broker-a", 0, 17)
    assert (made["stored_topic"], made["broker_name"], made["queue_id"], made["queue_offset"]) == place
    assert (made["topic"], made["retry_times"], made["message_tag"]) == ("T", 2, "a")


def test_an_end_has_the_result_and_joins_its_begin():
    _, made = row(**WHO, type="end", delivery="r-1", msgId="A1", costMs=12, success=False, result="FAILED")
    assert (made["kind"], made["request_id"], made["cost_ms"]) == ("sub_after", "r-1", 12)
    assert (made["success"], made["return_type"]) == (False, "FAILED")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("T=*", [("T", "TAG", "*", [])]),
        (
            "T=b || a\n%RETRY%cg=*",
            [("T", "TAG", "b || a", ["a", "b"]), ("%RETRY%cg", "TAG", "*", [])],
        ),
        ("T=SQL92 x = 'a=b' || 1", [("T", "SQL92", "x = 'a=b' || 1", [])]),
    ],
)
def test_subscriptions_are_told_topic_by_topic(told, expected):
    table, made = row(**WHO, type="alive", subscriptions=told)
    assert table == "consumer_recording" and made["kind"] == "alive"
    assert [tuple(each.values()) for each in made["subscriptions"]] == expected


def test_a_loss_is_refused_and_stored_all_the_same():
    parsed = parse(**WHO, type="dropped", lines=3)
    assert parsed.refusal.code == "LINES_LOST" and "3 lines of 10.0.0.1@7 (cg)" in parsed.refusal.detail
    assert [(r.table, r.row["kind"], r.row["lines"]) for r in parsed.records] == [("consumer_recording", "dropped", 3)]


@pytest.mark.parametrize("lacks", ["msgId", "delivery", "broker", "queueId", "queueOffset", "topic", "ts"])
def test_a_begin_without_what_it_needs_is_refused(lacks):
    assert parse(**{**BEGIN, lacks: None}).refusal.code == "MISSING_FIELD"


def test_other_types_are_ignored():
    assert parse(**WHO, type="later").records == () and parse(**WHO, type="later").refusal is None
