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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.engines.runner import Blob, Runner
from hindsight.jobs.intake.intake_course import LandingRead, read_landing, store_read
from hindsight.jobs.intake.intake_kernels import Beside, Completed
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.landing_lines import nothing_stored, read_options
from hindsight.jobs.landing.landing_survey import LandingFile, survey
from hindsight.jobs.landing.ledger import ledger, named
from hindsight.jobs.publishing.quality_gate import check
from hindsight.jobs.running.run_context import IntakeResult, RunContext
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import INGESTED_FILE, QUARANTINE, Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landed_rows import REFUSED, Reach

_LINE_BYTES = 250  # of a producer hook's line, about; packed files hold ten times as many, which are counted once read
_MOST_TOLD = 10  # of the files of which nothing is stored
_COUNTS = ("read", "stored", "duplicate", "ignored", "quarantined")


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
