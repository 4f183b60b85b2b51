"""Captures of a group's rounds in; per round, group and topic what was read and by which rule it is judged, out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.missing_inputs import not_asked, unanswered
from jobs.transforms.proxies import asked_proxies

ROUND = ("cluster", "collector", "round_at")
GROUP_OF_ROUND = (*ROUND, "consumer_group")
TOPIC_OF_ROUND = (*GROUP_OF_ROUND, "topic")
INFO, LISTING, ID_LIST, _STATS = "consumerRunningInfo", "consumerConnection", "consumerIdList", "consumeStats"
_STATUS = "consumerStatus"  # the command that asks for running infos and prints none
_OF_MEMBERS = (INFO, LISTING, ID_LIST)
# Semantics of system names: MixAll and TopicValidator, 4.7.1 on; the proxy's HeartbeatSyncer, 5.0 on.
_SYSTEM_TOPICS = (
    r"^(TBW102|AUTO_CREATE_TOPIC_KEY|SCHEDULE_TOPIC_XXXX|BenchmarkTest|RMQ_SYS_.*|rmq_sys_.*"
    r"|TRANS_CHECK_MAX_TIME_TOPIC|SELF_TEST_TOPIC|OFFSET_MOVED_EVENT|CHECKPOINT_TOPIC|DefaultHeartBeatSyncerTopic)$"
)
_SYSTEM_GROUPS = (
    r"^(DEFAULT_CONSUMER|DEFAULT_PRODUCER|TOOLS_CONSUMER|FILTERSRV_CONSUMER|SELF_TEST_C_GROUP|CID_ONS-HTTP-PROXY"
    r"|CID_ONSAPI_.*|CID_RMQ_SYS_.*|CID_DefaultHeartBeatSyncerTopic)$"
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
    """Per round and group: every running info that was asked for, the spread of the reads, if a proxy was asked."""
    of_groups = captures.where(
        F.col("kind").isin(*_OF_MEMBERS, _STATS, _STATUS) & ~F.col("consumer_group").rlike(_SYSTEM_GROUPS)
    ).withColumn("evidence", evidence(captures))
    read = F.struct(
        "client_id",
        "answered",
        "error",
        "error_code",
        "client_kind",
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
    is_info, of_members = F.col("kind") == INFO, F.col("kind").isin(*_OF_MEMBERS)
    answered_at = F.when(of_members & F.col("answered"), F.col("captured_at"))
    answered_end = F.when(of_members & F.col("answered"), F.coalesce("captured_end_at", "captured_at"))
    spread = F.unix_millis(F.max(answered_end)) - F.unix_millis(F.min(answered_at))
    groups = of_groups.groupBy(*GROUP_OF_ROUND).agg(
        F.collect_list(F.when(is_info, read)).alias("reads"),
        F.collect_list(F.when(F.col("kind") == _STATUS, F.struct("answered", "error", "error_code"))).alias("statuses"),
        F.flatten(F.collect_list(F.transform("subscriptions", lambda s: s["topic"]))).alias("subscribed"),
        F.max(F.when(is_info, F.col("message_model"))).alias("own_model"),
        F.max(F.when(is_info, F.col("consume_orderly"))).alias("ordered"),
        F.coalesce(spread, F.lit(0)).alias("spread_ms"),
        F.max(F.when(of_members, F.coalesce("captured_end_at", "captured_at"))).alias("read_until"),
        F.max(F.when(of_members, F.col("captured_at"))).alias("at"),
        F.max("captured_at").alias("swept_until"),
    )
    return (
        groups.where(F.col("at").isNotNull())
        .withColumn("event_date", F.to_date("round_at"))
        .join(F.broadcast(asked_proxies(captures)), ["cluster", "collector", "event_date"], "left")
        .withColumn("through_proxy", F.coalesce("through_proxy", F.lit(False)))
        .drop("event_date")
    )


def group_topics(groups: DataFrame, owned: DataFrame, readings: DataFrame, *, lookback_s: int) -> DataFrame:
    """The topics of each round and group: those that somebody subscribes or owns.

    Of a round that shows none of them, as nobody is listed: those that the group showed last, at most ``lookback_s``
    before, and those in which it has offsets.
    """
    of_owners = owned.groupBy(*GROUP_OF_ROUND).agg(F.collect_set("topic").alias("owned_topics"))
    none = F.array().cast("array<string>")
    shown = F.array_distinct(F.concat("subscribed", F.coalesce("owned_topics", none)))
    so_far = Window.partitionBy("cluster", "collector", "consumer_group").orderBy("round_at")
    last = F.last(F.when(F.size("shown") > 0, F.struct("round_at", "shown")), ignorenulls=True).over(so_far)
    age_s = F.unix_seconds("round_at") - F.unix_seconds("last.round_at")
    known = F.array_union(
        F.when(age_s <= lookback_s, F.col("last.shown")).otherwise(none), F.coalesce("consumed", none)
    )
    return (
        groups.select(*GROUP_OF_ROUND, "subscribed")
        .join(of_owners, list(GROUP_OF_ROUND), "left")
        .join(readings.select(*GROUP_OF_ROUND, "consumed"), list(GROUP_OF_ROUND), "left")
        .withColumn("shown", shown)
        .withColumn("last", last)
        .select(*GROUP_OF_ROUND, F.explode(F.when(F.size("shown") > 0, F.col("shown")).otherwise(known)).alias("topic"))
        .where(~F.col("topic").rlike(_SYSTEM_TOPICS))
    )


def topic_rounds(
    groups: DataFrame, topics: DataFrame, rules: DataFrame, routes: DataFrame, *, loose_spread_s: float
) -> DataFrame:
    """One row per round, group and topic: members, queues, rules, what is missing (``group_round`` but its verdict)."""
    none = F.array().cast("array<string>")
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
    rows = rows.withColumns(
        {
            "is_listed": F.col("members").isNotNull(),
            "members": F.coalesce("members", none),
            "views": _views(),
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
            "shared": broker_assigns(),
        }
    )
    rows = rows.withColumn("not_asked", not_asked())
    rows = rows.withColumn("missing_inputs", F.concat(F.col("not_asked"), unanswered()))
    return with_digests(rows.drop("brokers"))


def _views() -> Column:
    """The member lists of the brokers that the topic's clients may ask, each distinct one once: of its route, if known.

    A broker that knows of nobody has no list to share by: a client that asks it keeps what it has.
    """
    of_route = F.filter(
        "broker_views",
        lambda v: (
            F.col("route_brokers").isNull()
            | v["broker_name"].isNull()
            | F.array_contains("route_brokers", v["broker_name"])
        ),
    )
    lists = F.array_sort(F.array_distinct(F.transform(of_route, lambda v: v["members"])))
    return F.filter(lists, lambda members: F.size(members) > 0)


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
    gave_up = F.exists("reads", lambda r: (r["client_rebalance"] == F.lit(False)) | (r["client_kind"] == "pop"))
    clustering = F.coalesce("listed_model", "own_model", F.lit("")) != "BROADCASTING"
    return F.coalesce(gave_up, F.lit(False)) & ~F.coalesce("ordered", F.lit(False)) & clustering


def progress_at(groups: DataFrame, progress: DataFrame, *, valid_s: int) -> DataFrame:
    """Per round and group: the last round's progress readings, if they are not older than ``valid_s`` when it ends.

    Brokers may have been asked one by one: what a round read of them is one reading, each queue at its own instant.
    The reading that a round itself took counts: it is taken last. ``lags`` is null where the round before, of the same
    date, has the same reading: the walk takes in each once. ``consumed``: the topics in it.
    """
    of_group = ("cluster", "collector", "consumer_group")
    queue = F.struct(
        "topic", "broker_name", "queue_id", "broker_offset", "consumer_offset", "captured_at", "broker_asked"
    )
    readings = (
        progress.groupBy(*of_group, "round_at")
        .agg(F.max("captured_at").alias("at"), F.collect_list(queue).alias("lags"))
        .drop("round_at")
    )
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
        .withColumn("consumed", F.array_distinct(F.transform("lags", lambda q: q["topic"])))
        .withColumn("again", F.coalesce(again, F.lit(False)))
        .select(*GROUP_OF_ROUND, F.when(~F.col("again"), F.col("lags")).alias("lags"), "progress_at", "consumed")
    )
