"""Recorded routes and begins of sends in, the routes that a client may have held at each begin out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def held_routes(begins: DataFrame, routes: DataFrame, *, stale_s: int, valid_s: int) -> DataFrame:
    """The routes that a client may have held at each begin: those recorded in the ``stale_s`` before it, and the one
    before these, unless it is older than ``valid_s``.

    ``begins``: cluster, topic, begin_at; ``routes``: topic_route rows. Returns these and ``routes``, oldest first.
    """
    entry = F.struct("broker_name", "write_queue_nums", "perm", "has_master", "order_topic_conf")
    captures = routes.groupBy("cluster", "topic", "event_date", F.unix_millis("captured_at").alias("captured_ms")).agg(
        F.array_sort(F.collect_set(entry)).alias("entries")  # name servers may tell the same
    )
    of_topic = captures.groupBy("cluster", "topic", "event_date").agg(
        F.array_sort(F.collect_list(F.struct("captured_ms", "entries"))).alias("captures")
    )
    begun = begins.select("cluster", "topic", "event_date", "begin_at").distinct()
    now = F.unix_millis("begin_at")
    valid = F.filter("captures", lambda c: c["captured_ms"].between(now - 1000 * valid_s, now))
    recent = F.filter("valid", lambda c: c["captured_ms"] > now - 1000 * stale_s)
    before = F.filter("valid", lambda c: c["captured_ms"] <= now - 1000 * stale_s)
    return (
        begun.join(of_topic, ["cluster", "topic", "event_date"])
        .withColumn("valid", valid)
        .select(
            "cluster",
            "topic",
            "event_date",
            "begin_at",
            F.concat(F.slice(before, -1, 1), recent)["entries"].alias("routes"),
        )
    )
