"""Attempts and producer starts in; per producer process and date, the rules it is replayed under, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.overrides import first_override
from udfs.pandas_udfs import release_rules

PRODUCER = ("cluster", "producer_group", "client_id")
# A process is told by its start. Where none is on record, or the last one was forgotten, it is told by the instant from
# which it is one life: ``life_at``, the start itself or the midnight of its first date; null: from before the stretch.
PROCESS = (*PRODUCER, "started_at", "life_at")
_SETTINGS = ("client_version", "latency_fault_enabled", "detector_enabled", "latency_max_ms", "not_available_ms")
# What starts say beside these: how the producer sends. No setting of the replay stands in for it.
_SAID = (*_SETTINGS, "retry_times_sync", "retry_times_async", "retry_another_broker", "send_timeout_ms")
_FAMILY = ("profile", "extend_only", "has_reachable", "reachable_gates_availability", "last_broker_rule")
_FACTS = ("attempts", "last_attempt_at", "partly_seen", "sources", *_SAID)
# Producers may be given any long as a duration, Long.MAX_VALUE for "never again" too. What lasts longer than this is
# told as lasting so long: no instant lies beyond what a timestamp holds, and no window has a row for each date to 9999.
_LONGEST_MS = 366 * 86_400_000
_TOLD = ("client_version", "latency_fault_enabled")  # of these an attempt's line may tell
_LIVES = "array<struct<life_at timestamp, started_at timestamp>>"


def lives(attempts: DataFrame, starts: DataFrame, opening: DataFrame, *, carry_days: int) -> DataFrame:
    """Per producer, the instants at which a process of it begins anew, in order.

    It does at each start, and at the midnight of a date with attempts after more than ``carry_days`` without any: by
    then its table and its start are forgotten. ``opening``: producer_replay rows of the date before.
    """
    began = starts.select(*PRODUCER, "started_at", F.to_date("started_at").alias("active_date"))
    sent = attempts.select(*PRODUCER, F.col("event_date").alias("active_date")).distinct()
    carried = opening.select(*PRODUCER, "started_at", F.to_date("last_attempt_at").alias("active_date"))
    seen = (
        sent.unionByName(began, allowMissingColumns=True)
        .unionByName(carried)
        .groupBy(*PRODUCER)
        .agg(
            F.sort_array(F.collect_set("active_date")).alias("active"),
            F.sort_array(F.collect_set("started_at")).alias("starts"),
        )
    )
    since = F.transform("active", lambda day, i: F.datediff(day, F.get("active", i - 1)))
    after_silence = F.filter("active", lambda day, i: F.coalesce(F.get(since, i) > carry_days, F.lit(False)))
    midnights = F.transform(after_silence, lambda day: _life(day.cast("timestamp"), F.lit(None)))
    started = F.transform("starts", lambda start: _life(start, start))
    return seen.select(*PRODUCER, F.array_sort(F.concat(midnights, started)).cast(_LIVES).alias("lives"))


def _life(life_at: Column, started_at: Column) -> Column:
    return F.struct(life_at.alias("life_at"), started_at.cast("timestamp").alias("started_at"))


def changed_lives(daily: DataFrame, opening: DataFrame, overrides: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Processes without a start on record whose lines tell other rules than before: PRODUCER and ``life_at``.

    A release does not change while a process runs, so another one began unseen, its fault table empty. It counts from
    the midnight of the first date that tells so. The switch is taken likewise. ``daily``: ``daily_activity``;
    ``opening``: producer_replay rows of the date before.
    """
    carried = opening.withColumn("life_at", F.col("started_at")).select(
        *PROCESS, "event_date", *(F.col(f"recorded.{name}").alias(name) for name in _TOLD)
    )
    told = daily.select(*PROCESS, "event_date", *_TOLD).unionByName(carried).where("started_at IS NULL")
    in_order = Window.partitionBy(*PROCESS).orderBy("event_date")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    known = told.withColumns(
        {
            name: F.coalesce(
                F.last(name, ignorenulls=True).over(so_far),
                first_override(overrides, name, ("cluster", "producer_group")),
            )
            for name in _TOLD
        }
    ).withColumn("release", F.coalesce(release_rules()(F.col("client_version"))["profile"], F.col("client_version")))
    differs = [F.col(name) != F.lag(name).over(in_order) for name in ("release", "latency_fault_enabled")]
    changes = known.withColumn("changes", F.coalesce(differs[0], F.lit(False)) | F.coalesce(differs[1], F.lit(False)))
    return changes.where("changes").select(*PRODUCER, F.col("event_date").cast("timestamp").alias("life_at"))


