"""Windows in; findings about isolations out: too long, and of every broker of a topic.

Only replayed processes have windows, so a producer that could not be replayed has no finding here: that is not health.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import (
    Observed,
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
from udfs.producer_finding import Thresholds
from udfs.release_profiles import PROFILES

_PERM_WRITE = 2  # PermName.PERM_WRITE
_NAMED = 5  # a sentence names so many brokers at most
_SINCE_514 = [profile.id for profile in PROFILES.values() if profile.extend_only]


def long_isolation(given: Observed, limits: Thresholds) -> DataFrame:
    """A broker was not available to a producer for 60 s or longer; from 5.1.4 on for 10 s or longer.

    The whole stretch counts, from its opening, on whatever date. It is told once: on the date on which it became so
    long, by what that date knows; ``to`` is null where it lasts over that date's midnight (view broker_isolation joins
    the parts). So later dates change nothing that was said of earlier ones. In 5.1.4 unreachable is not available.
    """
    certainty = F.when(F.col("unseen") & (F.col("certainty") == "certain"), "possible").otherwise(F.col("certainty"))
    doubt = F.coalesce(
        F.when(F.col("unseen"), "the producer's record ends before it is so long"), window_doubt(F.col("certainty"))
    )
    why = F.when(F.col("trigger_kind") == "isolation", "a failed send").otherwise("a slow send")
    how_long = F.concat(seconds(F.col("age_ms")), F.when(F.col("goes_on"), " and longer").otherwise(""))
    earlier = F.to_date("opened_at") < F.col("event_date")
    since = F.concat(
        F.when(earlier, F.date_format("opened_at", "yyyy-MM-dd ")).otherwise(""), instant(F.col("opened_at"))
    )
    return found(
        _grown_long(given.windows, limits),
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
            "{} treated {} as not available for {} from {} on, after {} of {} ms; {} is long under its release",
            producer_name(),
            F.col("broker_name"),
            how_long,
            since,
            why,
            F.col("trigger_latency_ms"),
            seconds(F.col("limit_ms")),
        ),
    )


def _grown_long(windows: DataFrame, limits: Thresholds) -> DataFrame:
    """Windows on whose date their stretch became too long, with its ``age_ms`` by what that date knows.

    ``goes_on``: it lasts over the date, or nobody knows its end; ``unseen``: the record ends before it was too long.
    """
    since_514 = F.col("profile").isin(_SINCE_514)
    limit_ms = F.when(since_514, limits.long_isolation_since_514_s).otherwise(limits.long_isolation_before_514_s) * 1000
    # A window without known end lasted at least as long as its producer's record.
    until = F.coalesce("window_end", F.greatest("last_attempt_at", "window_start"))
    opened_ms = F.unix_millis("opened_at")
    is_open = F.col("end_reason") == "open"
    return (
        windows.where(isolates())
        .withColumns(
            {
                "limit_ms": limit_ms,
                "age_ms": F.unix_millis(until) - opened_ms,
                "age_before_ms": F.unix_millis("window_start") - opened_ms,
                "goes_on": (F.col("end_reason") == "cut_at_midnight") | F.col("window_end").isNull(),
                "unseen": is_open & (opened_ms + limit_ms > F.unix_millis("last_attempt_at")),
            }
        )
        .where((F.col("age_ms") >= F.col("limit_ms")) & (F.col("age_before_ms") < F.col("limit_ms")))
    )


def all_isolated(given: Observed, limits: Thresholds) -> DataFrame:
    """A producer held every broker of a topic that it sends to not available at once.

    Of a topic those brokers are known that a route of the date shows as writable or that any producer of the cluster
    sent to; without a route there may be others, so the finding is ``possible``. What lasts over midnight is told by
    each date.
    """
    at_once = _overlaps(_held_of_known(given))
    names = F.when(F.size("brokers") <= _NAMED, F.array_join("brokers", ", ")).otherwise(
        text("{} of them", F.size("brokers"))
    )
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
            "{} treated every broker of {} ({}) as not available at once from {} on, {}",
            producer_name(),
            F.col("topic"),
            names,
            instant(F.col("overlap_start")),
            F.when(length.isNull(), "with no end on this date").otherwise(text("for {}", seconds(length))),
        ),
    )


def _held_of_known(given: Observed) -> DataFrame:
    """Held stretches by topic that the producer sends to, with the topic's ``brokers`` and whether a route tells."""
    topic_date = ["cluster", "event_date", "topic"]
    known = (
        given.served.select(*topic_date, "broker_name", F.lit(False).alias("routed"))
        .unionByName(given.routes.select(*topic_date, "broker_name", F.lit(True).alias("routed")))
        .groupBy(*topic_date)
        .agg(F.sort_array(F.collect_set("broker_name")).alias("brokers"), F.max("routed").alias("routed"))
    )
    sent_to = given.served.select(*PROCESS_DATE, "topic").distinct()
    held = null_safe_join(given.held, sent_to, PROCESS_DATE).join(F.broadcast(known), topic_date)
    return held.where(F.array_contains("brokers", F.col("broker_name")))


