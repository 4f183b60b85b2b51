"""Heartbeat ages of listed members, and who came and went by a broker's log, for each round."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.transforms.members import heartbeat_ages, member_events

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
GROUPS = (
    "cluster string, collector string, round_at timestamp, consumer_group string, at timestamp, members array<string>"
)
BEATS = "cluster string, role string, client_group string, client_id string, received_at timestamp"
EVENTS = "cluster string, kind string, client_group string, client_id string, address string, logged_at timestamp"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def groups(spark, *rounds):
    rows = [("oracle", "", at(s), "g", at(s + 1), members) for s, members in rounds]
    return spark.createDataFrame(rows, GROUPS)


def ages(spark, rounds, beats):
    rows = [("oracle", role, "g", client, at(s)) for role, client, s in beats]
    found = heartbeat_ages(
        groups(spark, *rounds), spark.createDataFrame(rows, BEATS), lookback_s=600, expiry_s=120
    ).collect()
    return {
        round((r.round_at.replace(tzinfo=UTC) - T0).total_seconds()): {
            m.client_id: (m.age_ms, m.stale) for m in r.member_heartbeats
        }
        for r in found
    }


def test_the_age_is_that_of_the_last_heartbeat_and_a_silent_member_becomes_stale(spark):
    beats = [("consumer", "a", s) for s in range(0, 400, 30)] + [("consumer", "b", 0), ("producer", "c", 390)]
    found = ages(spark, [(-10, ["a"]), (59, ["a", "b", "c"]), (120, ["a", "b", "c"]), (390, ["a", "b"])], beats)
    assert -10 not in found
    assert found[59] == {"a": (0, False), "b": (60_000, False), "c": (None, None)}
    # After two minutes of the group's heartbeats a member without any is known to send none.
    assert found[120] == {"a": (1000, False), "b": (121_000, True), "c": (None, True)}
    assert found[390] == {"a": (1000, False), "b": (391_000, True)}


def test_a_heartbeat_longer_ago_than_the_lookback_does_not_count(spark):
    """600 s back: the other member's heartbeats tell that this one's are missed; alone it has no row at all."""
    beats = [("consumer", "a", 0), *(("consumer", "b", s) for s in range(0, 700, 30))]
    assert ages(spark, [(599, ["a"]), (600, ["a"])], beats) == {599: {"a": (600_000, True)}, 600: {"a": (None, True)}}
    assert ages(spark, [(599, ["a"]), (600, ["a"])], beats[:1]).keys() == {599}


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        (-700, []),  # longer ago than the round looks back
        (-5, [(0, "join", "c1")]),
        (1, [(0, "join", "c1")]),  # in the very instant of the round
        (5, [(30, "join", "c1")]),
        (40, []),  # no round has come since
    ],
)
def test_an_event_belongs_to_the_next_round(spark, logged, expected):
    row = ("oracle", "consumer_connected", "g", "c1", "h:1", at(logged))
    events = spark.createDataFrame([row], EVENTS)
    found = member_events(groups(spark, (0, []), (30, [])), events, lookback_s=600).collect()
    assert [
        (round((r.round_at.replace(tzinfo=UTC) - T0).total_seconds()), e.kind, e.subject)
        for r in found
        for e in r.member_events
    ] == expected


def test_lines_of_several_brokers_are_one_event_and_other_lines_none(spark):
    rows = [
        ("oracle", "consumer_connected", "g", "c1", "h:1", at(2)),
        ("oracle", "consumer_connected", "g", "c1", "h:2", at(3)),
        ("oracle", "consumer_channel_closed", "g", None, "h:3", at(4)),
        ("oracle", "subscription_added", "g", None, None, at(4)),
        ("oracle", "consumer_connected", "another", "c1", "h:1", at(4)),
    ]
    (found,) = member_events(
        groups(spark, (0, []), (30, [])), spark.createDataFrame(rows, EVENTS), lookback_s=600
    ).collect()
    assert [(e.at.replace(tzinfo=UTC), e.kind, e.subject) for e in found.member_events] == [
        (at(3), "join", "c1"),
        (at(4), "leave", "h:3"),
    ]
