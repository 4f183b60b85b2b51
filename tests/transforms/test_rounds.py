"""What a round takes from its captures and from the rounds before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from pyspark.sql import functions as F

from jobs.transforms.rounds import asked, capture_rounds, with_own_words
from tests.kernels.test_repeated_questions import GAP_S, expected_rounds

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


READ = (
    "cluster string, collector string, captured_at timestamp, kind string, subject string, answered boolean, "
    "error_code int"
)
MOST_S = 120


def second_of(instant):
    return int((instant.replace(tzinfo=UTC) - T0).total_seconds())


def rounds_of(spark, reads, markers=()):
    """Second of each capture -> second of its round; reads: (second, question, answered, code)."""
    rows = [("c", "mqadmin", at(s), question[0], question[1:], ok, code) for s, question, ok, code in reads]
    marks = [("c", "mqadmin", at(second)) for second in markers]
    found = capture_rounds(
        asked(spark.createDataFrame(rows, READ)),
        spark.createDataFrame(marks, "cluster string, collector string, round_at timestamp"),
        max_round_s=MOST_S,
        gap_s={"": 2.0, "mqadmin": float(GAP_S)},
    ).collect()
    assert len(found) == len({s for s, *_ in reads})
    return {second_of(r.captured_at): second_of(r.round_at) for r in found}


@pytest.mark.parametrize("seed", range(3))
def test_a_question_asked_again_begins_a_round(spark, seed):
    draw = Random(seed)
    reads, second = [], 0
    for _ in range(60):
        second += draw.choice((0, 1, 8, 14, 16, 59, 60, 61, 90))
        answered = draw.random() < 0.6
        code = None if answered else draw.choice((None, 206))
        reads.append((second, draw.choice(("ag", "bg", "ag2", "cT")), answered, code))
    assert rounds_of(spark, reads) == expected_rounds(reads)


SWEEP = (("ag", 0), ("bT", 1), ("cg", 2))


def test_sweeps_a_minute_apart_are_rounds_of_their_own(spark):
    reads = [(60 * n + second, question, True, None) for n in range(4) for question, second in SWEEP]
    assert sorted(set(rounds_of(spark, reads).values())) == [0, 60, 120, 180]


@pytest.mark.parametrize(("code", "pause", "rounds"), [(None, 9, 1), (206, 9, 2), (None, 16, 2)])
def test_only_a_quick_retry_of_what_nobody_answered_stays_in_its_round(spark, code, pause, rounds):
    reads = [
        (0, "bT", True, None),
        (1, "ag", False, code),
        (1 + pause, "ag", True, None),
        (2 + pause, "cg", True, None),
    ]
    assert len(set(rounds_of(spark, reads).values())) == rounds


def test_captures_that_only_follow_from_rows_of_ones_own_ask_nothing(spark):
    rows = [("c", "rows", at(s), "consumerRunningInfo", "g|c", True, None, own) for s, own in enumerate((1, 1, 0, 0))]
    source = F.when(F.col("own") == 1, F.lit("canonical_snapshots")).otherwise(F.lit("admin_snapshots"))
    captures = spark.createDataFrame(rows, f"{READ}, own int").withColumn("source", source)
    marks = captures.selectExpr("cluster", "collector", "captured_at AS round_at").limit(0)
    found = capture_rounds(asked(captures), marks, max_round_s=MOST_S, gap_s={"": 2.0}).collect()
    assert sorted(second_of(row.round_at) for row in found) == [0, 0, 0, 3]


def test_a_marker_takes_what_is_asked_again_too(spark):
    reads = [(second, "ag", True, None) for second in (1, 2, 3)]
    assert set(rounds_of(spark, reads, markers=[0]).values()) == {0}


def test_rounds_of_a_run_without_a_pause_follow_from_the_captures_of_their_date(spark):
    night = 14 * 3600 + 30 * 60  # T0 is 9:30
    reads = [(night + s, "abc"[i % 3] + "x", True, None) for i, s in enumerate(range(-400, 400, 8))]
    whole = rounds_of(spark, reads)
    from_here = rounds_of(spark, [read for read in reads if read[0] >= night])
    assert {s: r for s, r in whole.items() if s >= night} == from_here
    short = [read for read in reads if read[0] >= night - MOST_S + 28]
    assert any(rounds_of(spark, short)[s] < night for s in range(night, night + 16, 8))