def writable(routes: DataFrame) -> DataFrame:
    """Brokers that a producer keeps of the topic_route rows: perm has W, a master is there, queues to write to.

    Or, where the route has an orderTopicConf, those that it gives queues, and no others.
    Source: MQClientInstance#topicRouteData2TopicPublishInfo, 4.0.0 to 5.3.3.
    """
    topic_date = ["cluster", "event_date", "topic"]
    is_ordered = F.coalesce(F.col("order_topic_conf") != "", F.lit(False))
    kept = (F.col("perm").bitwiseAND(_PERM_WRITE) != 0) & F.col("has_master") & (F.col("write_queue_nums") > 0)
    by_count = routes.where(kept & ~is_ordered).select(*topic_date, "broker_name")
    entries = F.transform(F.split("order_topic_conf", ";"), lambda entry: F.split(entry, ":"))
    ordered = routes.where(is_ordered).select(*topic_date, "order_topic_conf").distinct()
    by_conf = (
        ordered.select(*topic_date, F.explode(entries).alias("entry"))
        .where(F.get("entry", F.lit(1)).try_cast("int") > 0)
        .select(*topic_date, F.get("entry", F.lit(0)).alias("broker_name"))
    )
    return by_count.unionByName(by_conf).distinct()


def _overlaps(held: DataFrame) -> DataFrame:
    """Maximal stretches in which every one of ``brokers`` is held, per process, date and topic.

    Stretches of one broker never overlap nor adjoin, so brokers held = begun less ended, and nothing begins while all
    are held: of each such stretch the weakest ``certainty`` is that at its start.
    """

    def step(at: str, by: int) -> Column:
        of = {word: F.when(F.col("certainty") == word, by).otherwise(0) for word in ("possible", "partial")}
        return F.struct(F.col(at).alias("at"), F.lit(by).alias("held"), *(of[word].alias(word) for word in of))

    keys = (*PROCESS_DATE, "topic", "brokers", "routed")
    counted = ("held", "possible", "partial")
    steps = F.array(step("held_start", 1), step("held_end", -1))
    instants = (
        held.select(*keys, F.explode(steps).alias("s"))
        .where(F.col("s.at").isNotNull())
        .groupBy(*keys, F.col("s.at").alias("overlap_start"))
        .agg(*(F.sum(f"s.{name}").alias(name) for name in counted))
    )
    in_order = Window.partitionBy(*keys).orderBy("overlap_start")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    weakest = F.when(F.col("possible") > 0, "possible").when(F.col("partial") > 0, "partial").otherwise("certain")
    return (
        instants.withColumns({name: F.sum(name).over(so_far) for name in counted})
        .withColumns({"overlap_end": F.lead("overlap_start").over(in_order), "certainty": weakest})
        .where(F.col("held") == F.size("brokers"))
    )
