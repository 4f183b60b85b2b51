"""What a round takes from its captures and from the rounds before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F

from jobs.transforms.expectations import expectation_id, with_expectation
from jobs.transforms.rounds import with_own_words
from schemas import EXPECTED_ALLOCATION

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
MEMBER = "cluster string, collector string, consumer_group string, client_id string, round_at timestamp"
HEARTBEAT = f"{MEMBER}, event_date date, language string"
CAPTURE = (
    f"{MEMBER}, event_date date, kind string, answered boolean, captured_at timestamp, subscriptions array<string>, "
    "client_kind string, error_code int, broker_name string"
)


def at(second):
    return T0 + timedelta(seconds=second)


def test_a_capture_that_tells_no_subscriptions_does_not_take_those_of_another(spark):
    member = ("c", "", "g", "c1", at(0), T0.date())
    heartbeats = spark.createDataFrame([(*member, "JAVA")], HEARTBEAT)

    def own(*captures):
        rows = [
            (*member, "consumerRunningInfo", answered, at(second), told, None, None, None)
            for second, answered, told in captures
        ]
        (row,) = with_own_words(heartbeats, spark.createDataFrame(rows, CAPTURE)).collect()
        return row.subscriptions

    assert own((0, True, ["T"]), (1, True, None)) == ["T"]
    assert own((0, True, ["T"]), (1, True, ["U"])) == ["U"]
    assert own((0, True, ["T"]), (1, True, [])) == []
    assert own((0, False, ["T"]), (1, True, None)) is None


def test_a_member_s_kind_is_what_its_running_info_says_else_what_its_connection_does(spark):
    def kind(client_id, language, *captures):
        member = ("c", "", "g", client_id, at(0), T0.date())
        heartbeats = spark.createDataFrame([(*member, language)], HEARTBEAT)
        rows = [(*member, kind, code is None, at(1), None, told, code, None) for kind, told, code in captures]
        (row,) = with_own_words(heartbeats, spark.createDataFrame(rows, CAPTURE)).collect()
        return row.client_kind

    info = "consumerRunningInfo"
    assert kind("10.0.0.1@7", "JAVA", (info, "lite_pull", None)) == "lite_pull"
    assert kind("10.0.0.1@7", "JAVA", (info, None, None)) == "unknown"
    assert kind("10.0.0.1@7", "JAVA", (info, None, 206)) == "unknown"
    assert kind("10.0.0.1@7", "GO") == "other"
    assert kind("node7@19191@0@8abc12", "JAVA") == "grpc"
    # CODE 3: whoever was asked does not know the request, which every broker does.
    assert kind("10.0.0.1@7", "JAVA", (info, None, 3)) == "remoting_proxy"
    assert kind("node7@19191@0@8abc12", "GO", ("consumeStats", None, 3)) == "grpc"


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
