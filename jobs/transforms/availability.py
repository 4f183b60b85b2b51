"""Updates of fault tables in, the stretches in which brokers were held unavailable or unreachable out.

What an update does depends only on the updates of the same producer process and broker before it:

- through 5.1.3 an update replaces the item: a stretch lasts until it expires or the next update ends it;
- from 5.1.4 on an update can only move the item's start forward: a stretch lasts to the farthest start so far;
- from 5.1.4 on the reachable flag is what the last update set.

So the walk over time is a Spark window function, exact and without state in Python; the ladder
(computeNotAvailableDuration) is a pandas UDF on the updates that can open a window. Source: LatencyFaultToleranceImpl.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.fault_updates import ITEM, UPDATE_ORDER
from jobs.transforms.null_safe_join import null_safe_join
from jobs.transforms.producer_replay import PROCESS


def with_carried_items(updates: DataFrame, opening: DataFrame, rules: DataFrame) -> DataFrame:
    """Updates and, before them, one row per item with which the stretch of dates begins (fault_item_state).

    ``first_date`` of ``rules`` is the first date of the cluster's stretch: a carried item counts from its midnight.
    """
    alive = rules.where(F.col("verdict") == "replayed").select(
        *PROCESS, "event_date", "extend_only", "has_reachable", "next_started_at", "first_date"
    )
    first = alive.where(F.col("event_date") == F.col("first_date")).drop("event_date")
    items = opening.drop("event_date").withColumn("life_at", F.col("started_at"))
    midnight = F.col("first_date").cast("timestamp")
    held = F.col("start_at") > midnight
    unreachable = F.struct(
        F.col("unreachable_since").alias("opened_at"),
        F.lit("isolation").alias("kind"),
        F.col("unreachable_latency_ms").alias("latency_ms"),
        F.lit(0).cast("long").alias("not_available_ms"),
    )
    trigger = F.struct(
        F.col("opened_at"),
        F.col("trigger_kind").alias("kind"),
        F.col("trigger_latency_ms").alias("latency_ms"),
        F.col("not_available_ms"),
    )
    carried = null_safe_join(items, F.broadcast(first), PROCESS).select(
        *ITEM,
        midnight.alias("at"),
        F.col("first_date").alias("event_date"),
        F.lit(0).alias("row_rank"),
        F.col("last_update_at"),
        "profile",
        "extend_only",
        "has_reachable",
        "next_started_at",
        F.col("current_latency_ms").alias("latency_ms"),
        F.lit(False).alias("isolation"),
        "reachable",
        F.when(held, F.unix_millis("start_at") - F.unix_millis(midnight)).otherwise(0).alias("duration_ms"),
        F.col("start_at").alias("carried_start_at"),
        F.when(held, trigger).alias("carried_trigger"),
        F.when(~F.col("reachable"), unreachable).alias("carried_unreachable"),
        "forgotten_at",
    )
    fresh = updates.withColumns({"row_rank": F.lit(1), "last_update_at": F.col("at")})
    return fresh.unionByName(carried, allowMissingColumns=True)


def with_removals(rows: DataFrame, removals: DataFrame) -> DataFrame:
    """Rows of ``with_carried_items`` and, among them, the brokers that the fallback surely forgot.

    ``removals``: one row per ``ITEM`` and instant ``at``.
    """
    gone = removals.select(
        *ITEM,
        "at",
        F.to_date("at").alias("event_date"),
        F.lit(1).alias("row_rank"),
        F.col("at").alias("last_update_at"),
        F.col("at").alias("begin_at"),
        F.lit(True).alias("removed"),
        F.lit(False).alias("extend_only"),
        F.lit(False).alias("isolation"),
        F.lit(True).alias("reachable"),
        F.lit(0).cast("long").alias("duration_ms"),
    )
    return rows.unionByName(gone, allowMissingColumns=True)


def with_stretches(rows: DataFrame) -> DataFrame:
    """Each update with the stretches it belongs to, as the item's history up to it says.

    Adds ``start_at`` (startTimestamp after it), ``opens`` and ``extends`` (it began or moved a stretch), the number and
    trigger of that stretch, when the next update comes, and the same for being unreachable.
    """
    in_order = Window.partitionBy(*ITEM).orderBy("row_rank", *UPDATE_ORDER)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    until = F.timestamp_millis(F.unix_millis("at") + F.col("duration_ms"))
    shuns = F.col("duration_ms") > 0
    if "removed" not in rows.columns:
        rows = rows.withColumn("removed", F.lit(False))
    rows = rows.withColumns({"until": F.when(shuns, until), "removed": F.coalesce("removed", F.lit(False))})
    previous = F.when(F.col("extend_only"), F.max("until").over(before)).otherwise(F.lag("until").over(in_order))
    rows = rows.withColumn("held_until", previous)
    # Stretches that adjoin are one; but of what midnight ends the next date knows nothing, and begins anew.
    at_midnight = F.col("at") == F.to_date("at").cast("timestamp")
    ended = (F.col("at") > F.col("held_until")) | ((F.col("at") == F.col("held_until")) & at_midnight)
    opens = shuns & F.coalesce(ended, F.lit(True))
    moves = shuns & (~F.col("extend_only") | F.coalesce(F.col("until") > F.col("held_until"), F.lit(True)))
    goes = ~F.col("reachable") & F.coalesce(F.lag("reachable").over(in_order), F.lit(True))
    rows = rows.withColumns({"opens": opens, "extends": moves, "goes_unreachable": goes})
    trigger = F.coalesce("carried_trigger", _trigger(F.col("duration_ms")))
    unreachable = F.coalesce("carried_unreachable", _trigger(F.lit(0).cast("long")))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    extended = F.coalesce(F.max("until").over(so_far), F.max("carried_start_at").over(so_far))
    replaced = F.coalesce("until", F.when(F.col("row_rank") == 0, F.col("carried_start_at")).otherwise(F.col("at")))
    return rows.withColumns(
        {
            "stretch": F.sum(F.col("opens").cast("int")).over(so_far),
            "trigger": F.last(F.when(F.col("opens"), trigger), ignorenulls=True).over(so_far),
            "unreachable_stretch": F.sum(F.col("goes_unreachable").cast("int")).over(so_far),
            "unreachable": F.last(F.when(F.col("goes_unreachable"), unreachable), ignorenulls=True).over(so_far),
            "start_at": F.when(F.col("extend_only"), extended).otherwise(replaced),
            "next_at": F.lead("at").over(in_order),
            "next_removed": F.lead("removed", default=False).over(in_order),
        }
    )


def without_stretches(updates: DataFrame) -> DataFrame:
    """Updates that began, moved and ended no stretch, as rows beside those of ``with_stretches``.

    From 5.1.4 on such an update leaves the item's start as it was: ``start_at`` is null then.
    """
    start = F.when(~F.col("extend_only"), F.col("at"))
    return updates.withColumns({"row_rank": F.lit(1), "last_update_at": F.col("at"), "start_at": start})


def _trigger(duration_ms: Column) -> Column:
    kind = F.when(F.col("isolation"), F.lit("isolation")).otherwise(F.lit("latency"))
    return F.struct(
        F.col("at").alias("opened_at"),
        kind.alias("kind"),
        F.col("latency_ms").alias("latency_ms"),
        duration_ms.alias("not_available_ms"),
    )


def stretches(rows: DataFrame) -> DataFrame:
    """One row per maximal stretch of an item: state, start, end (null: not known), reason, trigger, updates by date.

    One that an update of its own instant ends is there too: it is no window, but a choice of that instant saw it.
    """
    unavailable = _gathered(
        rows.where("extends"),
        number="stretch",
        state="unavailable",
        trigger="trigger",
        # Until 5.1.3 the next update replaces the item, whatever it says.
        end=F.when(F.col("extend_only"), F.col("until")).otherwise(F.least("until", "next_at")),
        reason=F.when(F.col("extend_only") | ~(F.coalesce(F.col("next_at") < F.col("until"), F.lit(False))), "expired")
        .when(F.col("next_removed"), "removed")
        .otherwise("overwritten"),
    )
    unreachable = _gathered(
        rows.where(~F.col("reachable")),
        number="unreachable_stretch",
        state="unreachable",
        trigger="unreachable",
        # The next update of the stretch's last row is the one that finds the broker reachable.
        end=F.coalesce("next_at", F.lit("9999-12-31").cast("timestamp")),
        reason=F.when(F.col("next_at").isNull(), F.lit("open")).otherwise(F.lit("reachable_again")),
    )
    whole = unavailable.unionByName(unreachable)
    restarted = F.coalesce(F.col("next_started_at") < F.col("stretch_end"), F.lit(False))
    return whole.withColumns(
        {
            "end_reason": F.when(restarted, F.lit("restarted")).otherwise(F.col("end_reason")),
            "stretch_end": F.when(restarted, F.col("next_started_at")).otherwise(F.col("stretch_end")),
        }
    ).where(F.col("stretch_end") >= F.col("stretch_start"))


def _gathered(rows: DataFrame, *, number: str, state: str, trigger: str, end: Column, reason: Column) -> DataFrame:
    by_date = (
        rows.withColumns({"end": end, "reason": reason})
        .groupBy(*ITEM, number, "event_date")
        .agg(
            F.min("at").alias("first_at"),
            F.max(F.struct("end", "reason")).alias("last"),
            F.count_if(F.col("row_rank") == 1).alias("updates"),
            F.first(trigger).alias("trigger"),
            F.first("profile").alias("profile"),
            F.first("next_started_at").alias("next_started_at"),
        )
    )
    return (
        by_date.groupBy(*ITEM, number)
        .agg(
            F.min("first_at").alias("stretch_start"),
            F.max("last").alias("last"),
            F.collect_list(F.struct("event_date", "updates")).alias("updates"),
            F.first("trigger").alias("trigger"),
            F.first("profile").alias("profile"),
            F.first("next_started_at").alias("next_started_at"),
        )
        .select("*", F.col("last.end").alias("stretch_end"), F.col("last.reason").alias("end_reason"))
        .withColumn("state", F.lit(state))
        .drop("last", number)
    )
