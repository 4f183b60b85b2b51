"""Judged rounds in; expected allocations, findings, incidents and verdicts out.

The rules themselves are kernels on the rounds of one group; Spark brings each round's facts together and spreads the
groups over the workers. Expectations are computed once per distinct set of lists and rules, however many rounds repeat
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from jobs.transforms.group_rounds import GROUP_OF_ROUND, TOPIC_OF_ROUND, broker_assigns, digest
from jobs.transforms.null_safe_join import null_safe_join
from schemas import (
    ALLOCATION_DRIFT,
    DRIFT_INCIDENT,
    EXPECTED_ALLOCATION,
    GROUP_DRIFT_STATE,
    GROUP_ROUND,
    MEMBERSHIP_CHANGE,
    Table,
)
from schemas.allocation import MEMBER_RULES
from schemas.common_columns import QUEUES, STRINGS
from udfs.expected_allocation import expectation_of_row
from udfs.group_walk import CHANGE, CLOSE, DRIFT, INCIDENT, INFERRED, ROUND, STATE, WalkSettings, walk
from udfs.pandas_udfs import map_rows, walk_rows

_EVENTS = "array<struct<at timestamp, kind string, subject string>>"
_LINEAGE = ("computed_at", "run_id")
_INPUTS = tuple(name for name in EXPECTED_ALLOCATION.key if name != "event_date")


def expectations(topics: DataFrame) -> DataFrame:
    """One row per date and distinct inputs of a group and topic: ``expected_allocation``."""
    judged = topics.where(
        F.col("queues").isNotNull()
        & (F.size("queues") > 0)
        & (F.size("members") > 0)
        & (F.size("not_asked") == 0)
        & ~F.col("shared")
    )
    lists = ("message_model", "members", "views", "queues", "member_rules")
    distinct = judged.groupBy("event_date", *_INPUTS).agg(*(F.first(name).alias(name) for name in lists))
    columns = [f for f in EXPECTED_ALLOCATION.columns.fields if f.name not in _LINEAGE]
    extra = [
        StructField("message_model", EXPECTED_ALLOCATION.columns["topic"].dataType),
        StructField("members", STRINGS),
        StructField("views", ArrayType(STRINGS)),
        StructField("queues", QUEUES),
        StructField("member_rules", MEMBER_RULES),
    ]
    schema = StructType([StructField(f.name, f.dataType) for f in [*columns, *extra]])
    return map_rows(distinct, expectation_of_row, schema).select(*(f.name for f in columns))


def with_expectation(topics: DataFrame, expected: DataFrame, *, lookback_s: int) -> DataFrame:
    """Rounds with the allocation expected now and in the round before (at most ``lookback_s`` ago), or why not."""
    answer = expected.select("event_date", *_INPUTS, "allocation", "refusal")
    joined = null_safe_join(topics, answer, ["event_date", *_INPUTS], "left")
    before = Window.partitionBy("cluster", "collector", "consumer_group", "topic").orderBy("round_at")
    since_s = F.unix_seconds("round_at") - F.unix_seconds(F.lag("round_at").over(before))
    no_rule = F.when(F.col("refusal").isNotNull(), F.array(F.concat(F.lit("expected allocation: "), F.col("refusal"))))
    return joined.withColumns(
        {
            "allocation_before": F.when(since_s <= lookback_s, F.lag("allocation").over(before)),
            "missing_inputs": F.concat("missing_inputs", F.coalesce(no_rule, F.array().cast("array<string>"))),
        }
    )


def group_rounds(
    topics: DataFrame, groups: DataFrame, owned: DataFrame, progress: DataFrame, events: DataFrame | None = None
) -> DataFrame:
    """One row per round and group, with everything that its rules look at; a group without topics has none.

    ``events``: what brokers' logs tell of its members (``member_events``).
    """
    topic = F.struct(
        "topic",
        "queues",
        "strategy",
        "strategy_source",
        "strategy_parameters",
        "queue_list_hash",
        "allocation",
        "allocation_before",
        F.col("route.evidence").alias("evidence"),
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
            F.col("allocation").isNull(),
        ).alias("facts_hash"),
    )
    by_group = topics.groupBy(*GROUP_OF_ROUND).agg(
        F.array_sort(F.collect_list(topic), _by_topic).alias("topics"),
        F.first("member_rules").alias("member_rules"),
        F.first("loose").alias("loose"),
    )
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
    owners = owned.groupBy(*GROUP_OF_ROUND).agg(
        F.array_sort(F.collect_list(owner)).alias("owners"),
        F.xxhash64(F.count("*"), F.bit_xor(held)).alias("owners_hash"),
        F.min("last_pull_at").alias("oldest_pull_at"),
        F.min(waiting).alias("oldest_consume_at"),
    )
    keys = list(GROUP_OF_ROUND)
    said = groups.select(
        *keys,
        "event_date",
        "reads",
        "listing",
        "connections",
        "ordered",
        "at",
        F.coalesce("listed_model", "own_model").alias("message_model"),
        F.coalesce("members", F.array().cast("array<string>")).alias("members"),
        "distinct_views",
        broker_assigns().alias("shared"),
    ).withColumn("member_list_hash", digest(F.col("members")))
    rounds = said.join(by_group, keys, "left").join(owners, keys, "left").join(progress, keys, "left")
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


def _signature() -> Column:
    """Equal where a round shows the same facts as another, instants and evidence aside."""
    reads = F.transform("reads", lambda r: F.struct(r["client_id"], r["answered"], r["own_hash"]))
    # Each broker sees another port of the same client.
    hosts = F.transform(
        "connections",
        lambda c: F.struct(c["client_id"], c["broker_name"], F.regexp_replace(c["address"], ":[0-9]+$", "")),
    )
    return F.xxhash64(
        "members",
        "member_rules",
        "message_model",
        "ordered",
        "loose",
        "shared",
        "listing.answered",
        "listing.error_code",
        F.array_sort(hosts),
        F.array_sort(reads),
        F.transform("topics", lambda t: t["facts_hash"]),
        "owners_hash",
        "member_events",
    )


def walked(rounds: DataFrame, states: DataFrame, dates: DataFrame, settings: WalkSettings) -> DataFrame:
    """The rounds of each group, walked in order from its opening state: a struct per kind of row, the others null.

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
    ordered = (
        stream.unionByName(opening, allowMissingColumns=True)
        .unionByName(ends, allowMissingColumns=True)
        .repartition(*group)
        .sortWithinPartitions(*group, F.col("sort_at").asc_nulls_first(), "row_kind")
        .drop("sort_at")
    )

    def kernel(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        return ({kind: row} for kind, row in walk(rows, settings))

    return walk_rows(ordered, kernel, _WALKED, on_demand=("round", "lags"))


def rows_of_kind(walk_frame: DataFrame, kind: str) -> DataFrame:
    """The rows of one kind that the walk gave."""
    return walk_frame.where(F.col(kind).isNotNull()).select(f"{kind}.*")


def _bare(table: Table) -> StructType:
    """A table's contract columns, any of them null."""
    kept = [f for f in table.columns.fields if f.name not in _LINEAGE]
    return StructType([StructField(f.name, f.dataType) for f in kept])


_INFERRED = StructType(
    [
        *(StructField(f.name, f.dataType) for f in GROUP_ROUND.columns.fields if f.name in GROUP_ROUND.key),
        StructField("inferred_strategies", STRINGS),
    ]
)
_WALKED = StructType(
    [
        StructField(DRIFT, _bare(ALLOCATION_DRIFT)),
        StructField(INCIDENT, _bare(DRIFT_INCIDENT)),
        StructField(CHANGE, _bare(MEMBERSHIP_CHANGE)),
        StructField(STATE, _bare(GROUP_DRIFT_STATE)),
        StructField(INFERRED, _INFERRED),
    ]
)


def _by_topic(left: Column, right: Column) -> Column:
    return F.when(left["topic"] < right["topic"], -1).when(left["topic"] > right["topic"], 1).otherwise(0)


def verdicts(topics: DataFrame, found: DataFrame, inferred: DataFrame) -> DataFrame:
    """``group_round`` rows: drift where a finding says so, unknown where an input is missing, null if none was due.

    A finding that is only possible leaves a round with missing inputs unknown.
    """
    certain = F.count_if(F.col("trust") == "certain").cast("int")
    counted = (
        found.where((F.col("severity") != "INFO") & F.col("topic").isNotNull())
        .groupBy(*TOPIC_OF_ROUND)
        .agg(F.count("*").cast("int").alias("findings"), certain.alias("certain_findings"))
    )
    rows = (
        topics.join(counted, list(TOPIC_OF_ROUND), "left")
        .join(inferred.drop("event_date"), list(TOPIC_OF_ROUND), "left")
        .withColumns({n: F.coalesce(n, F.lit(0)) for n in ("findings", "certain_findings")})
    )
    nothing_missing = F.size("missing_inputs") == 0
    verdict = (
        F.when(F.size("not_asked") > 0, F.lit(None))
        .when((F.col("certain_findings") > 0) | ((F.col("findings") > 0) & nothing_missing), F.lit("drift"))
        .when(~nothing_missing, F.lit("unknown"))
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
