"""Captures and routes in; per round and topic the brokers that could be read, in RocketMQ's order, out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import ROUND, evidence
from udfs.door_rules import MOST_QUEUES

_ROUTE = "topicRoute"
_READABLE = 4


def round_routes(captures: DataFrame, routes: DataFrame) -> DataFrame:
    """Per round and topic whose route was asked for: ``brokers`` in RocketMQ's order, with how many queues can be read.

    Null if unanswered, and where a route tells of more queues than ``MOST_QUEUES``: it is as good as unread. The queues
    themselves are written out where a group's row is made (``readable_queues``): Spark takes routes for small, by
    the size of their files, and hands them to every executor.
    """
    of_topic = [*ROUND, "topic"]
    asked = captures.where(F.col("kind") == _ROUTE).withColumn("evidence", evidence(captures))
    latest = asked.groupBy(*of_topic).agg(
        F.max_by(F.struct("captured_at", "answered", "error", "evidence"), "captured_at").alias("route")
    )
    readable = (F.col("perm").bitwiseAND(_READABLE) > 0) & (F.col("read_queue_nums") > 0)
    in_order = F.array_sort(
        F.collect_list(F.struct(F.encode("broker_name", "UTF-16BE").alias("k"), "broker_name", "read_queue_nums"))
    )
    brokers = F.transform(in_order, lambda broker: F.struct(broker["broker_name"], broker["read_queue_nums"]))
    listed = (
        routes.where(readable)
        .groupBy(*of_topic, "captured_at")
        .agg(brokers.alias("brokers"), F.sum("read_queue_nums").alias("queue_count"))
    )
    joined = latest.withColumn("captured_at", F.col("route.captured_at")).join(
        listed, [*of_topic, "captured_at"], "left"
    )
    none = F.array().cast("array<struct<broker_name string, read_queue_nums int>>")
    # Settings may let rows in that the door refuses, and many brokers make many queues: none may fill the memory.
    known = F.col("route.answered") & (F.coalesce("queue_count", F.lit(0)) <= MOST_QUEUES)
    return joined.select(*of_topic, "route", F.when(known, F.coalesce("brokers", none)).alias("brokers"))
