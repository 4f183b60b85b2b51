"""The one reader and writer of Delta tables: create from the contract, read, merge by key, replace dates, versions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, NamedTuple

from delta.tables import DeltaTable
from pyspark import inheritable_thread_target
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from schemas import Part, Table

_AT_ONCE = 4


class ClusterDate(NamedTuple):
    """A UTC date of one cluster: the unit in which derived tables are replaced."""

    cluster: str
    event_date: date


class Lake:
    """The tables under one root; every table at ``<root>/<name>``, candidates at ``<root>/_candidate/<name>``."""

    def __init__(self, spark: SparkSession, root: str, *, retention_days: int) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self.retention_days = retention_days

    def path(self, table: Table) -> str:
        """Where a table stands."""
        return f"{self.root}/{table.name}"

    def candidate_path(self, table: Table) -> str:
        """Where its candidate stands, the rows that are not published yet."""
        return f"{self.root}/_candidate/{table.name}"

    def create(self, table: Table) -> None:
        """Create the table from its contract unless it exists; no feature that shuts other readers out."""
        if DeltaTable.isDeltaTable(self.spark, self.path(table)):
            return
        kept = f"interval {self.retention_days} days"
        builder = (
            DeltaTable.createIfNotExists(self.spark)
            .location(self.path(table))
            .addColumns(stored_schema(table))
            .comment(table.comment)
            .property("delta.enableDeletionVectors", "false")
            .property("delta.logRetentionDuration", kept)
            .property("delta.deletedFileRetentionDuration", kept)
        )
        if table.dated:
            builder = builder.partitionedBy("event_date")
        builder.execute()

    def read(self, table: Table) -> DataFrame:
        """The table's rows; an empty frame where it does not exist."""
        path = self.path(table)
        if not DeltaTable.isDeltaTable(self.spark, path):
            return self.spark.createDataFrame([], stored_schema(table))
        return self.spark.read.format("delta").load(path)

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows in one commit."""
        self.create(table)
        conformed(rows, table).write.format("delta").mode("append").save(self.path(table))

    def add_candidates(self, table: Table, rows: DataFrame, *, first: bool) -> None:
        """Add rows to a table's candidate; the ``first`` ones of a run replace what an earlier run left there.

        Plain Parquet: only this run reads it, and nobody else may.
        """
        conformed(rows, table).write.mode("overwrite" if first else "append").parquet(self.candidate_path(table))

    def candidates(self, table: Table) -> DataFrame:
        """The rows that ``add_candidates`` wrote in this run."""
        return self.spark.read.schema(stored_schema(table)).parquet(self.candidate_path(table))

    def merge(self, table: Table, rows: DataFrame, dates: Collection[date]) -> None:
        """Store each key once, in one commit: of rival source lines the smallest wins, part by part.

        ``rows`` may hold a key often; ``dates`` are the event dates they fall on (ignored for undated tables).
        The result does not depend on the order in which rows arrive. Dates without rows so far are only appended to.
        """
        self.create(table)
        rows = conformed(one_row_per_key(rows, table), table)
        if table.dated and self.read(table).where(F.col("event_date").isin(*dates)).isEmpty():
            rows.write.format("delta").mode("append").save(self.path(table))
            return
        better = {part: _better(part) for part in table.row_parts}
        updates: dict[str, str | Column] = {
            name: F.expr(f"IF({better[part]}, s.`{name}`, t.`{name}`)")
            for part in table.row_parts
            for name in part.columns
        }
        same_key = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)
        if table.dated:
            same_key = f"{_in_dates('t', dates)} AND {same_key}"
        (
            DeltaTable.forPath(self.spark, self.path(table))
            .alias("t")
            .merge(rows.alias("s"), same_key)
            .whenMatchedUpdate(condition=" OR ".join(f"({b})" for b in better.values()), set=updates)
            .whenNotMatchedInsertAll()
            .execute()
        )

    def update(self, table: Table, changed: DataFrame, columns: list[str], dates: Iterable[date]) -> None:
        """Set ``columns`` of the rows whose keys ``changed`` holds, in one commit."""
        same_key = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)
        (
            DeltaTable.forPath(self.spark, self.path(table))
            .alias("t")
            .merge(changed.alias("s"), f"{_in_dates('t', dates)} AND {same_key}")
            .whenMatchedUpdate(set={name: F.col(f"s.{name}") for name in columns})
            .execute()
        )

    def replace_where(self, table: Table, rows: DataFrame, predicate: str) -> None:
        """Replace the rows that satisfy ``predicate`` in one commit; ``rows`` must satisfy it too."""
        self.create(table)
        writer = conformed(rows, table).write.format("delta").mode("overwrite").option("replaceWhere", predicate)
        writer.save(self.path(table))

    def version(self, table: Table) -> int | None:
        """The latest version of a table; None: it does not exist."""
        if not DeltaTable.isDeltaTable(self.spark, self.path(table)):
            return None
        history = DeltaTable.forPath(self.spark, self.path(table)).history(1).select("version")
        return int(rows_of(history)[0].version)

    def together(self, calls: Iterable[Callable[[], Any]]) -> list[Any]:
        """Run independent reads or writes at once, give their results: small ones keep only the driver waiting."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            started = [pool.submit(inheritable_thread_target(self.spark)(call)) for call in calls]
            return [each.result() for each in started]


