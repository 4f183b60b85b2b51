"""What brokers say of the ends of queues: what holds at an instant, however often it was said and in which order."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.drift.drift_cut import END_SCHEMA, cut_schema
from hindsight.schemas import QUEUE_PROGRESS
from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.owned_queues import Lags
from hindsight.udfs.consumer.queue_ends import QueueEnds

S = 1_000_000


def ends(*told, topic="T", collector="", broker="b"):
    """Rows: second, first and next offset, and the second at which the last message was stored."""
    rows = [
        {
            "collector": collector, "topic": topic, "broker_name": broker, "queue_id": 0, "captured_at": at * S,
            "min_offset": low, "max_offset": high, "last_update_at": None if stored is None else stored * S,
        }
        for at, low, high, stored in told
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=END_SCHEMA)


def test_the_first_offset_is_what_was_said_last_by_then():
    told = QueueEnds(ends((10, 0, 9, None), (20, 5, 9, None), (40, 0, 3, None)))
    assert [told.first_offset("", ("T", "b", 0), at * S) for at in (9, 10, 19, 20, 39, 40)] == [None, 0, 0, 5, 5, 0]
    assert told.first_offset("", ("T", "b", 1), 50 * S) is told.first_offset("other", ("T", "b", 0), 50 * S) is None


def test_dead_letters_are_those_of_all_queues_and_the_last_is_when_it_was_stored():
    rows = [ends((10, 0, 2, 3), (20, 0, 2, 3), (30, 0, 5, 29), topic="%DLQ%g"), ends((10, 0, 2, 9))]
    told = QueueEnds(pa.concat_tables(rows))
    assert told.dead_letters("", "g", 9 * S) is None and told.dead_letters("", "T", 99 * S) is None
    assert told.dead_letters("", "g", 29 * S) == (3000, 2)
    assert told.dead_letters("", "g", 30 * S) == (29_000, 5)


def test_a_dead_letter_queue_that_is_empty_has_no_last_message():
    assert QueueEnds(ends((10, 0, 0, None), topic="%DLQ%g")).dead_letters("", "g", 10 * S) == (0, 0)


said = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3), st.integers(3, 6)), max_size=30)


@given(said, st.randoms(use_true_random=False))
def test_what_was_said_last_holds_in_whatever_order_it_comes(told, draw: random.Random):
    rows = [(at, low, high, high) for at, low, high in {one[0]: one for one in told}.values()]
    draw.shuffle(rows)
    made = QueueEnds(pa.concat_tables([ends(*rows), ends(*rows, topic="%DLQ%g")]))
    for at in range(42):
        *_, last = [None, *sorted(row for row in rows if row[0] <= at)]
        assert made.first_offset("", ("T", "b", 0), at * S) == (last and last[1])
        assert made.dead_letters("", "g", at * S) == (last and (last[3] * 1000, last[2]))


@given(said, said)
def test_dead_letters_of_several_brokers_are_counted_together(of_b, of_c):
    brokers = {name: {one[0]: one for one in own} for name, own in (("b", of_b), ("c", of_c))}
    rows = [
        ends(*((at, low, high, high) for at, low, high in own.values()), topic="%DLQ%g", broker=name)
        for name, own in brokers.items()
    ]
    made = QueueEnds(pa.concat_tables(rows))
    for at in range(42):
        last = [
            max(row for row in own.values() if row[0] <= at)[2]
            for own in brokers.values()
            if min(own, default=99) <= at
        ]
        assert made.dead_letters("", "g", at * S) == ((max(last) * 1000, sum(last)) if last else None)


def test_what_was_said_counts_on_its_date_and_for_rounds_that_look_back_over_midnight():
    """Whether or not the dates before are looked at together with it."""
    day = 86_400
    for topic in ("T", "%DLQ%g"):
        early, late = (day - 601, 3, 5, 9), (day - 600, 3, 5, 9)
        for told, holds in (
            ([early], False),
            ([late], True),
            ([early, late], True),
            ([early, (day + 5, 3, 5, 9)], True),
        ):
            of_queue = QueueEnds(ends(*told, topic=topic), lookback_s=600)
            first, dead = (
                of_queue.first_offset("", (topic, "b", 0), (day + 9) * S),
                of_queue.dead_letters("", "g", (day + 9) * S),
            )
            assert first == (3 if holds else None)
            assert dead == ((9_000, 5) if holds and topic != "T" else None)
            assert of_queue.first_offset("", (topic, "b", 0), (day - 1) * S) == (None if told[0][0] > day else 3)


@given(st.data())
def test_a_reading_says_what_each_of_its_rows_says_whatever_it_shares_with_the_one_before(data):
    draw, day = data.draw, 86_400
    floors = [(draw(st.sampled_from((5, 12, 31, day - 20, day + 31))), draw(st.integers(0, 2)), 9, None) for _ in "abc"]
    told = QueueEnds(ends(*floors))
    queues = [("T", "b", 0), ("T", "b", 1), ("%RETRY%g", "b", 0)]
    rows, expected = [], {}
    for place, second in enumerate((10, 20, 30, 40, day - 10, day + 10, day + 20)):
        shown = queues[draw(st.sampled_from((0, 0, 0, 1))) :]
        end, own = draw(st.sampled_from((7, 7, 8))), draw(st.sampled_from((5, 5, 6)))
        at = [second * S + draw(st.sampled_from((1000, 3_000_000))) for _ in shown]
        group = "g" if place < 5 else "h"
        for (topic, broker, queue_id), read_at in zip(shown, at, strict=True):
            place_of = {"topic": topic, "broker_name": broker, "queue_id": queue_id}
            instants = {"captured_at": read_at, "round_at": second * S}
            offsets = {"broker_offset": end, "consumer_offset": own, "broker_asked": None, "consume_tps": 0.5}
            rows.append({"consumer_group": group, "collector": ""} | place_of | instants | offsets)
        expected[group, "", second * S] = Readings.of(
            Reading(queue, read_at // 1000, end, own, 0.5, told.first_offset("", queue, read_at))
            for queue, read_at in zip(shown, at, strict=True)
        )
    progress = pa.Table.from_pylist(rows, schema=cut_schema(QUEUE_PROGRESS.name))
    lags = Lags(progress, told)
    for key in [*expected, *expected]:
        assert lags.of(key) == expected[key]
