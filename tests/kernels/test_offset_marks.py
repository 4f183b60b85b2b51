"""Readings of one group's offsets: what is found of them, and the disturbances of which nothing may be found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.consumer.offset_marks import OffsetMarks, Reading, Readings
from tests.default_timing import default_timing

QUEUE = ("T", "broker-a", 0)
TIMING = default_timing()
STEP_S = 15


def taken(offsets, *, step_s=STEP_S, queue=QUEUE, tps=None, floor=None, marks=None, begin_s=0):
    """Marks after readings that lie ``step_s`` apart; offsets: of the broker and of the group."""
    marks = marks or OffsetMarks()
    for number, (broker, consumer) in enumerate(offsets):
        at = (begin_s + number * step_s) * 1000
        marks.take(Readings.of([Reading(queue, at, broker, consumer, tps, floor)]), TIMING)
    return marks


def consuming(readings, rate=10, lag=3):
    """A group that keeps up: so many readings."""
    return [(1000 + rate * n + lag, 1000 + rate * n) for n in range(readings)]


def back(marks, queue=QUEUE):
    found = marks.marks[queue].back
    return found is not None and found.confirmed


def ahead(marks):
    found = marks.marks[QUEUE].ahead
    return found is not None and found.confirmed


class TestBack:
    def test_an_offset_that_is_reset_is_back_in_the_second_reading(self):
        marks = taken([*consuming(8), (1083, 400)])
        assert not back(marks)
        marks = taken([(1093, 450)], marks=marks, begin_s=8 * STEP_S)
        assert not back(marks)  # the same instant: nothing later was read
        marks = taken([(1093, 450)], marks=marks, begin_s=9 * STEP_S)
        assert back(marks) and marks.marks[QUEUE].back.high == 1070 and QUEUE in marks.speaking

    def test_it_is_over_when_the_group_has_come_as_far_again(self):
        low = [(1083, 400), (1093, 500)]
        assert back(taken([*consuming(8), *low, (1103, 1069)]))
        again = taken([*consuming(8), *low, (1103, 1070)])
        assert not back(again) and QUEUE not in again.speaking

    def test_a_group_that_has_no_offset_any_more_is_back(self):
        for none in (0, -1):
            assert back(taken([*consuming(8), (1083, none), (1093, none)]))

    def test_a_late_commit_that_the_owner_corrects_is_nothing(self):
        """A frozen client wakes up and commits what it held; the owner commits its own 5 s later."""
        marks = taken([*consuming(8), (1083, 400), *((1083 + 10 * n, 1080 + 10 * n) for n in range(4))])
        assert not back(marks) and QUEUE not in marks.speaking

    def test_what_lies_no_further_back_than_a_minute_ago_is_nothing_however_long_it_stays(self):
        """A broker that died lost its last commits; a slave has them 10 s late, and answers for long."""
        assert not back(taken([*consuming(8), *[(1083, 1050)] * 40]))

    def test_what_lies_further_back_stays_found(self):
        assert back(taken([*consuming(8), *[(1083, 900)] * 40]))

    @pytest.mark.parametrize("then", [(50, 0), (50, 40), (1040, 600)])
    def test_of_a_queue_made_anew_or_of_another_broker_nothing_is_said(self, then):
        assert not back(taken([*consuming(8), then, *[then] * 20]))

    def test_an_offset_beyond_what_a_new_queue_holds_is_corrected_without_a_finding(self):
        assert not back(taken([*consuming(8), (10, 1070), (12, 1070), *[(20, 12)] * 20]))

    def test_an_offset_beyond_the_end_that_is_set_to_the_end_was_never_so_far(self):
        assert not back(taken([*[(100, 50)] * 6, *[(101, 500)] * 8, *[(102, 101)] * 20]))

    def test_one_reading_by_itself_or_two_that_are_too_near_say_nothing(self):
        assert not back(taken([*consuming(8), (1083, 400)]))
        marks = taken([*consuming(8), (1083, 400)])
        assert not back(taken([(1084, 400)], marks=marks, begin_s=7 * STEP_S + STEP_S + 9))
        assert back(taken([(1084, 400)], marks=marks, begin_s=7 * STEP_S + STEP_S + 10))

    def test_readings_out_of_order_change_nothing(self):
        marks = taken(consuming(20))
        before = json.dumps(marks.to_state())
        taken([(500, 100)] * 5, marks=marks, begin_s=10)
        assert json.dumps(marks.to_state()) == before

    def test_logical_queues_of_static_topics_are_left_out(self):
        assert taken([(9, 9)] * 9, queue=("T", "__syslo__g", 0)).marks == {}


STOOD = tuple((2000 + n, 1000) for n in range(8))


class TestAhead:
    def test_an_offset_that_stood_and_went_ahead_with_nothing_handed_out_is_skipped(self):
        marks = taken([*STOOD, (2008, 2008), (2009, 2008)], tps=0.0)
        assert ahead(marks)
        found = marks.marks[QUEUE].ahead
        assert (found.consumer_offset_then, found.consumer_offset, found.stood_at) == (1000, 2008, 7 * STEP_S * 1000)

    def test_where_messages_were_handed_out_or_nobody_says_nothing_is_said(self):
        for tps in (0.5, None):
            assert not ahead(taken([*STOOD, (2008, 2008), (2009, 2008)], tps=tps))
        handed_later = taken([*STOOD, (2008, 2008)], tps=0.0)
        assert not ahead(taken([(2009, 2008)], tps=16.7, marks=handed_later, begin_s=9 * STEP_S))

    def test_a_group_that_goes_on_moving_was_not_skipped(self):
        assert not ahead(taken([*STOOD, (2008, 1500), (2009, 2000), (2010, 2010)], tps=0.0))

    def test_readings_further_apart_than_the_broker_counts_say_nothing(self):
        assert not ahead(taken([*STOOD, (2008, 2008), (2009, 2008)], tps=0.0, step_s=55))

    def test_a_master_that_is_back_after_its_slave_has_skipped_nothing(self):
        """The slave stands where the master stood 10 s before it died."""
        shown = [*consuming(8), *[(1080, 1060)] * 20, (1090, 1070), (1090, 1070)]
        assert not ahead(taken(shown, tps=0.0))

    def test_it_is_told_for_ten_minutes(self):
        shown = [*STOOD, (2008, 2008), (2009, 2008)]
        assert ahead(taken([*shown, *[(2009, 2008)] * 38], tps=0.0))
        assert not ahead(taken([*shown, *[(2009, 2008)] * 40], tps=0.0))


class TestLost:
    def test_messages_before_the_first_that_is_there_are_lost(self):
        assert taken([(900, 100)], floor=300).marks[QUEUE].lost == 200

    @pytest.mark.parametrize("consumer", [0, -1, 300, 900])
    def test_nothing_is_lost_that_was_read_or_of_a_group_that_never_committed(self, consumer):
        assert taken([(900, consumer)], floor=300).speaking == set()

    def test_a_first_offset_beyond_the_next_is_of_another_broker(self):
        assert taken([(200, 100)], floor=300).speaking == set()


def deleted(shown, *, step_s=60):
    """Marks after readings a minute apart; ``shown``: offsets of the broker, of the group, and the first there is."""
    marks = OffsetMarks()
    for number, (broker, consumer, floor) in enumerate(shown):
        taken([(broker, consumer)], marks=marks, begin_s=number * step_s, floor=floor)
    return marks


class TestAtRisk:
    STANDS = ((1000, 500, 100), (1100, 500, 100), (1200, 500, 100))

    def test_a_group_that_stands_nearer_to_the_first_than_the_last_deletion_reached_is_at_risk(self):
        assert not deleted(self.STANDS).marks[QUEUE].at_risk
        marks = deleted([*self.STANDS, (1300, 500, 350)])
        assert marks.marks[QUEUE].at_risk and QUEUE in marks.speaking  # 150 before it, 250 deleted
        assert not deleted([*self.STANDS, (1300, 500, 290)]).marks[QUEUE].at_risk  # 210 before it, 190 deleted

    def test_how_fast_a_group_reads_is_known_after_two_deletions(self):
        """Each deletion takes 300, in between the group reads 100 or 400."""
        slow = [(1000, 400, 100), (1100, 420, 100), (1200, 500, 400), (1500, 550, 400), (1600, 600, 400)]
        assert not deleted(slow).marks[QUEUE].at_risk
        assert deleted([*slow, (1700, 705, 700), (1800, 710, 700)]).marks[QUEUE].at_risk
        quick = [(1000, 400, 100), (1100, 420, 100), (1200, 500, 400), (1500, 700, 400), (1600, 850, 400)]
        assert not deleted([*quick, (1700, 900, 700), (1800, 901, 700)]).marks[QUEUE].at_risk

    def test_of_a_group_that_has_read_everything_or_never_committed_nothing_is_at_risk(self):
        assert not deleted([(500, 500, 100), (500, 500, 100), (500, 500, 450)]).marks[QUEUE].at_risk
        assert not deleted([(1000, 0, 100), (1100, 0, 100), (1200, 0, 350)]).marks[QUEUE].at_risk

    def test_a_first_offset_that_goes_back_is_of_another_queue(self):
        marks = deleted([*self.STANDS, (1300, 500, 350), (1400, 500, 20)])
        assert not marks.marks[QUEUE].at_risk and QUEUE not in marks.speaking

    def test_what_is_lost_already_is_not_at_risk(self):
        mark = deleted([*self.STANDS, (1300, 500, 600)]).marks[QUEUE]
        assert mark.lost == 100 and not mark.at_risk


@given(rate=st.integers(1, 500), behind=st.floats(0, 1), cycles=st.integers(2, 12))
def test_who_reads_as_fast_as_messages_come_is_never_at_risk_however_far_behind(rate, behind, cycles):
    """Each deletion leaves what came in the last two cycles of four minutes; the group is up to all of that behind."""
    late = int(behind * 8 * rate)
    shown = [(rate * n, rate * n - late, rate * (n // 4 * 4 - 8)) for n in range(20, 20 + 4 * cycles)]
    marks = OffsetMarks()
    for number, (broker, consumer, floor) in enumerate(shown):
        marks.take(Readings.of([Reading(QUEUE, number * 60_000, broker, consumer, 0.0, floor)]), TIMING)
        assert not marks.marks[QUEUE].at_risk


class TestBehind:
    def test_a_queue_is_behind_by_what_waits_for_over_a_minute(self):
        marks = taken([(1000 + 10 * n, 900 + n) for n in range(12)])
        # The reading at 60 s is the last that is a minute old at 165 s: its messages still wait.
        assert marks.behind == {"T": {QUEUE}} and marks.marks[QUEUE].behind_s >= 60

    def test_whoever_keeps_up_is_not_behind_however_many_messages_come(self):
        assert taken(consuming(40, rate=5000, lag=4999)).behind == {}

    def test_every_queue_that_lags_is_behind(self):
        marks = taken([(1000 + 10 * n, 900 + n) for n in range(12)])
        other = ("T", "broker-a", 1)
        taken([(1000 + 10 * n, 900 + n) for n in range(12)], marks=marks, queue=other)
        assert marks.behind == {"T": {QUEUE, other}}

    def test_retries_are_counted_by_the_minute_over_all_brokers(self):
        marks = OffsetMarks()
        for broker in ("broker-a", "broker-b"):
            taken([(10 * n, 10 * n) for n in range(9)], marks=marks, queue=("%RETRY%g", broker, 0))
        assert marks.retries_a_minute() == {"%RETRY%g": pytest.approx(80)} and marks.speak(TIMING)
        still = taken([(5, 5)] * 9, queue=("%RETRY%g", "broker-a", 0))
        assert still.retries_a_minute() == {} and not still.speak(TIMING)


@st.composite
def calm_groups(draw):
    """Readings of a group that only ever consumes: commits come late, brokers restart, clients are frozen and wake."""
    broker, consumer, at, readings, committed = 0, 0, 0, [], []
    for _ in range(draw(st.integers(2, 60))):
        at += draw(st.integers(10, 60))
        broker += draw(st.integers(0, 2000))
        consumer = draw(st.integers(consumer, broker))
        committed.append((at, consumer))
        shown = consumer
        kind = draw(st.sampled_from(["", "", "", "", "slave", "woken"]))
        if kind == "slave":  # of the last 10 s: it has what was committed before
            shown = max((c for t, c in committed if t <= at - 10), default=0)
        elif kind == "woken" and not (readings and readings[-1][3]):
            shown = draw(st.integers(0, consumer))
        readings.append((at, broker, shown, kind == "woken"))
    return readings


@given(calm_groups())
def test_a_group_that_only_consumes_is_never_back(readings):
    marks = OffsetMarks()
    for number, (at, broker, consumer, woken) in enumerate(readings):
        marks.take(Readings.of([Reading(QUEUE, at * 1000, broker, consumer, 0.0, None)]), TIMING)
        is_lone = not woken or number == 0 or not readings[number - 1][3]
        assert not (back(marks) and is_lone)


@given(calm_groups(), st.data())
def test_the_state_that_is_carried_over_says_the_same(readings, data):
    cut = data.draw(st.integers(0, len(readings)))
    whole, parts = OffsetMarks(), OffsetMarks()
    for number, (at, broker, consumer, _) in enumerate(readings):
        if number == cut:
            parts = OffsetMarks.of_state(json.loads(json.dumps(parts.to_state())))
        for marks in (whole, parts):
            marks.take(Readings.of([Reading(QUEUE, at * 1000, broker, consumer, 0.0, 5)]), TIMING)
    assert (parts.to_state(), parts.speaking, parts.behind) == (whole.to_state(), whole.speaking, whole.behind)
