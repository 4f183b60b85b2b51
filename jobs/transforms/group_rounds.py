"""Captures of a group's rounds in; per round, group and topic what was read and by which rule it is judged, out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

ROUND = ("cluster", "collector", "round_at")
GROUP_OF_ROUND = (*ROUND, "consumer_group")
TOPIC_OF_ROUND = (*GROUP_OF_ROUND, "topic")
INFO, _LISTING, _STATS = "consumerRunningInfo", "consumerConnection", "consumeStats"
# Semantics of system names: MixAll and TopicValidator, 4.7.1 on.
_SYSTEM_TOPICS = (
    r"^(TBW102|SCHEDULE_TOPIC_XXXX|BenchmarkTest|RMQ_SYS_.*|rmq_sys_.*|TRANS_CHECK_MAX_TIME_TOPIC|SELF_TEST_TOPIC"
    r"|OFFSET_MOVED_EVENT|CHECKPOINT_TOPIC)$"
)
_SYSTEM_GROUPS = (
    r"^(DEFAULT_CONSUMER|DEFAULT_PRODUCER|TOOLS_CONSUMER|FILTERSRV_CONSUMER|SELF_TEST_C_GROUP|CID_ONS-HTTP-PROXY"
    r"|CID_ONSAPI_.*|CID_RMQ_SYS_.*)$"
)


def digest(*columns: Column) -> Column:
    """A hash of 64 bits as 16 hex digits, equal lists give equal ones.

    Nulls leave no trace in it and nested lists no border: lists in lists come with their sizes, what may be null as ''.
    """
    return F.lpad(F.lower(F.hex(F.xxhash64(*columns))), 16, "0")


def list_digest(array: Column) -> Column:
    """The digest of a list."""
    return digest(F.size(array), array)


def evidence(frame: DataFrame) -> Column:
    """``file:line`` of a row's source."""
    return F.concat_ws(":", frame["source_file"], frame["source_line"])


def group_reads(captures: DataFrame) -> DataFrame:
    """Per round and group: every running info that was asked for, the listing's answer, and the spread of the reads."""
    of_groups = captures.where(
        F.col("kind").isin(INFO, _LISTING, _STATS) & ~F.col("consumer_group").rlike(_SYSTEM_GROUPS)
    ).withColumn("evidence", evidence(captures))
    read = F.struct(
        "client_id",
        "answered",
        "error",
        "consume_orderly",
        "client_rebalance",
        "consume_type",
        "client_version",
        "subscriptions",
        "message_model",
        "consume_from_where",
        "client_started_at",
        F.xxhash64("subscriptions", "message_model", "consume_from_where", "client_started_at").alias("own_hash"),
        "captured_at",
        "evidence",
    )
    is_info, is_listing = F.col("kind") == INFO, F.col("kind") == _LISTING
    of_members = is_info | is_listing
    answered_at = F.when(of_members & F.col("answered"), F.col("captured_at"))
    answered_end = F.when(of_members & F.col("answered"), F.coalesce("captured_end_at", "captured_at"))
    said = F.struct("captured_at", "answered", "error", "evidence", "error_code")
    spread = F.unix_millis(F.max(answered_end)) - F.unix_millis(F.min(answered_at))
    groups = of_groups.groupBy(*GROUP_OF_ROUND).agg(
        F.collect_list(F.when(is_info, read)).alias("reads"),
        F.max(F.when(is_listing, said)).alias("listing"),
        F.flatten(F.collect_list(F.transform("subscriptions", lambda s: s["topic"]))).alias("subscribed"),
        F.max(F.when(is_info, F.col("message_model"))).alias("own_model"),
        F.max(F.when(is_info, F.col("consume_orderly"))).alias("ordered"),
        F.coalesce(spread, F.lit(0)).alias("spread_ms"),
        F.max(F.when(of_members, F.coalesce("captured_end_at", "captured_at"))).alias("read_until"),
        F.max(F.when(of_members, F.col("captured_at"))).alias("at"),
        F.max("captured_at").alias("swept_until"),
    )
    return groups.where(F.col("at").isNotNull())


def topic_rounds(
    groups: DataFrame, rules: DataFrame, routes: DataFrame, owned: DataFrame, *, loose_spread_s: float
) -> DataFrame:
    """One row per round, group and topic: members, queues, rules, what is missing (``group_round`` but its verdict)."""
    none = F.array().cast("array<string>")
    topics = (
        groups.select(*GROUP_OF_ROUND, F.explode(F.array_distinct("subscribed")).alias("topic"))
        .unionByName(owned.select(*TOPIC_OF_ROUND))
        .distinct()
        .where(~F.col("topic").rlike(_SYSTEM_TOPICS))
    )
    collected = routes.select("cluster", "collector", F.to_date("round_at").alias("event_date"), "topic").distinct()
    rows = (
        topics.withColumn("event_date", F.to_date("round_at"))
        .join(groups, list(GROUP_OF_ROUND))
        .join(rules, list(GROUP_OF_ROUND), "left")
        .join(routes, [*ROUND, "topic"], "left")
        .join(
            collected.withColumn("route_collected", F.lit(True)),
            ["cluster", "collector", "event_date", "topic"],
            "left",
        )
    )
    pops = F.exists("reads", lambda r: r["consume_type"] == "CONSUME_POP")
    rows = rows.withColumns(
        {
            "members": F.coalesce("members", none),
            "queues": readable_queues(F.col("brokers")),
            "member_rules": F.coalesce(
                "member_rules",
                F.array().cast("array<struct<client_id string, strategy string, source string, profile string>>"),
            ),
            "message_model": F.coalesce("listed_model", "own_model"),
            "loose": F.col("spread_ms") > loose_spread_s * 1000,
            "strategy": F.coalesce("strategy", F.lit("AVG")),
            "strategy_source": F.coalesce("strategy_source", F.lit("default")),
            "strategy_parameters": F.coalesce("strategy_parameters", F.lit("")),
            "not_asked": _not_asked(pops),
            "shared": broker_assigns(),
        }
    )
    rows = rows.withColumn("missing_inputs", F.concat(F.col("not_asked"), _unanswered()))
    return with_digests(rows.drop("brokers"))