def stored_schema(table: Table) -> StructType:
    """The contract's columns as Delta can enforce them: NOT NULL only at the top level."""
    return StructType(
        [StructField(f.name, _nullable(f.dataType), f.nullable, f.metadata) for f in table.columns.fields]
    )


def conformed(rows: DataFrame, table: Table) -> DataFrame:
    """Exactly the contract's columns, in order and type; an absent column is null."""
    return rows.select(
        *(
            (F.col(f"`{f.name}`") if f.name in rows.columns else F.lit(None)).cast(_nullable(f.dataType)).alias(f.name)
            for f in table.columns.fields
        )
    )


def one_row_per_key(rows: DataFrame, table: Table) -> DataFrame:
    """Of the lines that bring the same part of the same key, the smallest."""
    rows = rows.alias("r")
    picks = []
    for number, part in enumerate(table.row_parts):
        present = F.col(f"r.{part.line[0]}").isNotNull()
        values = F.struct(*(F.col(f"r.`{name}`") for name in part.columns))
        order = F.struct(*(F.expr(term.format(r="r")) for term in part.order))
        picks.append(F.min_by(F.when(present, values), F.when(present, order)).alias(f"part_{number}"))
    picked = rows.groupBy(*(F.col(f"r.`{name}`") for name in table.key)).agg(*picks)
    columns = [
        F.col(f"part_{number}.`{name}`").alias(name)
        for number, part in enumerate(table.row_parts)
        for name in part.columns
    ]
    return picked.select(*table.key, *columns)


def in_dates(dates: Iterable[ClusterDate]) -> str:
    """SQL: the row belongs to one of these dates of these clusters."""
    by_cluster: dict[str, list[date]] = {}
    for cluster, day in dates:
        by_cluster.setdefault(cluster, []).append(day)
    terms = [
        f"(cluster = {sql_text(cluster)} AND event_date IN ({_dates_sql(days)}))"
        for cluster, days in sorted(by_cluster.items())
    ]
    return " OR ".join(terms) or "false"


def sql_text(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _in_dates(alias: str, dates: Iterable[date]) -> str:
    listed = _dates_sql(dates)
    return f"{alias}.event_date IN ({listed})" if listed else "false"


def _dates_sql(dates: Iterable[date]) -> str:
    return ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(set(dates)))


def _better(part: Part) -> str:
    new, old = (", ".join(term.format(r=r) for term in part.order) for r in ("s", "t"))
    line = part.line[0]
    return f"s.`{line}` IS NOT NULL AND (t.`{line}` IS NULL OR struct({new}) < struct({old}))"


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), containsNull=True)
    return kind


def staged(frame: DataFrame) -> DataFrame:
    """The frame, computed once and without its past: what is built on it is planned in a moment, not in seconds."""
    return frame.localCheckpoint()


def rows_of(frame: DataFrame) -> list[Any]:
    """Bring a bounded frame to the driver: dates, counts, versions, never recorded data."""
    return frame.collect()
