"""Rounds with their expectations in; findings, incidents and verdicts out.

The rules themselves are kernels on the rounds of one group; Spark brings each round's facts together and spreads the
groups over the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from jobs.transforms.expectations import expectation_id
from jobs.transforms.group_rounds import GROUP_OF_ROUND, TOPIC_OF_ROUND, broker_assigns, list_digest
from schemas import (
    ALLOCATION_DRIFT,
    DRIFT_INCIDENT,
    GROUP_DRIFT_STATE,
    GROUP_ROUND,
    MEMBERSHIP_CHANGE,
    Table,
)
from udfs.group_walk import (
    CHANGE,
    CLOSE,
    DRIFT,
    EXPECTED,
    INCIDENT,
    ROUND,
    SCOPE,
    STATE,
    WalkSettings,
    walk,
    with_allocations,
)
from udfs.pandas_udfs import walk_rows

_EVENTS = "array<struct<at timestamp, kind string, subject string>>"
_LINEAGE = ("computed_at", "run_id")


def group_rounds(
    topics: DataFrame, groups: DataFrame, owned: DataFrame, progress: DataFrame, events: DataFrame | None = None
) -> DataFrame:
    """One row per round and group, with everything that its rules look at; a group without topics has none.

    ``events``: what brokers' logs tell of its members (``member_events``).
    """
    keys = list(GROUP_OF_ROUND)
    by_group = topics.groupBy(*keys).agg(
        F.array_sort(F.collect_list(_topic()), _by_topic).alias("topics"),
        F.first("member_rules").alias("member_rules"),
        F.first("loose").alias("loose"),
    )
    said = groups.select(
        *keys,
        "event_date",
        "reads",
        "listings",
        "broker_views",
        "through_proxy",
        "connections",
        "ordered",
        "at",
        F.coalesce("listed_model", "own_model").alias("message_model"),
        F.coalesce("members", F.array().cast("array<string>")).alias("members"),
        F.col("members").isNotNull().alias("is_listed"),
        "distinct_views",
        broker_assigns().alias("shared"),
    ).withColumn("member_list_hash", list_digest(F.col("members")))
    readings = progress.drop("consumed")
    rounds = said.join(by_group, keys, "left").join(_owners(owned), keys, "left").join(readings, keys, "left")
    rounds = (
        rounds.withColumn("member_events", F.lit(None).cast(_EVENTS))
        if events is None
        else rounds.join(events, keys, "left")
    )
    return rounds.withColumns(
        {
            "loose": F.coalesce("loose", F.lit(False)),
            "topics": F.coalesce("topics", F.array().cast(by_group.schema["topics"].dataType)),
            "member_rules": F.coalesce("member_rules", F.array().cast(by_group.schema["member_rules"].dataType)),
        }
    ).withColumn("signature", _signature())


def _topic() -> Column:
    """A topic as its group's round shows it; the queues of one with an expectation are those of its allocation."""
    return F.struct(
        "topic",
        F.when(F.col("expectation").isNull(), F.col("queues")).alias("queues"),
        "strategy",
        "strategy_source",
        "strategy_parameters",
        "queue_list_hash",
        "expectation",
        "expectation_before",
        F.col("route.evidence").alias("evidence"),
        "queue_kind",
        "hosts",
        "route_brokers",
        "routes_differ",
        "name_servers",
        "not_asked",
        "missing_inputs",
        F.xxhash64(
            "topic",
            "queue_list_hash",
            "claims_hash",
            "strategy",
            "strategy_source",
            "strategy_parameters",
            "not_asked",
            "missing_inputs",
            "queue_kind",
            "route_brokers",
            "routes_differ",
            "name_servers",
            F.col("expectation").isNull(),
        ).alias("facts_hash"),
    )


