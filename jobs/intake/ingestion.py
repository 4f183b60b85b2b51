"""Takes landing files into input tables exactly once, with every line accounted for. Shared by the ingest jobs.

Both engines take the same course: workers read the files; hashes of keys meet, those of all files and those of the
stored rows; only rows whose hash occurs more than once are compared as a whole.

An example. Two files of producer hook lines land, a.jsonl with two starts, a line that is no JSON and a line of another
type, b.jsonl with the first start again and a third one. ``ingested_file`` then says, and a second run changes nothing:

    file      read  stored  duplicate  ignored  quarantined
    a.jsonl   4     2       0          1        1
    b.jsonl   2     1       1          0        0

If the run dies before it writes ``ingested_file``, the next one reads both files again. It finds the stored starts by
their keys, and ends with the same rows and counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.data_files import TableFolder, files_of_tables
from hindsight.jobs.engines.lake_rows import DataFile, Where
from hindsight.jobs.engines.runner import Blob, Blobs, OfHeap, Runner, heaps
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
    Parted,
    Portion,
    Read,
    Settling,
    TableFile,
    count_lost,
    find_rivals,
    held_rows,
    stored_hashes,
)
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.landing_lines import ENDS_FILE, ReadOptions, nothing_stored, read_options
from hindsight.jobs.landing.landing_survey import LandingFile, survey
from hindsight.jobs.landing.ledger import ledger, named
from hindsight.jobs.publishing.quality_gate import check
from hindsight.jobs.running.run_context import IntakeResult, RunContext
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import INGESTED_FILE, QUARANTINE, TABLES, Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landed_rows import COUNTS, REFUSED, Reach, Rules
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.rival_rows import LineNumbers

_LINE_BYTES = 250  # of a producer hook's line, about; packed files hold ten times as many, which are counted once read
_MOST_TOLD = 10  # of the files of which nothing is stored
_COUNTS = ("read", "stored", "duplicate", "ignored", "quarantined")
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


@dataclass(frozen=True)
class Arrived:
    """What a run took in: the formats of its files, and by table the dates that its rows reach."""

    formats: frozenset[str]
    dates: Mapping[str, Sequence[ClusterDate]]

    def of(self, tables: Sequence[Table]) -> list[ClusterDate]:
        """The dates that rows of any of these tables reach."""
        return sorted({date for table in tables for date in self.dates.get(table.name, ())})


def nothing_beside(table: str, rows: pa.Table, portion: int) -> Iterator[Blob]:
    """Nothing is told of any row."""
    yield from ()


@dataclass(frozen=True)
class Intake:
    """What an ingest job brings to the shared course of events.

    Attributes:
        reach: which dates rows of a table can change; None: no derived table rests on them.
        settle: corrects stored rows that late lines change.
        beside: what is told of rows as they are read, for ``complete``.
        complete: gives what sets in rows, before they are stored, what their files do not tell.
    """

    job: str
    formats: tuple[str, ...]
    reach: Callable[[Table], Reach | None]
    settle: Callable[[Arrived], None]
    beside: Beside = nothing_beside
    complete: Callable[[LandingRead], Completed] | None = None


def take_in(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext, intake: Intake) -> IntakeResult:
    """Take in the landing files that the ledger (``ingested_file``) does not have yet.

    The ledger is written last: after a crash at any point the same files are taken in again. Since every key is stored
    once, the result is that of one undisturbed run.
    """
    with lake.plans() as plan_for:
        for table in (INGESTED_FILE, QUARANTINE):
            lake.create(table)
        files = files_to_read(lake, context, intake.formats)
        if not files:
            return IntakeResult()
        size_bytes = sum(file.size_bytes for file in files)
        tell("reads files", files=len(files), megabytes=round(size_bytes / 1e6, 1))
        _tell_unnamed(context, files)
        plan_for(size_bytes // _LINE_BYTES)
        options = read_options(context.landing, settings)
        completes = intake.complete is not None
        read = read_landing(lake, runner, files, options, context, intake.reach, intake.beside, completes=completes)
        plan_for(sum(read.rows.values()))
        for table, rows in read.rows.items():
            tell("found rows", table=table.name, rows=rows)
        lost = store_read(lake, runner, read, intake.complete(read) if intake.complete else None)
        intake.settle(_arrived(files, read))
        _replace_quarantine(lake, read, files)
        taken_in = _taken_in(context, files, read, lost)
        rows = pa.Table.from_pylist(taken_in, schema=arrow_schema(INGESTED_FILE))
        check(lake, context, intake.job, {INGESTED_FILE: rows})
        _enter(lake, rows, files)
        return _result(taken_in)


def _tell_unnamed(context: RunContext, files: Sequence[LandingFile]) -> None:
    """Say which files somebody put into a folder that its writer had sealed; they are taken in as any other."""
    beside = {*context.landed.unnamed} if context.landed is not None else set()
    if told := [file.file for file in files if file.file in beside]:
        such_as = ", ".join(told[:_MOST_TOLD])
        tell("takes in files that the seal of their folder does not name", files=len(told), such_as=such_as)


def files_to_read(lake: ArrowLake, context: RunContext, formats: Sequence[str]) -> list[LandingFile]:
    """Landing files that were never taken in, whose size has changed since, or with rows of the dates asked for.

    All jobs of a run go by what stood there when it began: a folder is listed once, however many formats it holds.
    """
    landed, again = context.landed or survey(context.landing, formats), context.dates
    listed = [file for file in landed.files if file.format in formats]
    rows = named(ledger(lake, formats), [file.file for file in listed])
    known = {
        tuple(row[name] for name in LandingFile._fields)
        for row in rows.to_pylist()
        if not (again.is_given and any(day in again for day in row["event_dates"]))
    }
    return [file for file in listed if tuple(file) not in known]


def _arrived(files: Sequence[LandingFile], read: LandingRead) -> Arrived:
    dates: dict[str, set[ClusterDate]] = {}
    for file in files:
        for told in read.counts[file.file]["tables"]:
            dates.setdefault(told["table"], set()).update(ClusterDate(file.cluster, day) for day in told["reached"])
    return Arrived(frozenset(file.format for file in files), {table: sorted(found) for table, found in dates.items()})


def _replace_quarantine(lake: ArrowLake, read: LandingRead, files: Sequence[LandingFile]) -> None:
    """What these files' earlier readings refused is replaced by what this one refuses."""
    names = [file.file for file in files]
    is_refused = any(counted["quarantined"] for counted in read.counts.values())
    if is_refused or len(lake.counted(QUARANTINE, ["source_file"], Where(values={"source_file": names}))):
        refused = read.blobs.rows(REFUSED, arrow_schema(QUARANTINE))
        lake.replace_files(QUARANTINE, refused, "source_file", names)


