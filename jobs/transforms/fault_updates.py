"""Send attempts in, the calls of updateFaultItem that they made out.

The ladder (computeNotAvailableDuration) runs as a pandas UDF, on the updates that can open a window only.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.null_safe_join import null_safe_join
from jobs.transforms.producer_replay import PROCESS
from udfs.pandas_udfs import not_available_durations, outcome_updates

ITEM = (*PROCESS, "broker_name")
# A total order: end, begin, thread, message, attempt, phase.
UPDATE_ORDER = ("at", "begin_at", "thread", "msg_id", "attempt", "phase_rank")


def updates_of(attempts: DataFrame) -> DataFrame:
    """One row per call of updateFaultItem that an attempt made: ASYNC makes two, at submit and at callback.

    Of an attempt without mode (a trace) only the one for the broker's answer is known.
    """
    result = _update("result", F.col("end_at"), F.col("exception"))
    oneway = _update("submit", F.col("end_at"), F.col("exception"))
    submit = F.when(F.col("submit_end_at").isNotNull(), _update("submit", F.col("submit_end_at"), F.lit(None)))
    callback = F.when(
        F.col("callback_end_at").isNotNull(), _update("callback", F.col("callback_end_at"), F.col("exception"))
    )
    # A send to a queue that the application chose tells the table nothing, but for an ASYNC callback.
    pinned = F.coalesce(F.col("queue_selected_by") != "client", F.lit(False))
    made = (
        F.when(F.col("mode").isNull() | (F.col("mode") == "SYNC"), F.array(F.when(~pinned, result)))
        .when(F.col("mode") == "ONEWAY", F.array(F.when(~pinned, oneway)))
        .otherwise(F.array(F.when(~pinned, submit), callback))
    )
    return attempts.select(
        *ITEM, "mode", "begin_at", "thread", "msg_id", "attempt", "error", F.explode(F.array_compact(made)).alias("u")
    ).select(
        *ITEM,
        "mode",
        "begin_at",
        "thread",
        "msg_id",
        "attempt",
        "error",
        "u.*",
        (F.unix_millis("u.at") - F.unix_millis("begin_at")).alias("latency_ms"),
        F.to_date("u.at").alias("event_date"),
    )


def _update(phase: str, at: Column, exception: Column) -> Column:
    return F.struct(
        F.lit(phase).alias("phase"),
        F.lit(int(phase == "callback")).alias("phase_rank"),
        at.alias("at"),
        exception.cast("string").alias("exception"),
    )


def judged_updates(updates: DataFrame, rules: DataFrame) -> DataFrame:
    """Updates of replayed processes, with what they told the fault table and the duration they gave, ms."""
    own = rules.where(F.col("verdict") == "replayed").select(
        *PROCESS,
        "event_date",
        "profile",
        "extend_only",
        "has_reachable",
        "detector_enabled",
        "latency_max_ms",
        "not_available_ms",
        "next_started_at",
    )
    told = outcome_updates()("profile", "mode", "phase", "exception", "error", "detector_enabled")
    on_ladder = not_available_durations()("profile", "latency_max_ms", "not_available_ms", "latency_ms", "isolation")
    is_slow = F.coalesce(F.col("latency_ms") >= F.array_min("latency_max_ms"), F.lit(False))
    # One row per process and date. Each branch below reads the join anew, so it must not shuffle all updates.
    ruled = null_safe_join(updates, F.broadcast(own), [*PROCESS, "event_date"])
    failed = ruled.where(F.col("exception").isNotNull()).withColumn("told", told).select("*", "told.*").drop("told")
    fine = ruled.where(F.col("exception").isNull()).withColumns({"isolation": F.lit(False), "reachable": F.lit(True)})
    quick = fine.where(~is_slow).withColumn("duration_ms", F.lit(0).cast("long"))
    known = fine.where(is_slow).unionByName(failed.where(F.col("isolation").isNotNull()))
    slow = known.withColumn("duration_ms", on_ladder)
    return quick.unionByName(slow).select(
        *ITEM,
        *UPDATE_ORDER,
        "event_date",
        "profile",
        "extend_only",
        "has_reachable",
        "next_started_at",
        "latency_ms",
        "isolation",
        "reachable",
        "duration_ms",
    )
