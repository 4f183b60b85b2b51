"""Every time a client showed its strategy in; the instants that say something new, and what each date hands on, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.consumer.rows_of_rounds import microseconds, ranks
from hindsight.udfs.values.arrays import BoolArray, IntArray

SHOWN = pa.schema(
    [
        ("consumer_group", pa.string()),
        ("client_id", pa.string()),
        ("source", pa.string()),
        ("strategy", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)


class Sighting(NamedTuple):
    """A client showed its strategy in a source at an instant, epoch us."""

    consumer_group: str
    client_id: str
    source: str
    strategy: str
    at: int


def telling(shown: pa.Table) -> list[Sighting]:
    """Of rows ``SHOWN``, sorted, those that tell of another strategy than the one before, and the last of each date."""
    if not shown.num_rows:
        return []
    at = microseconds(shown, "at")
    names = [ranks(shown, name) for name in ("consumer_group", "client_id", "source")]
    strategy = ranks(shown, "strategy")
    order = np.lexsort([strategy, at, *names[::-1]])
    of_client = _changes(*(column[order] for column in names))
    is_new = of_client | _changes(strategy[order])
    is_last = np.append((of_client | _changes((at // _DAY_US)[order]))[1:], True)
    rows = shown.take(pa.array(order[is_new | is_last]))
    instants = microseconds(rows, "at").tolist()
    texts = (rows[name].to_pylist() for name in SHOWN.names[:4])
    return list(map(Sighting, *texts, instants))


def _changes(*columns: IntArray) -> BoolArray:
    """Where one of the columns differs from the row before; the first row does."""
    found: BoolArray = np.append(True, np.logical_or.reduce([column[1:] != column[:-1] for column in columns]))
    return found


def handed_on(sightings: Sequence[Sighting], dates: Sequence[date], carry_days: int) -> Iterator[tuple[date, Sighting]]:
    """Per date, client and source of a group's ``telling`` sightings the strategy last shown, while not older than
    ``carry_days``."""
    last: dict[tuple[str, str], list[tuple[date, Sighting]]] = {}
    for one in sightings:
        shown_on = _EPOCH + timedelta(days=one.at // _DAY_US)
        last.setdefault((one.client_id, one.source), []).append((shown_on, one))
    for of_client in last.values():
        for day in dates:
            before = [entry for entry in of_client if entry[0] <= day]
            if before and day - before[-1][0] <= timedelta(days=carry_days):
                yield day, before[-1][1]
