"""Attempts and verdicts on them in; producers without the switch that meet slow brokers, impossible choices out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import (
    Observed,
    found,
    instant,
    iso,
    minute,
    of_producer,
    producer_name,
    runs,
    text,
    window_doubt,
)
from jobs.transforms.fleet_minutes import ITEM_DATE, PROCESS_DATE
from jobs.transforms.null_safe_join import null_safe_join
from udfs.producer_finding import Thresholds


def fault_off_slow(given: Observed, limits: Thresholds) -> DataFrame:
    """The switch is known to be off, and p99 of the latency of a broker was 550 ms or more in 5 minutes on end.

    p99 is the value at rank ceil(0.99 n): it is so high exactly when more than 1 % of the attempts took so long, which
    is counted, exactly and in any order. ONEWAY and submits do not count, they tell nothing of the broker. A minute
    without attempts ends the run, as midnight does.
    """
    told = _slow_stretches(given, limits)
    partial = F.col("certainty") == "partial"
    return found(
        told,
        "FAULT_OFF_SLOW",
        **of_producer(),
        subject=text("{}, {}", producer_name(), F.col("broker_name")),
        broker_name=F.col("broker_name"),
        **{"from": F.col("run_start"), "to": F.col("run_end")},
        certainty=F.when(partial, "partial").otherwise("certain"),
        doubt=F.when(partial, window_doubt(F.col("certainty"))),
        evidence=F.array(
            text(
                "send_attempt: client_id={}, broker_name={}, begin_at={} to {}",
                F.col("client_id"),
                F.col("broker_name"),
                iso(F.col("run_start")),
                iso(F.col("run_end")),
            )
        ),
        sentence=text(
            "{} does not avoid slow brokers, and {} of its {} attempts to {} between {} and {} took {} ms or longer",
            producer_name(),
            F.col("slow"),
            F.col("n"),
            F.col("broker_name"),
            minute(F.col("run_start")),
            minute(F.col("run_end")),
            F.lit(limits.fault_off_slow_ms),
        ),
    )


def _slow_stretches(given: Observed, limits: Thresholds) -> DataFrame:
    """Long enough runs of minutes in which a broker was slow to a producer without the switch."""
    off = given.replay.where(~F.col("latency_fault_enabled")).select(*PROCESS_DATE, "certainty")
    minutes = (
        null_safe_join(given.counts, F.broadcast(off), PROCESS_DATE)
        .groupBy(*ITEM_DATE, "minute_at")
        .agg(F.sum("slow").alias("slow"), F.sum("answered").alias("n"), F.first("certainty").alias("certainty"))
        .where(F.col("slow") * 100 > F.col("n") * (100 - limits.fault_off_slow_percentile))
    )
    return runs(
        minutes, ITEM_DATE, F.sum("slow").alias("slow"), F.sum("n").alias("n"), F.max("certainty").alias("certainty")
    ).where(F.col("minutes") >= limits.fault_off_slow_minutes)


def impossible_choice(given: Observed, limits: Thresholds) -> DataFrame:
    """A producer sent to a broker outside the admissible set: wrong profile, wrong clock, or a queue chosen by others.

    ``verdicts``: rows of send_verdict. One finding per process, topic and broker of a date, with their number and the
    first of them: a wrong profile makes one attempt in twenty impossible, which is one finding, not thousands.
    """
    first = F.min_by(F.struct("admissible", "rule", "msg_id"), F.struct("begin_at", "msg_id", "attempt"))
    told = (
        given.verdicts.where(F.col("verdict") == "impossible")
        .groupBy("cluster", "event_date", "producer_group", "client_id", "started_at", "topic", "broker_name")
        .agg(
            F.count("*").alias("n"),
            F.min("begin_at").alias("first_at"),
            F.max("begin_at").alias("last_at"),
            first.alias("first"),
        )
    )
    admissible = F.array_join(F.array_sort("first.admissible"), ", ")
    return found(
        told,
        "IMPOSSIBLE_CHOICE",
        **of_producer(),
        subject=text("{}, {} to {}", producer_name(), F.col("topic"), F.col("broker_name")),
        topic=F.col("topic"),
        broker_name=F.col("broker_name"),
        **{"from": F.col("first_at"), "to": F.col("last_at")},
        certainty=F.lit("certain"),
        evidence=F.array(text("send_verdict: client_id={}, msg_id={}", F.col("client_id"), F.col("first.msg_id"))),
        sentence=text(
            "{} chose {} for {} attempt(s) of {}, which its release could not: first at {}, "
            "when admissible were {} (rule {})",
            producer_name(),
            F.col("broker_name"),
            F.col("n"),
            F.col("topic"),
            instant(F.col("first_at")),
            F.when(admissible == "", "none").otherwise(admissible),
            F.col("first.rule"),
        ),
    )
