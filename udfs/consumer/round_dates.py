"""Rows of rounds in; which belong to dates that are judged, or to the rounds looked back on before them, out."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.rows_of_rounds import NEVER, microseconds
from hindsight.udfs.values.arrays import BoolArray

_EPOCH = date(1970, 1, 1)
_DAY_S = 86_400


def of_rounds(rows: pa.Table, dates: Collection[date], lookback_s: int) -> BoolArray:
    """Which rows have a ``round_at`` on one of the dates, or so long before one at most."""
    at = microseconds(rows, "round_at")
    days = np.array(sorted((day - _EPOCH).days for day in dates))
    # Steps of a day at most: with a longer one a round might pass over its date.
    steps = [*range(0, lookback_s, _DAY_S), lookback_s]
    found = np.logical_or.reduce([np.isin((at + step * 1_000_000) // (_DAY_S * 1_000_000), days) for step in steps])
    wanted: BoolArray = found & (at != NEVER)
    return wanted


def near(dates: Collection[date], steps: Collection[int] = (-1, 0, 1)) -> list[date]:
    """The dates and those beside them."""
    return sorted({day + timedelta(days=step) for day in dates for step in steps})


def on_dates(rows: pa.Table, dates: Collection[date]) -> BoolArray:
    """Which rows have one of the dates as ``event_date``."""
    found = pc.is_in(rows["event_date"].combine_chunks(), pa.array(sorted(dates), pa.date32()))
    kept: BoolArray = found.to_numpy(zero_copy_only=False)
    return kept
