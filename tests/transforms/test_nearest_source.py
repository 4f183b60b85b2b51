"""Which of several sources is computed with."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from pyspark.sql import functions as F

from jobs.transforms.nearest_source import nearest_attempts
from udfs.landing_formats import distances

BASE_MS = 1795253414272
DAY = date(2026, 11, 21)
MESSAGE = "7F00000142CF5FFD2B27" + "0A1B2C3D0001"
OTHER = "7F00000142D05FFD2B27" + "0A1B2C3D0001"


def at(ms: int) -> datetime:
    return datetime.fromtimestamp((BASE_MS + ms) / 1000, UTC)


def attempts(spark, *rows):
    columns = "cluster string, event_date date, producer_group string, client_id string, msg_id string, source string"
    return spark.createDataFrame([("oracle", DAY, "pg", *row) for row in rows], columns)


def kept(frame):
    return sorted(row.source for row in frame.collect())


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # The trace names the process by the message id, the hook's records of the same process are nearer.
        ([("c", MESSAGE, "producer_hook"), ("process p", MESSAGE, "trace_topic")], ["producer_hook"]),
        ([("c", OTHER, "producer_hook"), ("process p", MESSAGE, "trace_topic")], ["producer_hook", "trace_topic"]),
        ([("process p", MESSAGE, "trace_topic")], ["trace_topic"]),
        # One client, whose message ids a table of one's own does not keep.
        ([("c", MESSAGE, "producer_hook"), ("c", "own-id-of-forty", "canonical_sends")], ["producer_hook"]),
        ([("c", MESSAGE, "canonical_sends"), ("process p", MESSAGE, "trace_topic")], ["canonical_sends"]),
    ],
)
def test_of_several_sources_of_a_producer_the_nearest_is_kept(spark, rows, expected):
    assert kept(nearest_attempts(attempts(spark, *rows), distances())) == expected


def test_a_message_of_another_group_is_of_another_producer(spark):
    rows = attempts(spark, ("c", MESSAGE, "producer_hook"), ("process p", MESSAGE, "trace_topic"))
    group = F.when(F.col("source") == "trace_topic", "pg_b").otherwise("pg_a")
    assert len(kept(nearest_attempts(rows.withColumn("producer_group", group), distances()))) == 2
