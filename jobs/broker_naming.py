"""Names the brokers of stored trace records, which know only addresses, by the routes that are stored by now.

Traces and routes arrive in any order, so both ingest jobs call this: a name is set, and corrected, whenever either side
brings something new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.delta_tables import Lake
from jobs.engines.arrow_lake import ArrowLake, Where
from jobs.transforms.broker_names import address_book, with_broker_names
from jobs.transforms.frames import ClusterDate, in_dates, rows_of
from schemas import SEND_ATTEMPT, TOPIC_ROUTE
from schemas.bookkeeping import INGESTED_FILE
from udfs.landing_formats import TRACE


def trace_dates(lake: ArrowLake, clusters: Collection[str] | None = None) -> list[ClusterDate]:
    """The dates that trace records of these clusters (None: of all) reach, by the ledger."""
    files = lake.rows(INGESTED_FILE, ["cluster", "event_dates"], Where(values={"format": [TRACE]})).to_pylist()
    of_clusters = (file for file in files if clusters is None or file["cluster"] in clusters)
    return sorted({ClusterDate(file["cluster"], day) for file in of_clusters for day in file["event_dates"]})


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


def names_by_date(lake: ArrowLake) -> dict[ClusterDate, str]:
    """Per date with trace records, a digest of the names that their brokers have.

    A route that lands later may name brokers on dates that no file touches any more: the digest tells.
    """
    where = Where(dates=trace_dates(lake), values={"source": [TRACE]})
    names: dict[ClusterDate, list[str]] = {}
    columns = ["cluster", "event_date", "broker_address", "broker_name"]
    for row in lake.counted(SEND_ATTEMPT, columns, where).to_pylist() if where.dates else ():
        said = (row["broker_address"], row["broker_name"], str(row["rows"]))
        at = ClusterDate(row["cluster"], row["event_date"])
        names.setdefault(at, []).append("=".join(text for text in said if text is not None))
    return {at: hashlib.sha256("\n".join(sorted(of)).encode()).hexdigest() for at, of in names.items()}


def _trace_records(lake: Lake, dates: Collection[ClusterDate]) -> DataFrame:
    return lake.read(SEND_ATTEMPT).where(in_dates(dates)).where(F.col("source") == TRACE)