def readable_queues(brokers: Column) -> Column:
    """The queues of ``round_routes``' brokers, in RocketMQ's order."""

    def of(broker: Column) -> Column:
        ids = F.sequence(F.lit(0), broker["read_queue_nums"] - 1)
        return F.transform(ids, lambda i: F.struct(broker["broker_name"], i.cast("int").alias("queue_id")))

    return F.flatten(F.transform(brokers, of))


def with_digests(topics: DataFrame) -> DataFrame:
    """The digests of the lists and rules by which a group's queues are shared: equal inputs have equal ones."""
    own_rules = F.transform(
        "member_rules",
        lambda r: F.struct(r["client_id"], F.coalesce(r["strategy"], F.lit("")), F.coalesce(r["profile"], F.lit(""))),
    )
    differing_views = F.when(F.size("views") > 1, F.transform("views", lambda v: F.struct(F.size(v), v)))
    return topics.withColumns(
        {
            "member_list_hash": list_digest(F.col("members")),
            "queue_list_hash": F.when(F.col("queues").isNotNull(), list_digest(F.col("queues"))),
            "claims_hash": digest(F.coalesce("message_model", F.lit("")), own_rules, differing_views),
        }
    )


def broker_assigns() -> Column:
    """The broker assigns the queues: a member gave up its own rebalance, which ordered and broadcasting ones cannot.

    Source: RebalancePushImpl#clientRebalance, 5.0.0 on.
    """
    gave_up = F.exists("reads", lambda r: r["client_rebalance"] == F.lit(False))
    clustering = F.coalesce("listed_model", "own_model", F.lit("")) != "BROADCASTING"
    return F.coalesce(gave_up, F.lit(False)) & ~F.coalesce("ordered", F.lit(False)) & clustering


def _not_asked(pops: Column) -> Column:
    """Inputs that nobody asked for in this round: without them there is no verdict at all."""
    return F.array_compact(
        F.array(
            F.when(
                F.col("route_collected").isNull(),
                F.concat(F.lit("topic_route of "), F.col("topic"), F.lit(": not_collected")),
            ),
            F.when(F.size("reads") == 0, F.lit("running infos: not asked for in this round")),
            F.when(pops, F.lit("owners: running infos do not show who holds a queue under POP")),
        )
    )


def _unanswered() -> Column:
    """Inputs that were due in this round and did not come."""
    asked = F.transform("reads", lambda r: r["client_id"])
    silent = F.filter("reads", lambda r: ~r["answered"])
    unread = F.array_except(F.array_distinct("members"), asked)
    listed = F.col("listing.answered")
    route_missing = F.col("route_collected").isNotNull() & F.col("queues").isNull()
    single = F.array_compact(
        F.array(
            F.when(F.col("listing").isNull(), F.lit("consumer list: not asked for in this round")),
            F.when(~listed, F.concat(F.lit("consumer list: "), F.coalesce("listing.error", F.lit("no answer")))),
            F.when(
                route_missing, F.concat(F.lit("topic_route of "), F.col("topic"), F.lit(": not read in this round"))
            ),
            F.when(F.col("message_model").isNull(), F.lit("message model: not read")),
        )
    )
    infos = F.when(
        F.size("reads") > 0,
        F.concat(
            F.transform(silent, lambda r: F.concat(F.lit("running info of "), r["client_id"], F.lit(": no answer"))),
            F.transform(unread, lambda c: F.concat(F.lit("running info of "), c, F.lit(": not asked for"))),
        ),
    ).otherwise(F.array().cast("array<string>"))
    return F.concat(single, infos)


def progress_at(groups: DataFrame, progress: DataFrame, *, valid_s: int) -> DataFrame:
    """Per round and group: the last progress reading, if it is not older than ``valid_s`` when the round ends.

    The reading that a round itself took counts: it is taken last. ``lags`` is null where the round before, of the same
    date, has the same reading: the walk takes in each once.
    """
    of_group = ("cluster", "collector", "consumer_group")
    queue = F.struct("topic", "broker_name", "queue_id", "broker_offset", "consumer_offset")
    readings = progress.groupBy(*of_group, F.col("captured_at").alias("at")).agg(F.collect_list(queue).alias("lags"))
    probes = groups.select(*of_group, "round_at", F.greatest("read_until", "swept_until").alias("at"))
    so_far = Window.partitionBy(*of_group).orderBy("at", F.col("round_at").isNotNull())
    reading = F.when(F.col("lags").isNotNull(), F.struct("at", "lags"))
    found = (
        readings.unionByName(probes, allowMissingColumns=True)
        .withColumn("reading", F.last(reading, ignorenulls=True).over(so_far))
        .where(F.col("round_at").isNotNull())
    )
    age_s = F.unix_seconds("at") - F.unix_seconds("reading.at")
    valid = F.when(age_s <= valid_s, F.col("reading"))
    in_order = Window.partitionBy(*of_group, F.to_date("round_at")).orderBy("round_at")
    again = F.lag("progress_at").over(in_order) == F.col("progress_at")
    return (
        found.select(*GROUP_OF_ROUND, valid["lags"].alias("lags"), valid["at"].alias("progress_at"))
        .withColumn("again", F.coalesce(again, F.lit(False)))
        .select(*GROUP_OF_ROUND, F.when(~F.col("again"), F.col("lags")).alias("lags"), "progress_at")
    )
