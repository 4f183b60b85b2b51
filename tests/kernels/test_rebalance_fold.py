"""Rebalances of a group whose joins, leaves and deaths are known: those found are those made, whatever tells them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hindsight.udfs.rebalances.rebalance_event import FAILED, certainties, event_row, took
from hindsight.udfs.rebalances.rebalance_fold import Day, Membership, RebalanceFold
from hindsight.udfs.rebalances.share_ledger import RESULT, Line
from tests.simulated_group import MIDNIGHT, SimulatedGroup

seeds = st.integers(0, 10_000)


def walked(days, *, closing=True):
    """All rebalances, the state written and read where a date closes."""
    fold, found = RebalanceFold(), []
    for day in days:
        found += fold.walk(day)
        fold = RebalanceFold.of_json(fold.to_json()) if closing else fold
    return found


@given(seeds)
def test_logs_tell_every_rebalance_that_was_made_and_no_other(seed):
    group = SimulatedGroup(seed)
    found = [one for _, one in walked(group.days())]
    told = [
        (
            *(one.client_id, one.at, one.trigger.kind, *one.trigger.subjects, one.trigger.at),
            *(len(one.gained), len(one.lost)),
            max((hand.unread_ms for hand in one.gained if hand.from_client_id), default=None),
        )
        for one in sorted(found, key=lambda one: (one.at, one.client_id))
    ]
    assert told == [tuple(made) for made in sorted(group.made, key=lambda made: (made.at, made.client_id))]
    assert {one.after for one in found} <= {None}


@given(seeds)
def test_it_makes_no_difference_whether_the_state_went_through_the_table(seed):
    days = SimulatedGroup(seed).days()
    assert walked(days) == walked(days, closing=False)


@given(seeds, st.integers(2_000, 12_000))
@example(36, 9_878)  # 23 s after its start a client without queues takes one, as another dies
def test_rounds_tell_every_rebalance_between_two_of_which_it_lies(seed, interval_ms):
    group = SimulatedGroup(seed)
    found = [one for _, one in walked(group.days(logs=False, rounds=group.rounds(interval_ms)))]
    for one in found:
        since = one.after if one.after is not None else one.at
        made = [m for m in group.made if m.client_id == one.client_id and since <= m.at <= one.at]
        assert made, one
        kinds = {m.trigger.replace("left", "gone").replace("died", "gone") for m in made}
        assert one.trigger.kind in kinds
        (whose,) = [m for m in made if m.trigger == one.trigger.kind or one.trigger.kind == "member_gone"][:1]
        assert whose.subject in one.trigger.subjects
        assert one.trigger.after is None or one.trigger.after <= whose.trigger_at <= one.trigger.at
    seen = {(one.client_id, one.at) for one in found}
    for made in group.made:
        # Whoever gained or lost queues that it still had, or still lacked, when it was looked at next was found.
        looked = [at for client, at in seen if client == made.client_id and at >= made.at]
        later = [m for m in group.made if m.client_id == made.client_id and made.at < m.at]
        gone = [at for at, members in group.listed if at > made.at and made.client_id not in members]
        nxt = min([m.at for m in later] + gone, default=made.at + 10**9)
        assert nxt - made.at <= interval_ms or min(looked, default=10**18) <= made.at + interval_ms


@given(seeds, st.integers(4_000, 25_000), st.integers(0, 200))
def test_a_client_changed_between_two_reads_of_its_own_whether_or_not_rounds_in_between_are_given(
    seed, interval_ms, spread_ms
):
    """Members are read one after the other: one may change after its own read, before the last one's of that round."""
    group = SimulatedGroup(seed)
    read = [group.rounds(interval_ms, spread_ms=spread_ms, full=is_full) for is_full in (False, True)]
    given_, full = ([one for _, one in walked(group.days(logs=False, rounds=rounds))] for rounds in read)
    assert [(one.client_id, one.after, one.at) for one in given_] == [(o.client_id, o.after, o.at) for o in full]
    for one in given_:
        after = one.at - 1 if one.after is None else one.after
        assert any(m.client_id == one.client_id and after < m.at <= one.at for m in group.made), one


