from __future__ import annotations

import json

import pytest

from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.lines.bounded_lines import Line

ATTEMPT = {
    "type": "attempt",
    "group": "pg",
    "clientId": "10.0.0.1@7",
    "thread": "t1",
    "topic": "T",
    "broker": "broker-a",
    "brokerAddr": "10.0.0.9:10911",
    "queueId": 3,
    "times": 1,
    "lastBrokerName": "broker-b",
    "beginMs": 1795252691980,
    "endMs": 1795252692067,
    "mode": "SYNC",
    "status": "SEND_OK",
    "exception": None,
    "error": None,
    "msgId": "A1",
}


def parse(record, **changes):
    text = record if isinstance(record, str) else json.dumps({**record, **changes})
    (parsed,) = parse_hook_lines([Line(1, 0, len(text), text, None)])
    return parsed


def row(**changes):
    return parse(ATTEMPT, **changes).records[0].row


def code(**changes):
    return parse(ATTEMPT, **changes).refusal.code


def test_a_sync_attempt_becomes_one_row_with_its_latency():
    made = row()
    assert (made["latency_ms"], made["outcome"], made["attempt"], made["phase"]) == (87, "SEND_OK", 1, "result")


def test_a_clock_that_stepped_back_gives_a_negative_latency_and_is_stored():
    assert row(endMs=1795252691900)["latency_ms"] == -80


def test_an_exception_keeps_its_class_and_the_brokers_response_code():
    made = row(status=None, exception="a.b.MQBrokerException", error="CODE: 14  DESC: not writable")
    assert (made["outcome"], made["exception"], made["response_code"]) == ("EXCEPTION", "a.b.MQBrokerException", 14)


def test_an_async_line_without_a_result_is_the_submit_half():
    made = row(mode="ASYNC", status=None)
    assert (made["phase"], made["submit_end_at"], made["attempt"]) == ("submit", 1795252692067, None)


def test_an_async_line_with_a_result_is_the_callback_half():
    made = row(mode="ASYNC", status="FLUSH_DISK_TIMEOUT")
    assert (made["phase"], made["callback_outcome"]) == ("callback", "FLUSH_DISK_TIMEOUT")
    assert "submit_end_at" not in made


def test_a_oneway_attempt_was_handed_over():
    assert row(mode="ONEWAY", status=None)["outcome"] == "SUBMITTED"


@pytest.mark.parametrize(
    "name", ["group", "clientId", "topic", "broker", "queueId", "beginMs", "endMs", "mode", "msgId"]
)
def test_a_line_without_a_key_field_is_refused_and_names_it(name):
    refusal = parse(ATTEMPT, **{name: None}).refusal
    assert refusal.code == "MISSING_FIELD" and repr(name) in refusal.detail


def test_seconds_are_told_apart_from_other_nonsense():
    assert code(beginMs=1795252691) == "TIMESTAMP_IN_SECONDS"
    assert code(beginMs=7) == "TIMESTAMP_OUT_OF_RANGE"


def test_a_negative_queue_id_is_refused():
    assert code(queueId=-1) == "NEGATIVE_QUEUE_ID"


def test_unknown_modes_and_statuses_are_refused():
    assert code(mode="BATCH") == "UNKNOWN_VALUE"
    assert code(status="SENT") == "UNKNOWN_VALUE"


@pytest.mark.parametrize(("text", "expected"), [("{", "NOT_JSON"), ("[1]", "NOT_AN_OBJECT"), ("[" * 5000, "NOT_JSON")])
def test_what_is_no_json_object_is_refused(text, expected):
    assert parse(text).refusal.code == expected


def test_other_line_types_are_ignored():
    parsed = parse({"type": "select", "ts": 1})
    assert parsed.records == () and parsed.refusal is None


def test_a_start_takes_its_switches_from_spec_where_absence_is_off():
    start = {
        "type": "start",
        "ts": 1795252690852,
        "version": "5.3.3",
        "clientId": "c",
        "spec": {"group": "pg", "detector": "1"},
        "latencyMax": [50, 100],
        "notAvailableDuration": [0, 10],
        "sendLatencyFaultEnable": True,
    }
    made = parse(start).records[0].row
    assert (made["producer_group"], made["detector_enabled"], made["retry_another_broker"]) == ("pg", True, False)
    assert made["latency_max_ms"] == [50, 100]


def test_a_start_without_spec_leaves_unrecorded_switches_unknown():
    made = parse({"type": "start", "ts": 1795252690852, "clientId": "c", "group": "pg"}).records[0].row
    assert made["detector_enabled"] is None and made["latency_fault_enabled"] is None


LOST = {"type": "dropped", "group": "pg", "clientId": "10.0.0.1@7", "ts": 1795252691980, "lines": 12}


def test_lines_that_a_recorder_lost_are_refused_with_their_number_so_that_they_are_seen():
    refusal = parse(LOST).refusal
    assert refusal.code == "LINES_LOST"
    assert refusal.detail == "12 lines of 10.0.0.1@7 (pg) were not written before 2026-11-21 09:18:11"


@pytest.mark.parametrize("name", ["group", "clientId", "ts", "lines"])
def test_a_line_of_losses_that_does_not_say_whose_or_how_many_is_refused_as_any_other(name):
    refusal = parse(LOST, **{name: None}).refusal
    assert (refusal.code, repr(name) in refusal.detail) == ("MISSING_FIELD", True)


def test_an_answer_of_another_broker_than_the_one_chosen_is_a_doubt():
    assert row(mode="ASYNC", answeredBy="broker-b")["doubts"] == ["ANSWERED_BY_ANOTHER"]
    assert "doubts" not in row(mode="ASYNC", answeredBy=None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (None, None)),
        ({"queueOffset": 17}, (17, "topic")),
        ({"queueOffset": 17, "delayLevel": 0}, (17, "topic")),
        ({"queueOffset": 17, "delayLevel": 3}, (17, "delay")),
        ({"queueOffset": 17, "queueOffsetOf": "half"}, (17, "half")),
        ({"queueOffsetOf": "half"}, (None, None)),
    ],
)
def test_the_answers_offset_says_whose_it_is(changes, expected):
    made = row(**changes)
    assert (made["queue_offset"], made["queue_offset_of"]) == expected


def test_a_batch_has_the_ids_of_its_messages():
    assert row(batchMsgIds="A1,A2")["batch_msg_ids"] == ["A1", "A2"]
    assert row()["batch_msg_ids"] is None
    assert code(queueOffset=1, queueOffsetOf="elsewhere") == "UNKNOWN_VALUE"
