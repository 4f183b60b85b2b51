"""Kernels of the intake: landing files are read, hashes of keys meet, and rows that have rivals are settled.

A portion is some landing files that one worker reads; it has a number. A bucket gets one part of a table's hashes. Rows
to be stored and what became of lines come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.jobs.engines.data_files import Staging, TableFolder, files_of_tables, table_of_files
from hindsight.jobs.engines.lake_rows import DataFile
from hindsight.jobs.engines.runner import Blob, Given
from hindsight.jobs.landing.landing_lines import ReadOptions, read_file
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.schemas import TABLES
from hindsight.schemas.arrow_types import row_schema
from hindsight.udfs.formats.plain_rows import LinesRead
from hindsight.udfs.landing.landed_rows import COUNTS, HASH, REFUSED, Landed, Rules, landed_rows
from hindsight.udfs.landing.landing_formats import HOOK
from hindsight.udfs.landing.rival_rows import LineNumbers, are_among, rival_hashes, settled, without
from hindsight.udfs.values.columns import IntArray
from hindsight.udfs.values.row_hashes import HashArray, row_hashes

READ, STORED = "hashes read", "hashes stored"  # of portions and of stored files, to the buckets
FRESH = "fresh "  # of a table, to be stored
MADE = "made"  # to the driver: how many rows of what are to be stored
RIVALS, HELD = "rivals read", "rivals stored"  # of buckets, to portions and stored files: hashes of rows with rivals
CONTESTED = "contested"  # to the driver: buckets with rivals
ROWS_READ, ROWS_HELD = "rows read ", "rows held "  # of a table, to buckets: those that have rivals
CHANGED = "changed "  # of a table: stored rows as they are now
DOUBTFUL, KEPT, LOST = "doubtful lines", "kept lines", "lost lines"
_SENDS = "send_attempt"
_NO_LINES: IntArray = np.zeros(0, np.int64)

# What is told of a table's rows as a portion is read, of which the number is given.
Beside = Callable[[str, pa.Table, int], Iterator[Blob]]
# Sets in a table's rows what their files do not tell.
Completed = Callable[[str, pa.Table], pa.Table]


class Buckets(NamedTuple):
    """Where the hashes of each table's keys meet.

    Attributes:
        tables: the names of those that may be fed.
        of_table: how many there are of each.
    """

    tables: Sequence[str]
    of_table: int

    def table_of(self, key: int) -> str:
        """The table of a bucket's key."""
        return self.tables[key // self.of_table]

    def first_of(self, table: str) -> int:
        """The first key of a table's buckets."""
        return self.tables.index(table) * self.of_table

    def split(self, table: str, hashes: HashArray) -> Iterator[tuple[int, IntArray]]:
        """Each bucket's key, and which of the hashes go there."""
        first = self.first_of(table)
        if self.of_table == 1:
            yield first, np.arange(len(hashes))
            return
        bucket = (hashes % np.uint64(self.of_table)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(self.of_table + 1)).tolist()
        for number in range(self.of_table):
            if edges[number] < edges[number + 1]:
                yield first + number, order[edges[number] : edges[number + 1]]


class Portion(NamedTuple):
    """Landing files that one worker reads."""

    number: int
    files: Sequence[LandingFile]


@dataclass(frozen=True)
class Read:
    """Reads a portion.

    Attributes:
        folders: of the tables whose rows are staged at once, for few have rivals.
    """

    options: ReadOptions
    rules: Rules
    buckets: Buckets
    folders: Mapping[str, TableFolder]
    flagged: frozenset[str]
    ingested_at: datetime
    run_id: str
    beside: Beside

    def __call__(self, portion: Portion) -> Iterator[Blob]:
        """Rows of tables with their hashes, or the files in which they are staged, to be stored if none has a rival;
        refused lines and counts, as ``landed_rows`` names them; hashes for the buckets.
        """
        staged = {name: Staging(folder) for name, folder in self.folders.items()}
        for place, (name, rows) in enumerate(landed_rows(map(self._lines, portion.files), self.rules)):
            if name in (COUNTS, REFUSED):
                yield Blob(name, portion.number, place, rows)
                continue
            yield from hashes_of(READ, self.buckets, name, rows[HASH].to_numpy(), portion.number)
            yield from self.beside(name, rows, portion.number)
            yield made(FRESH + name, len(rows), portion.number)
            if name in staged:
                staged[name].add(rows)
            else:
                yield Blob(FRESH + name, portion.number, place, rows)
        for name, staging in staged.items():
            yield Blob(FRESH + name, portion.number, 0, table_of_files(staging.end()))

    def _lines(self, file: LandingFile) -> tuple[Landed, Iterator[LinesRead]]:
        landed = Landed(file.cluster, file.format, file.file, self.ingested_at, self.run_id)
        return landed, read_file(file, self.options, self.flagged)


def made(name: str, rows: int, key: int) -> Blob:
    """To the driver: so many rows are to be stored."""
    return Blob(MADE, 0, key, pa.table({"name": [name], "rows": [rows]}))


def hashes_of(name: str, buckets: Buckets, table: str, hashes: HashArray, origin: int) -> Iterator[Blob]:
    """Hashes by bucket; ``origin``: the number of their portion or stored file."""
    for key, places in buckets.split(table, hashes):
        of_bucket = pa.array(hashes[places])
        of = pa.repeat(pa.scalar(origin, pa.int32()), len(places))
        yield Blob(name, key, origin, pa.table({HASH: of_bucket, "of": of}))


class TableFile(NamedTuple):
    """A file of a table."""

    number: int
    folder: TableFolder
    file: DataFile


def stored_hashes(stored: TableFile, *, buckets: Buckets) -> Iterator[Blob]:
    """The hashes of the keys of a stored file, to the buckets."""
    table = stored.folder.table
    for rows in stored.folder.pieces(stored.file, table.key):
        yield from hashes_of(STORED, buckets, table.name, row_hashes(rows, table.key), stored.number)


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
    first = buckets.first_of(table)
    found = given.tables(name, first, first + buckets.of_table)
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *(each[HASH].to_numpy() for each in found)]))


