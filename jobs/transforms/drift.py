"""Judged rounds in; expected allocations, findings and verdicts out.

The rules themselves are kernels on one round of one group; Spark brings each round's facts together and spreads the
rounds over the workers. Expectations are computed once per distinct set of lists and rules, however many rounds repeat
it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from jobs.transforms.group_rounds import GROUP_OF_ROUND, TOPIC_OF_ROUND
from jobs.transforms.null_safe_join import null_safe_join
from schemas import ALLOCATION_DRIFT, EXPECTED_ALLOCATION
from schemas.allocation import MEMBER_RULES
from schemas.common_columns import QUEUES, STRINGS
from udfs.drift_rows import findings_of_row
from udfs.expected_allocation import expectation_of_row
from udfs.pandas_udfs import map_rows

_LINEAGE = ("computed_at", "run_id")
_INPUTS = tuple(name for name in EXPECTED_ALLOCATION.key if name != "event_date")


def expectations(topics: DataFrame) -> DataFrame:
    """One row per date and distinct inputs of a group and topic: ``expected_allocation``."""
    judged = topics.where(
        F.col("queues").isNotNull() & (F.size("queues") > 0) & (F.size("members") > 0) & (F.size("not_asked") == 0)
    )
    lists = ("message_model", "members", "queues", "member_rules")
    distinct = judged.groupBy("event_date", *_INPUTS).agg(*(F.first(name).alias(name) for name in lists))
    columns = [f for f in EXPECTED_ALLOCATION.columns.fields if f.name not in _LINEAGE]
    extra = [
        StructField("message_model", EXPECTED_ALLOCATION.columns["topic"].dataType),
        StructField("members", STRINGS),
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


def findings(topics: DataFrame, groups: DataFrame, owned: DataFrame, progress: DataFrame) -> DataFrame:
    """One row per finding of the judged rounds: ``allocation_drift``."""
    topic = F.struct(
        "topic",
        "queues",
        "strategy",
        "strategy_source",
        "strategy_parameters",
        "queue_list_hash",
        "member_list_hash",
        "allocation",
        "allocation_before",
        F.col("route.evidence").alias("evidence"),
        "not_asked",
        "missing_inputs",
    )
    by_group = topics.groupBy("event_date", *GROUP_OF_ROUND).agg(
        F.array_sort(F.collect_list(topic), _by_topic).alias("topics"),
        F.first("members").alias("members"),
        F.first("member_rules").alias("member_rules"),
        F.first("message_model").alias("message_model"),
        F.first("loose").alias("loose"),
        F.first("member_list_hash").alias("member_list_hash"),
    )
    owner = F.struct("client_id", "topic", "broker_name", "queue_id", "locked", "last_pull_at", "last_consume_at")
    owners = owned.groupBy(*GROUP_OF_ROUND).agg(F.array_sort(F.collect_list(owner)).alias("owners"))
    said = groups.select(*GROUP_OF_ROUND, "reads", "listing", "ordered", "distinct_views")
    keys = list(GROUP_OF_ROUND)
    rounds = by_group.join(said, keys).join(owners, keys, "left").join(progress, keys, "left")
    schema = StructType(
        [StructField(f.name, f.dataType) for f in ALLOCATION_DRIFT.columns.fields if f.name not in _LINEAGE]
    )
    return map_rows(rounds, findings_of_row, schema)


def _by_topic(left: Column, right: Column) -> Column:
    return F.when(left["topic"] < right["topic"], -1).when(left["topic"] > right["topic"], 1).otherwise(0)


def verdicts(topics: DataFrame, found: DataFrame) -> DataFrame:
    """``group_round`` rows: drift where a finding says so, unknown where an input is missing, null if none was due."""
    counted = (
        found.where((F.col("severity") != "INFO") & F.col("topic").isNotNull())
        .groupBy(*TOPIC_OF_ROUND)
        .agg(F.count("*").cast("int").alias("findings"))
    )
    rows = topics.join(counted, list(TOPIC_OF_ROUND), "left").withColumn("findings", F.coalesce("findings", F.lit(0)))
    nothing_missing = F.size("missing_inputs") == 0
    verdict = (
        F.when(F.size("not_asked") > 0, F.lit(None))
        .when(F.col("findings") > 0, F.lit("drift"))
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
