"""Landing files in; their rows in the tables, each key once, and what became of each file's lines, out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple

from hindsight.jobs.engines.arrow_lake import ArrowLake, DataFile
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.runner import Blobs, OfHeap, Runner, heaps
from hindsight.jobs.intake.intake_kernels import (
    CHANGED,
    CONTESTED,
    DOUBTFUL,
    FRESH,
    HELD,
    KEPT,
    LOST,
    MADE,
    READ,
    RIVALS,
    ROWS_READ,
    Beside,
    Buckets,
    Completed,
    HeldRows,
    Lost,
    Parted,
    Portion,
    Read,
    Settling,
    StoredHashes,
    TableFile,
    files_of_tables,
    find_rivals,
)
from hindsight.jobs.landing.landing_lines import ENDS_FILE, ReadOptions
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES, Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landed_rows import COUNTS, REFUSED, Reach, Rules
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.rival_rows import LineNumbers

_BUCKET_BYTES = 64 << 20  # of landing files
_MOST_BUCKETS = 200
_WITH_DOUBTS = frozenset(table.name for table in TABLES.values() if "doubts" in table.schema.names)


class LandingRead(NamedTuple):
    """Landing files that were read and not stored yet.

    Attributes:
        staged: the folders of the tables whose rows were staged when they were read.
        rows: by table, how many, of tables that have any; ``dates``: those on which they fall; ``first``: the earliest
            instant that dates one.
        counts: by file, what was counted in it (``landed_rows``).
    """

    buckets: Buckets
    staged: Mapping[str, TableFolder]
    numbers: LineNumbers
    portion_of: Sequence[int]
    blobs: Blobs
    rows: Mapping[Table, int]
    dates: Mapping[Table, Collection[date]]
    first: Mapping[Table, datetime]
    counts: Mapping[str, dict[str, Any]]


def read_landing(
    lake: ArrowLake,
    runner: Runner,
    files: Sequence[LandingFile],
    options: ReadOptions,
    context: RunContext,
    reach: Callable[[Table], Reach | None],
    beside: Beside,
    *,
    completes: bool,
) -> LandingRead:
    """Read landing files; nothing is stored. ``completes``: rows are to be completed before that."""
    tables = [TABLES[name] for name in sorted({name for file in files for name in FORMATS[file.format].tables})]
    rules = Rules({table.name: reach(table) for table in tables}, ENDS_FILE, options.max_raw_text_chars)
    size = sum(file.size_bytes for file in files)
    buckets = Buckets([t.name for t in tables], min(1 + size // _BUCKET_BYTES, _MOST_BUCKETS))
    portions = [Portion(number, heap) for number, heap in enumerate(heaps(files, lambda file: file.size_bytes))]
    staged = {} if completes else _folders(lake, tables)
    read = Read(options, rules, buckets, staged, _WITH_DOUBTS, context.started_at, context.run_id, beside)
    blobs = runner.each(read, portions)
    counts = {row["file"]: row for table in blobs.tables(COUNTS) for row in table.to_pylist()}
    rows: dict[Table, int] = defaultdict(int)
    dates: dict[Table, set[date]] = defaultdict(set)
    first: dict[Table, datetime] = {}
    for told in (told for counted in counts.values() for told in counted["tables"]):
        table = TABLES[told["table"]]
        rows[table] += told["rows"]
        dates[table].update(told["own"])
        if told["rows"]:
            first[table] = min(told["first"], first.get(table, told["first"]))
    numbers = LineNumbers({file.file: number for number, file in enumerate(files)})
    portion_of = [portion.number for portion in portions for _ in portion.files]
    return LandingRead(buckets, staged, numbers, portion_of, blobs, rows, dates, first, counts)


def _folders(lake: ArrowLake, tables: Sequence[Table]) -> dict[str, TableFolder]:
    """Where workers may stage rows; a table must be there before its files."""
    folders = {table: folder for table in tables if (folder := lake.staging(table)) is not None}
    for table in folders:
        lake.create(table)
    return {table.name: folder for table, folder in folders.items()}


def store_read(lake: ArrowLake, runner: Runner, read: LandingRead, completed: Completed | None) -> dict[str, int]:
    """Store each key once: of rival source lines the smallest wins, part by part.

    By file, the lines of which nothing is stored though they have records: what they tell was told by another line.
    """
    tables = list(read.rows)
    lake.together(partial(lake.create, table) for table in tables)
    versions = lake.together(partial(lake.version, table) for table in tables)
    stored = _stored_files(lake, read)
    in_heaps = heaps(stored, lambda one: one.file.size)
    hashes = [runner.each(OfHeap(StoredHashes(read.buckets)), in_heaps)] if stored else []
    found = runner.by_key(find_rivals, read.blobs.of(READ), *hashes)
    folders = read.staged if completed is None else _folders(lake, tables)
    made = read.blobs
    lost: dict[str, int] = {}
    is_contested = any(table.num_rows for table in found.tables(CONTESTED))
    if is_contested or completed is not None:
        names = [FRESH + table.name for table in tables]
        parting = Parted(read.buckets, folders, read.staged, read.numbers, completed)
        made = runner.by_key(parting, read.blobs.of(*names, REFUSED), found.of(RIVALS))
    if is_contested:
        made, lost = _settled(runner, read, stored, found, made, folders)
    rows: dict[str, int] = defaultdict(int)
    for row in (row for table in made.tables(MADE) for row in table.to_pylist()):
        rows[row["name"]] += row["rows"]
    lake.together(
        partial(_store, lake, table, made, rows, read.dates[table], version, is_staged=table.name in folders)
        for table, version in zip(tables, versions, strict=True)
        if rows[FRESH + table.name] or rows[CHANGED + table.name]
    )
    return lost


def _stored_files(lake: ArrowLake, read: LandingRead) -> list[TableFile]:
    """The files that may hold a row with the key of one that was read."""

    def near(table: Table) -> list[DataFile]:
        if table in read.first and table.date_of in table.key:
            return lake.files_since(table, read.dates[table], table.date_of, read.first[table])
        return lake.files(table, read.dates[table])

    folders = [(TableFolder(lake.root, table), near(table)) for table in read.rows]
    files = [(folder, file) for folder, own in folders for file in own]
    return [TableFile(number, folder, file) for number, (folder, file) in enumerate(files)]


def _settled(
    runner: Runner,
    read: LandingRead,
    stored: list[TableFile],
    found: Blobs,
    parted: Blobs,
    folders: Mapping[str, TableFolder],
) -> tuple[Blobs, dict[str, int]]:
    """What is to be stored once rivals are settled, and by file the lines that are not."""
    buckets, numbers = read.buckets, read.numbers
    held = [runner.by_key(HeldRows(buckets, stored), found.of(HELD))] if stored else []
    rivals = parted.of(*(ROWS_READ + table.name for table in read.rows))
    settled = runner.by_key(Settling(buckets, folders, numbers, read.portion_of), rivals, *held)
    counted = runner.by_key(Lost(numbers), parted.of(DOUBTFUL), settled.of(KEPT))
    files = list(numbers.files)
    lost = {files[row["file"]]: row["lines"] for table in counted.tables(LOST) for row in table.to_pylist()}
    return runner.together(parted, settled), lost


def _store(
    lake: ArrowLake,
    table: Table,
    made: Blobs,
    rows: Mapping[str, int],
    dates: Collection[date],
    version: int | None,
    *,
    is_staged: bool,
) -> None:
    schema, fresh, changed = arrow_schema(table), FRESH + table.name, CHANGED + table.name
    lake.store(
        table,
        None if not rows[fresh] else [*files_of_tables(made.tables(fresh))] if is_staged else made.rows(fresh, schema),
        made.rows(changed, schema) if rows[changed] else None,
        dates,
        version,
    )
