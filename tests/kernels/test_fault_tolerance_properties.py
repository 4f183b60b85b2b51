"""What must hold of the fault table for any ladder, any updates and any route."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.fault_tolerance import (
    PROFILES,
    FaultItem,
    FaultTable,
    LadderTooShortError,
    RouteBroker,
    compute_not_available_duration,
)
from tests.random_examples import examples

BROKERS = ("a", "b", "c", "d", "e")
PROFILE_IDS = st.sampled_from(sorted(PROFILES))
SINCE_5_1_4 = st.sampled_from([profile_id for profile_id in PROFILES if PROFILES[profile_id].extend_only])
LADDERS = st.lists(st.integers(-100, 40_000), max_size=4).map(tuple)
LATENCIES = st.integers(-100, 40_000)


class Update(NamedTuple):
    broker_name: str
    latency_ms: int
    isolation: bool
    now_ms: int
    reachable: bool


UPDATES = st.lists(
    st.builds(
        Update,
        st.sampled_from(BROKERS),
        LATENCIES,
        st.booleans(),
        st.integers(0, 60_000),
        st.booleans(),
    ),
    max_size=12,
)
QUEUE_BROKERS = st.lists(st.sampled_from(BROKERS), max_size=6)
ROUTES = st.lists(st.builds(RouteBroker, st.sampled_from(BROKERS), st.integers(0, 2), st.booleans()), max_size=6)
LAST = st.none() | st.sampled_from(BROKERS)


def table_after(profile_id: str, updates: list[Update]) -> FaultTable:
    table = FaultTable(PROFILES[profile_id])
    for broker_name, *rest in updates:
        table.update(broker_name, **dict(zip(Update._fields[1:], rest, strict=True)))
    return table


@examples(7, 30)
@given(LADDERS, LADDERS, st.lists(st.tuples(LATENCIES, st.booleans()), min_size=1, max_size=6))
def test_one_update_shuns_for_the_computed_duration_whatever_the_ladders(
    latency_max_ms: tuple[int, ...], not_available_ms: tuple[int, ...], sends: list[tuple[int, bool]]
) -> None:
    profile = replace(PROFILES["P40"], latency_max_ms=latency_max_ms, not_available_ms=not_available_ms)
    for latency_ms, isolation in sends:
        table = FaultTable(profile, items={"b": FaultItem(1, 2, True)})
        try:
            one = compute_not_available_duration(np.array([latency_ms]), np.array([isolation]), profile)
        except LadderTooShortError:
            with pytest.raises(LadderTooShortError):
                table.update("b", latency_ms=latency_ms, isolation=isolation, now_ms=5)
            assert table.items() == {"b": FaultItem(1, 2, True)}, "the table is left alone"
        else:
            table.update("b", latency_ms=latency_ms, isolation=isolation, now_ms=5)
            assert table.items() == {"b": FaultItem(latency_ms, 5 + int(one[0]), True)}


@examples(5, 15)
@given(SINCE_5_1_4, UPDATES)
def test_no_window_ends_earlier_than_an_update_before_it_said_since_5_1_4(
    profile_id: str, updates: list[Update]
) -> None:
    ends: dict[str, int] = {}
    for count, update in enumerate(updates, start=1):
        item = table_after(profile_id, updates[:count]).items()[update.broker_name]
        assert (item.start_ms or 0) >= ends.get(update.broker_name, 0)
        ends[update.broker_name] = item.start_ms or 0


@examples(7, 30)
@given(PROFILE_IDS, UPDATES, QUEUE_BROKERS, ROUTES, LAST, st.integers(0, 60_000))
def test_a_choice_is_a_broker_of_the_list_or_one_with_write_queues(
    profile_id: str,
    updates: list[Update],
    queue_brokers: list[str],
    route: list[RouteBroker],
    last: str | None,
    now_ms: int,
) -> None:
    table = table_after(profile_id, updates)
    before = table.items()
    admissible = table.admissible(queue_brokers, route, now_ms, last)
    assert bool(admissible) == bool(queue_brokers)
    assert admissible <= set(queue_brokers) | {b.broker_name for b in route if b.write_queue_nums > 0}
    assert table.possible_removals(queue_brokers, route, now_ms, last) <= set(before)
    assert table.items() == before


def test_a_ladder_that_is_too_short_is_named_with_the_latency() -> None:
    profile = replace(PROFILES["P533"], not_available_ms=(0, 0, 2000))
    fine = compute_not_available_duration(np.array([0, 550]), np.array([False, False]), profile)
    assert fine.tolist() == [0, 2000]
    with pytest.raises(LadderTooShortError, match="latency 1800 ms is on rung 3 of latency_max_ms"):
        compute_not_available_duration(np.array([550, 1800]), np.array([False, False]), profile)


def test_durations_keep_the_shape_and_refuse_what_is_no_whole_number() -> None:
    profile = PROFILES["P40"]
    empty = compute_not_available_duration(np.array([], dtype=np.int64), np.array([], dtype=np.bool_), profile)
    assert empty.shape == (0,)
    assert empty.dtype == np.int64
    with pytest.raises(TypeError, match="float64"):
        compute_not_available_duration(np.array([550, np.nan]), np.array([False, False]), profile)
