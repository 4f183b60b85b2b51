"""Captures and routes in; per round and topic the brokers that could be read, in RocketMQ's order, out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import ROUND, evidence
from udfs.door_rules import MOST_QUEUES

_ROUTE = "topicRoute"
_READABLE = 4
_TOPIC = [*ROUND, "topic"]


def round_routes(captures: DataFrame, routes: DataFrame) -> DataFrame:
    """Per round and topic whose route was asked for: ``brokers`` in RocketMQ's order, with how many queues can be read.

    Null if unanswered, and where a route tells of more queues than ``MOST_QUEUES``: it is as good as unread. The queues
    themselves are written out where a group's row is made (``readable_queues``): Spark takes routes for small, by
    the size of their files, and hands them to every executor.

    A static topic has one broker here, the mock one of its logical queues (``queue_kind``: logical), and ``hosts`` says
    on which real ones they lie. ``route_brokers``: the real brokers. Where name servers tell different routes
    (``routes_differ``) only what all of them tell is in ``brokers``.
    """
    asked = captures.where(F.col("kind") == _ROUTE).withColumn("evidence", evidence(captures))
    latest = asked.groupBy(*_TOPIC, F.coalesce("name_server", F.lit("")).alias("place")).agg(
        F.max(F.struct("answered", "captured_at", "error", "error_code", "evidence")).alias("route")
    )
    told = _told(routes)
    joined = latest.withColumn("captured_at", F.col("route.captured_at")).join(
        told, [*_TOPIC, "place", "captured_at"], "left"
    )
    # Settings may let rows in that the door refuses, and many brokers make many queues: none may fill the memory.
    known = F.col("route.answered") & (F.coalesce("queue_count", F.lit(0)) <= MOST_QUEUES)
    none = F.array().cast("array<struct<broker_name string, read_queue_nums int>>")
    views = joined.withColumn("brokers", F.when(known, F.coalesce("brokers", none)))
    of_topic = views.groupBy(*_TOPIC).agg(
        F.max("route").alias("route"),
        F.collect_set("brokers").alias("views"),
        F.count("brokers").cast("int").alias("name_servers"),
        F.max_by(F.struct("hosts", "route_brokers", "queue_kind"), F.when(known, F.col("captured_at"))).alias("last"),
    )
    shared = F.reduce("views", F.get("views", F.lit(0)), lambda kept, view: F.array_intersect(kept, view))
    return of_topic.select(
        *_TOPIC,
        "route",
        F.when(F.size("views") > 0, shared).alias("brokers"),
        (F.size("views") > 1).alias("routes_differ"),
        "name_servers",
        F.when(F.size("views") > 0, F.coalesce("last.queue_kind", F.lit("physical"))).alias("queue_kind"),
        "last.hosts",
        "last.route_brokers",
    )


def _told(routes: DataFrame) -> DataFrame:
    """Each route as one name server told it: the brokers of its queues, physical ones, or of its logical ones."""
    readable = (F.col("perm").bitwiseAND(_READABLE) > 0) & (F.col("read_queue_nums") > 0)
    real = F.when(readable, F.struct(*_sorted("broker_name"), F.col("read_queue_nums")))
    mock = F.when(
        F.col("logical_broker_name").isNotNull() & (F.col("logical_queue_nums") > 0),
        F.struct(*_sorted("logical_broker_name"), F.col("logical_queue_nums").alias("read_queue_nums")),
    )
    host = F.when(
        F.col("logical_broker_name").isNotNull(), F.struct("broker_name", "logical_broker_name", "logical_queues")
    )
    told = routes.groupBy(*_TOPIC, F.coalesce("name_server", F.lit("")).alias("place"), "captured_at").agg(
        F.array_sort(F.collect_list(real)).alias("real"),
        F.array_sort(F.collect_set(mock)).alias("mock"),
        F.sort_array(F.collect_list(F.when(readable, F.col("broker_name")))).alias("route_brokers"),
        F.array_sort(F.collect_list(host)).alias("hosts"),
    )
    # The clients take the largest count of logical queues that a broker tells of a scope: the last of the sorted ones.
    largest = F.filter("mock", lambda m, i: ~F.coalesce(F.get("mock", i + 1)["k"] == m["k"], F.lit(False)))
    is_static = F.size("mock") > 0
    brokers = F.transform(
        F.when(is_static, largest).otherwise(F.col("real")),
        lambda broker: F.struct(broker["broker_name"], broker["read_queue_nums"]),
    )
    return (
        told.withColumn("brokers", brokers)
        .withColumn(
            "queue_count",
            F.aggregate("brokers", F.lit(0).cast("long"), lambda n, broker: n + broker["read_queue_nums"]),
        )
        .withColumn("queue_kind", F.when(is_static, F.lit("logical")).otherwise(F.lit("physical")))
        .select(*_TOPIC, "place", "captured_at", "brokers", "queue_count", "queue_kind", "hosts", "route_brokers")
    )


def _sorted(name: str) -> list[Column]:
    """A broker's name before which stands what it sorts by in Java."""
    return [F.encode(name, "UTF-16BE").alias("k"), F.col(name).alias("broker_name")]
