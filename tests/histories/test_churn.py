"""Queues that a membership change moved, and how many of them the strategy itself moved."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.allocation import MessageQueue, allocate
from hindsight.udfs.drift.disturbances import Moves, moves
from tests.default_timing import default_timing
from tests.histories.test_incidents import allocated, at, history


def owners_of(given_queues):
    return {(q.topic, q.broker_name, q.queue_id): c for c, queues in given_queues.items() for q in queues}


def by_rule(strategy, members, queues=8):
    mq_all = [MessageQueue("T", "broker-a", q) for q in range(queues)]
    return owners_of(allocate(strategy, mq_all, members))


def test_the_example_of_the_docstring():
    before, after = by_rule("AVG", ["c1", "c2", "c3"], 4), by_rule("AVG", ["c1", "c2"], 4)
    assert moves(before, after, before, after, {"c3"}) == Moves(4, 1, 1, 0, 1)


def test_circle_moves_more_than_it_would_have_to():
    before, after = (by_rule("AVG_BY_CIRCLE", m) for m in (["c1", "c2", "c3"], ["c1", "c2"]))
    # c1 0 3 6, c2 1 4 7, c3 2 5 -> c1 0 2 4 6, c2 1 3 5 7: 2, 3, 4, 5 move, and c3 held two.
    assert moves(before, after, before, after, {"c3"}) == Moves(8, 4, 4, 0, 2)


@settings(deadline=None)
@given(members=st.sets(st.text("abcdefgh0123456789@.", min_size=1, max_size=8), min_size=2, max_size=6), data=st.data())
def test_removing_a_consumer_under_consistent_hash_moves_only_its_queues(members, data):
    gone = data.draw(st.sampled_from(sorted(members)))
    before, after = (by_rule("CONSISTENT_HASH", sorted(m), 12) for m in (members, members - {gone}))
    made = moves(before, after, before, after, {gone})
    assert made.moved == made.necessary == made.unavoidable


def test_a_queue_that_moved_although_the_strategy_kept_it_is_excess():
    expected = {("T", "b", 0): "c1", ("T", "b", 1): "c2"}
    swapped = {("T", "b", 0): "c2", ("T", "b", 1): "c1"}
    assert moves(expected, swapped, expected, expected, set()) == Moves(2, 2, 0, 2, 0)


def test_a_change_is_counted_in_the_first_complete_round_after_its_grace():
    made = history(default_timing())
    three = {0: "A", 1: "A", 2: "A", 3: "B", 4: "B", 5: "B", 6: "C", 7: "C"}
    two = {0: "A", 1: "A", 2: "A", 3: "A", 4: "B", 5: "B", 6: "B", 7: "B"}
    rounds = [(("A", "B", "C"), three)] * 3 + [(("A", "B"), {**two, 6: (), 7: ()})] + [(("A", "B"), two)] * 4
    walked = [made.step(allocated(at(15 * n), members, owned)) for n, (members, owned) in enumerate(rounds)]
    changes = [(n, change) for n, one in enumerate(walked) for change in one.changes]
    ((number, change),) = changes
    assert number == 6  # left at 45, + 20 + 15
    assert (change.joined, change.left, change.changed_at) == ((), ("C",), at(45))
    assert change.moves == Moves(8, 3, 3, 0, 2)


def test_no_change_of_members_is_no_churn():
    made = history(default_timing())
    owned = {q: "AB"[q // 4] for q in range(8)}
    assert [made.step(allocated(at(15 * n), ("A", "B"), owned)).changes for n in range(10)] == [[]] * 10
