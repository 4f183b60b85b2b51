"""What heartbeats and brokers' logs add to a group's rounds: the age of each member's heartbeat, who came and went."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import GROUP_OF_ROUND

_GROUP = ("cluster", "consumer_group")
_WALK = ("cluster", "collector", "consumer_group")
# Lines of a broker's log by what they are to the group; a channel that closed or expired names no client.
_JOINS = ("consumer_connected",)
_LEAVES = ("consumer_unregistered", "consumer_channel_closed", "consumer_channel_expired")


def heartbeat_ages(groups: DataFrame, heartbeats: DataFrame, *, lookback_s: int, expiry_s: int) -> DataFrame:
    """Per round and group, each listed member's last heartbeat within ``lookback_s``: ``member_heartbeats``.

    A member is stale when that is older than ``expiry_s``, or when there is none although heartbeats of the group were
    recorded for longer than that; what cannot be said is null. A round without any heartbeat of its group has no row.
    """
    beats = heartbeats.where(F.col("role") == "consumer").select(
        "cluster",
        F.col("client_group").alias("consumer_group"),
        "client_id",
        F.unix_millis("received_at").alias("ms"),
        F.col("received_at").alias("heard_at"),
    )
    probes = groups.select(
        *GROUP_OF_ROUND, F.unix_millis("at").alias("ms"), F.explode(F.array_distinct("members")).alias("client_id")
    )
    # Frames grow with the rows: one that also shrinks is computed anew for each row.
    first, expired_ms = Window.unboundedPreceding, expiry_s * 1000
    of_client = Window.partitionBy(*_GROUP, "client_id").orderBy("ms")
    of_group = Window.partitionBy(*_GROUP).orderBy("ms")
    heard_ms = F.when(F.col("heard_at").isNotNull(), F.col("ms"))

    def lately(ms: Column) -> Column:
        return ms >= F.col("ms") - lookback_s * 1000

    heard = (
        beats.unionByName(probes, allowMissingColumns=True)
        .withColumns(
            {
                "heard_at": F.max("heard_at").over(of_client.rangeBetween(first, 0)),
                "own_ms": F.max(heard_ms).over(of_client.rangeBetween(first, 0)),
                "group_ms": F.max(heard_ms).over(of_group.rangeBetween(first, 0)),
                "group_ms_before": F.max(heard_ms).over(of_group.rangeBetween(first, -expired_ms)),
            }
        )
        .where(F.col("round_at").isNotNull() & lately(F.col("group_ms")))
        .withColumn("last_heartbeat_at", F.when(lately(F.col("own_ms")), F.col("heard_at")))
    )
    age_ms = F.col("ms") - F.unix_millis("last_heartbeat_at")
    stale = F.when(age_ms.isNotNull(), age_ms > expired_ms).when(lately(F.col("group_ms_before")), F.lit(True))
    member = F.struct("client_id", "last_heartbeat_at", age_ms.alias("age_ms"), stale.alias("stale"))
    return heard.groupBy(*GROUP_OF_ROUND).agg(F.array_sort(F.collect_list(member)).alias("member_heartbeats"))


def member_events(groups: DataFrame, events: DataFrame, *, lookback_s: int) -> DataFrame:
    """Per round and group, who came (``join``) or went (``leave``) since the round before it, or in ``lookback_s``.

    Each broker writes a line of its own: the last one counts.
    """
    kind = F.when(F.col("kind").isin(*_JOINS), "join").when(F.col("kind").isin(*_LEAVES), "leave")
    told = events.select(
        "cluster",
        F.col("client_group").alias("consumer_group"),
        kind.alias("event"),
        F.coalesce("client_id", "address", "client_group").alias("subject"),
        F.col("logged_at").alias("at"),
        F.lit(0).alias("is_round"),
    ).where(F.col("event").isNotNull())
    rounds = groups.select(*GROUP_OF_ROUND, "at", F.struct("round_at", "at").alias("round"), F.lit(1).alias("is_round"))
    walks = groups.select(*_WALK).distinct()
    # Backwards, so that the frame grows with the rows; one that shrinks is computed anew for each row.
    backwards = Window.partitionBy(*_WALK).orderBy(F.desc("at"), F.desc("is_round"))
    placed = (
        told.join(F.broadcast(walks), list(_GROUP))
        .unionByName(rounds, allowMissingColumns=True)
        .withColumn("next", F.last("round", ignorenulls=True).over(backwards.rowsBetween(Window.unboundedPreceding, 0)))
        .where((F.col("is_round") == 0) & (F.unix_seconds("next.at") - F.unix_seconds("at") <= lookback_s))
    )
    last = placed.groupBy(*_WALK, F.col("next.round_at").alias("round_at"), "event", "subject").agg(
        F.max("at").alias("at")
    )
    event = F.struct("at", F.col("event").alias("kind"), "subject")
    return last.groupBy(*GROUP_OF_ROUND).agg(F.array_sort(F.collect_list(event)).alias("member_events"))
