"""The stretches and items that a walk over arrays makes, versus the row-wise fault table on the same updates."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.fault_tolerance import PROFILES, FaultTable, not_available_duration
from hindsight.udfs.producer.attempt_columns import NEVER
from hindsight.udfs.producer.fault_fold import END_REASONS, OPEN, Items, Updates, joined, new_items, taken, walk

FAMILIES = tuple(PROFILES)
LADDERS = ((None, None), ((0, 10, 500), (7, 0, 2_000)), ((500, 10), (50, 3_000)))
STEPS = st.sampled_from((0, 0, 1, 2, 500, 2_000, 9_000, 31_000, 700_000))
LATENCIES = st.sampled_from((-5, 0, 9, 10, 40, 549, 550, 999, 1_800, 3_000, 15_000))
NOTHING = new_items(np.zeros(0, np.int64))


@st.composite
def streams(draw):
    """Three items of any family and ladder; their updates in order: (item, at, latency, isolation, reachable)."""
    profiles = []
    for _ in range(3):
        profile, (latencies, durations) = PROFILES[draw(st.sampled_from(FAMILIES))], draw(st.sampled_from(LADDERS))
        ladder = {} if latencies is None else {"latency_max_ms": latencies, "not_available_ms": durations}
        profiles.append(replace(profile, **ladder))
    at, updates = draw(st.sampled_from((0, 5))), []
    for _ in range(draw(st.integers(0, 40))):
        at += draw(STEPS)
        item = draw(st.integers(0, 2))
        isolation = draw(st.booleans())
        falls_back = not profiles[item].has_reachable
        latency = None if falls_back and draw(st.integers(0, 7)) == 0 else draw(LATENCIES)
        updates.append((item, at, latency, isolation, falls_back or not isolation or draw(st.booleans())))
    return profiles, updates


def columns(profiles, updates):
    """The updates as ``walk`` takes them: by item, in order."""
    rows = []
    for item, at, latency, isolation, reachable in sorted(updates, key=lambda u: u[0]):
        if latency is None:
            rows.append((item, at, 0, False, True, 0, True))
        else:
            held = not_available_duration(latency, isolation, profiles[item])
            rows.append((item, at, latency, isolation, reachable, held, False))
    kinds = (np.int64, np.int64, np.int64, np.bool_, np.bool_, np.int64, np.bool_)
    values = zip(*rows, strict=True) if rows else ([],) * len(kinds)
    u = Updates(*(np.array(column, kind) for column, kind in zip(values, kinds, strict=True)))
    return u, np.array([profile.extend_only for profile in profiles])[u.item]


def every(walked):
    """All stretches, those with their items too: state, and what is known of each."""
    found = set()
    for state, over, last in (
        ("unavailable", walked.held, walked.items.held),
        ("unreachable", walked.down, walked.items.down),
    ):
        made = joined(over, taken(last, last.since != NEVER))
        found |= {(state, *row) for row in zip(*(column.tolist() for column in made), strict=True)}
    return found


def items_of(items: Items):
    there = ~items.absent
    start = [None if s == NEVER else s for s in items.start[there].tolist()]
    return dict(
        zip(
            items.item[there].tolist(),
            zip(items.latency[there].tolist(), start, items.reachable[there].tolist(), strict=True),
            strict=True,
        )
    )


def apply(tables, update):
    item, at, latency, isolation, reachable = update
    if latency is None:
        tables[item].remove("b")
    else:
        tables[item].update("b", latency_ms=latency, isolation=isolation, now_ms=at, reachable=reachable)


@given(streams())
def test_a_broker_is_unavailable_exactly_inside_its_stretches(stream):
    profiles, updates = stream
    stretches = every(walk(NOTHING, *columns(profiles, updates)))
    tables, pending = [FaultTable(profile) for profile in profiles], list(updates)
    steps = (0, 1, 6, 7, 50, 2_000, 3_000, 10_000, 30_000, 600_000)
    for ms in sorted({at + step for _, at, *_ in updates for step in steps}):
        while pending and pending[0][1] <= ms:
            apply(tables, pending.pop(0))
        inside = {(state, item) for state, item, since, until, *_ in stretches if since <= ms < until}
        for item, table in enumerate(tables):
            unreachable = ("unreachable", item) in inside
            gated = profiles[item].reachable_gates_availability and unreachable
            assert (("unavailable", item) in inside or gated) == (not table.is_available("b", ms))
            assert unreachable == (not table.is_reachable("b"))


@given(streams())
def test_items_are_those_of_the_table(stream):
    profiles, updates = stream
    tables = [FaultTable(profile) for profile in profiles]
    for update in updates:
        apply(tables, update)
    expected = {item: tuple(table.items()["b"]) for item, table in enumerate(tables) if table.items()}
    assert items_of(walk(NOTHING, *columns(profiles, updates)).items) == expected


@given(streams(), st.lists(st.integers(0, 40), max_size=4))
def test_a_walk_in_parts_gives_what_one_walk_gives(stream, cuts):
    profiles, updates = stream
    whole = walk(NOTHING, *columns(profiles, updates))
    items, found = NOTHING, set()
    edges = sorted({0, *cuts, len(updates)})
    for since, until in pairwise(edges):
        part = walk(items, *columns(profiles, updates[since:until]))
        found |= every(part._replace(items=part.items._replace(held=part.held, down=part.down)))
        items = part.items
    last = [taken(s, s.since != NEVER) for s in (items.held, items.down)]
    found |= {
        (state, *row)
        for state, made in zip(("unavailable", "unreachable"), last, strict=True)
        for row in zip(*(column.tolist() for column in made), strict=True)
    }
    assert found == every(whole)
    assert items_of(items) == items_of(whole.items)


@given(streams())
def test_stretches_of_one_item_and_state_are_in_order_and_apart(stream):
    last = {}
    for state, item, since, until, reason, count, *_ in sorted(every(walk(NOTHING, *columns(*stream)))):
        assert last.get((state, item), -1) <= since <= until
        assert count >= 1
        assert (reason == OPEN) == (until == 1 << 50)
        last[state, item] = until


def stretches_of(family, *updates):
    """(since, until, why) of one item's stretches; ``updates``: (at, latency), latency None: forgotten."""
    rows = [(0, at, latency, False, True) for at, latency in updates]
    made = every(walk(NOTHING, *columns([PROFILES[family]], rows)))
    return sorted((since, until, END_REASONS[why]) for _, _, since, until, why, *_ in made)


