"""Takes landing files into input tables exactly once, with every line accounted for. Shared by the ingest jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from conf.settings import Settings
from jobs.delta_tables import Lake
from jobs.landing_files import parsed_lines, record_schema
from jobs.landing_lines import ENDS_FILE
from jobs.landing_survey import LandingFile, survey
from jobs.landing_tally import nothing_stored
from jobs.quality_gate import check
from jobs.read_options import read_options
from jobs.run_context import EVERY_DATE, DateRange, RunContext
from jobs.run_log import tell
from jobs.spark_plans import interpreted_plans
from jobs.table_schema import conformed
from jobs.transforms.frames import ClusterDate, rows_of, sql_text, staged
from schemas import TABLES, Table
from schemas.bookkeeping import INGESTED_FILE, QUARANTINE
from udfs.landing_formats import FORMATS

_LINE_BYTES = 250  # of a producer hook's line, about; packed files hold ten times as many, which are counted once read
_MOST_TOLD = 10  # of the files of which nothing is stored
_LISTED = "cluster string, format string, file string, size_bytes long, event_dates array<date>"


@dataclass(frozen=True)
class Reach:
    """Which dates a stored row can change: those of its instants, and of these seconds around them."""

    instants: tuple[str, ...] = ()
    before_s: int = 0
    after_s: int = 0


@dataclass(frozen=True)
class Arrived:
    """What a run took in: the formats of its files, and by table the dates that its rows reach."""

    formats: frozenset[str]
    dates: Mapping[str, list[ClusterDate]]

    def of(self, tables: Sequence[Table]) -> list[ClusterDate]:
        """The dates that rows of any of these tables reach."""
        return sorted({date for table in tables for date in self.dates.get(table.name, ())})


@dataclass(frozen=True)
class Intake:
    """What an ingest job brings to the shared course of events."""

    job: str
    formats: tuple[str, ...]
    prepare: Callable[[DataFrame, Table], DataFrame]  # pairs halves, sets the round
    reach: Callable[[Table], Reach | None]  # None: no derived table rests on its rows
    settle: Callable[[Arrived], None]  # corrects stored rows that late lines change


@dataclass(frozen=True)
class IntakeResult:
    """What was read and what came of it, in lines; ``nothing_stored``: files of which no line is stored or known."""

    files: int = 0
    read: int = 0
    stored: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0
    nothing_stored: int = 0


def take_in(lake: Lake, settings: Settings, context: RunContext, intake: Intake) -> IntakeResult:
    """Take in the landing files that the ledger does not hold yet.

    The ledger is written last: after a crash at any point the same files are taken in again, and since every table
    is merged by key the result is that of one undisturbed run.
    """
    with interpreted_plans(lake.spark) as plan_for:
        return _take_in(lake, settings, context, intake, plan_for)


def _take_in(
    lake: Lake, settings: Settings, context: RunContext, intake: Intake, plan_for: Callable[[int], None]
) -> IntakeResult:
    for table in (INGESTED_FILE, QUARANTINE):
        lake.create(table)
    files = files_to_read(lake, context.landing, intake.formats, again=context.dates)
    if not files:
        return IntakeResult()
    size_bytes = sum(file.size_bytes for file in files)
    tell("reads files", files=len(files), megabytes=round(size_bytes / 1e6, 1))
    plan_for(size_bytes // _LINE_BYTES)
    parsed = parsed_lines(lake.spark, files, read_options(context.landing, settings)).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    try:
        counts = _counts(parsed, files)
        plan_for(sum(counts.values()))
        for name, rows in counts.items():
            tell("found rows", table=name, rows=rows)
        fed = [TABLES[name] for name in counts]
        reached = _dates_reached(parsed, fed, context, intake)
        dates = {table: sorted({row.own_date for row in reached if row.table == table.name}) for table in fed}
        lake.together(
            partial(lake.merge, table, intake.prepare(table_rows(parsed, table, context), table), dates[table])
            for table in fed
        )
        intake.settle(_arrived(files, fed, reached))
        _replace_quarantine(lake, context, parsed, files)
        ledger = staged(conformed(_ledger(lake, context, parsed, fed, files, reached), INGESTED_FILE))
        check(lake, context, intake.job, {INGESTED_FILE: ledger})
        lake.replace_where(INGESTED_FILE, ledger, _of_files("file", files))
        return _result(ledger, files)
    finally:
        parsed.unpersist()


def _counts(parsed: DataFrame, files: list[LandingFile]) -> dict[str, int]:
    """Rows by table, of the tables for which there are any: the others must cost nothing."""
    names = sorted({name for file in files for name in FORMATS[file.format].tables})
    counts = rows_of(parsed.agg(*(F.count(F.col(name)).alias(name) for name in names)))[0]
    return {name: counts[name] for name in names if counts[name]}


def _arrived(files: list[LandingFile], fed: list[Table], reached: list[Row]) -> Arrived:
    dates = {
        table.name: sorted(
            {ClusterDate(r.cluster, r.event_date) for r in reached if r.table == table.name and r.event_date}
        )
        for table in fed
    }
    return Arrived(frozenset(file.format for file in files), dates)


def files_to_read(
    lake: Lake, landing: str, formats: Sequence[str], *, again: DateRange = EVERY_DATE
) -> list[LandingFile]:
    """Landing files that were never taken in, whose size has changed since, or with rows of the dates ``again``."""
    listed = survey(landing, formats).files
    ledger = lake.read(INGESTED_FILE).where(F.col("format").isin(*formats))
    if again.is_given:
        ledger = ledger.where(~F.exists("event_dates", again.holds))
    known = {tuple(row) for row in rows_of(ledger.select("cluster", "format", "file", "size_bytes"))}
    return [file for file in listed if tuple(file) not in known]


def table_rows(parsed: DataFrame, table: Table, context: RunContext) -> DataFrame:
    """The rows that the parsed lines hold for one table, with their dates and source lines."""
    columns = [
        (F.timestamp_millis(_field(table, f.name)) if _is_instant(table, f.name) else _field(table, f.name)).alias(
            f.name
        )
        for f in record_schema(table).fields
    ]
    rows = parsed.where(F.col(table.name).isNotNull()).select(
        "cluster",
        *columns,
        F.col("format").alias("source"),
        F.col("file").alias("source_file"),
        F.col("line_number").alias("source_line"),
        *context.lineage(),
    )
    return rows.withColumn("event_date", F.to_date(table.date_of))


def _field(table: Table, name: str) -> Column:
    return F.col(f"`{table.name}`.`{name}`")


def _is_instant(table: Table, name: str) -> bool:
    return isinstance(table.columns[name].dataType, TimestampType)


def _dates_reached(parsed: DataFrame, tables: list[Table], context: RunContext, intake: Intake) -> list[Row]:
    """Per table and file, the dates its rows fall on (``own_date``) and the dates they can change (null: none)."""
    each = []
    for table in tables:
        reach = intake.reach(table)
        moved = [
            F.to_date(F.col(name) + F.expr(f"INTERVAL '{seconds}' SECOND"))
            for name in (reach.instants if reach else ())
            for seconds in sorted({-reach.before_s, 0, reach.after_s} if reach else ())
        ]
        changed = F.array("event_date", *moved) if reach else F.array(F.lit(None).cast("date"))
        dates = F.explode(F.array_distinct(F.array_compact(changed) if reach else changed))
        columns = {
            "table": F.lit(table.name),
            "cluster": F.col("cluster"),
            "file": F.col("source_file"),
            "own_date": F.col("event_date"),
            "event_date": dates,
        }
        each.append(table_rows(parsed, table, context).select(*(c.alias(name) for name, c in columns.items())))
    return rows_of(reduce(DataFrame.union, each).distinct()) if each else []


def _replace_quarantine(lake: Lake, context: RunContext, parsed: DataFrame, files: list[LandingFile]) -> None:
    """What these files' earlier readings refused is replaced by what this one refuses."""
    refused = parsed.where(F.col("reason_code").isNotNull()).select(
        "cluster",
        "format",
        F.col("file").alias("source_file"),
        "line_number",
        "byte_start",
        "byte_end",
        "reason_code",
        "detail",
        "raw_text",
        *context.lineage(),
    )
    of_files = _of_files("source_file", files)
    if not (refused.isEmpty() and lake.read(QUARANTINE).where(of_files).isEmpty()):
        lake.replace_where(QUARANTINE, refused, of_files)