@given(seeds, st.integers(2_000, 25_000))
def test_what_a_log_tells_is_not_told_by_rounds_again(seed, interval_ms):
    group = SimulatedGroup(seed)
    found = walked(group.days(rounds=group.rounds(interval_ms)))
    assert {collector for collector, one in found if one.told_by == "running_info"} == set()
    assert len(found) == len(group.made)


@given(seeds, st.integers(2_000, 25_000))
def test_a_bound_of_rounds_holds_what_the_logs_know(seed, interval_ms):
    group = SimulatedGroup(seed)
    for _, one in walked(group.days(logs=False, rounds=group.rounds(interval_ms))):
        (made, *more) = [
            m for m in group.made if m.client_id == one.client_id and (one.after or one.at) <= m.at <= one.at
        ]
        if more or made.longest_unread_ms is None:
            continue
        hands = [hand for hand in one.gained if hand.unread_ms is not None]
        assert max((hand.unread_at_least_ms for hand in hands), default=0) <= made.longest_unread_ms


def line(at, kind=RESULT, **changes):
    return Line(MIDNIGHT + at, "f", at, kind, "log", **changes)


def result(at, *queues, members=2, **changes):
    given_ = {"client_id": "me", "topic": "T", "queue_count": 8, "member_count": members}
    return line(at, queues=frozenset(("b", q) for q in queues), **{**given_, **changes})


def of_lines(*lines, **changes):
    return [one for _, one in walked([Day(MIDNIGHT + 86_400_000, list(lines), **changes)])]


def test_an_exception_belongs_to_the_rebalance_after_it_or_is_a_rebalance_that_failed():
    met = line(100, "rebalance_failed", exception="java.lang.NullPointerException")
    (first, second) = of_lines(result(0, 0), met, result(30_000, 0, 1))
    assert [one.exception for one in second.exceptions] == ["java.lang.NullPointerException"] and not first.exceptions
    (applied, failed) = of_lines(result(0, 0), met)
    assert (failed.outcome, failed.client_id, failed.at, failed.held) == (FAILED, "me", met.at, 1)
    assert not applied.exceptions


def test_a_queue_whose_lock_is_refused_is_taken_when_the_lock_is_given():
    refused = [line(at, "lock_failed", topic="T", queues=frozenset({("b", 1)})) for at in (10, 1_010)]
    granted = line(2_000, "lock_acquired", topic="T", queues=frozenset({("b", 1)}))
    (before, after) = of_lines(result(0, 0), *refused, result(1_020, 0, 1), granted, result(40_000, 0, 1))
    assert [hand.queue for hand in before.gained] == [("T", "b", 0)]
    ((hand,), trigger) = after.gained, after.trigger
    assert (hand.queue, after.at) == (("T", "b", 1), MIDNIGHT + 40_000)
    assert trigger.kind == "lock_acquired" or hand.lock_failures == 0


def test_a_result_of_more_queues_is_the_route_and_of_another_topic_the_subscription():
    (_, routed, subscribed) = of_lines(
        result(0, 0), result(30_000, 0, 9, queue_count=10), result(60_000, 3, topic="U", members=2)
    )
    assert (routed.trigger.kind, routed.trigger.subjects) == ("route_changed", ("T",))
    assert (subscribed.trigger.kind, subscribed.trigger.subjects) == ("subscription_changed", ("U",))


def test_a_client_that_is_created_anew_under_its_id_holds_nothing_of_before():
    (_, again) = of_lines(
        result(0, 0, 1), result(60_000, 0, 1), created=[("me", MIDNIGHT - 500), ("me", MIDNIGHT + 59_000)]
    )
    assert (again.trigger.kind, len(again.gained), again.trigger.at) == ("start", 2, MIDNIGHT + 59_000)


def refused(at, *queues):
    return line(at, "lock_failed", topic="T", queues=frozenset(("b", q) for q in queues))


def test_a_refusal_of_a_queue_that_the_client_has_is_another_client_s():
    """Two clients of one log: what one cannot lock the other has, and goes on to have."""
    mate = {"client_id": "mate"}
    found = of_lines(result(0, 0, 1), refused(20_000, 1), result(20_010, 1, 5, **mate), result(40_000, 0, 1, 2))
    assert [(one.client_id, len(one.gained), len(one.lost)) for one in found] == [
        ("me", 2, 0),
        ("mate", 1, 0),
        ("me", 1, 0),
    ]
    assert found[-1].held == 3


