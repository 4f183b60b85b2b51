"""Kernels of the intake that read: landing files, and the keys of stored rows; rows and hashes of their keys come out.

A portion is some landing files that one worker reads; it has a number. A bucket gets one part of a table's hashes.

The settings in, what the reader of landing files goes by out. Apart from it: workers need not load the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import SettingsError
from hindsight.jobs.engines.arrow_lake import DataFile, StagedFile
from hindsight.jobs.engines.data_files import Staging, TableFolder
from hindsight.jobs.engines.runner import Blob
from hindsight.jobs.landing.landing_lines import ReadOptions, read_file
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.udfs.formats.plain_rows import LinesRead
from hindsight.udfs.landing.landed_rows import COUNTS, HASH, REFUSED, Landed, Rules, landed_rows
from hindsight.udfs.landing.rival_rows import Keyed
from hindsight.udfs.limits.door import severities
from hindsight.udfs.lines.parsed_line import ClientLogLayout, TextEncoding
from hindsight.udfs.logs.log_layouts import check_encoding, check_layout
from hindsight.udfs.values.row_hashes import HashArray, IntArray, row_hashes

READ, STORED = "hashes read", "hashes stored"  # of portions and of stored files, to the buckets
FRESH = "fresh "  # of a table, to be stored
MADE = "made"  # to the driver: how many rows of what are to be stored
STAGED = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("event_date", pa.date32()),
        ("stats", pa.string()),
    ]
)

# What is told of a table's rows as a portion is read, of which the number is given.
Beside = Callable[[str, pa.Table, int], Iterator[Blob]]


class Buckets(NamedTuple):
    """Where the hashes of each table's keys meet.

    Attributes:
        keyed: by name of each table that may be fed, its key and parts.
        of_table: how many there are of each.
    """

    keyed: Mapping[str, Keyed]
    of_table: int

    def table_of(self, key: int) -> str:
        """The table of a bucket's key."""
        return list(self.keyed)[key // self.of_table]

    def split(self, table: str, hashes: HashArray) -> Iterator[tuple[int, IntArray]]:
        """Each bucket's key, and which of the hashes go there."""
        first = list(self.keyed).index(table) * self.of_table
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


def table_of_files(files: Iterable[StagedFile]) -> pa.Table:
    """Staged files as rows (``STAGED``)."""
    return pa.Table.from_pylist([file._asdict() for file in files], schema=STAGED)


def files_of_tables(tables: Iterable[pa.Table]) -> Iterator[StagedFile]:
    """The same the other way."""
    return (StagedFile(**row) for table in tables for row in table.to_pylist())


def hashes_of(name: str, buckets: Buckets, table: str, hashes: HashArray, origin: int) -> Iterator[Blob]:
    """Hashes by bucket; ``origin``: the number of their portion or stored file."""
    for key, places in buckets.split(table, hashes):
        of_bucket = pa.array(hashes[places])
        of = pa.repeat(pa.scalar(origin, pa.int32()), len(places))
        yield Blob(name, key, origin, pa.table({HASH: of_bucket, "of": of}))


class StoredFile(NamedTuple):
    """A file of a table that holds rows of dates which the run touches."""

    number: int
    folder: TableFolder
    file: DataFile


@dataclass(frozen=True)
class StoredHashes:
    """Reads the keys of a stored file."""

    buckets: Buckets

    def __call__(self, stored: StoredFile) -> Iterator[Blob]:
        """Their hashes, to the buckets."""
        table = stored.folder.table
        for rows in stored.folder.pieces(stored.file, table.key):
            yield from hashes_of(STORED, self.buckets, table.name, row_hashes(rows, table.key), stored.number)


def read_options(landing: str, settings: Settings) -> ReadOptions:
    """What the settings say of reading.

    Raises: SettingsError: no such rule, or no such severity; a layout by which no log could be read.
    """
    try:
        of_rules = severities(settings.ingest.rules)
    except ValueError as error:
        raise SettingsError(f"ingest.rules: {error}") from error
    return ReadOptions(
        landing,
        settings.ingest.max_line_bytes,
        settings.ingest.max_raw_text_chars,
        dict(settings.ingest.client_log_zones),
        settings.ingest.client_log_zone,
        of_rules,
        _layouts(settings),
        _encodings(settings),
    )


def _layouts(settings: Settings) -> tuple[ClientLogLayout, ...]:
    layouts = tuple(ClientLogLayout(**given.model_dump()) for given in settings.ingest.client_log_layout)
    for number, layout in enumerate(layouts):
        try:
            check_layout(layout)
        except ValueError as error:
            raise SettingsError(f"ingest.client_log_layout.{number}: {error}") from error
    return layouts


def _encodings(settings: Settings) -> tuple[TextEncoding, ...]:
    encodings = tuple(TextEncoding(**given.model_dump()) for given in settings.ingest.text_encoding)
    for number, one in enumerate(encodings):
        try:
            check_encoding(one.encoding)
        except ValueError as error:
            raise SettingsError(f"ingest.text_encoding.{number}: {error}") from error
    return encodings
