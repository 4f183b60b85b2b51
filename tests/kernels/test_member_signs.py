"""Heartbeat ages of listed members, and who came and went by a broker's log, for each round."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hindsight.udfs.consumer.member_rules import Heartbeats, member_events
from hindsight.udfs.values.columns import instant

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def us(seconds: float) -> int:
    return int((T0.timestamp() + seconds) * 1_000_000)


def ages(rounds, beats):
    """By round that has heartbeats of its group, age and staleness of each member; it is read a second later."""
    heard = Heartbeats([(client, us(s)) for client, s in beats], lookback_s=600, expiry_s=120)
    found = {second: heard.ages(members, us(second + 1)) for second, members in rounds}
    return {
        second: {m["client_id"]: (m["age_ms"], m["stale"]) for m in of_round}
        for second, of_round in found.items()
        if of_round is not None
    }


def test_the_age_is_that_of_the_last_heartbeat_and_a_silent_member_becomes_stale():
    beats = [("a", s) for s in range(0, 400, 30)] + [("b", 0)]
    found = ages([(-10, ["a"]), (59, ["a", "b", "c"]), (120, ["a", "b", "c"]), (390, ["a", "b"])], beats)
    assert -10 not in found
    assert found[59] == {"a": (0, False), "b": (60_000, False), "c": (None, None)}
    # After two minutes of the group's heartbeats a member without any is known to send none.
    assert found[120] == {"a": (1000, False), "b": (121_000, True), "c": (None, True)}
    assert found[390] == {"a": (1000, False), "b": (391_000, True)}


def test_a_heartbeat_longer_ago_than_the_lookback_does_not_count():
    """600 s back: the other member's heartbeats tell that this one's are missed; alone it has no row at all."""
    beats = [("a", 0), *(("b", s) for s in range(0, 700, 30))]
    assert ages([(599, ["a"]), (600, ["a"])], beats) == {599: {"a": (600_000, True)}, 600: {"a": (None, True)}}
    assert ages([(599, ["a"]), (600, ["a"])], beats[:1]).keys() == {599}


def test_the_last_heartbeat_keeps_its_microseconds():
    (row,) = Heartbeats([("a", us(0) + 1_234)], lookback_s=600, expiry_s=120).ages(["a", "a"], us(1))
    assert (row["last_heartbeat_at"], row["age_ms"]) == (T0 + timedelta(microseconds=1_234), 999)


def events_of(*events, lookback_s=600):
    """(round, kind, subject) of events at seconds, in rounds at 0 and 30 that are read a second later."""
    rounds = [(us(second + 1), us(second)) for second in (0, 30)]
    found = member_events(rounds, [(us(second), *event) for second, *event in events], lookback_s=lookback_s)
    return [(round_us, e["at"], e["kind"], e["subject"]) for round_us, told in found.items() for e in told]


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        (-700, []),  # longer ago than the round looks back
        (-5, [(us(0), "join", "c1")]),
        (1, [(us(0), "join", "c1")]),  # in the very instant of the round
        (5, [(us(30), "join", "c1")]),
        (40, []),  # no round has come since
    ],
)
def test_an_event_belongs_to_the_next_round(logged, expected):
    assert [(at, *event) for at, _, *event in events_of((logged, "join", "c1"))] == expected


def test_lines_of_several_brokers_are_one_event():
    found = events_of((2, "join", "c1"), (3, "join", "c1"), (4, "leave", "h:3"))
    assert [event[1:] for event in found] == [(instant(us(3)), "join", "c1"), (instant(us(4)), "leave", "h:3")]
