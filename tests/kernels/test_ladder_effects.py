"""What ladders would do, against the fault table of the client itself, millisecond by millisecond."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hindsight.udfs.fault_tolerance import FaultTable
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.scenarios.ladder_effects import (
    Effect,
    Health,
    Sends,
    Spans,
    defaults,
    effect,
    frontier,
    health_of,
    on_trial,
    windows,
)

BROKER, LONGEST = "broker-a", 120
NONE = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
LADDERS = [
    replace(PROFILES[name], latency_max_ms=(2, 5, 8), not_available_ms=avoid, isolation_latency_ms=6)
    for name in ("P498", "P533")
    for avoid in ((3, 9, 20), (0, 4, 40), (0, 0, 0))
]
ONE_SEND = st.tuples(st.integers(0, 60), st.integers(1, 12), st.booleans(), st.booleans())


@st.composite
def recorded(draw: st.DrawFn) -> Sends:
    sends = sorted(draw(st.lists(ONE_SEND, min_size=1, max_size=12)), key=lambda send: send[0] + send[1])
    begin, latency, fails, updates = (np.array(column) for column in zip(*sends, strict=True))
    bad = fails | (latency >= 5)
    return Sends(begin, begin + latency, latency, fails, updates, bad, np.zeros(0, np.int64))


def milliseconds(spans: Spans) -> set[int]:
    return {at for start, end in zip(*spans, strict=True) for at in range(start, end)}


def replayed(sends: Sends, profile, *, update_first: bool) -> tuple[set[int], int]:
    """When a client with this ladder avoids the broker, and how many bad sends it makes, if it makes the recorded sends
    except those that begin while it avoids the broker."""
    table, made, avoided = FaultTable(profile), set(), set()
    for now in range(2 * LONGEST):
        for happens in ("update", "choose") if update_first else ("choose", "update"):
            for place in range(len(sends.end)):
                if happens == "choose" and sends.begin[place] == now and table.is_available(BROKER, now):
                    made.add(place)
                if happens == "update" and sends.end[place] == now and sends.updates[place] and place in made:
                    latency, isolates = int(sends.latency[place]), bool(sends.isolates[place])
                    table.update(BROKER, latency_ms=latency, isolation=isolates, now_ms=now)
        if not table.is_available(BROKER, now):
            avoided.add(now)
    return avoided, sum(bool(sends.is_bad[place]) for place in made)


SAME_MS = Sends(*(np.array(column) for column in ((40, 52), (52, 57), (12, 5), *3 * [(False, True)], ())))


@settings(max_examples=150, deadline=None)
@given(recorded(), st.sampled_from(LADDERS), st.booleans())
@example(SAME_MS._replace(updates=np.array([True, False]), is_bad=np.array([True, True])), LADDERS[0], False)
def test_a_client_avoids_a_broker_within_both_bounds(sends, profile, update_first):
    avoided, bad = replayed(sends, profile, update_first=update_first)
    least, most, _ = windows(sends, profile)
    assert milliseconds(least) <= avoided
    assert effect(sends, Health(NONE, NONE), profile, NONE).met_least <= bad
    assert avoided <= milliseconds(most)
    assert bad <= effect(sends, Health(NONE, NONE), profile, NONE).met_most


@settings(max_examples=150, deadline=None)
@given(st.lists(ONE_SEND, min_size=1, max_size=12), st.integers(0, 10))
def test_a_broker_is_sick_or_healthy_where_sends_say_so_and_else_nobody_knows(sends, near):
    begin, latency, bad, _ = (np.array(column) for column in zip(*sends, strict=True))
    end = begin + latency
    found = health_of(begin, end, bad, near_ms=near)
    order = np.argsort(end, kind="stable")
    said: dict[bool, set[int]] = {True: set(), False: set()}
    before: int | None = None
    for place in order.tolist():
        until = max(int(end[place]), int(begin[place]) + 1)
        since = int(begin[place])
        if before is not None and bool(bad[before]) == bool(bad[place]):
            last = max(int(end[before]), int(begin[before]) + 1)
            since = min(since, last) if since - last <= near else since
        said[bool(bad[place])] |= set(range(since, until))
        before = place
    assert milliseconds(found.sick) == said[True] - said[False]
    assert milliseconds(found.healthy) == said[False] - said[True]
    assert found.sick.length() == len(milliseconds(found.sick))


@settings(max_examples=100, deadline=None)
@given(recorded(), st.sampled_from(LADDERS), st.lists(st.integers(0, 80), max_size=6), st.data())
def test_an_effect_counts_what_lies_in_the_record(sends, profile, elsewhere, data):
    spans = st.lists(st.integers(0, 80), min_size=2, max_size=6, unique=True).map(sorted)
    sick, healthy, own = (
        Spans(*(np.array(cuts[at : len(cuts) // 2 * 2 : 2]) for at in (0, 1)))
        for cuts in (data.draw(spans) for _ in "abc")
    )
    sends = sends._replace(elsewhere=np.array(elsewhere, np.int64))
    least, most, moved = map(milliseconds, windows(sends, profile))
    least, most = (each & set(range(sends.begin[0], sends.end[-1])) for each in (least, most))
    bad = sends.begin[sends.is_bad].tolist()
    come = [at for at in elsewhere if at in milliseconds(own) and at not in moved and at not in milliseconds(healthy)]
    assert effect(sends, Health(sick, healthy), profile, own) == Effect(
        len(least & milliseconds(healthy)),
        len(most - milliseconds(sick)),
        sum(at not in most for at in bad),
        sum(at not in moved for at in bad) + len(come),
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_the_frontier_is_what_nothing_beats(pairs):
    effects = [Effect(0, avoided, 0, met) for avoided, met in pairs]
    kept = [pairs[place] for place in frontier(effects)]
    assert len(set(kept)) == len(kept)
    assert set(kept) == {p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs)}
    assert not any(p[0] <= q[0] and p[1] <= q[1] for p, q in combinations(kept, 2))


def test_each_release_has_its_default_once_and_ladders_on_trial_follow_its_rules():
    assert sum(len(names.split("; ")) for names in defaults().values()) == len(PROFILES)
    assert [profile.id for profile in defaults()] == ["P40", "P514"]
    assert {trial.extend_only for trial in on_trial(PROFILES["P533"])} == {True}
