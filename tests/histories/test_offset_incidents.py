"""Rounds of a group whose offsets are moved: what is found, what mutes it, when it opens and when it is over."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.round_facts import DeadLetters, Listing
from hindsight.udfs.drift.group_history import GroupHistory
from hindsight.udfs.drift.group_memory import GroupMemory
from tests.default_timing import default_timing
from tests.histories.test_incident_fixtures import A0, A1, B0, BEGIN_MS, NO_GRACE, owner, world

STEP_S = 15
OFFSET_CODES = {
    "OFFSET_REWOUND", "OFFSET_JUMPED", "MESSAGES_LOST", "MESSAGES_AT_RISK", "QUEUE_LAGS_ALONE", "RETRIES_GROW",
    "DEAD_LETTERS",
}  # fmt: skip


class Walked:
    """A group's rounds, 15 s apart, each with readings of its queues: by queue, offsets of the broker and the group."""

    def __init__(self, timing=NO_GRACE):
        self.history = GroupHistory(("c", "", "g"), timing)
        self.second = 0
        self.last = None

    def rounds(self, offsets=None, count=1, *, topic="T", tps=None, floor=None, changed=None):
        """``offsets``: of the second, for each queue; None: a group that keeps up."""
        for _ in range(count):
            self.second += STEP_S
            now = BEGIN_MS + self.second * 1000
            told = dict.fromkeys((A0, A1, B0), (self.second, self.second)) | (offsets(self.second) if offsets else {})
            readings = [
                Reading(((topic if len(queue) == 2 else queue[0]), *queue[-2:]), now, *given, tps, floor)
                for queue, given in told.items()
            ]
            group = world(now)
            self.last = self.history.step(group if changed is None else changed(group), Readings.of(readings))
        return self

    def found(self):
        """Codes of the last round, and their states."""
        return {
            (j.finding.code, j.finding.queue, j.judgement.state)
            for j in self.last.judged
            if j.finding.code in OFFSET_CODES
        }

    def incidents(self):
        """Those of these codes: groups that are made to stand or to jump consume nothing, or fall behind."""
        found = {tuple(cause): i.state for cause, i in self.history.ledger.incidents.items()}
        return {cause: state for cause, state in found.items() if cause[0] in OFFSET_CODES}


def set_back(second):
    return {A1: (second, second - 5000 if second > 5000 else 7)}


def test_a_group_that_keeps_up_has_no_finding():
    assert Walked().rounds(count=40).incidents() == {}


def test_a_round_that_shows_what_the_last_one_did_is_judged_where_its_readings_say_something():
    made = GroupHistory(("c", "", "g"), NO_GRACE)

    def readings(number, offset):
        return Readings.of(
            [Reading(("T", *queue), BEGIN_MS + number * 15_000, 100 * number, offset) for queue in (A0, A1, B0)]
        )

    for number in range(10):
        made.step(world(BEGIN_MS + number * 15_000), readings(number, 100 * number), signature=7)
    assert made.repeat(7, BEGIN_MS + 150_000, (None, None), readings(10, 1000))
    assert not made.repeat(7, BEGIN_MS + 165_000, (None, None), readings(11, 5))


def shown_at(now, mode, began):
    """A round whose first queue is held as the mode says, since it began."""
    waiting = {"last_pull_at": began, "last_consume_at": began, "cached_messages": 5}
    told = {"well": None, "other": {A1: ("c2",)}, "twice": {A1: ("c1", "c2")}, "nobody": {A1: ()}}
    return world(now, {A1: [owner("c1", now, **waiting)]} if mode == "stalled" else told[mode])


def oldest_of(group):
    owners = [one for topic in group.topics for of_queue in topic.owners.values() for one in of_queue]
    pulled = [one.last_pull_at for one in owners if one.last_pull_at]
    consumed = [one.last_consume_at for one in owners if one.last_consume_at and one.cached_messages]
    return min(pulled, default=None), min(consumed, default=None)


