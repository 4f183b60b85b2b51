"""Attempts and availability windows in; who was active and who isolated which broker, minute by minute, out.

Only windows are spread over minutes; attempts are counted by the minute they began in, never spread. Nothing here looks
beyond one date, so a date computed alone gives the rows of a run over many.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.fault_updates import ITEM
from jobs.transforms.null_safe_join import null_safe_join
from jobs.transforms.producer_replay import PROCESS
from udfs.release_profiles import PROFILES

PROCESS_DATE = (*PROCESS, "event_date")
ITEM_DATE = (*ITEM, "event_date")
BROKER_MINUTE = ("cluster", "event_date", "minute_at", "broker_name")
_GATED = [profile.id for profile in PROFILES.values() if profile.reachable_gates_availability]
_NO_END = "9999-12-31"


def not_available(windows: DataFrame) -> DataFrame:
    """Stretches of a date in which isAvailable was false: one row per process, broker and stretch.

    Windows of state unavailable; in 5.1.4 an unreachable broker is not available either, and what overlaps is one.
    Adds ``held_start``, ``held_end`` (null: it lasts over midnight, or its end is not known), ``end_reason`` and the
    weakest ``certainty``. ``windows``: rows of broker_availability_window with ``last_attempt_at`` of their process.
    """
    far = F.lit(_NO_END).cast("timestamp")
    end = F.when(F.col("end_reason") != "cut_at_midnight", F.col("window_end"))
    in_order = Window.partitionBy(*ITEM_DATE).orderBy("window_start")
    before = F.max("held_end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("window_start") > before, F.lit(True)).cast("int")
    return (
        windows.where(isolates())
        .withColumn("held_end", F.coalesce(end, far))
        .withColumn("begins", begins)
        .withColumn("part", F.sum("begins").over(in_order.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*ITEM_DATE, "part")
        .agg(
            F.min("window_start").alias("held_start"),
            F.max(F.struct("held_end", "end_reason")).alias("last"),
            # Of the three words the later in the alphabet is the weaker.
            F.max("certainty").alias("certainty"),
            F.first("profile").alias("profile"),
            F.first("last_attempt_at").alias("last_attempt_at"),
        )
        .select(
            *ITEM_DATE,
            "held_start",
            F.when(F.col("last.held_end") < far, F.col("last.held_end")).alias("held_end"),
            F.col("last.end_reason").alias("end_reason"),
            "certainty",
            "profile",
            "last_attempt_at",
        )
    )


def isolates() -> Column:
    """The window is one in which isAvailable was false."""
    return (F.col("state") == "unavailable") | F.col("profile").isin(_GATED)


def minute_counts(attempts: DataFrame, *, slow_ms: int) -> DataFrame:
    """Per process, topic, broker and minute, what all rules count of attempts, in one pass over them.

    ``attempts`` begun; ``sends`` among them (first attempts) and ``chosen`` (sends whose queue the client chose itself:
    one that nobody is recorded to have chosen is taken as its choice); ``answered`` and, of these, ``slow``, which took
    ``slow_ms`` or longer (ONEWAY and submits tell nothing of the broker); ``queues``: highest queue id seen, plus 1.
    """
    answered = F.col("outcome") != "SUBMITTED"
    return attempts.groupBy(
        *PROCESS_DATE, "topic", "broker_name", F.date_trunc("minute", "begin_at").alias("minute_at")
    ).agg(
        F.count("*").alias("attempts"),
        F.count_if(is_first()).alias("sends"),
        F.count_if(is_first() & is_chosen()).alias("chosen"),
        F.count_if(answered).alias("answered"),
        F.count_if(answered & (F.col("latency_ms") >= slow_ms)).alias("slow"),
        (F.max("queue_id").cast("long") + 1).alias("queues"),
    )


def is_first() -> Column:
    """The attempt is the first one of its send; of an ASYNC send the hook sees no other."""
    return F.coalesce(F.col("attempt"), F.lit(0)) == 0


def is_chosen() -> Column:
    """The client chose the queue itself, as far as is recorded."""
    return F.coalesce(F.col("queue_selected_by") == "client", F.lit(True))


def active_producers(counts: DataFrame, replay: DataFrame, *, min_sends_per_minute: int) -> DataFrame:
    """One row per minute and process that sent enough in it; ``standing``: replayed, off or unknown.

    A switch that is not recorded is taken as off in the replay, but nobody knows: its standing is unknown.
    ``counts``: rows of ``minute_counts``; ``replay``: rows of producer_replay with their process.
    """
    known_off = (F.col("verdict") == "off") & F.col("latency_fault_enabled").isNotNull()
    standing = F.when(F.col("verdict") == "replayed", "replayed").when(known_off, "off").otherwise("unknown")
    rules = replay.select(*PROCESS_DATE, standing.alias("standing"), F.col("certainty").alias("replay_certainty"))
    busy = (
        counts.groupBy(*PROCESS_DATE, "minute_at")
        .agg(F.sum("sends").alias("sends"))
        .where(F.col("sends") >= min_sends_per_minute)
    )
    return null_safe_join(busy, F.broadcast(rules), PROCESS_DATE)


def isolating_minutes(held: DataFrame, active: DataFrame) -> DataFrame:
    """One row per minute, broker and active, replayed process that held the broker not available in that minute.

    ``held``: rows of ``not_available``. It is spread over its minutes: those of a date at most, 1,440.
    """
    midnight = F.date_add("event_date", 1).cast("timestamp")
    last_instant = F.coalesce("held_end", midnight) - F.expr("INTERVAL '0.000001' SECOND")
    minutes = F.sequence(
        F.date_trunc("minute", "held_start"), F.date_trunc("minute", last_instant), F.expr("INTERVAL 1 MINUTE")
    )
    spread = (
        held.select(*ITEM_DATE, "certainty", F.explode(minutes).alias("minute_at"))
        .groupBy(*ITEM_DATE, "minute_at")
        .agg(F.max("certainty").alias("certainty"))
    )
    who = active.where(F.col("standing") == "replayed").select(*PROCESS_DATE, "minute_at")
    return null_safe_join(spread, who, [*PROCESS_DATE, "minute_at"])


def fleet_minutes(counts: DataFrame, held: DataFrame, active: DataFrame, isolating: DataFrame) -> DataFrame:
    """Rows of fleet_minute: every minute with an active producer by every broker of the date.

    A table, not a view: who is active is known from the attempts alone, and a view would count all of them at each
    query. Its rows are at most minutes x brokers, and the fleet's findings come from these very rows.
    """
    certain = F.col("replay_certainty") == "certain"
    replayed = F.col("standing") == "replayed"
    minutes = active.groupBy("cluster", "event_date", "minute_at").agg(
        F.count_if(replayed).alias("active"),
        F.count_if(replayed & ~certain).alias("active_doubtful"),
        F.count_if(F.col("standing") == "unknown").alias("active_unknown"),
        F.count_if(F.col("standing") == "off").alias("active_off"),
    )
    holding = isolating.groupBy(*BROKER_MINUTE).agg(
        F.count("*").alias("isolating"), F.count_if(F.col("certainty") == "certain").alias("isolating_at_least")
    )
    traffic = counts.groupBy(*BROKER_MINUTE).agg(F.sum("attempts").alias("attempts"))
    day_broker = ["cluster", "event_date", "broker_name"]
    brokers = traffic.select(*day_broker).unionByName(held.select(*day_broker)).distinct()
    grid = minutes.join(F.broadcast(brokers), ["cluster", "event_date"])
    joined = grid.join(holding, list(BROKER_MINUTE), "left").join(traffic, list(BROKER_MINUTE), "left")
    full = joined.fillna(0, ("isolating", "isolating_at_least", "attempts"))
    # A producer whose windows are not certain may have isolated what no window of it shows.
    unseen = F.col("active_doubtful") - (F.col("isolating") - F.col("isolating_at_least"))
    return full.withColumn("isolating_at_most", F.col("isolating") + unseen + F.col("active_unknown")).drop(
        "active_doubtful"
    )