def test_a_lock_that_was_refused_long_ago_and_given_since_sets_nothing_off():
    added = [line(at, "queue_added", topic="T", queues=frozenset({("b", 1)})) for at in (20_000, 90_000)]
    found = of_lines(
        *(result(0, 0), refused(10, 1), result(15, 0, 1), added[0], result(20_010, 0, 1)),
        *(result(50_000, 0), added[1], result(90_010, 0, 1)),
    )
    assert [one.trigger.kind for one in found] == ["unknown", "lock_acquired", "timer", "timer"]
    assert [sum(hand.lock_failures for hand in one.gained) for one in found] == [0, 1, 0, 0]


def offset(at, kind, queue, **changes):
    return line(at, kind, topic="T", queues=frozenset({("b", queue)}), **changes)


def begins(*lines):
    """Of each rebalance the queues with an offset: queue, where it began, where it was sent on to."""
    shown = [event_row({"consumer_group": "g"}, one)["hand_overs"] for one in of_lines(*lines)]
    named = [[one for one in each if one["began_offset"] is not None] for each in shown]
    return [[(one["queue_id"], one["began_offset"], one["sent_on_to"]) for one in each] for each in named]


def test_a_client_began_where_its_log_says():
    told = offset(5, "queue_began", 0, offset=7), offset(6, "queue_began", 1, offset=0)
    assert begins(*told, result(10, 0, 1, 2)) == [[(0, 7, None), (1, 0, None)]]
    # Only the line right before the result is of it.
    assert begins(result(0, 0), offset(10_000, "queue_began", 1, offset=9), result(20_000, 0, 1)) == [[], []]


def test_in_order_the_offset_read_under_the_lock_counts_and_only_the_first_after_it_was_taken():
    read = (offset(at, "offset_first_read", 0, offset=7, new_offset=new) for at, new in ((500, 12), (60_000, 90)))
    assert begins(offset(5, "queue_began", 0, offset=7), result(10, 0), *read) == [[(0, 12, None)]]
    assert begins(result(10, 0), offset(5_000, "offset_first_read", 0, offset=7, new_offset=3)) == [[(0, 3, None)]]
    # A line of another log, or of a queue that nobody took, is of nobody.
    other = offset(500, "offset_first_read", 0, new_offset=5)._replace(folder="other")
    assert begins(result(10, 0), other, offset(600, "offset_first_read", 3, new_offset=5)) == [[]]


def test_a_broker_sent_a_client_on_that_had_read_nothing():
    told = offset(5, "queue_began", 0, offset=0), result(10, 0)
    sent = offset(50, "offset_illegal", 0, offset=0, new_offset=500)
    again = offset(90_000, "offset_illegal", 0, offset=0, new_offset=700)
    assert begins(*told, sent, again) == [[(0, 0, 500)]]
    assert begins(*told, sent._replace(offset=3)) == [[(0, 0, None)]]  # it had read three
    assert begins(result(10, 0), sent) == [[]]


def test_a_next_owner_has_an_offset_of_its_own():
    mate = {"client_id": "mate"}
    handed = (
        *(offset(5, "queue_began", 0, offset=7), result(10, 0), result(20_000)),
        *(offset(30_100, "queue_began", 0, offset=30), result(30_110, 0, **mate)),
    )
    assert begins(*handed) == [[(0, 7, None)], [], [(0, 30, None)]]


def stored(*lines):
    """Of each queue that was taken from somebody: queue, from whom, and what that one had stored."""
    hands = [hand for one in of_lines(*lines) for hand in one.gained if hand.from_client_id]
    return [(hand.queue[2], hand.from_client_id, hand.stored_offset) for hand in hands]