@pytest.mark.parametrize("every", [1, 4, 7])  # rounds from one reading of offsets to the next
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 8))])
def test_rounds_that_show_the_same_say_what_they_say_when_all_rules_are_asked(seed, every):
    rng = random.Random(seed)
    asked, passed = GroupHistory(("c", "", "g"), default_timing()), GroupHistory(("c", "", "g"), default_timing())
    mode, offsets, began, ways = "well", "even", BEGIN_MS, Counter()
    for number in range(400):
        now = BEGIN_MS + number * STEP_S * 1000
        if rng.random() < 0.05:
            mode, began = rng.choice(["well", "well", "other", "other", "twice", "nobody", "stalled"]), now
        if rng.random() < 0.05:
            offsets = rng.choice(["even", "even", "alone", "back"])
        behind = {"even": 0, "alone": 40, "back": 90}[offsets]
        told = Readings.of(
            Reading(("T", *queue), now, 10 * number, max(0, 10 * number - behind * (queue == A1)))
            for place, queue in enumerate((A0, A1, B0))
            if (number + place // 2) % every == 0 or every == 1
        )
        group = shown_at(now, mode, began)
        judged = asked.step(group, told).judged
        if passed.repeat(mode, now, oldest_of(group), told):
            assert not judged
            ways["repeat"] += 1
            ways["silent"] += bool(passed.silent)
        else:
            ways["part" if passed.asked is not None else "all"] += 1
            assert [one.finding for one in passed.step(group, told, signature=mode).judged] == [
                one.finding for one in judged
            ]
        assert passed.to_json() == asked.to_json()
    assert ways["repeat"] > 0 and ways["part"] > 20 and ways["all"] > 20
    assert (ways["silent"] > 0) == (every == 4) or every > 4


class TestRewound:
    def test_it_opens_with_the_second_reading_and_closes_where_the_group_was(self):
        walked = Walked().rounds(count=10).rounds(set_back)
        assert walked.found() == set()
        walked.rounds(set_back)
        assert walked.found() == {("OFFSET_REWOUND", A1, "OPEN")}
        (one,) = [j.finding for j in walked.last.judged if j.finding.code == "OFFSET_REWOUND"]
        assert one.since == BEGIN_MS + 11 * STEP_S * 1000 and one.trust == "certain"
        assert one.sentence.startswith("the offset of g in queue 1 of T@broker-a stands at 7, after 150, since ")
        walked.rounds(count=6)
        assert walked.incidents() == {("OFFSET_REWOUND", "T"): "RESOLVED"}

    def test_an_offset_that_nobody_committed_is_said_so(self):
        walked = Walked().rounds(count=10).rounds(lambda second: {A1: (second, 0)}, 2)
        (one,) = [j.finding for j in walked.last.judged if j.finding.code == "OFFSET_REWOUND"]
        assert one.kind == "NOT_COMMITTED" and "is not committed any more, after 150" in one.sentence

    def test_where_two_hold_the_queue_or_share_an_id_nothing_is_said(self):
        for changed in (
            lambda group: world(group.at, {A1: ("c1", "c2")}),
            lambda group: world(group.at, members=("c1", "c1", "c2")),
        ):
            walked = Walked().rounds(count=10).rounds(set_back, 5, changed=changed)
            assert walked.found() == set()

    def test_while_a_member_is_silent_it_is_possible_only(self):
        walked = Walked().rounds(count=10).rounds(set_back, 3, changed=lambda group: world(group.at, silent=("c2",)))
        assert {j.finding.trust for j in walked.last.judged if j.finding.code == "OFFSET_REWOUND"} == {"possible"}

    def test_after_a_join_it_is_muted(self):
        walked = Walked(default_timing()).rounds(count=10)
        walked.rounds(set_back, 2, changed=lambda group: world(group.at, members=("c1", "c2", "c3")))
        assert walked.found() == {("OFFSET_REWOUND", A1, "SUPPRESSED")}

    def test_without_a_valid_reading_it_is_neither_true_nor_over(self):
        walked = Walked().rounds(count=10).rounds(set_back, 2)
        for _ in range(20):
            walked.second += STEP_S
            walked.last = walked.history.step(world(BEGIN_MS + walked.second * 1000))
        assert walked.found() == set() and walked.incidents() == {("OFFSET_REWOUND", "T"): "OPEN"}


@pytest.mark.parametrize("seed", range(12))
def test_readings_that_show_the_same_leave_what_they_leave_when_each_is_taken_in(seed):
    """Most do; now and then messages come, wait, are consumed, skipped or deleted, or the topic is made anew."""
    rng, timing = random.Random(seed), default_timing()
    each, at_once, waited = GroupMemory(), GroupMemory(), 0
    queues = [("T", *A0), ("T", *A1), ("%RETRY%g", *B0), ("T", "__syslo__g", 0)]
    ends, committed, floors = [1000] * 4, [1000] * 4, [0] * 4
    for number in range(600):
        for place in range(4) if rng.random() < 0.15 else ():
            ends[place] += rng.choice((0, 0, 1, 50, -600 if rng.random() < 0.1 else 0))
            committed[place] = rng.choice((ends[place],) * 6 + (committed[place],) * 4 + (ends[place] - 400,))
            floors[place] += rng.choice((0, 0, 0, 300 if rng.random() < 0.1 else 0))
        now = BEGIN_MS + number * STEP_S * 1000
        told = queues if rng.random() < 0.98 else [*queues, queues[0]]
        rows = zip(told, [*ends, 7], [*committed, 7], [*floors, 0], strict=False)
        readings = Readings.of(
            Reading(queue, now + rng.randrange(900), end, own, rng.choice((None, 0.0, 1.5)), floor)
            for queue, end, own, floor in rows
        )
        for memory in (each, at_once):
            memory.take_readings(readings, timing)
        waited += at_once.is_behind
        each.catch_up(timing)
        assert at_once.offsets.speak(timing) == each.offsets.speak(timing)
        assert at_once.standing.stuck == each.standing.stuck
        if rng.random() < 0.05:
            at_once.catch_up(timing)
            assert at_once.to_state() == each.to_state()
            assert at_once.offsets.retries_a_minute() == each.offsets.retries_a_minute()
    assert waited > 20


def nobody(group):
    told = (Listing("broker-a", group.at, True, None, "f:list"),)
    return world(group.at, members=(), reads=[], listings=told)


def standing(second):
    return dict.fromkeys((A0, A1, B0), (second, 10))


def skipped(second):
    return standing(second) | {A0: (second, 400)}


class TestJumped:
    def test_what_went_ahead_while_nobody_was_there_is_found(self):
        walked = Walked().rounds(standing, 30, tps=0.0, changed=nobody).rounds(skipped, 2, tps=0.0, changed=nobody)
        assert walked.found() == {("OFFSET_JUMPED", A0, "OPEN")}
        (one,) = [j.finding for j in walked.last.judged if j.finding.code == "OFFSET_JUMPED"]
        assert one.trust == "possible" and "went from 10 to 400" in one.sentence and "390 messages" in one.sentence

    @pytest.mark.parametrize(
        "there",
        [
            lambda group: world(group.at),
            lambda group: replace(nobody(group), through_proxy=True),
            lambda group: replace(nobody(group), listings=(Listing("b", group.at, False, 206, "f"),), listed=False),
        ],
        ids=["a member", "a proxy", "nobody told"],
    )
    def test_where_somebody_may_be_there_nothing_is_said(self, there):
        walked = Walked().rounds(standing, 30, tps=0.0, changed=nobody)
        assert walked.rounds(skipped, 2, tps=0.0, changed=there).found() == set()
        earlier = Walked().rounds(standing, 30, tps=0.0, changed=there)
        assert earlier.rounds(skipped, 2, tps=0.0, changed=nobody).found() == set()


def test_messages_that_were_deleted_unread_are_an_incident_until_the_group_is_past_them():
    walked = Walked().rounds(standing, 4, floor=5)
    assert walked.found() == set()
    walked.rounds(standing, 2, floor=50)
    assert walked.found() == {("MESSAGES_LOST", queue, "OPEN") for queue in (A0, A1, B0)}
    assert any("40 messages of queue 0 of T@broker-a" in j.finding.sentence for j in walked.last.judged)
    walked.rounds(count=6, floor=50)
    assert walked.incidents() == {("MESSAGES_LOST", "T"): "RESOLVED"}


def test_messages_that_the_next_deletion_takes_are_an_incident_until_the_group_is_ahead_of_it():
    def behind(second):
        return {A1: (second, 210), B0: (second, 210)}

    walked = Walked().rounds(behind, 14, floor=1).rounds(behind, 6, floor=101)
    assert walked.found() == set()  # 109 lie before it, and 100 were deleted
    walked.rounds(behind, 2, floor=205)
    assert walked.found() == {("MESSAGES_AT_RISK", queue, "OPEN") for queue in (A1, B0)}
    one, _ = [j.finding for j in walked.last.judged if j.finding.code == "MESSAGES_AT_RISK"]
    assert one.trust == "possible" and "120 messages behind in queue 1 of T@broker-a, and 5 lie before" in one.sentence
    assert one.sentence.endswith("the broker's last deletion took 104, the group read 0 before it.")
    walked.rounds(count=6, floor=205)
    assert walked.incidents() == {("MESSAGES_AT_RISK", "T"): "RESOLVED"}


def lone(second):
    return {A1: (second, min(second, 100))}


class TestLagsAlone:
    def test_one_queue_that_lags_is_an_incident_within_three_minutes(self):
        walked = Walked().rounds(count=10).rounds(lone, 4)
        assert walked.found() == {("QUEUE_LAGS_ALONE", A1, "PENDING")}
        walked.rounds(lone, 5)
        assert walked.found() == {("QUEUE_LAGS_ALONE", A1, "OPEN")}
        assert walked.incidents() == {("QUEUE_LAGS_ALONE", "T"): "OPEN"}

    def test_without_an_owner_or_with_another_queue_that_lags_it_is_none(self):
        def both(second):
            return lone(second) | {B0: (second, min(second, 100))}

        assert Walked().rounds(count=10).rounds(both, 30).found() == set()
        walked = Walked().rounds(count=10).rounds(lone, 30, changed=lambda group: world(group.at, {A1: ()}))
        assert walked.found() == set()


def test_retries_that_come_fast_are_an_incident_and_few_are_none():
    def retries(rate):
        return lambda second: {("%RETRY%g", "broker-a", 0): (second * rate // 60, second * rate // 60)}

    assert Walked().rounds(retries(40), 30).found() == set()
    walked = Walked().rounds(retries(90), 20)
    assert walked.found() == {("RETRIES_GROW", None, "OPEN")}
    assert walked.incidents() == {("RETRIES_GROW", "%RETRY%g"): "OPEN"}
    (one,) = [j.finding for j in walked.last.judged if j.finding.code == "RETRIES_GROW"]
    assert one.sentence == "90 messages a minute come to %RETRY%g: g fails to consume them, or answers too late."


@pytest.mark.parametrize("topic", ["%RETRY%g_T", "%RETRY%g+T"])
def test_what_comes_back_to_a_group_that_pops_is_said_so(topic):
    walked = Walked().rounds(lambda second: {(topic, "broker-a", 0): (2 * second, 2 * second)}, 20)
    assert walked.incidents() == {("RETRIES_GROW", topic): "OPEN"}
    (one,) = [j.finding for j in walked.last.judged if j.finding.code == "RETRIES_GROW"]
    assert one.sentence.endswith(f"come to {topic}: g popped them and did not acknowledge them while they were hidden.")


def test_a_dead_letter_is_told_for_ten_minutes():
    def given_up(group):
        return replace(group, dead_letters=DeadLetters(BEGIN_MS + 60_000, 3))

    walked = Walked().rounds(count=4).rounds(changed=given_up)
    assert walked.found() == {("DEAD_LETTERS", None, "OPEN")}
    walked.rounds(count=39, changed=given_up)
    assert walked.found() == {("DEAD_LETTERS", None, "OPEN")}
    walked.rounds(count=6, changed=given_up)
    assert walked.incidents() == {("DEAD_LETTERS", ""): "RESOLVED"}
