"""Bounded series: never more names than allowed, the heaviest of them, and nothing lost of the sum."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.metrics.gauges import OTHER, bounded

CLUSTERS, NAMES, KINDS = ("c", "d"), ("a", "b", "e", "f", OTHER), ("x", "y")
LABELS = st.tuples(st.sampled_from(CLUSTERS), st.sampled_from(NAMES), st.sampled_from(KINDS))
SERIES = st.dictionaries(LABELS, st.integers(0, 5).map(float))
MOST = st.integers(1, 20)


def by_rest(series: dict[tuple[str, ...], float]) -> dict[tuple[str, str], float]:
    """Sums by cluster and kind."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for (cluster, _, kind), value in series.items():
        sums[cluster, kind] += value
    return dict(sums)


@given(SERIES, MOST)
def test_no_more_series_stand_by_name_than_allowed_and_sums_stay(values, most):
    found = bounded(values, most, sum)
    named = {labels for labels in found.series if labels[1] != OTHER}
    assert len(named) <= most
    assert all(found.series[labels] == values[labels] for labels in named)
    assert found.left_out == len(values) - len(named)
    assert by_rest(found.series) == by_rest(values)
    assert bool(found.left_out) == any(labels[1] == OTHER for labels in found.series)


@given(SERIES, MOST)
def test_a_name_stands_with_all_its_series_or_with_none_and_the_heaviest_stand_first(values, most):
    named = {labels[:2] for labels in bounded(values, most, sum).series if labels[1] != OTHER}
    of_name: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for labels, value in values.items():
        if labels[1] != OTHER:
            of_name[labels[:2]].append(value)
    left = {name: of_name[name] for name in of_name.keys() - named}
    if left and named:
        assert max(map(max, left.values())) <= min(max(of_name[name]) for name in named)
    if left:  # the next one had no room
        first = min(left, key=lambda name: (-max(left[name]), name))
        assert sum(len(of_name[name]) for name in named) + len(left[first]) > most


@given(SERIES, MOST, st.randoms())
def test_the_same_values_in_another_order_give_the_same_series(values, most, random):
    shuffled = list(values.items())
    random.shuffle(shuffled)
    assert bounded(dict(shuffled), most, max) == bounded(values, most, max)


def test_another_weight_decides_what_stands_by_name_and_max_is_of_what_is_left():
    values = {("c", "many", "LOW"): 9.0, ("c", "bad", "CRITICAL"): 1.0, ("c", "few", "LOW"): 4.0}
    found = bounded(values, 1, max, lambda labels, value: (labels[2] == "CRITICAL", value))
    assert found == ({("c", "bad", "CRITICAL"): 1.0, ("c", OTHER, "LOW"): 9.0}, 2)
