"""Which rows of a lake are meant, what files of its tables are called, and what it takes as rows.

A condition is values, never SQL text: each engine says it in its own words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.jobs.lake.cluster_dates import ClusterDate


@dataclass(frozen=True)
class Where:
    """Rows that meet all of it; without anything every row does.

    ``dates``: they belong to one of these dates of clusters; ``values``: a column holds one of these;
    ``before``: an instant lies before this one; ``since``: it does not. Null meets nothing.
    """

    dates: Collection[ClusterDate] | None = None
    values: Mapping[str, Collection[Any]] = field(default_factory=dict)
    before: Mapping[str, datetime] = field(default_factory=dict)
    since: Mapping[str, datetime] = field(default_factory=dict)

    def days(self) -> frozenset[date] | None:
        """The dates on which such rows lie; None: on any."""
        of_clusters = None if self.dates is None else frozenset(at.event_date for at in self.dates)
        listed = frozenset(self.values["event_date"]) if "event_date" in self.values else None
        if of_clusters is None or listed is None:
            return listed if of_clusters is None else of_clusters
        return of_clusters & listed

    def columns(self) -> list[str]:
        """The columns that it looks at."""
        of_dates = ("cluster", "event_date") if self.dates is not None else ()
        return sorted({*self.values, *self.before, *self.since, *of_dates})


EVERY_ROW = Where()


class DataFile(NamedTuple):
    """A Parquet file of a table, for workers: its path below the table's folder, its bytes, its rows and its date.

    ``rows`` is None where its writer did not count them; ``event_date`` of a table without dates; ``cluster`` where
    statistics do not say that all rows are of one.
    """

    path: str
    size: int
    rows: int | None
    event_date: date | None
    cluster: str | None = None


class StagedFile(NamedTuple):
    """A data file that stands in its table's folder and belongs to no version yet; ``stats``: Delta's JSON of it."""

    path: str
    size: int
    rows: int
    event_date: date | None
    stats: str


# What a lake stores: a table, or pieces of what need not fit into memory.
Rows = pa.Table | Iterable[pa.Table | StagedFile]
