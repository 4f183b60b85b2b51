"""Heartbeats in; per round and group the list of its members, as each broker returned it and as RocketMQ sorts it, out.

Java compares strings by UTF-16 code units, which is the order of their UTF-16BE bytes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import GROUP_OF_ROUND


def listed_members(heartbeats: DataFrame) -> DataFrame:
    """Per round and group: the member list, duplicates kept as the broker gave them, and what its connections say."""
    view = [*GROUP_OF_ROUND, "broker_name"]
    latest = F.max("captured_at").over(Window.partitionBy(*view))
    connection = F.struct(
        "client_id",
        F.when(F.coalesce("language", F.lit("JAVA")) == "JAVA", F.col("client_version")).alias("version"),
        "broker_name",
        "address",
    )
    views = (
        heartbeats.withColumn("latest", latest)
        .where(F.col("captured_at") == F.col("latest"))
        .groupBy(*view)
        .agg(
            _in_java_order(F.collect_list("client_id")).alias("members"),
            F.collect_list(connection).alias("connections"),
            F.first("message_model").alias("message_model"),
        )
    )
    return (
        views.groupBy(*GROUP_OF_ROUND)
        .agg(
            F.array_sort(F.collect_set("members")).alias("views"),
            F.array_sort(F.flatten(F.collect_list("connections"))).alias("connections"),
            F.min("message_model").alias("listed_model"),
        )
        .withColumns({"members": _everybody(F.col("views")), "distinct_views": F.size("views")})
    )


def _everybody(views: Column) -> Column:
    """Whoever is in a view; an id that one view holds twice is there twice. Views are sorted.

    Ids are counted only where they are doubled: to count each of a thousand members takes a million steps a round.
    """
    doubled = F.flatten(F.transform(views, lambda view: F.filter(view, lambda c, i: c == F.get(view, i - 1))))

    def further(client_id: Column) -> Column:
        most = F.array_max(F.transform(views, lambda view: F.size(F.filter(view, lambda c: c == client_id))))
        return F.array_repeat(client_id, most - 1)

    again = F.flatten(F.transform(F.array_distinct(doubled), further))
    return _in_java_order(F.concat(F.array_distinct(F.flatten(views)), again))


def _in_java_order(array: Column) -> Column:
    """An array of strings sorted as Java's String.compareTo sorts them, duplicates kept."""
    keyed = F.transform(array, lambda s: F.struct(F.encode(s, "UTF-16BE").alias("k"), s.alias("s")))
    return F.transform(F.array_sort(keyed), lambda pair: pair["s"])
