"""The tables of a lake on Spark: the one reader and writer of Delta there, in frames and in Arrow's terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from typing_extensions import override

from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.arrow_lake import (
    CANDIDATES,
    EVERY_ROW,
    KEPT_UNSAID,
    RETENTIONS,
    ArrowLake,
    DataFile,
    Digests,
    Footprint,
    Where,
    written_meanwhile,
)
from hindsight.jobs.engines.spark_gate import counted_results
from hindsight.jobs.engines.spark_sql import dates_sql, in_dates, interpreted_plans, rows_of, sql_of, sql_text
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import for_hadoop, hadoop_place
from hindsight.jobs.lake.table_schema import (
    conformed,
    is_earlier,
    later_columns,
    stored_schema,
    tell_later,
    with_absent_columns,
)
from hindsight.jobs.running.unseen import seen_spark
from hindsight.schemas import Table
from hindsight.udfs.values.date_digests import SUMMED, by_date, digests_of


class Lake(ArrowLake):
    """The tables under one root, as ``ArrowLake`` says; candidates stand at ``<root>/_candidate/<name>``."""

    spark: SparkSession

    def __init__(
        self, spark: SparkSession, root: str, *, retention_days: int, confirm: Callable[[], None] = lambda: None
    ) -> None:
        self.spark = spark
        self.root = for_hadoop(root).rstrip("/")
        self.retention_days = retention_days
        self.confirm = confirm
        self._of_contract: set[str] = set()
        self._known_files: dict[str, tuple[tuple[str, int], list[DataFile]]] = {}  # by table those of a version

    def candidate_path(self, table: Table) -> str:
        """Where its candidate stands, the rows that are not published yet."""
        return f"{self.root}/{CANDIDATES}/{table.name}"

    @override
    def exists(self, table: Table) -> bool:
        return DeltaTable.isDeltaTable(self.spark, self.path(table))

    def _create(self, table: Table) -> None:
        self.confirm()
        kept = f"interval {self.retention_days} days"
        builder = (
            DeltaTable.createIfNotExists(self.spark)
            .location(self.path(table))
            .addColumns(stored_schema(table))
            .comment(table.comment)
            .property("delta.enableDeletionVectors", "false")
        )
        for name in RETENTIONS:
            builder = builder.property(name, kept)
        if table.dated:
            builder = builder.partitionedBy("event_date")
        builder.execute()

    def _migrate(self, table: Table) -> None:
        if later := later_columns(self._stored(table).schema, table, self.path(table)):
            self.confirm()
            tell_later(table, later)
            columns = self.spark.createDataFrame([], stored_schema(table))
            columns.write.format("delta").mode("append").option("mergeSchema", "true").save(self.path(table))

    def read(self, table: Table) -> DataFrame:
        """The table's rows; an empty frame where it does not exist.

        A column that it has not got yet is null. Raises: WrongSchemaError: it is of no earlier contract either.
        """
        if not self.exists(table):
            return self.spark.createDataFrame([], stored_schema(table))
        stored = self._stored(table)
        if is_earlier(stored.schema, table, self.path(table)):
            return with_absent_columns(stored, table)
        return stored

    def _stored(self, table: Table) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(table))

    @override
    def rows(self, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        wanted = list(columns) or table.schema.names
        found = self.read(table).where(sql_of(where)).select(*(f"`{name}`" for name in wanted))
        return conformed_rows(found.toArrow(), table, wanted)

    @override
    def counted(self, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        names = [f"`{name}`" for name in columns]
        counts: pa.Table = (
            self.read(table).where(sql_of(where)).groupBy(*names).agg(F.count("*").alias("rows")).toArrow()
        )
        return conformed_rows(counts, table, columns).append_column("rows", counts.column("rows"))

    @override
    def files(self, table: Table, dates: Collection[date] | None = None) -> list[DataFile]:
        if not self.exists(table):
            return []
        now = _latest(self.spark, self.path(table))
        version, found = self._known_files.get(table.name, (None, []))
        if version != (at := (now.metadata().id(), now.version())):
            self.read(table)  # refuses what is of no contract
            found = _files_of(DataFrame(now.allFiles().toDF(), self.spark), dated=table.dated)
            self._known_files[table.name] = at, found
        return [file for file in found if dates is None or not table.dated or file.event_date in dates]

    @override
    def append(self, table: Table, rows: Any) -> None:
        self.confirm()
        self.create(table)
        conformed(frame_of(self.spark, rows, table), table).write.format("delta").mode("append").save(self.path(table))

    def write_gathered(self) -> None:
        """None wait."""

    @override
    def store(
        self, table: Table, fresh: Any | None, changed: Any | None, dates: Collection[date], version: int | None
    ) -> None:
        """In two commits: a run that is broken off between them is followed by one that does both, whose fresh rows are
        stored by then.
        """
        if self.version(table) != version:
            raise written_meanwhile(self.path(table))
        if fresh is not None:
            self.append(table, fresh)
        if changed is not None:
            others = [name for name in table.schema.names if name not in table.key]
            self.update(table, frame_of(self.spark, changed, table), others, dates)

    @override
    def add_candidates(self, table: Table, rows: Any, *, first: bool) -> None:
        """As plain Parquet: only this run reads it, and nobody else may."""
        self.confirm()
        stored = conformed(frame_of(self.spark, rows, table), table)
        stored.write.mode("overwrite" if first else "append").parquet(self.candidate_path(table))

    @override
    def candidates(self, table: Table) -> DataFrame:
        return self.spark.read.schema(stored_schema(table)).parquet(self.candidate_path(table))

    @override
    def candidate_digests(self, columns: Mapping[Table, Sequence[str]]) -> Digests:
        pieces = [_summed(self.candidates(table), table, names) for table, names in columns.items()]
        found = reduce(DataFrame.unionAll, pieces).toArrow()
        digests = {}
        for table in columns:
            of_table = found.filter(pc.equal(found.column("table"), table.name)).drop(["table"]).cast(SUMMED)
            digests[table] = [(ClusterDate(cluster, day), each) for cluster, day, each in digests_of(of_table)]
        return digests

    @override
    def candidate_dates(self, table: Table, where: Where) -> set[ClusterDate]:
        found = self.candidates(table).where(sql_of(where)).select("cluster", "event_date").distinct()
        return {ClusterDate(*row) for row in rows_of(found)}

    @override
    def of_dates(self, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]) -> DataFrame:
        rows = self.read(table).where(in_dates(stored))
        return rows.unionByName(self.candidates(table).where(in_dates(computed))) if computed else rows

    @override
    def update(self, table: Table, changed: DataFrame, columns: list[str], dates: Iterable[date]) -> None:
        self.confirm()
        same_key = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)
        (
            self._delta(table)
            .alias("t")
            .merge(changed.alias("s"), f"t.event_date IN ({dates_sql(dates)}) AND {same_key}")
            .whenMatchedUpdate(set={name: F.col(f"s.`{name}`") for name in columns})
            .execute()
        )

    def _replace(self, table: Table, rows: Any, conditions: Sequence[Where]) -> None:
        terms = [sql_of(where) for where in conditions]
        self.replace_where(table, rows, " OR ".join(f"({term})" for term in terms) if len(terms) > 1 else terms[0])

    def replace_where(self, table: Table, rows: Any, predicate: str) -> None:
        """Replace the rows that satisfy ``predicate`` in one commit; ``rows`` must satisfy it too."""
        self.confirm()
        self.create(table)
        rows = conformed(frame_of(self.spark, rows, table), table)
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", predicate)
        writer.save(self.path(table))

    @override
    def version(self, table: Table) -> int | None:
        if not self.exists(table):
            return None
        return int(_latest(self.spark, self.path(table)).version())

    @override
    def delete(self, table: Table, where: Where) -> None:
        self.confirm()
        condition = sql_of(where)
        if not self.read(table).where(condition).isEmpty():
            self._delta(table).delete(condition)

    @override
    def compact(self, table: Table) -> None:
        self.confirm()
        self._delta(table).optimize().executeCompaction()

    @override
    def vacuum(self, table: Table) -> None:
        """As every lake does it; Delta's own check of the retention stays on."""
        self.confirm()
        properties = rows_of(self._delta(table).detail().select("properties"))[0].properties
        if _kept(self.spark, properties) < timedelta(days=self.retention_days):
            longer = ", ".join(f"'{name}' = 'interval {self.retention_days} days'" for name in RETENTIONS)
            self.spark.sql(f"ALTER TABLE delta.`{self.path(table)}` SET TBLPROPERTIES ({longer})")
        self._delta(table).vacuum()

    @override
    def operations_since(self, table: Table, version: int) -> set[str]:
        later = self._delta(table).history().where(F.col("version") > version).select("operation").distinct()
        return {row.operation for row in rows_of(later)}

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Keep quiet what Delta prints itself while it vacuums: the JVM's stdout is that of the command."""
        jvm: Any = self.spark._jvm
        console = getattr(getattr(jvm.scala, "Console$"), "MODULE$")
        before = console.out()
        console.setOutDirect(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
        try:
            yield
        finally:
            console.setOutDirect(before)

    @override
    def footprint(self, table: Table) -> Footprint:
        detail = rows_of(self._delta(table).detail().select("numFiles", "sizeInBytes", "properties"))[0]
        since = datetime.now(UTC) - _kept(self.spark, detail.properties)
        commit = F.struct("version", F.unix_millis("timestamp").alias("ms"))
        place, files = hadoop_place(self.spark, self.path(table))
        # Vacuum keeps the files of the version that was current then; the log may begin later.
        needed = F.max(F.when(F.col("timestamp") <= F.lit(since), commit))
        oldest = rows_of(self._delta(table).history().select(F.coalesce(needed, F.min(commit)).alias("c")))[0].c
        return Footprint(
            rows=self.read(table).count(),
            files=detail.numFiles,
            bytes=detail.sizeInBytes,
            bytes_with_history=int(files.getContentSummary(place).getLength()),
            oldest_version=oldest.version,
            oldest_at=datetime.fromtimestamp(oldest.ms / 1000, UTC),
        )

    @override
    def drop_old_candidates(self, table: Table) -> None:
        self.confirm()
        place, files = hadoop_place(self.spark, self.candidate_path(table))
        if not files.exists(place):
            return
        written = self.spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place.toString())
        youngest = rows_of(written.select(F.unix_seconds(F.max("modificationTime")).alias("at")))[0].at
        if youngest and datetime.now(UTC).timestamp() - youngest > self.retention_days * 86_400:
            files.delete(place, True)

    def _delta(self, table: Table) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path(table))

    @override
    def counted_results(self, frames: Mapping[Table, Any], whole: Mapping[Table, Any]) -> list[dict[str, Any]]:
        return counted_results(self, *_frames_of(self.spark, frames, whole))

    @override
    def expectation_results(
        self, job: str, frames: Mapping[Table, Any], whole: Mapping[Table, Any]
    ) -> list[dict[str, Any]]:
        with seen_spark():  # Great Expectations takes seconds to import
            from hindsight.jobs.engines.spark_expectations import results_of

        return results_of(self, job, *_frames_of(self.spark, frames, whole))

    @override
    def plans(self) -> AbstractContextManager[Callable[[int], None]]:
        """Interpreted plans for few lines, compiled ones for many."""
        return interpreted_plans(self.spark)

    @override
    def _in_thread(self, call: Callable[[], Any]) -> Callable[[], Any]:
        of_this_session: Callable[[], Any] = inheritable_thread_target(self.spark)(call)
        return of_this_session


def _kept(spark: SparkSession, properties: dict[str, str]) -> timedelta:
    """How long a table keeps the files of earlier versions."""
    text = properties.get(RETENTIONS[1], KEPT_UNSAID)
    length = f"unix_seconds(timestamp_seconds(0) + CAST({sql_text(text)} AS INTERVAL))"
    return timedelta(seconds=rows_of(spark.sql(f"SELECT {length} AS seconds"))[0].seconds)


def _latest(spark: SparkSession, path: str) -> Any:
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