def test_what_the_owner_before_stored_as_it_gave_a_queue_up_is_known_whichever_of_the_two_was_first():
    mate, told = {"client_id": "mate"}, offset(995, "offset_stored", 1, offset=50, client_id="me")
    before = result(0, 0, 1), told, result(1_000, 0)
    assert stored(*before, result(1_500, 1, **mate)) == [(1, "me", 50)]
    assert stored(*before, result(900, 1, **mate)) == [(1, "me", 50)]
    assert stored(*before[:1], result(500, 1, **mate), result(800, **mate), *before[1:])[0] == (1, "me", None)
    # Another client's line, or one of long before, is not of it.
    assert stored(*(one._replace(client_id="x") if one is told else one for one in before), result(900, 1, **mate)) == [
        (1, "me", None)
    ]
    late = before[0], told, result(20_000, 0)
    assert stored(*late, result(20_500, 1, **mate)) == [(1, "me", None)]
    # Who took it at first gives it up without a word: nothing of before counts.
    back = result(1_500, 1, **mate), result(9_000, **mate), result(9_500, 0, 1)
    assert stored(*before, *back)[-1] == (1, "mate", None)


def test_what_was_stored_before_midnight_is_known_to_who_takes_the_queue_after_it():
    day = 86_400_000
    before = result(0, 0, 1), offset(995, "offset_stored", 1, offset=50, client_id="me"), result(1_000, 0)
    days = Day(MIDNIGHT + day, before), Day(MIDNIGHT + 2 * day, [result(day + 5_000, 1, client_id="mate")])
    (*_, (_, taken)) = walked(days)
    assert [hand.stored_offset for hand in taken.gained] == [50]


def test_what_only_a_timer_found_began_at_a_time_that_is_not_known():
    (_, given), taken = (of_lines(result(0, 0, 1), result(30_000, 0)), of_lines(result(0, 0), result(50_000, 0, 1))[1])
    for one in (given, taken):
        assert (one.trigger.kind, one.trigger.at, took(one)["took_ms"]) == ("timer", None, None)
        assert list(certainties(one).values()) == ["trigger_unknown", "exact", "unknown", "unknown"]


def test_a_result_of_what_the_client_had_is_no_rebalance_and_its_exceptions_wait():
    met = line(29_000, "member_list_failed", exception="E")
    (_, one) = of_lines(result(0, 0), met, result(30_000, 0), result(60_000, 0, 1))
    assert (one.at - MIDNIGHT, [swallowed.exception for swallowed in one.exceptions]) == (60_000, ["E"])


def test_a_queue_that_a_client_gave_up_for_a_moment_came_and_went():
    (_, one) = of_lines(result(0, 0), result(30_000), result(30_500, 0))
    assert ([(hand.queue, hand.unread_ms) for hand in one.gained], one.lost) == (
        [(("T", "b", 0), 500)],
        (("T", "b", 0),),
    )
    (_, taken) = of_lines(result(0, 0), result(30_000, 0, 1), result(30_500, 0))
    assert (len(taken.gained), len(taken.lost), taken.held) == (1, 1, 1)


def member(at, kind, client_id):
    return Membership(MIDNIGHT + at, kind, client_id, client_id, None)


def test_signs_of_long_before_are_candidates_where_the_client_was_told_of_another_change():
    joined = member(4_000, "consumer_connected", "b")
    notices = [line(at, "members_changed") for at in (4_500, 49_900)]
    (_, one) = of_lines(result(0, 0), *notices, result(50_000, 0, 1), memberships=[joined])
    assert (one.trigger.kind, one.trigger.subjects, one.trigger.also) == ("unknown", (), ("member_joined",))
    assert took(one) == {"took_ms": 100, "took_at_least_ms": 100}  # since it was told
    assert certainties(one)["trigger_certainty"] == "unknown" and certainties(one)["took_certainty"] == "exact"
    died = member(49_800, "consumer_channel_expired", "c")
    (_, one) = of_lines(result(0, 0), *notices, result(50_000, 0, 1), memberships=[joined, died])
    assert (one.trigger.kind, one.trigger.subjects) == ("member_died", ("c",))


def test_numbers_that_logs_of_brokers_do_not_explain_name_nobody():
    """A broker that stood still lists the members that came again twice: 6 of 3, and nobody joined."""
    lines = result(0, 0, members=3), result(300_000, 0, 1, members=6)
    (_, counted) = of_lines(*lines)
    assert (counted.trigger.kind, certainties(counted)["trigger_certainty"]) == ("member_joined", "counted")
    (_, logged) = of_lines(*lines, memberships=[member(-5_000, "consumer_connected", "me")])
    assert (logged.trigger.kind, logged.trigger.also) == ("unknown", ("member_gone", "member_joined"))
