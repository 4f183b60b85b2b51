"""Spark's SQL for conditions and texts, frames cut from their past, and the way of few rows to the driver.

How Spark is to run what it plans: a plan of few lines is interpreted, since to compile it takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.lake.cluster_dates import ClusterDate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def in_dates(dates: Iterable[ClusterDate]) -> str:
    """SQL: the row belongs to one of these dates of these clusters.

    However many dates there are, the condition is no deeper: one list for each cluster.
    """
    by_cluster: dict[str, list[date]] = {}
    for cluster, day in dates:
        by_cluster.setdefault(cluster, []).append(day)
    terms = [
        f"(cluster = {sql_text(cluster)} AND event_date IN ({dates_sql(days)}))"
        for cluster, days in sorted(by_cluster.items())
    ]
    return " OR ".join(terms) or "false"


def sql_text(value: str) -> str:
    """A SQL string literal, whatever the text holds.

    Spark puts variables of the environment in place of ``${env:NAME}`` before it parses, inside literals too.
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{")
    return f"'{escaped}'"


def dates_sql(dates: Iterable[date]) -> str:
    """SQL: the dates as a list of literals."""
    return ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(set(dates)))


def staged(frame: DataFrame) -> DataFrame:
    """The frame, computed once and without its past: what is built on it is planned in a moment, not in seconds.

    It lies on the executors' disks, and is lost with one of them; the run fails then. Where a cluster has a folder for
    it (``spark.checkpoint.dir``) it lies there and outlives them. It is not kept in memory: what is read from there
    cannot be moved out meanwhile, and leaves a sort beside it so little that it spills until its files fill the heap.
    """
    from pyspark import StorageLevel  # a lake without Spark needs the rest of this module

    outlives = frame.sparkSession.sparkContext.getCheckpointDir() is not None
    return frame.checkpoint() if outlives else frame.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)


def rows_of(frame: DataFrame) -> list[Any]:
    """Bring a bounded frame to the driver: dates, counts, versions, the answer to a reader's question.

    Never what was recorded, row by row: that stays with the executors.
    """
    return frame.collect()