def _owners(owned: DataFrame) -> DataFrame:
    """Per round and group, who showed which queue, in no order."""
    owner = F.struct(
        "client_id",
        "topic",
        "broker_name",
        "queue_id",
        "locked",
        "last_pull_at",
        "last_consume_at",
        "last_lock_at",
        "cached_messages",
    )
    held = F.xxhash64("client_id", "topic", "broker_name", "queue_id", "locked")
    waiting = F.when(F.col("cached_messages") > 0, F.col("last_consume_at"))
    return owned.groupBy(*GROUP_OF_ROUND).agg(
        F.collect_list(owner).alias("owners"),
        F.xxhash64(F.count("*"), F.bit_xor(held)).alias("owners_hash"),
        F.min("last_pull_at").alias("oldest_pull_at"),
        F.min(waiting).alias("oldest_consume_at"),
    )


def _signature() -> Column:
    """Equal where a round shows the same facts as another, instants and evidence aside."""
    reads = F.transform("reads", lambda r: F.struct(r["client_id"], r["answered"], r["error_code"], r["own_hash"]))
    # Each broker sees another port of the same client.
    hosts = F.transform(
        "connections",
        lambda c: F.struct(c["client_id"], c["broker_name"], c["kind"], F.regexp_replace(c["address"], ":[0-9]+$", "")),
    )
    asked = F.transform("listings", lambda p: F.struct(p["broker_name"], p["told"], p["error_code"]))
    return F.xxhash64(
        "members",
        "member_rules",
        "message_model",
        "ordered",
        "loose",
        "shared",
        "through_proxy",
        "is_listed",
        asked,
        "broker_views",
        F.array_sort(hosts),
        F.array_sort(reads),
        F.transform("topics", lambda t: t["facts_hash"]),
        "owners_hash",
        "member_events",
    )


