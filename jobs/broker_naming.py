"""Names the brokers of stored trace records, which know only addresses, by the routes that are stored by now.

Traces and routes arrive in any order, so both ingest jobs call this: a name is set, and corrected, whenever either side
brings something new.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.delta_tables import Lake
from jobs.transforms.broker_names import address_book, with_broker_names
from jobs.transforms.frames import ClusterDate, in_dates, rows_of
from schemas import SEND_ATTEMPT, TOPIC_ROUTE
from schemas.bookkeeping import INGESTED_FILE
from udfs.landing_formats import TRACE


def trace_dates(lake: Lake, clusters: Collection[str] | None = None) -> list[ClusterDate]:
    """The dates that trace records of these clusters (None: of all) reach, by the ledger."""
    files = lake.read(INGESTED_FILE).where(F.col("format") == TRACE)
    if clusters is not None:
        files = files.where(F.col("cluster").isin(*clusters))
    dated = files.select("cluster", F.explode("event_dates").alias("event_date")).distinct()
    return sorted(ClusterDate(*row) for row in rows_of(dated))


def name_brokers(lake: Lake, dates: Collection[ClusterDate]) -> None:
    """Give the trace records of ``dates`` the names that the routes known by now give their addresses."""
    if not dates:
        return
    clusters = sorted({date.cluster for date in dates})
    stored = _trace_records(lake, dates).select(*SEND_ATTEMPT.key, "broker_address", "broker_name")
    routes = lake.read(TOPIC_ROUTE).where(F.col("cluster").isin(*clusters))
    named = with_broker_names(stored.withColumnRenamed("broker_name", "before"), address_book(routes))
    changed = named.where(~F.col("broker_name").eqNullSafe(F.col("before"))).select(*SEND_ATTEMPT.key, "broker_name")
    days = [row.event_date for row in rows_of(changed.select("event_date").distinct())]
    if days:
        lake.update(SEND_ATTEMPT, changed, ["broker_name"], days)


def names_by_date(lake: Lake) -> DataFrame | None:
    """Per cluster and date with trace records, a digest of the names that their brokers have; None: there are none.

    A route that lands later may name brokers on dates that no file touches any more: the digest tells.
    """
    dates = trace_dates(lake)
    if not dates:
        return None
    names = F.concat_ws("=", "broker_address", "broker_name", F.col("count").cast("string"))
    counted = _trace_records(lake, dates).groupBy("cluster", "event_date", "broker_address", "broker_name").count()
    return counted.groupBy("cluster", "event_date").agg(
        F.sha2(F.array_join(F.sort_array(F.collect_list(names)), "\n"), 256).alias("digest")
    )


def _trace_records(lake: Lake, dates: Collection[ClusterDate]) -> DataFrame:
    return lake.read(SEND_ATTEMPT).where(in_dates(dates)).where(F.col("source") == TRACE)
