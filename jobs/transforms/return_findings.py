"""Stretches that ended and the attempts after them in; brokers that did not come back out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import (
    Observed,
    found,
    instant,
    iso,
    of_producer,
    producer_name,
    seconds,
    text,
    window_doubt,
)
from jobs.transforms.fleet_minutes import ITEM_DATE, PROCESS_DATE, is_chosen, is_first
from jobs.transforms.null_safe_join import null_safe_join
from udfs.producer_finding import Thresholds
from udfs.release_profiles import PROFILES

_REWRITES = [profile.id for profile in PROFILES.values() if profile.mutates_queue_list]
_ENDED = ("expired", "overwritten", "removed", "reachable_again")
_STRETCH = (*ITEM_DATE, "held_end")
_NANO = 10**9


def not_returning(given: Observed, limits: Thresholds) -> DataFrame:
    """After a window's end the broker got less than 10 % of the sends that its share of the queues would bring it.

    It is watched from the window's end for 60 s, and on until 50 sends are expected, within its date and the
    producer's record, and until the broker is not available again. Retries, and queues that somebody else chose, do not
    count. Not proven where no producer sent to the broker in that time: it may have left the route.
    """
    watched = _watched(given, limits)
    counted = _counted(given, watched, limits)
    poor = counted.where(
        (F.col("expected") >= limits.not_returning_expected_sends)
        & (F.col("observed") * 100 < F.col("expected") * limits.not_returning_max_percent)
    )
    return _told(_served_by_others(poor, given))


def _served_by_others(poor: DataFrame, given: Observed) -> DataFrame:
    """Adds ``minutes_served``: whole minutes of the time watched in which any producer sent to the broker."""
    keys = ["cluster", "event_date", "broker_name"]
    traffic = given.counts.select(*(F.col(key).alias(f"served_{key}") for key in (*keys, "minute_at"))).distinct()
    same = [F.col(key) == F.col(f"served_{key}") for key in keys]
    within = (F.col("served_minute_at") >= F.col("held_end")) & (F.col("served_minute_at") <= F.col("watched_until"))
    return (
        poor.join(traffic, [*same, within], "left")
        .groupBy(*poor.columns)
        .agg(F.count("served_minute_at").alias("minutes_served"))
    )


def _watched(given: Observed, limits: Thresholds) -> DataFrame:
    """Stretches that ended, by topic and minute in which their broker is watched, with its share of the topic's queues.

    Those are dropped whose producer sent too little: known from the counts per minute, before any attempt is read.
    ``read_until``: by then enough sends are expected for certain; no minute after it is among the rows.
    """
    in_order = Window.partitionBy(*ITEM_DATE).orderBy("held_start")
    midnight = F.date_add("event_date", 1).cast("timestamp")
    latest = F.col("held_end") + _interval(limits.not_returning_within_s)
    ends = (
        given.held.withColumn("held_again", F.lead("held_start").over(in_order))
        .where(F.col("end_reason").isin(*_ENDED) & F.col("held_end").isNotNull())
        .withColumn("watchable_until", F.least("held_again", midnight, "last_attempt_at", latest))
        .withColumn("least_until", F.col("held_end") + _interval(limits.not_returning_s))
        .where(F.col("watchable_until") >= F.col("least_until"))
    )
    minutes = F.sequence(F.date_trunc("minute", "held_end"), F.col("watchable_until"), F.expr("INTERVAL 1 MINUTE"))
    spread = ends.select(
        *_STRETCH, "least_until", "watchable_until", "certainty", "profile", F.explode(minutes).alias("minute_at")
    )
    # The topics that the producer itself sends to, out of the many that the broker may hold.
    by_topic = [*PROCESS_DATE, "topic", "minute_at"]
    sends = given.counts.where(F.col("chosen") > 0).groupBy(*by_topic).agg(F.sum("chosen").alias("chosen"))
    shared = null_safe_join(spread, sends, [*PROCESS_DATE, "minute_at"]).join(
        F.broadcast(_shares(given.served)), ["cluster", "event_date", "topic", "broker_name"]
    )
    stretch = Window.partitionBy(*_STRETCH)
    so_far = stretch.orderBy("minute_at").rangeBetween(Window.unboundedPreceding, 0)
    nano = F.col("share_nano") * F.col("chosen")
    whole = F.when(F.col("minute_at") >= F.col("held_end"), nano).otherwise(0)
    enough = _sends(F.sum(whole).over(so_far)) >= limits.not_returning_expected_sends
    minute_end = F.col("minute_at") + F.expr("INTERVAL 1 MINUTE")
    return (
        shared.withColumns({"at_most": _sends(F.sum(nano).over(stretch)), "enough": enough})
        .withColumn("enough_at", F.min(F.when(F.col("enough"), minute_end)).over(stretch))
        .where(F.col("at_most") >= limits.not_returning_expected_sends)
        .withColumn(
            "read_until",
            F.least("watchable_until", F.greatest("least_until", F.coalesce("enough_at", "watchable_until"))),
        )
        .where(F.col("minute_at") < F.col("read_until"))
        .drop("chosen", "at_most", "enough", "enough_at", "watchable_until")
    )


def _shares(served: DataFrame) -> DataFrame:
    """Per topic, date and broker, its share of the topic's queues, in thousand millionths, rounded down.

    Whole numbers: their sum does not depend on the order in which they are added.
    """
    topic_date = ["cluster", "event_date", "topic"]
    queues = served.groupBy(*topic_date, "broker_name").agg(F.max("queues").alias("queues"))
    whole = F.sum("queues").over(Window.partitionBy(*topic_date))
    share = F.floor(F.col("queues") * F.lit(_NANO).cast("long") / whole).cast("long")
    return queues.select(*topic_date, "broker_name", share.alias("share_nano"))


def _counted(given: Observed, watched: DataFrame, limits: Thresholds) -> DataFrame:
    """Expected and observed sends per watched stretch, until both 60 s have passed and 50 sends are expected.

    Joined by the minute: stretches of one broker do not overlap, so an attempt meets few. What is watched is broadcast,
    and no attempt is moved that nobody watches: it is at most one stretch for every 50 attempts.
    """
    by_minute = [*PROCESS_DATE, "topic", "minute_at"]
    sends = given.attempts.where(is_first() & is_chosen()).select(
        *PROCESS_DATE,
        "topic",
        F.date_trunc("minute", "begin_at").alias("minute_at"),
        F.col("broker_name").alias("sent_to"),
        "begin_at",
    )
    after = null_safe_join(sends, F.broadcast(watched), by_minute).where(
        (F.col("begin_at") >= F.col("held_end")) & (F.col("begin_at") < F.col("read_until"))
    )
    earlier = (
        Window.partitionBy(*_STRETCH).orderBy(F.unix_millis("begin_at")).rangeBetween(Window.unboundedPreceding, -1)
    )
    before = _sends(F.coalesce(F.sum("share_nano").over(earlier), F.lit(0)))
    counts = (F.col("begin_at") < F.col("least_until")) | (before < limits.not_returning_expected_sends)
    return (
        after.withColumn("counts", counts)
        .where("counts")
        .groupBy(*_STRETCH, "least_until", "certainty", "profile")
        .agg(
            _sends(F.sum("share_nano")).alias("expected"),
            F.count_if(F.col("sent_to") == F.col("broker_name")).alias("observed"),
            F.max("begin_at").alias("last_sent_at"),
        )
        .withColumn("watched_until", F.greatest("least_until", "last_sent_at"))
        .drop("least_until", "last_sent_at")
    )


def _told(poor: DataFrame) -> DataFrame:
    rewrites = F.col("profile").isin(_REWRITES)
    unserved = F.col("minutes_served") == 0
    certainty = F.when(unserved & (F.col("certainty") == "certain"), "possible").otherwise(F.col("certainty"))
    doubt = F.concat_ws(
        "; ",
        F.when(unserved, "nobody is recorded to have sent to it then, it may have left the route"),
        window_doubt(F.col("certainty")),
    )
    return found(
        poor,
        "NOT_RETURNING",
        **of_producer(),
        subject=text("{}, {}", producer_name(), F.col("broker_name")),
        broker_name=F.col("broker_name"),
        kind=F.when(rewrites, "queue_list_rewritten").otherwise("not_chosen"),
        **{"from": F.col("held_end"), "to": F.col("watched_until")},
        certainty=certainty,
        doubt=F.nullif(doubt, F.lit("")),
        evidence=F.array(
            text(
                "broker_availability_window: client_id={}, broker_name={}, window_end={}",
                F.col("client_id"),
                F.col("broker_name"),
                iso(F.col("held_end")),
            )
        ),
        sentence=text(
            "{} could use {} again from {} on, but in the next {} it sent {} messages to it where its share of the "
            "queues is {}{}",
            producer_name(),
            F.col("broker_name"),
            instant(F.col("held_end")),
            seconds(F.unix_millis("watched_until") - F.unix_millis("held_end")),
            F.col("observed"),
            F.format_string("%.1f", "expected"),
            F.when(rewrites, ": its release rewrites its queue list when every broker is isolated").otherwise(""),
        ),
    )


def _sends(nano: Column) -> Column:
    """Thousand millionths of a send as sends, to three places: what rounding shares down took away comes back."""
    return F.round(nano / _NANO, 3)


def _interval(length_s: float) -> Column:
    return F.make_dt_interval(secs=F.lit(length_s))
