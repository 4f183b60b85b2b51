"""Rounds of a stretch's dates, picked by a condition that does not grow deep with the dates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest

from jobs.flag_allocation_drift import _of_rounds
from jobs.transforms.frames import ClusterDate
from schemas import TOPIC_ROUTE

FIRST = date(2026, 3, 1)
DAYS = [FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=5)]
AROUND = [timedelta(seconds=s) for s in (-200_000, -86_401, -86_400, -43_200, -601, -600, -1, 0, 1, 86_399, 86_400)]


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def picked(spark, dates, instants, lookback_s):
    """The rounds at these instants that are picked, all of dates near the stretch's."""
    rows = [("c", FIRST, at) for at in instants] + [("other", FIRST, at) for at in instants]
    frame = spark.createDataFrame(rows, "cluster string, event_date date, round_at timestamp")
    stretch = SimpleNamespace(lake=SimpleNamespace(read=lambda _: frame), dates=[ClusterDate("c", d) for d in dates])
    return _of_rounds(stretch, TOPIC_ROUTE, lookback_s)


@pytest.mark.parametrize("lookback_s", [0, 600, 86_400, 100_000, 200_000])
def test_rounds_of_the_dates_and_so_long_before_them_are_picked(spark, lookback_s):
    instants = sorted({midnight(day) + after for day in DAYS for after in AROUND})
    wanted = [
        at
        for at in instants
        if any(midnight(d) - timedelta(seconds=lookback_s) <= at < midnight(d) + timedelta(days=1) for d in DAYS)
    ]
    found = picked(spark, DAYS, instants, lookback_s).collect()
    assert sorted(row.round_at.replace(tzinfo=UTC) for row in found) == wanted
    assert {row.cluster for row in found} <= {"c"}


def test_the_condition_is_as_deep_for_many_dates_as_for_one(spark):
    def alternatives(days):
        dates = [FIRST + timedelta(days=2 * n) for n in range(days)]
        frame = picked(spark, dates, [midnight(FIRST)], 600)
        return frame._jdf.queryExecution().analyzed().toString().count(" OR ")

    assert alternatives(40) == alternatives(1)
