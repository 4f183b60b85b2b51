"""Attempts whose source names a broker by its address only in, the same with the broker's name out.

What ``udfs.store_hosts`` says of one address at one instant, for whole tables: a test compares the two.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from udfs.store_hosts import VIP_OFFSET

_ADDRESS = r"^(.+):([0-9]{1,5})$"


def address_book(routes: DataFrame) -> DataFrame:
    """Per cluster and address, who had it since when, oldest first; ``routes``: topic_route rows.

    A sighting that shows what the one before it showed is left out, so the book stays small however often routes are
    collected.
    """
    seen = (
        routes.where(F.col("master_address") != "")
        .select("cluster", F.col("master_address").alias("address"), F.col("captured_at").alias("since"), "broker_name")
        .distinct()
    )
    in_order = Window.partitionBy("cluster", "address").orderBy("since", "broker_name")
    changes = seen.withColumn("before", F.lag("broker_name").over(in_order)).where(
        ~F.col("before").eqNullSafe(F.col("broker_name"))
    )
    sightings = F.array_sort(F.collect_list(F.struct("since", "broker_name")))
    return changes.groupBy("cluster", "address").agg(sightings.alias("sightings"))


def with_broker_names(attempts: DataFrame, book: DataFrame) -> DataFrame:
    """Attempts with ``broker_name`` by their ``broker_address``: who had it when they began, else who had it first.

    An address that no route shows is tried as a VIP channel's: port + 2. Null: unknown.
    """
    host = F.regexp_extract("broker_address", _ADDRESS, 1)
    port = F.regexp_extract("broker_address", _ADDRESS, 2).try_cast("int")
    behind_vip = F.when(port.isNotNull(), F.concat(host, F.lit(":"), (port + VIP_OFFSET).cast("string")))
    own = book.select("cluster", F.col("address").alias("broker_address"), F.col("sightings").alias("own"))
    vip = book.select("cluster", F.col("address").alias("vip_address"), F.col("sightings").alias("vip"))
    return (
        attempts.withColumn("vip_address", behind_vip)
        .join(F.broadcast(own), ["cluster", "broker_address"], "left")
        .join(F.broadcast(vip), ["cluster", "vip_address"], "left")
        .withColumn("broker_name", _had_by(F.coalesce("own", "vip")))
        .drop("vip_address", "own", "vip")
    )


def _had_by(sightings: Column) -> Column:
    before = F.filter(sightings, lambda s: s["since"] <= F.col("begin_at"))
    return F.coalesce(F.try_element_at(before, F.lit(-1)), F.try_element_at(sightings, F.lit(1)))["broker_name"]