def with_lives(lives_of: DataFrame, more: DataFrame) -> DataFrame:
    """Lives and those that ``changed_lives`` gives."""
    began = more.groupBy(*PRODUCER).agg(F.collect_set(_life(F.col("life_at"), F.lit(None))).cast(_LIVES).alias("more"))
    both = F.array_sort(F.concat("lives", F.coalesce("more", F.array().cast(_LIVES))))
    return lives_of.join(began, list(PRODUCER), "left").withColumn("lives", both).drop("more")


def with_process(attempts: DataFrame, lives_of: DataFrame) -> DataFrame:
    """Attempts with ``started_at`` and ``life_at`` of their process: the producer's last life begun by their begin."""
    earlier = F.filter("lives", lambda life: life["life_at"] <= F.col("begin_at"))
    last = F.try_element_at(earlier, F.lit(-1))
    return (
        attempts.join(F.broadcast(lives_of), list(PRODUCER), "left")
        .withColumns({"started_at": last["started_at"], "life_at": last["life_at"]})
        .drop("lives")
    )


def daily_activity(activity: DataFrame) -> DataFrame:
    """One row per process and date (``by_process`` of its brokers): how many attempts began, what lines last say.

    ``partly_seen``: a hook does not see the retries of an ASYNC send, a trace no exception.
    """
    said = F.when(F.col("client_version").isNotNull(), F.struct("last_begin_at", "client_version"))
    on, off = F.max("said_on_at"), F.max("said_off_at")
    return activity.groupBy(*PROCESS, "event_date").agg(
        F.sum("attempts").alias("attempts"),
        F.max("last_attempt_at").alias("last_attempt_at"),
        F.max("partly_seen").alias("partly_seen"),
        F.sort_array(F.collect_set("source")).alias("sources"),
        F.max(said)["client_version"].alias("client_version"),
        F.when(on.isNotNull() | off.isNotNull(), F.coalesce(on > off, on.isNotNull())).alias("latency_fault_enabled"),
    )


def replay_rules(
    activity: DataFrame,
    starts: DataFrame,
    opening: DataFrame,
    dates: DataFrame,
    *,
    overrides: Sequence[Mapping[str, Any]],
    carry_days: int,
) -> DataFrame:
    """One row per process and date on which it is alive: rules, verdict and reasons (table ``producer_replay``).

    Durations in force are held to 366 days: a longer window is told as one of that length.

    ``starts``: producer_instance rows of the dates; ``opening``: producer_replay rows of the date before; ``dates``:
    cluster and event_date to fill. A process lives until its producer's next start, or ``carry_days`` without an
    attempt. What lines say is known from their own date on, never before, and what they say last counts; of a process
    whose start is on record, what is said first.
    """
    facts = _facts(activity, starts, opening)
    first = facts.groupBy(*PROCESS).agg(F.min("event_date").alias("first_date"))
    grid = first.join(F.broadcast(dates), "cluster").where(F.col("event_date") >= F.col("first_date"))
    days = (
        facts.unionByName(grid.drop("first_date").withColumn("wanted", F.lit(True)), allowMissingColumns=True)
        .groupBy(*PROCESS, "event_date")
        .agg(*(F.first(name, ignorenulls=True).alias(name) for name in (*_FACTS, "wanted")))
    )
    so_far = Window.partitionBy(*PROCESS).orderBy("event_date").rowsBetween(Window.unboundedPreceding, 0)
    first_said, last_said = (
        {name: said(name, ignorenulls=True).over(so_far) for name in _SAID} for said in (F.first, F.last)
    )
    started = F.col("started_at").isNotNull()
    recorded = F.struct(*(F.when(started, first_said[name]).otherwise(last_said[name]).alias(name) for name in _SAID))
    every_life = F.collect_set("life_at").over(Window.partitionBy(*PRODUCER))
    later = F.filter(every_life, lambda life: F.coalesce(life > F.col("life_at"), F.lit(True)))
    known = days.select(
        *PROCESS,
        "event_date",
        "wanted",
        F.coalesce("attempts", F.lit(0)).alias("attempts"),
        F.max("last_attempt_at").over(so_far).alias("last_attempt_at"),
        F.coalesce(F.max("partly_seen").over(so_far), F.lit(False)).alias("partly_seen"),
        F.coalesce("sources", F.array().cast("array<string>")).alias("sources"),
        recorded.alias("recorded"),
        F.array_min(later).alias("next_started_at"),
    )
    superseded = F.coalesce(F.col("next_started_at") <= F.col("event_date").cast("timestamp"), F.lit(False))
    forgotten = F.datediff("event_date", F.to_date("last_attempt_at")) > carry_days
    alive = known.where(F.col("wanted") & ~superseded & ~forgotten)
    for name in _SETTINGS:
        alive = alive.withColumn(
            name, F.coalesce(F.col(f"recorded.{name}"), first_override(overrides, name, ("cluster", "producer_group")))
        )
    return alive.transform(_judged)


