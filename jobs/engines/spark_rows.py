"""What a lake of Spark gives and takes in Arrow's terms, beside its frames: see ``arrow_lake``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from functools import reduce
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.arrow_lake import EVERY_ROW, DataFile, Digests, Where, written_meanwhile
from hindsight.jobs.engines.spark_gate import counted_results
from hindsight.jobs.engines.spark_sql import dates_sql, in_dates, rows_of, sql_text
from hindsight.jobs.engines.unseen_spark import seen_spark
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.table_schema import stored_schema
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.values.date_digests import SUMMED, by_date, digests_of

_COMPILED_FROM_LINES = 30_000  # somewhat below the 35,000 and 56,000 at which these lines cross
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted_plans(spark: SparkSession) -> Iterator[Callable[[int], None]]:
    """Interpret what is planned within, until the function that this gives is told of many landed lines."""
    usual = {name: str(spark.conf.get(name)) for name in _INTERPRETED}

    def plan_for(lines: int) -> None:
        if lines >= _COMPILED_FROM_LINES:
            _configure(spark, usual)

    _configure(spark, _INTERPRETED)
    try:
        yield plan_for
    finally:
        _configure(spark, usual)


def _configure(spark: SparkSession, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        spark.conf.set(name, value)


class FrameLake(Protocol):
    """What the methods below rest on: a lake that reads and writes frames."""

    spark: SparkSession
    known_files: dict[str, tuple[tuple[str, int], list[DataFile]]]  # by table those of a version

    def exists(self, table: Table) -> bool:
        """Whether it was created."""

    def path(self, table: Table) -> str:
        """Where a table stands."""

    def read(self, table: Table) -> DataFrame:
        """The table's rows."""

    def candidates(self, table: Table) -> DataFrame:
        """The rows that this run computed."""

    def replace_where(self, table: Table, rows: Any, predicate: str) -> None:
        """Replace the rows that satisfy a condition of SQL."""

    def version(self, table: Table) -> int | None:
        """The latest version of a table."""

    def append(self, table: Table, rows: Any) -> None:
        """Add rows."""

    def update(self, table: Table, changed: Any, columns: list[str], dates: Iterable[date]) -> None:
        """Set columns of rows."""


