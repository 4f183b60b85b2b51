"""Kernels around window confirmations: lines of clients' logs by date, who may write them, the rows of their table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.blobs import Blob, Given
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.lake.cluster_dates import Addresses, midnight_of
from hindsight.jobs.publishing.row_lineage import Lineage
from hindsight.schemas import WINDOW_CONFIRMATION
from hindsight.udfs.producer.attempt_columns import DAY_MS, attempts_of, producers_of
from hindsight.udfs.producer.producer_date import Date
from hindsight.udfs.producer.window_confirmations import (
    LINE,
    NO_WINDOWS,
    OWN_THREAD,
    WRITER,
    tells_of_faults,
    window_confirmations,
    windows_of_writers,
)

LINES, DATES, WINDOWS, WRITERS = "lines", "dates of lines", "windows of writers", "writers"


class EventFile(NamedTuple):
    """A file of client_event, of which the rows of these dates are wanted; ``dates``: by cluster."""

    folder: TableFolder
    file: DataFile
    addresses: Addresses
    dates: Mapping[str, Collection[date]]


def lines_of(task: EventFile) -> Iterator[Blob]:
    """The lines of a file that tell of a fault table, each with its cluster's date; and of which dates there are."""
    for piece in task.folder.pieces(task.file, LINE):
        lines = tells_of_faults(piece)
        for cluster, days in task.dates.items():
            of_cluster = lines.filter(pc.equal(lines["cluster"], cluster))
            for day in sorted(set(pc.unique(of_cluster["event_date"]).to_pylist()) & {*days}):
                midnight_ms = midnight_of(day)
                own = of_cluster.filter(pc.equal(of_cluster["event_date"], day))
                yield Blob(LINES, task.addresses.of_date(cluster, midnight_ms), midnight_ms, own)
                yield Blob(DATES, 0, 0, pa.table({"cluster": [cluster], "midnight_ms": [midnight_ms]}))


@dataclass(frozen=True)
class Witnessed:
    """What lines are held against, for each date that has some, and for the dates beside it: instants differ a little.

    Attributes:
        dates: by cluster, the midnights of dates on which clients' logs tell of their own tables.
    """

    addresses: Addresses
    dates: Mapping[str, Collection[int]]

    def __call__(self, key: int, date: Date, windows: pa.Table) -> Iterator[Blob]:
        """The windows and writers of a bucket's date, for every date whose lines may be of them."""
        near = [date.midnight_ms + step for step in (-DAY_MS, 0, DAY_MS)]
        wanted = [midnight_ms for midnight_ms in near if midnight_ms in self.dates.get(date.cluster, ())]
        if wanted:
            own, writers = windows_of_writers(windows), writers_of(date)
            for midnight_ms in wanted:
                to = self.addresses.of_date(date.cluster, midnight_ms)
                yield Blob(WINDOWS, to, key, own)
                yield Blob(WRITERS, to, key, writers)


@dataclass(frozen=True)
class Confirm:
    """The rows of window_confirmation of a cluster's date."""

    addresses: Addresses
    within_ms: int
    lineage: Lineage

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Of the date's lines, and of what may have written them."""
        _, midnight_ms = self.addresses.date_of(key)
        lines = list(given.tables(LINES))
        if lines:
            rows = window_confirmations(
                pa.concat_tables(lines),
                pa.concat_tables([NO_WINDOWS, *given.tables(WINDOWS)]),
                pa.concat_tables([WRITER.empty_table(), *given.tables(WRITERS)]),
                within_ms=self.within_ms,
            )
            yield self.lineage.of(WINDOW_CONFIRMATION, key, midnight_ms, rows)


def writers_of(date: Date) -> pa.Table:
    """Per producer, the threads that may write its lines: those that send, and the client's own ('') for callbacks."""
    found: set[tuple[str, str, str]] = set()
    for table, _ in date.slices():
        a = attempts_of(table, date.midnight_ms)
        producers, thread = producers_of(a), a.texts("thread")
        own = a.on_date & (a.texts("broker_name").codes >= 0)
        rows = zip(producers.codes[own].tolist(), thread.codes[own].tolist(), a.is_async[own].tolist(), strict=True)
        for producer, code, is_async in set(rows):
            if code >= 0:
                found.add((*producers.names[producer], thread.values[code]))
            if is_async or code < 0:
                found.add((*producers.names[producer], OWN_THREAD))
    return pa.Table.from_pylist([dict(zip(WRITER.names, each, strict=True)) for each in sorted(found)], WRITER)