def _enter(lake: ArrowLake, rows: pa.Table, files: Sequence[LandingFile]) -> None:
    """Write the ledger's rows of these files; those of earlier readings of them go."""
    names = [file.file for file in files]
    if len(named(ledger(lake, {file.format for file in files}), names)):
        lake.replace_files(INGESTED_FILE, rows, "file", names)
    else:
        lake.gather(INGESTED_FILE, rows)


def _taken_in(
    context: RunContext, files: Sequence[LandingFile], read: LandingRead, lost: Mapping[str, int]
) -> list[dict[str, Any]]:
    """One row per file. A line counts as stored when a row, or a part of one, names it as its source."""
    return [
        {
            **file._asdict(),
            **{name: counted[name] for name in ("read", "ignored", "quarantined", "complete")},
            "stored": counted["with_records"] - lost.get(file.file, 0),
            "duplicate": lost.get(file.file, 0),
            "event_dates": sorted({day for told in counted["tables"] for day in told["reached"]}),
            "ingested_at": context.started_at,
            "run_id": context.run_id,
        }
        for file, counted in ((file, read.counts[file.file]) for file in files)
    ]


def _result(taken_in: Sequence[Mapping[str, Any]]) -> IntakeResult:
    left_nothing = [row for row in taken_in if not row["stored"] and not row["duplicate"]]
    if left_nothing:
        shown = sorted(left_nothing, key=lambda row: row["file"])[:_MOST_TOLD]
        said = [f"{row['file']}: {nothing_stored(row['read'], row['ignored'], row['quarantined'])}" for row in shown]
        tell("stored nothing of files", files=len(left_nothing), such_as="; ".join(said))
    sums = {name: sum(row[name] for row in taken_in) for name in _COUNTS}
    return IntakeResult(files=len(taken_in), **sums, nothing_stored=len(left_nothing))


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
    """Where workers stage rows; a table must be there before its files."""
    for table in tables:
        lake.create(table)
    return {table.name: lake.folder(table) for table in tables}


def store_read(lake: ArrowLake, runner: Runner, read: LandingRead, completed: Completed | None) -> dict[str, int]:
    """Store each key once: of rival source lines the smallest wins, part by part.

    By file, the lines of which nothing is stored though they have records: what they tell was told by another line.
    """
    tables = list(read.rows)
    lake.together(partial(lake.create, table) for table in tables)
    versions = lake.together(partial(lake.version, table) for table in tables)
    stored = _stored_files(lake, read)
    in_heaps = heaps(stored, lambda one: one.file.size)
    hashes = [runner.each(OfHeap(partial(stored_hashes, buckets=read.buckets)), in_heaps)] if stored else []
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
        partial(_store, lake, table, made, rows, read.dates[table], version)
        for table, version in zip(tables, versions, strict=True)
        if rows[FRESH + table.name] or rows[CHANGED + table.name]
    )
    return lost


def _stored_files(lake: ArrowLake, read: LandingRead) -> list[TableFile]:
    """The files that may hold a row with the key of one that was read."""

    def near(table: Table) -> list[DataFile]:
        is_bounded = table in read.first and table.date_of in table.key
        return lake.files(table, read.dates[table], (table.date_of, read.first[table]) if is_bounded else None)

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
    held = [runner.by_key(partial(held_rows, buckets=buckets, files=stored), found.of(HELD))] if stored else []
    rivals = parted.of(*(ROWS_READ + table.name for table in read.rows))
    settled = runner.by_key(Settling(buckets, folders, numbers, read.portion_of), rivals, *held)
    counted = runner.by_key(count_lost, parted.of(DOUBTFUL), settled.of(KEPT))
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
) -> None:
    fresh, changed = FRESH + table.name, CHANGED + table.name
    lake.store(
        table,
        [*files_of_tables(made.tables(fresh))] if rows[fresh] else None,
        made.rows(changed, arrow_schema(table)) if rows[changed] else None,
        dates,
        version,
    )
