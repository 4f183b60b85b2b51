"""What set a rebalance off: counts tell that somebody came or went, signs who; what is nearest counts."""

from __future__ import annotations

from hindsight.udfs.rebalances.rebalance_event import (
    DIED,
    EXPIRED,
    GONE,
    JOINED,
    LEFT,
    LOCKED,
    ROUTE,
    START,
    SUBSCRIPTION,
    TIMER,
    Around,
    Sign,
    Signs,
    Trigger,
    trigger_of,
)

AT = 1_000_000


def found(*signs, **around):
    return trigger_of(Around("me", AT, around.pop("since", AT - 150_000), **around), Signs(signs))


def test_a_client_that_started_shares_because_it_started():
    assert found(Sign(AT - 10, JOINED, "me"), started_at=AT - 800) == Trigger(START, ("me",), AT - 800)


def test_more_members_than_before_is_a_join_whoever_it_was():
    assert found(members=(2, 3)) == Trigger(JOINED, (), None)
    assert found(Sign(AT - 500, JOINED, "b"), members=(2, 3)) == Trigger(JOINED, ("b",), AT - 500)


def test_fewer_members_than_before_went_as_the_log_says():
    assert found(members=(3, 2), woken_at=AT - 40) == Trigger(GONE, (), AT - 40)
    assert found(Sign(AT - 500, DIED, "b"), members=(3, 2)).kind == DIED
    assert found(Sign(AT - 500, LEFT, "b"), Sign(AT, GONE, "b", AT - 3000), members=(3, 2)) == Trigger(
        LEFT, ("b",), AT - 500
    )


def test_equal_counts_hide_one_who_came_and_one_who_went_only_from_a_client_that_was_told():
    signs = Sign(AT - 900, LEFT, "b"), Sign(AT - 400, JOINED, "c")
    told = found(*signs, members=(3, 3), woken_at=AT - 300)
    assert (told.kind, told.subjects, told.also) == (JOINED, ("c",), (LEFT,))
    assert found(*signs, members=(3, 3), default=TIMER).kind == TIMER


def test_what_is_nearest_explains_it_rather_than_what_was_long_before():
    signs = Sign(AT - 100_000, DIED, "b"), Sign(AT - 700, DIED, "c")
    assert found(*signs, members=(4, 2), likely_since=(AT - 25_000,)).subjects == ("c",)
    assert found(signs[0], members=(4, 3), likely_since=(AT - 25_000,)).subjects == ("b",)


def test_signs_before_and_after_explain_nothing():
    assert found(Sign(AT - 5000, JOINED, "b"), Sign(AT + 1, JOINED, "c"), since=AT - 4000).kind == "unknown"
    # One that lies between two reads may have been before, and was not after what it set off.
    between = Sign(AT + 1, JOINED, "c", AT - 2000)
    assert found(between) == Trigger(JOINED, ("c",), AT, AT - 2000)
    # What a broker told the client is nearer than two reads of a list.
    assert found(between, members=(2, 3), woken_at=AT - 60) == Trigger(JOINED, ("c",), AT - 60)


def test_other_queues_are_the_routes_and_other_topics_the_subscriptions():
    routed = found(Sign(AT - 90, ROUTE, "T"), members=(3, 3), other_queues=["T"])
    assert routed == Trigger(ROUTE, ("T",), AT - 90)
    assert found(members=(3, 3), other_topics=["U"]) == Trigger(SUBSCRIPTION, ("U",))
    assert found(Sign(AT - 90, ROUTE, "U"), members=(3, 3), other_topics=["U"]).kind == ROUTE


def test_a_lock_and_an_expiry_are_told_when_nothing_else_is():
    assert found(members=(2, 2), refused_at=AT - 20_000) == Trigger(LOCKED, (), AT - 20_000)
    assert found(members=(2, 2), expired_at=AT - 5) == Trigger(EXPIRED, (), AT - 5)
    both = found(Sign(AT - 30_000, DIED, "b"), members=(3, 2), refused_at=AT - 29_000)
    assert (both.kind, both.also) == (DIED, (LOCKED,))
