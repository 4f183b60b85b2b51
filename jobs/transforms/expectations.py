"""Topics of rounds with their lists in; expected allocations, each distinct one once, and which round has which, out.

Rounds carry the name of their expectation, not the allocation: most of them share it with the round before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from schemas import EXPECTED_ALLOCATION
from schemas.allocation import MEMBER_RULES
from schemas.column_types import ArrayType, StructField, StructType
from schemas.common_columns import QUEUES, STRINGS
from schemas.table_contract import spark_columns
from udfs.expected_allocation import expectation_of_row
from udfs.pandas_udfs import map_rows

_LINEAGE = ("computed_at", "run_id")
_INPUTS = tuple(name for name in EXPECTED_ALLOCATION.key if name != "event_date")


def expectations(topics: DataFrame) -> DataFrame:
    """One row per date and distinct inputs of a group and topic: ``expected_allocation``."""
    lists = ("message_model", "members", "views", "queues", "member_rules")
    distinct = (
        topics.where(_can_expect()).groupBy("event_date", *_INPUTS).agg(*(F.first(name).alias(name) for name in lists))
    )
    columns = [f for f in EXPECTED_ALLOCATION.schema.fields if f.name not in _LINEAGE]
    extra = [
        StructField("message_model", EXPECTED_ALLOCATION.schema["topic"].dataType),
        StructField("members", STRINGS),
        StructField("views", ArrayType(STRINGS)),
        StructField("queues", QUEUES),
        StructField("member_rules", MEMBER_RULES),
    ]
    schema = spark_columns(StructType([StructField(f.name, f.dataType) for f in [*columns, *extra]]))
    return map_rows(distinct, expectation_of_row, schema).select(*(f.name for f in columns))


def _can_expect() -> Column:
    return (
        F.col("queues").isNotNull()
        & (F.size("queues") > 0)
        & (F.size("members") > 0)
        & (F.size("not_asked") == 0)
        & ~F.col("shared")
        & ~F.coalesce("routes_differ", F.lit(False))
    )


def expectation_id() -> Column:
    """Names the inputs of an expectation: rounds carry it instead of the allocation, which most of them share."""
    return F.xxhash64(*(F.coalesce(name, F.lit("")) for name in _INPUTS))


def with_expectation(topics: DataFrame, expected: DataFrame, *, lookback_s: int) -> DataFrame:
    """Rounds with the expectation that holds now and the one before (at most ``lookback_s`` ago), or why there is none.

    The one before is that of the last round that had one: in others the group may not have been asked.

    ``expectation``, ``expectation_before``: ``expectation_id`` of rows of ``expected``; null: none, or refused.
    """
    of_topic = ("event_date", "cluster", "consumer_group", "topic")
    refused = expected.where(F.col("refusal").isNotNull()).select(*of_topic, expectation_id().alias("id"), "refusal")
    # Refusals are few, rounds are wide.
    asked = topics.withColumn("id", F.when(_can_expect(), expectation_id()))
    joined = asked.join(F.broadcast(refused), [*of_topic, "id"], "left")
    so_far = Window.partitionBy("cluster", "collector", "consumer_group", "topic").orderBy("round_at")
    held = F.when(F.col("expectation").isNotNull(), F.struct("round_at", "expectation"))
    before = F.last(held, ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, -1))
    since_s = F.unix_seconds("round_at") - F.unix_seconds("before.round_at")
    no_rule = F.when(F.col("refusal").isNotNull(), F.array(F.concat(F.lit("expected allocation: "), F.col("refusal"))))
    return (
        joined.withColumn("expectation", F.when(F.col("refusal").isNull(), F.col("id")))
        .withColumn("before", before)
        .withColumns(
            {
                "expectation_before": F.when(since_s <= lookback_s, F.col("before.expectation")),
                "missing_inputs": F.concat("missing_inputs", F.coalesce(no_rule, F.array().cast("array<string>"))),
            }
        )
        .drop("id", "before")
    )
