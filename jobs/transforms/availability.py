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
    carried = null_safe_join(items, first, PROCESS).select(
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
    after = in_order.rowsBetween(1, Window.unboundedFollowing)
    until = F.timestamp_millis(F.unix_millis("at") + F.col("duration_ms"))
    shuns = F.col("duration_ms") > 0
    if "removed" not in rows.columns:
        rows = rows.withColumn("removed", F.lit(False))
    rows = rows.withColumns({"until": F.when(shuns, until), "removed": F.coalesce("removed", F.lit(False))})
    previous = F.when(F.col("extend_only"), F.max("until").over(before)).otherwise(F.lag("until").over(in_order))
    rows = rows.withColumn("held_until", previous)
    opens = shuns & F.coalesce(F.col("at") > F.col("held_until"), F.lit(True))
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
            "next_reachable_at": F.first(F.when(F.col("reachable"), F.col("at")), ignorenulls=True).over(after),
        }
    )


def _trigger(duration_ms: Column) -> Column:
    kind = F.when(F.col("isolation"), F.lit("isolation")).otherwise(F.lit("latency"))
    return F.struct(
        F.col("at").alias("opened_at"),
        kind.alias("kind"),
        F.col("latency_ms").alias("latency_ms"),
        duration_ms.alias("not_available_ms"),
    )


def stretches(rows: DataFrame) -> DataFrame:
    """One row per maximal stretch of an item: state, start, end (null: not known), reason, trigger, updates by date."""
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
        end=F.coalesce("next_reachable_at", F.lit("9999-12-31").cast("timestamp")),
        reason=F.when(F.col("next_reachable_at").isNull(), F.lit("open")).otherwise(F.lit("reachable_again")),
    )
    whole = unavailable.unionByName(unreachable)
    restarted = F.coalesce(F.col("next_started_at") < F.col("stretch_end"), F.lit(False))
    return whole.withColumns(
        {
            "end_reason": F.when(restarted, F.lit("restarted")).otherwise(F.col("end_reason")),
            "stretch_end": F.when(restarted, F.col("next_started_at")).otherwise(F.col("stretch_end")),
        }
    ).where(F.col("stretch_end") > F.col("stretch_start"))


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


def windows_by_date(whole: DataFrame, spans: DataFrame, rules: DataFrame) -> DataFrame:
    """Stretches cut at UTC midnight: rows of broker_availability_window.

    ``spans``: per cluster, ``last_date`` up to which parts may lie, ``endless_until`` up to which a stretch without
    end is followed, and ``last_recorded``, its last date with records. ``rules``: per process and date on which it
    lives, ``last_attempt_at``. On the last recorded date (and after it) a part that outlasts the producer's record is
    open.
    """
    last_instant = F.col("stretch_end") - F.expr("INTERVAL '0.000001' SECOND")
    endless = F.col("end_reason") == "open"
    until = F.least(F.when(endless, F.col("endless_until")).otherwise(F.to_date(last_instant)), F.col("last_date"))
    first = F.to_date("stretch_start")
    parts = (
        whole.join(F.broadcast(spans), "cluster")
        .where(first <= until)
        .withColumn("event_date", F.explode(F.sequence(first, until)))
    )
    alive = rules.select(*PROCESS, "event_date", "last_attempt_at", "certainty")
    latest = null_safe_join(parts, alive, [*PROCESS, "event_date"])
    midnight = F.date_add("event_date", 1).cast("timestamp")
    # What an update or a start of the next date does, at its very first instant too, is that date's to tell.
    is_last = (F.col("stretch_end") < midnight) | (
        (F.col("stretch_end") == midnight) & (F.col("end_reason") == "expired")
    )
    outlasts = (F.col("event_date") >= F.col("last_recorded")) & (F.col("stretch_end") > F.col("last_attempt_at"))
    reason = (
        F.when(endless & (F.col("event_date") >= F.col("last_recorded")), F.lit("open"))
        .when(~is_last, F.lit("cut_at_midnight"))
        .when((F.col("end_reason") == "expired") & outlasts, F.lit("open"))
        .otherwise(F.col("end_reason"))
    )
    end = F.when(endless & (reason == "open"), F.lit(None)).otherwise(F.least("stretch_end", midnight))
    of_date = F.filter("updates", lambda u: u["event_date"] == F.col("event_date"))
    start = F.greatest("stretch_start", F.col("event_date").cast("timestamp"))
    return latest.select(
        *ITEM,
        "state",
        "event_date",
        start.alias("window_start"),
        end.cast("timestamp").alias("window_end"),
        reason.alias("end_reason"),
        (F.coalesce(F.col("trigger.opened_at"), F.col("stretch_start")) < F.col("event_date").cast("timestamp")).alias(
            "continues_previous"
        ),
        F.col("trigger.kind").alias("trigger_kind"),
        F.col("trigger.latency_ms").alias("trigger_latency_ms"),
        F.col("trigger.not_available_ms").alias("not_available_ms"),
        F.coalesce(F.try_element_at(of_date, F.lit(1))["updates"], F.lit(0)).alias("attempts"),
        "profile",
        "certainty",
    )