def _to_store(
    kind: str, table: str, key: int, rows: Iterable[pa.Table], folder: TableFolder | None = None
) -> Iterator[Blob]:
    """Rows of a table to be stored, and how many they are; where it has a folder they are staged, else handed over."""
    count = 0
    if folder is not None:
        staged = folder.stage(rows)
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
        folders: of the tables whose rows workers may stage.
        staged: of those whose rows were staged when they were read.
    """

    buckets: Buckets
    folders: Mapping[str, TableFolder]
    staged: Mapping[str, TableFolder]
    numbers: LineNumbers
    completed: Completed | None

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows to be stored, rows that have rivals; lines of which no row is surely stored."""
        alone, contested = [_NO_LINES], [_NO_LINES]
        for table in self.buckets.tables:
            rivals = _rivals_of(given, RIVALS, table, self.buckets)
            waiting: list[Blob] = []
            rows = self._alone(given, table, rivals, waiting, alone if given.places(RIVALS) else None)
            yield from _to_store(FRESH, table, key, rows, self.folders.get(table))
            contested += [self.numbers.of(blob.rows, TABLES[table]) for blob in waiting]
            yield from waiting
        refused = _refused(given, self.numbers)
        doubtful = np.setdiff1d(np.concatenate(contested), np.concatenate([*alone, refused]))
        if len(doubtful):
            yield Blob(DOUBTFUL, key, 0, pa.table({"line": doubtful}))

    def _alone(
        self, given: Given, table: str, rivals: HashArray, waiting: list[Blob], lines: list[IntArray] | None
    ) -> Iterator[pa.Table]:
        """The rows without a rival, whose lines are noted as they pass; those with one are ``waiting``."""
        for place, rows in enumerate(self._rows(given, table)):
            fresh, contested = without(rows, are_among(rows[HASH].to_numpy(), rivals))
            if contested.num_rows:
                hashes = contested[HASH].to_numpy()
                contested = self._completed(table, contested)
                for key, places in self.buckets.split(table, hashes):
                    waiting.append(Blob(ROWS_READ + table, key, place, contested.take(pa.array(places))))
            fresh = self._completed(table, fresh)
            if lines is not None:
                lines.append(self.numbers.of(fresh, TABLES[table]))
            yield fresh

    def _rows(self, given: Given, table: str) -> Iterator[pa.Table]:
        if table not in self.staged:
            yield from given.tables(FRESH + table)
            return
        folder, key = self.staged[table], TABLES[table].key
        for file in files_of_tables(given.tables(FRESH + table)):
            for rows in folder.pieces(file, folder.table.schema.names):
                yield rows.append_column(HASH, pa.array(row_hashes(rows, key)))
            folder.drop(file)

    def _completed(self, table: str, rows: pa.Table) -> pa.Table:
        rows = rows.drop_columns(HASH)
        return rows if self.completed is None else self.completed(table, rows)