def _of_files(column: str, files: list[LandingFile]) -> str:
    names = ", ".join(sql_text(file.file) for file in files)
    return f"{column} IN ({names})"


def _ledger(
    lake: Lake,
    context: RunContext,
    parsed: DataFrame,
    tables: list[Table],
    files: list[LandingFile],
    reached: list[Row],
) -> DataFrame:
    """One row per file. A line counts as stored when a row, or a part of one, names it as its source."""
    stored = _stored_lines(lake, tables, files, reached).withColumn("is_stored", F.lit(True))
    with_records = F.col("ignored").isNull() & F.col("reason_code").isNull() & (F.col("lines") == 1)
    counted = (
        parsed.select("file", "line_number", "lines", "ignored", "reason_code")
        .join(stored, ["file", "line_number"], "left")
        .groupBy("file")
        .agg(
            F.sum("lines").alias("read"),
            F.count_if(with_records & F.col("is_stored").isNotNull()).alias("stored"),
            F.count_if(with_records & F.col("is_stored").isNull()).alias("duplicate"),
            F.coalesce(F.sum(F.when(F.col("ignored"), F.col("lines"))), F.lit(0)).alias("ignored"),
            F.count_if(F.col("reason_code").isNotNull()).alias("quarantined"),
            (F.count_if(F.col("reason_code").isin(*ENDS_FILE)) == 0).alias("complete"),
        )
    )
    dates = {
        file.file: sorted({row.event_date for row in reached if row.file == file.file and row.event_date})
        for file in files
    }
    listed = lake.spark.createDataFrame([(*file, dates[file.file]) for file in files], _LISTED)
    return (
        listed.join(counted, ["file"], "left")
        .fillna(0, ["read", "stored", "duplicate", "ignored", "quarantined"])
        .fillna(True, ["complete"])
        .select("*", *context.lineage())
    )


