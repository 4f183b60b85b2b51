"""Whose turn it was, attempt by attempt, in records that are made up."""

import pytest

from hindsight.udfs.producer.send_turns import turns_of
from hindsight.udfs.turns.turn_rules import Sent
from hindsight.udfs.values.message_queues import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(3)]


def sent(place, begin, end=None, *, thread="t", send=None, retry_of=None, skips=False, failed=False):
    queue = QUEUES[place]
    last = None if retry_of is None else QUEUES[retry_of]
    return Sent(
        (queue.broker_name, queue.queue_id),
        begin,
        begin if end is None else end,
        begin if end is None else end,
        thread,
        "SYNC",
        send or f"m{begin}-{place}",
        last is not None,
        last and last.broker_name,
        last and (last.broker_name, last.queue_id),
        skips,
        failed,
    )


def kinds(sends, profile="G6", *, whole=False):
    told, _ = turns_of(sends, QUEUES, profile, is_whole=whole, tolerance_ms=3)
    return [turn.kind for turn in told]


BEFORE = [sent(n, 100 * n) for n in range(3)]
AFTER = [sent(5, 500), sent(0, 600), sent(1, 700)]
IN_TURN = ["in_turn"] * 3


@pytest.mark.parametrize(
    ("begins", "ends", "threads", "swapped"),
    [
        ((300, 301), (310, 320), "tu", True),  # they overlap
        ((300, 312), (310, 320), "tu", True),  # nearly so
        ((300, 314), (310, 320), "tu", False),
        ((300, 301), (310, 320), "tt", True),  # a name that is no thread's own
        ((300, 312), (310, 320), "tt", False),
        ((300, 300), (300, 300), "tt", True),  # of one millisecond
        ((300, 312), (310, 320), (None, None), False),
    ],
)
def test_sends_that_overlap_may_have_changed_places(begins, ends, threads, swapped):
    two = [
        sent(place, begin, end, thread=thread)
        for place, begin, end, thread in zip((4, 3), begins, ends, threads, strict=True)
    ]
    found = kinds([*BEFORE, *two, *AFTER])[3:5]
    assert (found == ["concurrent", "concurrent"]) == swapped, found


def test_within_a_millisecond_of_one_thread_somebody_has_the_queue_whose_turn_it_was():
    same = [sent(4, 300), sent(4, 300, send="other")]
    assert "concurrent" not in kinds([*BEFORE, *same, *AFTER])


def test_an_attempt_in_the_place_of_another_is_out_of_its_turn():
    assert kinds([*BEFORE, sent(0, 300), sent(4, 400), *AFTER]) == [
        "first", "in_turn", "in_turn", "out_of_turn", "in_turn", *IN_TURN,
    ]  # fmt: skip


def test_one_that_did_not_count_is_told_apart():
    assert kinds([*BEFORE, sent(0, 250), sent(3, 300), sent(4, 400), *AFTER])[3:] == [
        "uncounted", "in_turn", "in_turn", *IN_TURN,
    ]  # fmt: skip


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_missing_attempts_are_one_gap(missing):
    rest = [sent((3 + missing + n) % 6, 400 + 100 * n) for n in range(4)]
    assert kinds([*BEFORE, *rest])[3:] == ["gap", *IN_TURN]


def test_the_first_send_of_all_takes_index_1_in_go_and_0_in_cpp():
    for profile, place in (("G6", 1), ("C1", 0)):
        assert kinds([sent(place, 0)], profile, whole=True) == ["in_turn"]
        assert kinds([sent(place + 1, 0)], profile, whole=True) == ["gap"]
        assert kinds([sent(place + 1, 0)], profile) == ["first"]


def test_a_cpp_retry_goes_on_from_its_own_queue_and_counts_what_it_looks_at():
    first, retry = sent(1, 100, failed=True), sent(3, 110, retry_of=1)
    assert kinds([sent(0, 0), first, retry, sent(4, 200)], "C1") == ["first", "in_turn", "in_turn", "in_turn"]
    assert kinds([sent(0, 0), first, sent(4, 110, retry_of=1)], "C1")[-1] == "out_of_send"


def test_what_a_cpp_retry_follows_has_to_be_recorded():
    retry = sent(4, 120, retry_of=1, skips=True)
    assert kinds([sent(0, 0), sent(1, 100, failed=True), retry], "C1")[-1] == "lost"
    assert kinds([sent(0, 0), retry._replace(last_queue=None, skips=False)], "C1")[-1] == "lost"


def test_an_active_cpp_send_leaves_out_what_failed_for_six_minutes():
    failed = [sent(0, 0), sent(1, 100, failed=True), sent(3, 110, retry_of=1)]
    full = [sent(n % 6, 200 + n) for n in range(4, 7)]
    for later, kind in ((1000, "active_mode"), (360_101, "gap")):
        assert kinds([*failed, *full, sent(2, later), sent(3, later + 100)], "C1")[-2:] == [kind, "in_turn"]
