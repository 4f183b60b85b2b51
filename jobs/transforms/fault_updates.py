"""Send attempts in, the calls of updateFaultItem that they made out.

The ladder (computeNotAvailableDuration) runs as a pandas UDF, on the updates that can open a window only.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.broker_activity import is_striking
from jobs.transforms.null_safe_join import null_safe_join
from jobs.transforms.producer_replay import PROCESS
from udfs.pandas_udfs import not_available_durations, outcome_updates

ITEM = (*PROCESS, "broker_name")
# A total order: end, begin, thread, message, attempt, phase.
UPDATE_ORDER = ("at", "begin_at", "thread", "msg_id", "attempt", "phase_rank")
# What the walk over an item's updates needs of its rule, and what only the judgement of one update does.
_OF_RULE = ("profile", "extend_only", "has_reachable", "next_started_at")
_ONLY_TO_JUDGE = ("detector_enabled", "latency_max_ms", "not_available_ms")
_JUDGED = (*ITEM, *UPDATE_ORDER, "event_date", *_OF_RULE, "latency_ms", "isolation", "reachable", "duration_ms")


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


def judged_updates(attempts: DataFrame, rules: DataFrame, dates: str, *, slow_ms: int) -> DataFrame:
    """Updates of replayed processes on ``dates`` (SQL), with what they told the fault table and how long it held, ms.

    ``slow_ms``: what is quicker is on nobody's ladder. Few attempts are not, and only they take the steps in Python.
    """
    strikes = is_striking(slow_ms)
    striking = _judged(_ruled(attempts.where(strikes), rules, dates))
    return striking.unionByName(quick_updates(attempts.where(~strikes), rules, dates))


def quick_updates(attempts: DataFrame, rules: DataFrame, dates: str) -> DataFrame:
    """The same of attempts of which none is striking."""
    return _harmless(_fine(_ruled(attempts, rules, dates))).select(*_JUDGED)


def _ruled(attempts: DataFrame, rules: DataFrame, dates: str) -> DataFrame:
    own = rules.where(F.col("verdict") == "replayed").select(*PROCESS, "event_date", *_OF_RULE, *_ONLY_TO_JUDGE)
    # One row of rules per process and date: a broadcast, so that the updates are not shuffled.
    return null_safe_join(updates_of(attempts).where(dates), F.broadcast(own), [*PROCESS, "event_date"])


def _judged(ruled: DataFrame) -> DataFrame:
    told = outcome_updates()("profile", "mode", "phase", "exception", "error", "detector_enabled")
    on_ladder = not_available_durations()("profile", "latency_max_ms", "not_available_ms", "latency_ms", "isolation")
    is_slow = F.coalesce(F.col("latency_ms") >= F.array_min("latency_max_ms"), F.lit(False))
    failed = ruled.where(F.col("exception").isNotNull()).withColumn("told", told).select("*", "told.*").drop("told")
    fine = _fine(ruled.where(F.col("exception").isNull()))
    quick = _harmless(fine.where(~is_slow))
    slow = fine.where(is_slow).unionByName(failed.where(F.col("isolation").isNotNull()))
    return quick.unionByName(slow.withColumn("duration_ms", on_ladder)).select(*_JUDGED)


def _fine(updates: DataFrame) -> DataFrame:
    return updates.withColumns({"isolation": F.lit(False), "reachable": F.lit(True)})


def _harmless(updates: DataFrame) -> DataFrame:
    return updates.withColumn("duration_ms", F.lit(0).cast("long"))
