"""Stretches and items of fault tables in; what each UTC date shows of them out: its windows, its items as it closed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.fault_updates import ITEM
from jobs.transforms.null_safe_join import null_safe_join
from jobs.transforms.producer_replay import PROCESS


def windows_by_date(whole: DataFrame, spans: DataFrame, rules: DataFrame) -> DataFrame:
    """Stretches cut at UTC midnight: rows of broker_availability_window, with ``opened_at``, when the whole stretch
    opened, and ``last_attempt_at`` of their process.

    ``spans``: per cluster, ``last_date`` up to which parts may lie, ``endless_until`` up to which a stretch without
    end is followed, and ``last_recorded``, its last date with records. ``rules``: per process and date on which it
    lives, ``last_attempt_at``. On the last recorded date (and after it) a part that outlasts the producer's record is
    open.
    """
    parts = _parts(whole, spans)
    alive = rules.select(*PROCESS, "event_date", "last_attempt_at", "certainty")
    latest = null_safe_join(parts, F.broadcast(alive), [*PROCESS, "event_date"])
    reason, end = _end_on_date()
    opened = F.coalesce(F.col("trigger.opened_at"), F.col("stretch_start"))
    of_date = F.filter("updates", lambda u: u["event_date"] == F.col("event_date"))
    start = F.greatest("stretch_start", F.col("event_date").cast("timestamp"))
    return latest.select(
        *ITEM,
        "state",
        "event_date",
        start.alias("window_start"),
        end.alias("window_end"),
        reason.alias("end_reason"),
        (opened < F.col("event_date").cast("timestamp")).alias("continues_previous"),
        opened.alias("opened_at"),
        F.col("trigger.kind").alias("trigger_kind"),
        F.col("trigger.latency_ms").alias("trigger_latency_ms"),
        F.col("trigger.not_available_ms").alias("not_available_ms"),
        F.coalesce(F.try_element_at(of_date, F.lit(1))["updates"], F.lit(0)).alias("attempts"),
        "profile",
        "certainty",
        "last_attempt_at",
    )


def _parts(whole: DataFrame, spans: DataFrame) -> DataFrame:
    """Each stretch once per date that it touches."""
    last_instant = F.col("stretch_end") - F.expr("INTERVAL '0.000001' SECOND")
    endless = F.col("end_reason") == "open"
    until = F.least(F.when(endless, F.col("endless_until")).otherwise(F.to_date(last_instant)), F.col("last_date"))
    first = F.to_date("stretch_start")
    return (
        whole.join(F.broadcast(spans), "cluster")
        .where((F.col("stretch_end") > F.col("stretch_start")) & (first <= until))
        .withColumn("event_date", F.explode(F.sequence(first, until)))
    )


def _end_on_date() -> tuple[Column, Column]:
    """Why a part ends as it does on its date, and when."""
    midnight = F.date_add("event_date", 1).cast("timestamp")
    # What an update or a start of the next date does, at its very first instant too, is that date's to tell.
    is_last = (F.col("stretch_end") < midnight) | (
        (F.col("stretch_end") == midnight) & (F.col("end_reason") == "expired")
    )
    outlasts = (F.col("event_date") >= F.col("last_recorded")) & (F.col("stretch_end") > F.col("last_attempt_at"))
    endless = F.col("end_reason") == "open"
    reason = (
        F.when(endless & (F.col("event_date") >= F.col("last_recorded")), F.lit("open"))
        .when(~is_last, F.lit("cut_at_midnight"))
        .when((F.col("end_reason") == "expired") & outlasts, F.lit("open"))
        .otherwise(F.col("end_reason"))
    )
    end = F.when(endless & (reason == "open"), F.lit(None)).otherwise(F.least("stretch_end", midnight))
    return reason, end.cast("timestamp")


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
    closed = null_safe_join(lasting, F.broadcast(living), PROCESS).where(
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
