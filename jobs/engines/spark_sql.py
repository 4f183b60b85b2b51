"""Spark's SQL for conditions and texts, frames cut from their past, and the way of few rows to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any

from hindsight.jobs.lake.cluster_dates import ClusterDate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_dates(dates: Iterable[ClusterDate], date_of_row: str = "event_date") -> str:
    """SQL: the row belongs to one of these dates of these clusters; ``date_of_row`` is SQL.

    However many dates there are, the condition is no deeper: one list for each cluster.
    """
    by_cluster: dict[str, list[date]] = {}
    for cluster, day in dates:
        by_cluster.setdefault(cluster, []).append(day)
    terms = [
        f"(cluster = {sql_text(cluster)} AND {date_of_row} IN ({dates_sql(days)}))"
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
