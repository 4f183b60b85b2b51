"""The one reader and writer of Delta: create from the contract, read, append, update, replace, versions, upkeep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

from delta.tables import DeltaTable
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hindsight.jobs.engines.arrow_lake import DataFile, Footprint, Where
from hindsight.jobs.engines.kept_between_runs import KeptNotes
from hindsight.jobs.engines.spark_rows import SparkRows, frame_of, latest, sql_of
from hindsight.jobs.engines.spark_sql import dates_sql, rows_of, sql_text
from hindsight.jobs.lake.lake_place import for_hadoop
from hindsight.jobs.lake.table_schema import (
    conformed,
    is_earlier,
    later_columns,
    stored_schema,
    tell_later,
    with_absent_columns,
)
from hindsight.schemas import Table

_AT_ONCE = 4
_KEPT_FILES = "delta.deletedFileRetentionDuration"
_RETENTIONS = ("delta.logRetentionDuration", _KEPT_FILES)


class Lake(SparkRows, KeptNotes):
    """The tables under one root; every table at ``<root>/<name>``, candidates at ``<root>/_candidate/<name>``.

    ``confirm`` is called before each write, and raises where the lake is no longer the run's that writes.
    """

    def __init__(
        self, spark: SparkSession, root: str, *, retention_days: int, confirm: Callable[[], None] = lambda: None
    ) -> None:
        self.spark: SparkSession = spark
        self.root = for_hadoop(root).rstrip("/")
        self.retention_days = retention_days
        self.confirm = confirm
        self._of_contract: set[str] = set()
        self.known_files: dict[str, tuple[tuple[str, int], list[DataFile]]] = {}

    def path(self, table: Table) -> str:
        """Where a table stands."""
        return f"{self.root}/{table.name}"

    def candidate_path(self, table: Table) -> str:
        """Where its candidate stands, the rows that are not published yet."""
        return f"{self.root}/_candidate/{table.name}"

    def exists(self, table: Table) -> bool:
        """Whether it was created."""
        return DeltaTable.isDeltaTable(self.spark, self.path(table))

    def create(self, table: Table) -> None:
        """Create the table from its contract, or add the columns that this has gained since it was created.

        No feature that shuts other readers out. Raises: WrongSchemaError: it differs in anything else.
        """
        if table.name in self._of_contract:
            return
        if self.exists(table):
            self._migrate(table)
        else:
            self._create(table)
        self._of_contract.add(table.name)

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
        for name in _RETENTIONS:
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

    def append(self, table: Table, rows: Any) -> None:
        """Add rows in one commit."""
        self.confirm()
        self.create(table)
        conformed(frame_of(self.spark, rows, table), table).write.format("delta").mode("append").save(self.path(table))

    def add_candidates(self, table: Table, rows: Any, *, first: bool) -> None:
        """Add rows to a table's candidate; the ``first`` ones of a run replace what an earlier run left there.

        Plain Parquet: only this run reads it, and nobody else may.
        """
        self.confirm()
        stored = conformed(frame_of(self.spark, rows, table), table)
        stored.write.mode("overwrite" if first else "append").parquet(self.candidate_path(table))

    def candidates(self, table: Table) -> DataFrame:
        """The rows that ``add_candidates`` wrote in this run."""
        return self.spark.read.schema(stored_schema(table)).parquet(self.candidate_path(table))

    def update(self, table: Table, changed: DataFrame, columns: list[str], dates: Iterable[date]) -> None:
        """Set ``columns`` of the rows whose keys ``changed`` holds, in one commit."""
        self.confirm()
        same_key = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)
        (
            self._delta(table)
            .alias("t")
            .merge(changed.alias("s"), f"t.event_date IN ({dates_sql(dates)}) AND {same_key}")
            .whenMatchedUpdate(set={name: F.col(f"s.`{name}`") for name in columns})
            .execute()
        )

    def replace_where(self, table: Table, rows: Any, predicate: str) -> None:
        """Replace the rows that satisfy ``predicate`` in one commit; ``rows`` must satisfy it too."""
        self.confirm()
        self.create(table)
        rows = conformed(frame_of(self.spark, rows, table), table)
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", predicate)
        writer.save(self.path(table))

    def version(self, table: Table) -> int | None:
        """The latest version of a table; None: it does not exist."""
        if not self.exists(table):
            return None
        return int(latest(self.spark, self.path(table)).version())

    def delete(self, table: Table, where: Where) -> None:
        """Delete rows, in one commit; without such a row there is none."""
        self.confirm()
        condition = sql_of(where)
        if not self.read(table).where(condition).isEmpty():
            self._delta(table).delete(condition)

    def compact(self, table: Table) -> None:
        """Write the small files of each partition as one; a partition of a single file, or of large ones, stays."""
        self.confirm()
        self._delta(table).optimize().executeCompaction()

    def vacuum(self, table: Table) -> None:
        """Remove the files that no version within the retention needs; Delta's own check of it stays on.

        Delta goes by what the table carries and by nothing else, so a longer retention of the settings is put there.
        """
        self.confirm()
        properties = rows_of(self._delta(table).detail().select("properties"))[0].properties
        if _kept(self.spark, properties) < timedelta(days=self.retention_days):
            longer = ", ".join(f"'{name}' = 'interval {self.retention_days} days'" for name in _RETENTIONS)
            self.spark.sql(f"ALTER TABLE delta.`{self.path(table)}` SET TBLPROPERTIES ({longer})")
        self._delta(table).vacuum()

    def operations_since(self, table: Table, version: int) -> set[str]:
        """What the commits after ``version`` did, in Delta's words."""
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

    def footprint(self, table: Table) -> Footprint:
        """Size of the table now, and how far its history goes back."""
        detail = rows_of(self._delta(table).detail().select("numFiles", "sizeInBytes", "properties"))[0]
        since = datetime.now(UTC) - _kept(self.spark, detail.properties)
        commit = F.struct("version", F.unix_millis("timestamp").alias("ms"))
        # Vacuum keeps the files of the version that was current then; the log may begin later.
        needed = F.max(F.when(F.col("timestamp") <= F.lit(since), commit))
        oldest = rows_of(self._delta(table).history().select(F.coalesce(needed, F.min(commit)).alias("c")))[0].c
        return Footprint(
            rows=self.read(table).count(),
            files=detail.numFiles,
            bytes=detail.sizeInBytes,
            bytes_with_history=self._bytes_under(self.path(table)),
            oldest_version=oldest.version,
            oldest_at=datetime.fromtimestamp(oldest.ms / 1000, UTC),
        )

    def drop_old_candidates(self, table: Table) -> None:
        """Remove a candidate that a run left behind; one with a file younger than the retention stays.

        A run reads only candidates that it wrote itself, and none lasts that long.
        """
        self.confirm()
        place, files = self._place(self.candidate_path(table))
        if not files.exists(place):
            return
        written = self.spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place.toString())
        youngest = rows_of(written.select(F.unix_seconds(F.max("modificationTime")).alias("at")))[0].at
        if youngest and datetime.now(UTC).timestamp() - youngest > self.retention_days * 86_400:
            files.delete(place, True)

    def _bytes_under(self, path: str) -> int:
        place, files = self._place(path)
        return int(files.getContentSummary(place).getLength())

    def _place(self, path: str) -> tuple[Any, Any]:
        """A path and its file system, as Spark's Hadoop client knows them."""
        jvm: Any = self.spark._jvm
        place = jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self.spark._jsc.hadoopConfiguration())

    def _delta(self, table: Table) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path(table))

    def together(self, calls: Iterable[Callable[[], Any]]) -> list[Any]:
        """Run independent reads or writes at once, give their results: small ones keep only the driver waiting."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            started = [pool.submit(inheritable_thread_target(self.spark)(call)) for call in calls]
            return [each.result() for each in started]


def _kept(spark: SparkSession, properties: dict[str, str]) -> timedelta:
    """How long a table keeps the files of earlier versions."""
    text = properties.get(_KEPT_FILES, "interval 7 days")
    length = f"unix_seconds(timestamp_seconds(0) + CAST({sql_text(text)} AS INTERVAL))"
    return timedelta(seconds=rows_of(spark.sql(f"SELECT {length} AS seconds"))[0].seconds)
