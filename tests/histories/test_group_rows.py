"""A group's round from the row that Spark brings: which of a client's captures counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hindsight.udfs.consumer.group_rows import group_round

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def read(second, topics, *, answered=True, **changes):
    told = None if topics is None else [subscription(name) for name in topics]
    own = {"message_model": None, "consume_from_where": None, "client_started_at": None, **changes}
    own |= {"error_code": None, "client_kind": None, "client_version": None}
    fields = {"error": None if answered else "time-out", "evidence": f"f:{second}", "subscriptions": told}
    return {"client_id": "c1", "answered": answered, "captured_at": T0 + timedelta(seconds=second), **fields, **own}


def subscription(name):
    return {"topic": name, "expression_type": "TAG", "sub_string": "*", "tags": []}


def read_of(*reads):
    row = {
        "consumer_group": "g",
        "message_model": "CLUSTERING",
        "members": ["c1"],
        "reads": reads,
        "listings": None,
        "broker_views": None,
        "through_proxy": False,
        "member_rules": [],
        "topics": [],
        "connections": [],
        "member_events": None,
        "ordered": None,
        "loose": False,
        "shared": False,
        "at": T0,
    }
    return group_round(row).reads["c1"]


def test_of_two_answers_the_later_counts():
    assert read_of(read(5, ["U"]), read(0, ["T"])).topics == {"U"}
    assert not read_of(read(0, ["T"]), read(5, None, answered=False)).answered


def test_what_a_later_answer_does_not_tell_is_as_the_one_before_told_it():
    one = read_of(read(0, ["T"], message_model="CLUSTERING"), read(5, None))
    assert (one.topics, one.message_model, one.evidence) == ({"T"}, "CLUSTERING", "f:5")
    assert one.captured_at == read_of(read(5, ["T"])).captured_at
    after_silence = read_of(read(0, ["T"], answered=False), read(5, None))
    assert (after_silence.topics, after_silence.answered, after_silence.error) == (None, True, None)
