"""Rollouts against brute force: every instant at which members can hear of a change, and every order."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.allocation import MessageQueue, allocate_for, sort_client_ids
from hindsight.udfs.consumer.client_balance import sorted_as
from hindsight.udfs.consumer.expected_allocation import MemberRule
from hindsight.udfs.scenarios.rollout import Change, Topic, Way, best_and_worst, rollout

RULES = [("AVG", "P498"), ("AVG_BY_CIRCLE", "P498"), ("CONSISTENT_HASH", "P533"), ("AVG", "G1"), ("AVG", "C1")]
TIMER = {"P498": 20_000, "P533": 20_000, "G1": 20_000, "C1": 10_000}


def member(number: int, rule: tuple[str, str], generation: str = "old") -> MemberRule:
    return MemberRule(f"10.0.0.{number}@{generation}", *rule)


@st.composite
def groups(draw: st.DrawFn, most: int = 4) -> tuple[Topic, list[Change]]:
    rules = st.sampled_from(RULES)
    generation = draw(st.sampled_from(["old", "new"]))
    changes = [
        Change(member(number, draw(rules)), member(number, draw(rules), generation))
        for number in range(draw(st.integers(1, most)))
    ]
    queues = tuple((broker, queue) for broker in ("a", "b") for queue in range(draw(st.integers(1, 3))))
    return Topic("T", queues, "AVG"), changes


def reads(rule: MemberRule, view: list[str], topic: Topic) -> set[tuple[str, int]]:
    """What one client takes of the list that it knows, by its own sort and rule."""
    queues = [MessageQueue(topic.name, *queue) for queue in topic.queues]
    ordered, ids = sorted_as(rule.profile)(queues, sort_client_ids(view))
    taken = allocate_for(rule.strategy, rule.client_id, ordered, ids, profile=rule.profile)
    return {(queue.broker_name, queue.queue_id) for queue in taken or ()}


def unread_by_every_instant(topic: Topic, change: Change, others: list[MemberRule], way: Way, end: int):
    """Of each queue the least and the most time that nobody reads it, over all corners of what is not known."""
    without = [rule.client_id for rule in others]
    views = [[*without, change.before.client_id], without, [*without, change.after.client_id]]
    own = {rule: [reads(rule, view, topic) for view in views] for rule in others}
    back = reads(change.after, views[2], topic)
    corners = [
        list(product((0, (most := 1_500 if way.notified else TIMER[rule.profile] + 500)), (0, most))) for rule in others
    ]
    late = 500 + (20_000 if change.after.profile == "G1" else 0)
    found: dict[tuple[str, int], list[int]] = {queue: [] for queue in topic.queues}
    for hears in product(*corners):
        for own_late in (0, late):
            at = [(left, max(left, way.away_ms + later)) for left, later in hears]
            starts = way.away_ms + own_late
            cuts = sorted({0, end, starts, *(instant for pair in at for instant in pair)})
            unread = dict.fromkeys(topic.queues, 0)
            for begin, stop in pairwise(cuts):
                read = set(back) if begin >= starts else set()
                for (left, again), rule in zip(at, others, strict=True):
                    read |= own[rule][0 if begin < left else 1 if begin < again else 2]
                for queue in set(topic.queues) - read:
                    unread[queue] += stop - begin
            for queue, length in unread.items():
                found[queue].append(length)
    return {queue: (min(lengths), max(lengths)) for queue, lengths in found.items()}


@settings(max_examples=60, deadline=None)
@given(groups(), st.sampled_from([0, 700, 5_000, 30_000]), st.booleans(), st.sampled_from(["shutdown", "killed"]))
def test_bounds_are_those_of_every_instant_at_which_members_can_hear(group, away, notified, stop):
    topic, changes = group
    way = Way(stop, away_ms=away, calm_ms=7_000, notified=notified)
    for place, step in enumerate(rollout([topic], changes, way)):
        (share,) = step.shares
        others = [change.after for change in changes[:place]] + [change.before for change in changes[place + 1 :]]
        end = step.lasts_ms + way.calm_ms
        truth = unread_by_every_instant(topic, changes[place], others, way, end)
        assert share.unread == (sum(least for least, _ in truth.values()), sum(most for _, most in truth.values()))
        assert share.longest == (max(least for least, _ in truth.values()), max(most for _, most in truth.values()))
        there = [*others, changes[place].after]
        ids = [rule.client_id for rule in there]
        for queue, readers in zip(topic.queues, share.after, strict=True):
            assert {rule.client_id for rule in there if queue in reads(rule, ids, topic)} == set(readers)


@settings(max_examples=40, deadline=None)
@given(groups(), st.booleans(), st.booleans())
def test_best_and_worst_are_those_of_all_orders(group, notified, ordered):
    topic, changes = group
    way = Way(notified=notified, ordered=ordered)

    def cost(order: tuple[int, ...]) -> tuple[int, int]:
        steps = rollout([topic], [changes[place] for place in order], way)
        return sum(step.cost[0] for step in steps), sum(step.cost[1] for step in steps)

    costs = {order: cost(order) for order in permutations(range(len(changes)))}
    best, worst = best_and_worst([topic], changes, way)
    assert best.exact and worst.exact
    assert (best.cost, worst.cost) == (min(costs.values()), max(costs.values()))
    assert (costs[best.places], costs[worst.places]) == (best.cost, worst.cost)


@pytest.mark.parametrize(("members", "exact"), [(8, True), (9, False)])
def test_beyond_eight_members_an_order_is_searched_for_and_says_so(members, exact):
    changes = [
        Change(member(n, ("AVG", "P498")), member(n, ("AVG_BY_CIRCLE" if n % 2 else "AVG", "P533"), "new"))
        for n in range(members)
    ]
    topic = Topic("T", tuple(("a", queue) for queue in range(16)), "AVG")
    best, worst = best_and_worst([topic], changes, Way())
    given = rollout([topic], changes, Way())
    assert (best.exact, worst.exact) == (exact, exact)
    assert sorted(best.places) == sorted(worst.places) == list(range(members))
    assert best.cost <= (sum(step.cost[0] for step in given), sum(step.cost[1] for step in given)) <= worst.cost


def one_step(way: Way, profile: str = "P498") -> tuple[int, int]:
    """A member of two, with four of eight queues, is rolled from a release to itself; of one queue, unread ms."""
    changes = [Change(member(n, ("AVG", profile)), member(n, ("AVG", profile))) for n in range(2)]
    step = rollout([Topic("T", tuple(("a", q) for q in range(8)), "AVG")], changes, way)[0]
    assert step.shares[0].moved == 0 and step.shares[0].taken == 8
    return step.shares[0].longest


def test_a_notified_group_reads_on_after_a_second_and_one_that_is_not_when_its_timers_run():
    assert one_step(Way()) == (0, 2_000)  # heard late, 1.5 s; back, and its first pull 0.5 s after the other gave up
    assert one_step(Way(notified=False)) == (0, 21_000)


def test_locks_of_a_killed_member_of_an_ordered_group_live_on():
    long_away = Way("killed", away_ms=200_000, ordered=True)
    least, most = one_step(long_away)
    assert least == 40_000 and most >= 80_000
    # Back before its locks ran off, and under its own id, it has them at once.
    assert one_step(Way("killed", away_ms=10_000, ordered=True)) == (10_000, 10_500)
    assert one_step(Way("shutdown", away_ms=200_000, ordered=True))[0] == 0


@pytest.mark.parametrize(("profile", "least"), [("G4", 40_000), ("G5", 0), ("P533", 0)])
def test_go_before_2_1_2_leaves_its_locks_when_it_ends(profile, least):
    assert one_step(Way(away_ms=200_000, ordered=True), profile)[0] == least


def test_who_gives_up_a_queue_that_it_works_on_unlocks_it_20_s_later():
    """The other one takes the queues 1.5 s after the stop at most; 1.5 s after the return it gives them up, unlocks
    them 20 s later, and the next try for the lock comes within a second."""
    assert one_step(Way(ordered=True), "P533")[1] == 1_500 + 1_500 + 20_000 + 1_000


def test_a_member_that_comes_back_under_another_id_in_its_place_moves_no_queue():
    changes = [Change(member(n, ("AVG", "P533")), member(n, ("AVG", "P533"), "new")) for n in range(3)]
    steps = rollout([Topic("T", tuple(("a", q) for q in range(6)), "AVG")], changes, Way())
    assert [step.shares[0].moved for step in steps] == [0, 0, 0]


def test_rules_that_do_not_go_together_leave_queues_to_nobody_and_to_two_for_as_long_as_they_stand():
    changes = [Change(member(n, ("AVG", "P498")), member(n, ("AVG_BY_CIRCLE", "P498"))) for n in range(2)]
    topic = Topic("T", tuple(("a", q) for q in range(4)), "AVG")
    first, last = rollout([topic], changes, Way(calm_ms=1_000_000))
    assert [len(readers) for readers in first.shares[0].after] == [1, 0, 2, 1]
    assert first.shares[0].longest.least >= 1_000_000
    assert [len(readers) for readers in last.shares[0].after] == [1, 1, 1, 1]