def with_doubtful_ends(windows: DataFrame, removals: DataFrame) -> DataFrame:
    """Windows, those inside which the fallback may have forgotten the broker unseen as ``possible``.

    ``removals``: ``ITEM`` and instant ``at``.
    """
    marks = removals.groupBy(*ITEM).agg(F.collect_set("at").alias("marks"))
    marked = null_safe_join(windows, marks, ITEM, "left")
    end = F.coalesce("window_end", F.lit("9999-12-31").cast("timestamp"))
    inside = F.exists("marks", lambda at: (at >= F.col("window_start")) & (at < end))
    doubted = (F.col("state") == "unavailable") & (F.col("certainty") == "certain") & F.coalesce(inside, F.lit(False))
    return marked.withColumn("certainty", F.when(doubted, "possible").otherwise(F.col("certainty"))).drop("marks")


def items_by_date(rows: DataFrame, replay: DataFrame, removals: DataFrame, *, tolerance_ms: int) -> DataFrame:
    """Each item as each date closed (fault_item_state): the last update before midnight, while its process lives.

    ``replay``: producer_replay rows of the dates wanted, with ``next_started_at``; ``removals``: ``ITEM`` and ``at``
    of the choices that may have made the client forget a broker.
    """
    living = replay.where(
        (F.col("verdict") == "replayed") & F.coalesce(F.to_date("next_started_at") > F.col("event_date"), F.lit(True))
    ).select(*PROCESS, F.col("event_date").alias("closed_date"))
    last_until = F.coalesce(F.date_sub(F.to_date("next_at"), 1), F.lit("9999-12-31").cast("date"))
    lasting = rows.where((last_until >= F.col("event_date")) & ~F.col("removed")).withColumn("last_until", last_until)
    closed = null_safe_join(lasting, living, PROCESS).where(
        F.col("closed_date").between(F.col("event_date"), F.col("last_until"))
    )
    midnight = F.date_add("closed_date", 1).cast("timestamp")
    marks = removals.groupBy(*ITEM).agg(F.sort_array(F.collect_set("at")).alias("marks"))
    closed = null_safe_join(closed, marks, ITEM, "left")
    since = F.unix_millis("last_update_at") - tolerance_ms
    own = F.filter("marks", lambda at: (F.unix_millis(at) >= since) & (at < midnight))
    held = F.col("start_at") > midnight
    away = ~F.col("reachable")
    return closed.select(
        *ITEM,
        F.col("closed_date").alias("event_date"),
        F.col("latency_ms").alias("current_latency_ms"),
        "start_at",
        "reachable",
        "last_update_at",
        F.when(held, F.col("trigger.opened_at")).alias("opened_at"),
        F.when(held, F.col("trigger.kind")).alias("trigger_kind"),
        F.when(held, F.col("trigger.latency_ms")).alias("trigger_latency_ms"),
        F.when(held, F.col("trigger.not_available_ms")).alias("not_available_ms"),
        F.when(away, F.col("unreachable.opened_at")).alias("unreachable_since"),
        F.when(away, F.col("unreachable.latency_ms")).alias("unreachable_latency_ms"),
        F.coalesce("forgotten_at", F.get(own, F.lit(0))).alias("forgotten_at"),
        "profile",
    )