def walked(
    rounds: DataFrame, expected: DataFrame, states: DataFrame, dates: DataFrame, settings: WalkSettings
) -> DataFrame:
    """The rounds of each group, walked in order from its opening state: a struct per kind of row, the others null.

    ``expected``: what the rounds' ``expectation`` names; each comes to the walk once, before its group's rounds.
    ``dates``: cluster, event_date, is_last; each group's state is closed at the end of each of its cluster's dates.
    """
    group = ("cluster", "collector", "consumer_group")
    beside = ("at", "progress_at", "lags", "signature", "oldest_pull_at", "oldest_consume_at")
    inside = [name for name in rounds.columns if name not in beside or name == "at"]
    stream = rounds.select(
        *group,
        *beside,
        F.col("round_at").alias("sort_at"),
        F.lit(ROUND).alias("row_kind"),
        F.struct(*inside).alias("round"),
    )
    opening = states.select(*group, F.lit(STATE).alias("row_kind"), "state", "evidence")
    known = rounds.select(*group).union(states.select(*group)).distinct()
    ends = known.join(F.broadcast(dates), "cluster").select(
        *group,
        F.date_add("event_date", 1).cast("timestamp").alias("sort_at"),
        F.lit(CLOSE).alias("row_kind"),
        "event_date",
        "is_last",
    )
    named = expected.where(F.col("allocation").isNotNull()).select(
        "cluster", "consumer_group", F.struct(expectation_id().alias("id"), "allocation").alias("expectation")
    )
    allocations = known.join(named, ["cluster", "consumer_group"]).withColumn("row_kind", F.lit(EXPECTED))
    ordered = (
        stream.unionByName(opening, allowMissingColumns=True)
        .unionByName(allocations, allowMissingColumns=True)
        .unionByName(ends, allowMissingColumns=True)
        .repartition(*group)
        .sortWithinPartitions(*group, F.col("sort_at").asc_nulls_first(), "row_kind")
        .drop("sort_at")
    )

    def kernel(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        return ({kind: row} for kind, row in walk(with_allocations(rows), settings))

    return walk_rows(ordered, kernel, _WALKED, on_demand=("round", "lags"))


def rows_of_kind(walk_frame: DataFrame, kind: str) -> DataFrame:
    """The rows of one kind that the walk gave."""
    return walk_frame.where(F.col(kind).isNotNull()).select(f"{kind}.*")


def _bare(table: Table) -> StructType:
    """A table's contract columns, any of them null."""
    kept = [f for f in table.columns.fields if f.name not in _LINEAGE]
    return StructType([StructField(f.name, f.dataType) for f in kept])


_SCOPE = StructType(
    [
        StructField(f.name, f.dataType)
        for f in GROUP_ROUND.columns.fields
        if f.name in (*GROUP_ROUND.key, "inferred_strategies", "scope_reason")
    ]
)
_WALKED = StructType(
    [
        StructField(DRIFT, _bare(ALLOCATION_DRIFT)),
        StructField(INCIDENT, _bare(DRIFT_INCIDENT)),
        StructField(CHANGE, _bare(MEMBERSHIP_CHANGE)),
        StructField(STATE, _bare(GROUP_DRIFT_STATE)),
        StructField(SCOPE, _SCOPE),
    ]
)


def _by_topic(left: Column, right: Column) -> Column:
    return F.when(left["topic"] < right["topic"], -1).when(left["topic"] > right["topic"], 1).otherwise(0)


def verdicts(topics: DataFrame, found: DataFrame, scopes: DataFrame) -> DataFrame:
    """``group_round`` rows: drift where a finding says so, unknown where an input is missing or the rules do not apply,
    null if none was due.

    A finding that is only possible leaves a round with missing inputs unknown. A group that is down reads no topic.
    """
    certain = F.count_if(F.col("trust") == "certain").cast("int")
    down = found.where(F.col("code") == "GROUP_DOWN").select(*GROUP_OF_ROUND, F.lit(True).alias("down")).distinct()
    counted = (
        found.where((F.col("severity") != "INFO") & F.col("topic").isNotNull())
        .groupBy(*TOPIC_OF_ROUND)
        .agg(F.count("*").cast("int").alias("findings"), certain.alias("certain_findings"))
    )
    rows = (
        topics.join(counted, list(TOPIC_OF_ROUND), "left")
        .join(scopes.drop("event_date"), list(TOPIC_OF_ROUND), "left")
        .join(down, list(GROUP_OF_ROUND), "left")
        .withColumns({n: F.coalesce(n, F.lit(0)) for n in ("findings", "certain_findings")})
    )
    nothing_missing = F.size("missing_inputs") == 0
    verdict = (
        F.when(F.size("not_asked") > 0, F.lit(None))
        .when(F.col("down") | (F.col("certain_findings") > 0), F.lit("drift"))
        .when((F.col("findings") > 0) & nothing_missing, F.lit("drift"))
        .when(~nothing_missing | F.col("scope_reason").isNotNull(), F.lit("unknown"))
        .otherwise(F.lit("ok"))
    )
    return rows.withColumns({"verdict": verdict.cast("string"), "informative": nothing_missing})


def strategy_states(events: DataFrame, dates: DataFrame, *, carry_days: int) -> DataFrame:
    """Per date, consumer and source, the strategy last shown, while not older than ``carry_days``."""
    member = ("cluster", "consumer_group", "client_id")
    daily = (
        events.withColumn("shown_date", F.to_date("at"))
        .groupBy(*member, "source", "shown_date")
        .agg(F.max(F.struct("at", "strategy")).alias("last"))
    )
    following = F.lead("shown_date").over(Window.partitionBy(*member, "source").orderBy("shown_date"))
    lasting = daily.withColumn(
        "until",
        F.least(
            F.date_add("shown_date", carry_days), F.coalesce(F.date_sub(following, 1), F.lit("9999-12-31").cast("date"))
        ),
    )
    return (
        lasting.join(F.broadcast(dates), "cluster")
        .where(F.col("event_date").between(F.col("shown_date"), F.col("until")))
        .select(
            *member,
            "event_date",
            F.col("last.strategy").alias("strategy"),
            F.col("source").alias("strategy_source"),
            F.col("last.at").alias("known_since"),
        )
    )