class SparkRows:
    """Methods of ``Lake`` that speak Arrow, and their conditions."""

    def rows(self: FrameLake, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        """Bring few rows to the driver, with these columns (none named: all)."""
        wanted = list(columns) or table.schema.names
        found = self.read(table).where(sql_of(where)).select(*(f"`{name}`" for name in wanted))
        return conformed_rows(found.toArrow(), table, wanted)

    def files(self: FrameLake, table: Table, dates: Collection[date] | None = None) -> list[DataFile]:
        """The files of the latest version that hold rows of these dates; None: all."""
        if not self.exists(table):
            return []
        now = latest(self.spark, self.path(table))
        version, found = self.known_files.get(table.name, (None, []))
        if version != (at := (now.metadata().id(), now.version())):
            self.read(table)  # refuses what is of no contract
            found = _files_of(DataFrame(now.allFiles().toDF(), self.spark), dated=table.dated)
            self.known_files[table.name] = at, found
        return [file for file in found if dates is None or not table.dated or file.event_date in dates]

    def files_since(
        self: FrameLake, table: Table, dates: Collection[date], column: str, since: datetime
    ) -> list[DataFile]:
        """The same: statistics are not looked at."""
        return SparkRows.files(self, table, dates)

    def gather(self: FrameLake, table: Table, rows: pa.Table) -> None:
        """Add rows: Spark's workers may read them next."""
        self.append(table, rows)

    def gathered(self, table: Table) -> pa.Table:
        """None wait."""
        return arrow_schema(table).empty_table()

    def write_gathered(self) -> None:
        """None wait."""

    def store(
        self: FrameLake,
        table: Table,
        fresh: Any | None,
        changed: Any | None,
        dates: Collection[date],
        version: int | None,
    ) -> None:
        """Add ``fresh`` rows, then put ``changed`` ones in the place of those with their keys.

        A run that is broken off between the two is followed by one that does both: fresh rows are stored by then.
        """
        if self.version(table) != version:
            raise written_meanwhile(self.path(table))
        if fresh is not None:
            self.append(table, fresh)
        if changed is not None:
            others = [name for name in table.schema.names if name not in table.key]
            self.update(table, frame_of(self.spark, changed, table), others, dates)

    def staging(self, table: Table) -> None:
        """Spark writes what it is handed."""

    def replace_dates(self: FrameLake, table: Table, rows: Any, dates: Collection[ClusterDate]) -> None:
        """Replace the rows of these dates of clusters; ``rows`` are of no other."""
        self.replace_where(table, rows, in_dates(dates))

    def replace_since(
        self: FrameLake,
        table: Table,
        rows: Any,
        dates: Collection[ClusterDate],
        column: str,
        since: Mapping[ClusterDate, datetime],
    ) -> None:
        """The same, but of a date in ``since`` only the rows whose ``column`` is not earlier than the instant there."""
        terms = [in_dates([at for at in dates if at not in since])] if set(dates) - since.keys() else []
        terms += [sql_of(Where(dates=[at], since={column: instant})) for at, instant in since.items()]
        self.replace_where(table, rows, " OR ".join(f"({term})" for term in terms))

    def replace_files(self: FrameLake, table: Table, rows: Any, column: str, files: Collection[str]) -> None:
        """Replace the rows whose ``column`` names one of these landing files; ``rows`` name no other."""
        self.replace_where(table, rows, sql_of(Where(values={column: files})))

    def replace(self: FrameLake, table: Table, rows: Any, where: Where) -> None:
        """Replace the rows that meet a condition; ``rows`` meet it too."""
        self.replace_where(table, rows, sql_of(where))

    def candidate_digests(self: FrameLake, columns: Mapping[Table, Sequence[str]]) -> Digests:
        """Of each table's candidate rows, per date their number and a digest of these columns (none: 0)."""
        pieces = [_summed(self.candidates(table), table, names) for table, names in columns.items()]
        found = reduce(DataFrame.unionAll, pieces).toArrow()
        digests = {}
        for table in columns:
            of_table = found.filter(pc.equal(found.column("table"), table.name)).drop(["table"]).cast(SUMMED)
            digests[table] = [(ClusterDate(cluster, day), each) for cluster, day, each in digests_of(of_table)]
        return digests

    def counted(self: FrameLake, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        """The values that these columns hold together, each once, and their number of rows as ``rows``."""
        names = [f"`{name}`" for name in columns]
        counts: pa.Table = (
            self.read(table).where(sql_of(where)).groupBy(*names).agg(F.count("*").alias("rows")).toArrow()
        )
        return conformed_rows(counts, table, columns).append_column("rows", counts.column("rows"))

    def candidate_dates(self: FrameLake, table: Table, where: Where) -> set[ClusterDate]:
        """The dates of which a candidate row meets a condition."""
        found = self.candidates(table).where(sql_of(where)).select("cluster", "event_date").distinct()
        return {ClusterDate(*row) for row in rows_of(found)}

    def of_dates(
        self: FrameLake, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]
    ) -> DataFrame:
        """Stored rows of some dates and this run's candidates of others."""
        rows = self.read(table).where(in_dates(stored))
        return rows.unionByName(self.candidates(table).where(in_dates(computed))) if computed else rows

    def counted_results(
        self: FrameLake, frames: Mapping[Table, Any], whole: Mapping[Table, Any]
    ) -> list[dict[str, Any]]:
        """Check rows by counting those that break a rule, beside all rows of others (``whole``)."""
        return counted_results(self, *_frames_of(self.spark, frames, whole))

    def expectation_results(
        self: FrameLake, job: str, frames: Mapping[Table, Any], whole: Mapping[Table, Any]
    ) -> list[dict[str, Any]]:
        """The same by Great Expectations."""
        with seen_spark():  # Great Expectations takes seconds to import
            from hindsight.jobs.engines.spark_expectations import results_of

        return results_of(self, job, *_frames_of(self.spark, frames, whole))

    def plans(self: FrameLake) -> AbstractContextManager[Callable[[int], None]]:
        """Interpreted plans for few lines, compiled ones for many."""
        return interpreted_plans(self.spark)


def latest(spark: SparkSession, path: str) -> Any:
    """The latest version of a Delta table, as Delta itself knows it."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    return log.update(*(getattr(log, f"update$default${number}")() for number in (1, 2, 3)))


def _files_of(added: DataFrame, *, dated: bool) -> list[DataFile]:
    """What Delta says of a version's files, older ones first: a job of Spark's, however few they are."""
    day = "CAST(partitionValues['event_date'] AS DATE)" if dated else "CAST(NULL AS DATE)"
    counted = "CAST(get_json_object(stats, '$.numRecords') AS BIGINT)"
    least, most = (f"get_json_object(stats, '$.{bound}Values.cluster')" for bound in ("min", "max"))
    of_one = f"IF({least} = {most}, {least}, NULL) AS cluster"
    told = added.selectExpr("path", "size", f"{counted} AS rows", f"{day} AS event_date", of_one, "modificationTime")
    in_order = sorted(rows_of(told), key=lambda row: (row.modificationTime, row.path))
    return [DataFile(unquote(path), *said) for path, *said, _ in in_order]


def _summed(rows: DataFrame, table: Table, columns: Sequence[str]) -> DataFrame:
    """Digests of pieces of rows, made where they lie; ``table`` says of which."""
    wanted = list(dict.fromkeys(["cluster", "event_date", *columns]))

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            piece = by_date(conformed_rows(pa.Table.from_batches([batch]), table, wanted), columns)
            yield from piece.append_column("table", pa.repeat(table.name, len(piece))).to_batches()

    found = SUMMED.append(pa.field("table", pa.string()))
    return rows.select(*(f"`{name}`" for name in wanted)).mapInArrow(summed, from_arrow_schema(found))


def _frames_of(spark: SparkSession, *given: Mapping[Table, Any]) -> list[dict[Table, DataFrame]]:
    return [{table: frame_of(spark, rows, table) for table, rows in of.items()} for of in given]


def frame_of(spark: SparkSession, rows: Any, table: Table) -> DataFrame:
    """Rows as a frame: one of Spark's as it is, Arrow's sent to the JVM."""
    if isinstance(rows, pa.Table):
        return spark.createDataFrame(conformed_rows(rows, table), stored_schema(table))
    frame: DataFrame = rows
    return frame


def sql_of(where: Where) -> str:
    """A condition as Spark reads it."""
    terms = [f"`{name}` IN ({', '.join(map(_literal, values))})" for name, values in where.values.items() if values]
    terms += ["false" for values in where.values.values() if not values]
    terms += [f"`{name}` < TIMESTAMP{sql_text(instant.isoformat())}" for name, instant in where.before.items()]
    terms += [f"`{name}` >= TIMESTAMP{sql_text(instant.isoformat())}" for name, instant in where.since.items()]
    terms += [f"({in_dates(where.dates)})"] if where.dates is not None else []
    return " AND ".join(terms) or "true"


def _literal(value: Any) -> str:
    if isinstance(value, date):
        return dates_sql([value])
    return sql_text(value) if isinstance(value, str) else str(value)
