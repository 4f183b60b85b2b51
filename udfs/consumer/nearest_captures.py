"""Captures that several sources took of one group in, those of the source nearest to it out.

The others stay rows of their tables: they confirm, or contradict (view ``source_contradiction``), and are not computed
with. Rows are never merged: what came of that would depend on which arrived first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.values.arrays import BoolArray

NEEDED = ("cluster", "consumer_group", "round_at", "source")
_DAY_US = 86_400_000_000
Nearest = Mapping[tuple[str, str, int], int]  # by cluster, group and date (its number since 1970): a distance


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
    days = (microseconds(captures, "round_at") // _DAY_US).tolist()
    names = (captures[name].to_pylist() for name in ("cluster", "consumer_group", "source"))
    found: dict[tuple[str, str, int, str], list[int]] = {}
    for place, (cluster, group, source, day) in enumerate(zip(*names, days, strict=True)):
        found.setdefault((cluster, group, day, source), []).append(place)
    return list(found.items())
