"""Kernels of the intake that settle: hashes meet, then the rows that have rivals; rows to be stored come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.runner import Blob, Given
from hindsight.jobs.intake.intake_reading import (
    FRESH,
    READ,
    STORED,
    Buckets,
    StoredFile,
    files_of_tables,
    made,
    table_of_files,
)
from hindsight.udfs.landing.landed_rows import HASH, REFUSED
from hindsight.udfs.landing.landing_formats import HOOK
from hindsight.udfs.landing.rival_rows import LineNumbers, are_among, rival_hashes, settled, without
from hindsight.udfs.values.row_hashes import HashArray, IntArray, row_hashes

RIVALS, HELD = "rivals read", "rivals stored"  # of buckets, to portions and stored files: hashes of rows with rivals
CONTESTED = "contested"  # to the driver: buckets with rivals
ROWS_READ, ROWS_HELD = "rows read ", "rows held "  # of a table, to buckets: those that have rivals
CHANGED = "changed "  # of a table: stored rows as they are now
DOUBTFUL, KEPT, LOST = "doubtful lines", "kept lines", "lost lines"
_SENDS = "send_attempt"
_NO_LINES: IntArray = np.zeros(0, np.int64)

# Sets in a table's rows what their files do not tell.
Completed = Callable[[str, pa.Table], pa.Table]


def find_rivals(key: int, given: Given) -> Iterator[Blob]:
    """The hashes of a bucket that come more than once: to each portion and each stored file its own."""
    read, of_portion = _columns(given, READ)
    stored, of_file = _columns(given, STORED)
    rivals = rival_hashes(read, stored)
    if len(rivals):
        yield Blob(CONTESTED, 0, key, pa.table({"bucket": [key]}))
        yield from _back(RIVALS, key, read, of_portion, rivals)
        yield from _back(HELD, key, stored, of_file, rivals)


def _columns(given: Given, name: str) -> tuple[HashArray, IntArray]:
    tables = list(given.tables(name))
    hashes = [np.zeros(0, np.uint64), *(table[HASH].to_numpy() for table in tables)]
    origins = [np.zeros(0, np.int32), *(table["of"].to_numpy() for table in tables)]
    return np.concatenate(hashes), np.concatenate(origins)


def _back(name: str, key: int, hashes: HashArray, origin: IntArray, rivals: HashArray) -> Iterator[Blob]:
    hits = are_among(hashes, rivals)
    hashes, origin = hashes[hits], origin[hits]
    for each in np.unique(origin).tolist():
        yield Blob(name, each, key, pa.table({HASH: np.unique(hashes[origin == each])}))


def _rivals_of(given: Given, name: str, table: str, buckets: Buckets) -> HashArray:
    """The hashes that came back to a portion or a file for one table, sorted."""
    first = list(buckets.keyed).index(table) * buckets.of_table
    found = given.tables(name, first, first + buckets.of_table)
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *(each[HASH].to_numpy() for each in found)]))


class Outlets(NamedTuple):
    """Where rows to be stored go: by table its folder, where workers may stage files; else they are handed over."""

    folders: Mapping[str, TableFolder]

    def blobs(self, kind: str, table: str, key: int, rows: Iterable[pa.Table]) -> Iterator[Blob]:
        """Rows of a table to be stored, and how many they are."""
        count = 0
        if table in self.folders:
            staged = self.folders[table].stage(rows)
            count = sum(file.rows for file in staged)
            if staged:
                yield Blob(kind + table, key, 0, table_of_files(staged))
        else:
            for place, some in enumerate(rows):
                if some.num_rows:
                    count += some.num_rows
                    yield Blob(kind + table, key, place, some)
        if count:
            yield made(kind + table, count, key)


@dataclass(frozen=True)
class Parted:
    """Parts a portion's rows: what has no rival is to be stored, the others go to their buckets.

    Attributes:
        staged: the folders of the tables whose rows were staged when they were read.
    """

    buckets: Buckets
    outlets: Outlets
    staged: Mapping[str, TableFolder]
    numbers: LineNumbers
    completed: Completed | None

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows to be stored, rows that have rivals; lines of which no row is surely stored."""
        alone, contested = [_NO_LINES], [_NO_LINES]
        for table, keyed in self.buckets.keyed.items():
            rivals = _rivals_of(given, RIVALS, table, self.buckets)
            waiting: list[Blob] = []
            rows = self._alone(given, table, rivals, waiting)
            if given.places(RIVALS):
                rows = _noted(rows, partial(self.numbers.of, keyed=keyed), alone)
            yield from self.outlets.blobs(FRESH, table, key, rows)
            contested += [self.numbers.of(blob.rows, keyed) for blob in waiting]
            yield from waiting
        refused = _refused(given, self.numbers)
        doubtful = np.setdiff1d(np.concatenate(contested), np.concatenate([*alone, refused]))
        if len(doubtful):
            yield Blob(DOUBTFUL, key, 0, pa.table({"line": doubtful}))

    def _alone(self, given: Given, table: str, rivals: HashArray, waiting: list[Blob]) -> Iterator[pa.Table]:
        for place, rows in enumerate(self._rows(given, table)):
            fresh, contested = without(rows, are_among(rows[HASH].to_numpy(), rivals))
            if contested.num_rows:
                hashes = contested[HASH].to_numpy()
                contested = self._completed(table, contested)
                for key, places in self.buckets.split(table, hashes):
                    waiting.append(Blob(ROWS_READ + table, key, place, contested.take(pa.array(places))))
            yield self._completed(table, fresh)

    def _rows(self, given: Given, table: str) -> Iterator[pa.Table]:
        if table not in self.staged:
            yield from given.tables(FRESH + table)
            return
        folder, key = self.staged[table], self.buckets.keyed[table].key
        for file in files_of_tables(given.tables(FRESH + table)):
            for rows in folder.pieces(file, folder.table.schema.names):
                yield rows.append_column(HASH, pa.array(row_hashes(rows, key)))
            folder.drop(file)

    def _completed(self, table: str, rows: pa.Table) -> pa.Table:
        rows = rows.drop_columns(HASH)
        return rows if self.completed is None else self.completed(table, rows)