def _refused(given: Given, numbers: LineNumbers) -> IntArray:
    found = [_NO_LINES]
    for rows in given.tables(REFUSED):
        for file, line in zip(rows["source_file"].to_pylist(), rows["line_number"].to_pylist(), strict=True):
            found.append(numbers.each(file, [line]))
    return np.concatenate(found)


def held_rows(key: int, given: Given, *, buckets: Buckets, files: Sequence[TableFile]) -> Iterator[Blob]:
    """The rows of a stored file that have rivals, to their buckets."""
    _, folder, file = files[key]
    rivals = _rivals_of(given, HELD, folder.table.name, buckets)
    for place, rows in enumerate(folder.pieces(file, folder.table.schema.names)):
        hashes = row_hashes(rows, folder.table.key)
        hits = np.flatnonzero(are_among(hashes, rivals))
        held = rows.take(pa.array(hits))
        for bucket, places in buckets.split(folder.table.name, hashes[hits]):
            yield Blob(ROWS_HELD + folder.table.name, bucket, place, held.take(pa.array(places)))


@dataclass(frozen=True)
class Settling:
    """Settles the rows of a bucket that have rivals; ``portion_of``: of each file's number that of its portion."""

    buckets: Buckets
    folders: Mapping[str, TableFolder]
    numbers: LineNumbers
    portion_of: Sequence[int]

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows to be stored anew or in place of stored ones; lines that are stored, to their portions."""
        table = self.buckets.table_of(key)
        rows, stored = (self._rows(given, name + table, table) for name in (ROWS_READ, ROWS_HELD))
        hook = HOOK if table == _SENDS else None
        done = settled(rows, stored, TABLES[table], self.numbers, hook=hook)
        yield from _to_store(FRESH, table, key, [done.inserted], self.folders.get(table))
        yield from _to_store(CHANGED, table, key, [done.changed])
        portions = np.array(self.portion_of, np.int64)[self.numbers.file_of(done.lines)]
        for portion in np.unique(portions).tolist():
            yield Blob(KEPT, portion, key, pa.table({"line": done.lines[portions == portion]}))

    def _rows(self, given: Given, name: str, table: str) -> pa.Table:
        schema = row_schema(TABLES[table])
        return pa.concat_tables([schema.empty_table(), *(rows.cast(schema) for rows in given.tables(name))])


def count_lost(key: int, given: Given) -> Iterator[Blob]:
    """The lines of a portion of which nothing is stored, counted by number of their file."""
    doubtful, kept = (
        np.concatenate([_NO_LINES, *(rows["line"].to_numpy() for rows in given.tables(name))])
        for name in (DOUBTFUL, KEPT)
    )
    files, counts = np.unique(LineNumbers.file_of(np.setdiff1d(doubtful, kept)), return_counts=True)
    if len(files):
        yield Blob(LOST, key, 0, pa.table({"file": files, "lines": counts}))