def _stored_lines(lake: Lake, tables: list[Table], files: list[LandingFile], reached: list[Row]) -> DataFrame:
    names = [file.file for file in files]
    sources = []
    for table in tables:
        dates = {row.own_date for row in reached if row.table == table.name}
        rows = lake.read(table).where(F.col("event_date").isin(*dates))
        for file, line in {part.line for part in table.row_parts}:
            sources.append(rows.where(F.col(file).isin(*names)).select(F.col(file), F.col(line)))
    if not sources:
        return lake.spark.createDataFrame([], "file string, line_number long")
    return reduce(DataFrame.union, sources).distinct().toDF("file", "line_number")


def _result(ledger: DataFrame, files: list[LandingFile]) -> IntakeResult:
    names = ("read", "stored", "duplicate", "ignored", "quarantined")
    left_nothing = (F.col("stored") == 0) & (F.col("duplicate") == 0)
    sums = (F.sum(name).alias(name) for name in names)
    totals = rows_of(ledger.agg(*sums, F.count_if(left_nothing).alias("nothing_stored")))[0]
    if totals.nothing_stored:
        shown = rows_of(ledger.where(left_nothing).orderBy("file").limit(_MOST_TOLD))
        said = [f"{row.file}: {nothing_stored(row.read, row.ignored, row.quarantined)}" for row in shown]
        tell("stored nothing of files", files=totals.nothing_stored, such_as="; ".join(said))
    return IntakeResult(len(files), *(int(totals[name] or 0) for name in (*names, "nothing_stored")))