def _noted(
    rows: Iterable[pa.Table], lines_of: Callable[[pa.Table], IntArray], lines: list[IntArray]
) -> Iterator[pa.Table]:
    """The rows as they are; their ``lines`` are noted as they pass."""
    for some in rows:
        lines.append(lines_of(some))
        yield some


def _refused(given: Given, numbers: LineNumbers) -> IntArray:
    found = [_NO_LINES]
    for rows in given.tables(REFUSED):
        for file, line in zip(rows["source_file"].to_pylist(), rows["line_number"].to_pylist(), strict=True):
            found.append(numbers.each(file, [line]))
    return np.concatenate(found)


@dataclass(frozen=True)
class HeldRows:
    """Reads the rows of a stored file that have rivals."""

    buckets: Buckets
    files: Sequence[StoredFile]

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """The rows, to their buckets."""
        _, folder, file = self.files[key]
        rivals = _rivals_of(given, HELD, folder.table.name, self.buckets)
        for place, rows in enumerate(folder.pieces(file, folder.table.schema.names)):
            hashes = row_hashes(rows, folder.table.key)
            hits = np.flatnonzero(are_among(hashes, rivals))
            held = rows.take(pa.array(hits))
            for bucket, places in self.buckets.split(folder.table.name, hashes[hits]):
                yield Blob(ROWS_HELD + folder.table.name, bucket, place, held.take(pa.array(places)))


@dataclass(frozen=True)
class Settling:
    """Settles the rows of a bucket that have rivals.

    Attributes:
        schemas: by table, its columns.
        portion_of: of each file's number that of its portion.
    """

    buckets: Buckets
    outlets: Outlets
    numbers: LineNumbers
    schemas: Mapping[str, pa.Schema]
    portion_of: Sequence[int]

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows to be stored anew or in place of stored ones; lines that are stored, to their portions."""
        table = self.buckets.table_of(key)
        rows, stored = (self._rows(given, name + table, table) for name in (ROWS_READ, ROWS_HELD))
        hook = HOOK if table == _SENDS else None
        done = settled(rows, stored, self.buckets.keyed[table], self.numbers, hook=hook)
        yield from self.outlets.blobs(FRESH, table, key, [done.inserted])
        yield from Outlets({}).blobs(CHANGED, table, key, [done.changed])
        portions = np.array(self.portion_of, np.int64)[self.numbers.file_of(done.lines)]
        for portion in np.unique(portions).tolist():
            yield Blob(KEPT, portion, key, pa.table({"line": done.lines[portions == portion]}))

    def _rows(self, given: Given, name: str, table: str) -> pa.Table:
        schema = self.schemas[table]
        return pa.concat_tables([schema.empty_table(), *(rows.cast(schema) for rows in given.tables(name))])


@dataclass(frozen=True)
class Lost:
    """Counts the lines of a portion of which nothing is stored."""

    numbers: LineNumbers

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """By number of their file."""
        doubtful, kept = (_lines(given, name) for name in (DOUBTFUL, KEPT))
        files, counts = np.unique(self.numbers.file_of(np.setdiff1d(doubtful, kept)), return_counts=True)
        if len(files):
            yield Blob(LOST, key, 0, pa.table({"file": files, "lines": counts}))


def _lines(given: Given, name: str) -> IntArray:
    return np.concatenate([_NO_LINES, *(rows["line"].to_numpy() for rows in given.tables(name))])
