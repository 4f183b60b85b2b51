"""Rows of many groups' rounds in; sorted by group, collector and round, and where each round's rows stand, out.

Of captures that several sources took of one group, those of the source nearest to it count. The others stay rows of
their tables: they confirm, or contradict (view ``source_contradiction``), and are not computed with. Rows are never
merged: what came of that would depend on which arrived first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.columns import (
    DAY_US,
    EPOCH,
    NEVER,
    BoolArray,
    IntArray,
    differs,
    microseconds,
    order_of,
    ranks,
)

RoundKey = tuple[str, str, int]  # group (or topic), collector, and the round's instant, epoch us
NEEDED_OF_CAPTURES = ("cluster", "consumer_group", "round_at", "source")
Nearest = Mapping[tuple[str, str, int], int]  # by cluster, group and date (its number since 1970): a distance


class RowsOfRounds(NamedTuple):
    """Rows sorted by round.

    Attributes:
        rows: all of them; instants are epoch us, whole numbers.
        starts: where each round's begin.
        place_of: the place of each round among these.
    """

    rows: pa.RecordBatch
    starts: IntArray
    place_of: dict[RoundKey, int]

    def of(self, key: RoundKey) -> pa.RecordBatch:
        """The rows of one round."""
        place = self.place_of.get(key)
        return self.rows.slice(0, 0) if place is None else self.at(place)

    def at(self, place: int) -> pa.RecordBatch:
        """The rows of the round at a place."""
        start = int(self.starts[place])
        return self.rows.slice(start, self.end(place) - start)

    def span(self, key: RoundKey) -> slice:
        """Where the rows of one round stand."""
        place = self.place_of.get(key)
        return slice(0, 0) if place is None else slice(int(self.starts[place]), self.end(place))

    def end(self, place: int) -> int:
        """Where the rows of a round end."""
        return int(self.starts[place + 1]) if place + 1 < len(self.starts) else self.rows.num_rows

    def numbers(self) -> IntArray:
        """Of each row, the place of its round."""
        sizes = np.diff(np.append(self.starts, self.rows.num_rows))
        return np.repeat(np.arange(len(self.starts)), sizes)


def rows_of_rounds(rows: pa.Table, name: str, then: Sequence[str] = ()) -> RowsOfRounds:
    """Rows with the columns ``name`` (of what the rounds are: a group, a topic), ``collector`` and ``round_at``.

    ``then``: by which the rows of a round are sorted.
    """
    keys = [ranks(rows, column) for column in (name, "collector", "round_at", *then)]
    order = order_of(keys)
    rows = _with_numbers(rows.take(pa.array(order)))
    starts = np.flatnonzero(differs(*(key[order] for key in keys[:3])))
    heads = rows.select([name, "collector", "round_at"]).take(pa.array(starts))
    instants = microseconds(heads, "round_at").tolist()
    names = zip(heads[name].to_pylist(), heads["collector"].to_pylist(), instants, strict=True)
    return RowsOfRounds(rows, starts, {key: place for place, key in enumerate(names)})


def _with_numbers(rows: pa.Table) -> pa.RecordBatch:
    """Rows whose instants are whole numbers, which Python takes in far faster."""
    columns = [column.combine_chunks() for column in rows.columns]
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in columns]
    return pa.RecordBatch.from_arrays(columns, rows.column_names)


def with_evidence(rows: pa.Table) -> pa.Table:
    """Rows with the line that each comes from, ``file:line``."""
    line = pc.binary_join_element_wise(rows["source_file"], rows["source_line"].cast(pa.string()), ":")
    return rows.append_column("evidence", line)


def of_rounds(rows: pa.Table, dates: Collection[date], lookback_s: int) -> BoolArray:
    """Which rows have a ``round_at`` on one of the dates, or so long before one at most."""
    at = microseconds(rows, "round_at")
    days = np.array(sorted((day - EPOCH.date()).days for day in dates))
    # Steps of a day at most: with a longer one a round might pass over its date.
    steps = [*range(0, lookback_s, 86_400), lookback_s]
    found = np.logical_or.reduce([np.isin((at + step * 1_000_000) // DAY_US, days) for step in steps])
    wanted: BoolArray = found & (at != NEVER)
    return wanted


def nearest_of(captures: pa.Table, distances: Mapping[str, int]) -> dict[tuple[str, str, int], int]:
    """Per cluster, consumer group and date of the rounds, the distance of the nearest source."""
    found: dict[tuple[str, str, int], int] = {}
    for (cluster, group, day, source), _ in _counted(captures):
        if group is not None and source in distances:
            key = cluster, group, day
            found[key] = min(distances[source], found.get(key, distances[source]))
    return found


def merged_nearest(parts: Sequence[Nearest]) -> dict[tuple[str, str, int], int]:
    """What several parts of the captures give, as the whole gives it."""
    found: dict[tuple[str, str, int], int] = {}
    for part in parts:
        for key, distance in part.items():
            found[key] = min(distance, found.get(key, distance))
    return found


def are_nearest(captures: pa.Table, nearest: Nearest, distances: Mapping[str, int]) -> BoolArray:
    """Which captures are of the nearest source of their group and date, or of no group."""
    kept: BoolArray = np.ones(captures.num_rows, np.bool_)
    for (cluster, group, day, source), places in _counted(captures):
        least = nearest.get((cluster, group, day))
        if least is not None:
            kept[places] = source in distances and distances[source] <= least
    return kept


def _counted(captures: pa.Table) -> list[tuple[tuple[str, str, int, str], list[int]]]:
    """Each cluster, group, date and source, and where its rows are."""
    days = (microseconds(captures, "round_at") // DAY_US).tolist()
    names = (captures[name].to_pylist() for name in ("cluster", "consumer_group", "source"))
    found: dict[tuple[str, str, int, str], list[int]] = {}
    for place, (cluster, group, source, day) in enumerate(zip(*names, days, strict=True)):
        found.setdefault((cluster, group, day, source), []).append(place)
    return list(found.items())
