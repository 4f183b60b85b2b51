"""Windows in; findings about isolations out: too long, and of every broker of a topic.

Only replayed processes have windows, so a producer that could not be replayed has no finding here: that is not health.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import (
    Observed,
    Thresholds,
    evidence,
    found,
    instant,
    iso,
    of_producer,
    producer_and_broker,
    producer_name,
    seconds,
    text,
    window_doubt,
)
from jobs.transforms.fleet_minutes import PROCESS_DATE, isolates
from jobs.transforms.null_safe_join import null_safe_join
from udfs.release_profiles import PROFILES

_NAMED = 5  # a sentence names so many brokers at most
_SINCE_514 = [profile.id for profile in PROFILES.values() if profile.extend_only]


def long_isolation(given: Observed, limits: Thresholds) -> DataFrame:
    """A broker was not available to a producer for 60 s or longer; from 5.1.4 on for 10 s or longer.

    The whole stretch counts, from its opening, on whatever date. It is told once: on the date on which it became so
    long, by what that date knows; ``to`` is null where it lasts over that date's midnight (view broker_isolation joins
    the parts). So later dates change nothing that was said of earlier ones. In 5.1.4 unreachable is not available.
    """
    last_seen = given.replay.select(*PROCESS_DATE, "last_attempt_at")
    windows = null_safe_join(given.windows.where(isolates()), last_seen, PROCESS_DATE)
    since_514 = F.col("profile").isin(_SINCE_514)
    limit_ms = F.when(since_514, limits.long_isolation_since_514_s).otherwise(limits.long_isolation_before_514_s) * 1000
    # A window without known end lasted at least as long as its producer's record.
    until = F.coalesce("window_end", F.greatest("last_attempt_at", "window_start"))
    opened_ms = F.unix_millis("opened_at")
    aged = windows.withColumns(
        {
            "limit_ms": limit_ms,
            "age_ms": F.unix_millis(until) - opened_ms,
            "age_before_ms": F.unix_millis("window_start") - opened_ms,
            "goes_on": (F.col("end_reason") == "cut_at_midnight") | F.col("window_end").isNull(),
            "unseen": (F.col("end_reason") == "open")
            & (opened_ms + F.col("limit_ms") > F.unix_millis("last_attempt_at")),
        }
    ).where((F.col("age_ms") >= F.col("limit_ms")) & (F.col("age_before_ms") < F.col("limit_ms")))
    certainty = F.when(F.col("unseen") & (F.col("certainty") == "certain"), "possible").otherwise(F.col("certainty"))
    doubt = F.coalesce(
        F.when(F.col("unseen"), "the producer's record ends before it is so long"), window_doubt(F.col("certainty"))
    )
    why = F.when(F.col("trigger_kind") == "isolation", "a failed send").otherwise("a slow send")
    how_long = F.when(F.col("goes_on"), text("{} and longer", seconds(F.col("age_ms")))).otherwise(
        seconds(F.col("age_ms"))
    )
    earlier = F.to_date("opened_at") < F.col("event_date")
    since = F.when(earlier, F.date_format("opened_at", "yyyy-MM-dd HH:mm:ss.SSS")).otherwise(
        instant(F.col("opened_at"))
    )
    return found(
        aged,
        "LONG_ISOLATION",
        **of_producer(),
        subject=producer_and_broker(),
        broker_name=F.col("broker_name"),
        kind=F.col("state"),
        **{"from": F.col("opened_at"), "to": F.when(~F.col("goes_on"), F.col("window_end"))},
        certainty=certainty,
        doubt=doubt,
        evidence=evidence(
            "broker_availability_window: client_id={}, broker_name={}, state={}, window_start={}",
            F.col("client_id"),
            F.col("broker_name"),
            F.col("state"),
            iso(F.col("window_start")),
        ),
        sentence=text(
            "{} held {} not available for {} from {} on, after {} of {} ms; {} is long under its release",
            producer_name(),
            F.col("broker_name"),
            how_long,
            since,
            why,
            F.col("trigger_latency_ms"),
            seconds(F.col("limit_ms")),
        ),
    )


def all_isolated(given: Observed, limits: Thresholds) -> DataFrame:
    """A producer held every broker of a topic that it sends to not available at once.

    Of a topic those brokers are known that a route of the date shows as writable or that any producer of the cluster
    sent to; without a route there may be others, so the finding is ``possible``. What lasts over midnight is told by
    each date.
    """
    topic_date = ["cluster", "event_date", "topic"]
    known = (
        given.served.select(*topic_date, "broker_name", F.lit(False).alias("routed"))
        .unionByName(given.routes.select(*topic_date, "broker_name", F.lit(True).alias("routed")))
        .groupBy(*topic_date, "broker_name")
        .agg(F.max("routed").alias("routed"))
    )
    whole = Window.partitionBy(*topic_date)
    counted = known.withColumns({"brokers": F.count("*").over(whole), "routed": F.max("routed").over(whole)})
    sent_to = given.served.select(*PROCESS_DATE, "topic").distinct()
    held = null_safe_join(given.held, sent_to, PROCESS_DATE).join(F.broadcast(counted), [*topic_date, "broker_name"])
    same = Window.partitionBy(*PROCESS_DATE, "topic")
    every = held.withColumn("ever_held", F.size(F.collect_set("broker_name").over(same))).where(
        F.col("ever_held") == F.col("brokers")
    )
    brokers = F.sort_array(F.collect_set("broker_name"))
    names = F.when(F.size(brokers) <= _NAMED, F.array_join(brokers, ", ")).otherwise(
        text("{} of them", F.size(brokers))
    )
    at_once = _overlaps(every).join(F.broadcast(known.groupBy(*topic_date).agg(names.alias("names"))), topic_date)
    doubt = F.concat_ws(
        "; ",
        F.when(~F.col("routed"), "no route is recorded, there may be other brokers"),
        window_doubt(F.col("certainty")),
    )
    certainty = F.when(~F.col("routed") & (F.col("certainty") == "certain"), "possible").otherwise(F.col("certainty"))
    length = F.unix_millis("overlap_end") - F.unix_millis("overlap_start")
    return found(
        at_once,
        "ALL_ISOLATED",
        **of_producer(),
        subject=text("{}, every broker of {}", producer_name(), F.col("topic")),
        topic=F.col("topic"),
        **{"from": F.col("overlap_start"), "to": F.col("overlap_end")},
        certainty=certainty,
        doubt=F.nullif(doubt, F.lit("")),
        evidence=evidence(
            "broker_availability_window: client_id={}, every broker of {}, at {}",
            F.col("client_id"),
            F.col("topic"),
            iso(F.col("overlap_start")),
        ),
        sentence=text(
            "{} held every broker of {} ({}) not available at once from {} on, {}",
            producer_name(),
            F.col("topic"),
            F.col("names"),
            instant(F.col("overlap_start")),
            F.when(length.isNull(), "with no end on this date").otherwise(text("for {}", seconds(length))),
        ),
    )


def _overlaps(held: DataFrame) -> DataFrame:
    """Maximal stretches in which as many brokers are held as ``brokers`` counts, per process, date and topic.

    Stretches of one broker never overlap, so brokers held = begun less ended; what ends as another begins stays.
    """
    steps = F.array(
        F.struct(F.col("held_start").alias("at"), F.lit(1).alias("step")),
        F.struct(F.col("held_end").alias("at"), F.lit(-1).alias("step")),
    )
    keys = (*PROCESS_DATE, "topic", "brokers", "routed")
    instants = (
        held.select(*keys, "certainty", F.explode(steps).alias("s"))
        .where(F.col("s.at").isNotNull())
        .groupBy(*keys, F.col("s.at").alias("at"))
        .agg(F.sum("s.step").alias("step"), F.max("certainty").alias("certainty"))
        .where(F.col("step") != 0)
    )
    in_order = Window.partitionBy(*keys).orderBy("at")
    so_far = F.sum("step").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    return (
        instants.withColumn("all_held", so_far == F.col("brokers"))
        .withColumn("overlap_end", F.lead("at").over(in_order))
        .where("all_held")
        .withColumnRenamed("at", "overlap_start")
    )
