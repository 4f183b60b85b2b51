"""What a round takes from the rounds before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F

from jobs.transforms.expectations import expectation_id, with_expectation
from schemas import EXPECTED_ALLOCATION

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def at(second):
    return T0 + timedelta(seconds=second)


def test_the_expectation_before_is_that_of_the_last_round_that_had_one(spark):
    def topic(second, members, not_asked=()):
        lists = {"queues": ["a:0"], "members": members, "not_asked": list(not_asked), "missing_inputs": []}
        inputs = dict.fromkeys(EXPECTED_ALLOCATION.key, "x") | {"event_date": T0.date(), "member_list_hash": members[0]}
        plain = {"collector": "", "round_at": at(second), "shared": False, "routes_differ": False}
        return {**inputs, **plain, **lists}

    rounds = [topic(0, ["one"]), topic(15, ["two"]), topic(30, ["-"], ["not asked"]), topic(45, ["three"])]
    rounds.append(topic(200, ["four"]))
    types = {"round_at": "timestamp", "event_date": "date", "shared": "boolean", "routes_differ": "boolean"}
    types |= dict.fromkeys(("queues", "members", "not_asked", "missing_inputs"), "array<string>")
    schema = ", ".join(f"{name} {types.get(name, 'string')}" for name in rounds[0])
    topics = spark.createDataFrame([tuple(one.values()) for one in rounds], schema)
    none = topics.select(*EXPECTED_ALLOCATION.key, F.lit("refused").alias("refusal")).limit(0)
    ids = {row["member_list_hash"]: row["id"] for row in topics.withColumn("id", expectation_id()).collect()}
    made = with_expectation(topics, none, lookback_s=60).orderBy("round_at").collect()
    before = [row.expectation_before for row in made]
    assert before == [None, ids["one"], ids["two"], ids["two"], None]
