"""Rounds of a stretch's dates, and those looked back on before them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from hindsight.udfs.consumer.rows_of_rounds import are_nearest, merged_nearest, nearest_of, of_rounds
from hindsight.udfs.landing.landing_formats import distances

FIRST = date(2026, 3, 1)
DAYS = [FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=5)]
AROUND = [timedelta(seconds=s) for s in (-200_000, -86_401, -86_400, -43_200, -601, -600, -1, 0, 1, 86_399, 86_400)]
INSTANT = pa.timestamp("us", "UTC")


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@pytest.mark.parametrize("lookback_s", [0, 600, 86_400, 100_000, 200_000])
def test_rounds_of_the_dates_and_so_long_before_them_are_picked(lookback_s):
    instants = sorted({midnight(day) + after for day in DAYS for after in AROUND})
    wanted = [
        at
        for at in instants
        if any(midnight(d) - timedelta(seconds=lookback_s) <= at < midnight(d) + timedelta(days=1) for d in DAYS)
    ]
    rows = pa.table({"round_at": pa.array([*instants, None], INSTANT)})
    found = of_rounds(rows, DAYS, lookback_s)
    assert [at for at, is_picked in zip([*instants, None], found, strict=True) if is_picked] == wanted


def test_of_several_sources_of_a_group_the_nearest_is_kept_on_each_date():
    at = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    rows = [
        ("oracle", "g", at, "admin_snapshots"),
        ("oracle", "g", at + timedelta(milliseconds=1), "mqadmin"),
        ("oracle", "g", at + timedelta(days=1), "mqadmin"),
        ("oracle", "h", at, "mqadmin"),
        ("oracle", None, at, "mqadmin"),
    ]
    schema = pa.schema(
        [("cluster", pa.string()), ("consumer_group", pa.string()), ("round_at", INSTANT), ("source", pa.string())]
    )
    captures = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    parts = [nearest_of(captures.slice(start, 1), distances()) for start in (1, 0, 2, 3, 4)]
    found = captures.filter(pa.array(are_nearest(captures, merged_nearest(parts), distances())))
    of_groups = [(row["consumer_group"], row["round_at"].day, row["source"]) for row in found.to_pylist()]
    assert of_groups == [
        ("g", 21, "admin_snapshots"),
        ("g", 22, "mqadmin"),
        ("h", 21, "mqadmin"),
        (None, 21, "mqadmin"),
    ]