def _facts(activity: DataFrame, starts: DataFrame, opening: DataFrame) -> DataFrame:
    """What each date tells of a process: its start, its attempts, or the state the date before handed over."""
    at_start = {"event_date": F.to_date("started_at"), "last_attempt_at": F.col("started_at")}
    began = starts.withColumns({"life_at": F.col("started_at"), **at_start})
    carried = opening.withColumn("life_at", F.col("started_at")).select(
        *PROCESS,
        "event_date",
        "last_attempt_at",
        (F.col("certainty") == "partial").alias("partly_seen"),
        "recorded.*",
    )
    every = activity.unionByName(
        began.select(*PROCESS, "event_date", "last_attempt_at", *_SAID), allowMissingColumns=True
    ).unionByName(carried, allowMissingColumns=True)
    # A start's own record wins over what an attempt's line says of the same date.
    from_start = F.col("attempts").isNull()
    settings = [
        F.coalesce(F.first(F.when(from_start, F.col(name)), ignorenulls=True), F.first(name, ignorenulls=True)).alias(
            name
        )
        for name in _SAID
    ]
    return every.groupBy(*PROCESS, "event_date").agg(
        F.max("attempts").alias("attempts"),
        F.max("last_attempt_at").alias("last_attempt_at"),
        F.max("partly_seen").alias("partly_seen"),
        F.first("sources", ignorenulls=True).alias("sources"),
        *settings,
    )


def _judged(days: DataFrame) -> DataFrame:
    """Rules, verdict and reasons of each process and date."""
    ruled = days.withColumn("rules", release_rules()(F.col("client_version")))
    ladders = {
        name: F.when(F.col("rules.profile").isNotNull(), F.coalesce(F.col(name), F.col(f"rules.{name}")))
        for name in ("latency_max_ms", "not_available_ms")
    }
    ladders["not_available_ms"] = F.transform(ladders["not_available_ms"], lambda ms: F.least(ms, F.lit(_LONGEST_MS)))
    ruled = ruled.withColumns(ladders)
    no_release = F.col("rules.profile").isNull()
    too_short = F.size("not_available_ms") < F.size("latency_max_ms")
    switch_unknown = F.col("latency_fault_enabled").isNull()
    reasons = F.array_compact(
        F.array(
            F.col("rules.problem"),
            F.when(too_short, F.lit("not_available_ms is shorter than latency_max_ms: the client throws")),
            F.when(switch_unknown, F.lit("latency_fault_enabled is not recorded: taken as off")),
        )
    )
    off = ~F.coalesce("latency_fault_enabled", F.lit(False))
    verdict = F.when(no_release, "unknown").when(off, "off").when(too_short, "unknown").otherwise("replayed")
    detects = F.col("detector_enabled") & F.col("rules.has_reachable")
    certainty = F.when(F.col("partly_seen"), "partial").when(detects, "possible").otherwise("certain")
    return (
        ruled.withColumn("detector_enabled", F.coalesce("detector_enabled", F.lit(False)))
        .withColumns({"verdict": verdict, "reasons": reasons, "certainty": certainty})
        .select("*", *(f"rules.{name}" for name in _FAMILY))
        .drop("rules", "wanted", "partly_seen")
    )