def test_stretches_that_adjoin_are_one():
    assert stretches_of("P49c", (5, 550), (30_005, 550)) == [(5, 60_005, "expired")]
    assert stretches_of("P533", (5, 550), (2_005, 550)) == [(5, 4_005, "expired")]
    assert stretches_of("P49c", (5, 550), (30_006, 550)) == [(5, 30_005, "expired"), (30_006, 60_006, "expired")]


def test_a_stretch_says_what_ended_it():
    assert stretches_of("P49c", (5, 550), (9, 3)) == [(5, 9, "overwritten")]
    assert stretches_of("P49c", (5, 550), (9, None)) == [(5, 9, "removed")]
    assert stretches_of("P533", (5, 550), (9, 3)) == [(5, 2_005, "expired")]


def test_it_says_so_as_well_when_the_end_comes_in_a_later_part():
    first = walk(NOTHING, *columns([PROFILES["P49c"]], [(0, 5, 550, False, True)]))
    for latency, why in ((3, "overwritten"), (None, "removed")):
        after = walk(first.items, *columns([PROFILES["P49c"]], [(0, 9, latency, False, True)]))
        ((_, _, since, until, reason, *_),) = every(after)
        assert (since, until, END_REASONS[reason]) == (5, 9, why)


def test_what_was_overwritten_is_not_gone_on_with():
    first = walk(NOTHING, *columns([PROFILES["P49c"]], [(0, 5, 550, False, True), (0, 9, 3, False, True)]))
    after = walk(first.items, *columns([PROFILES["P49c"]], [(0, 9, 550, False, True)]))
    assert sorted(row[2:4] for row in every(after)) == [(5, 9), (9, 30_009)]
