"""Canonical tables of a consumer side in; what the stages of its job hand on to each other out, as Parquet.

So each stage can be measured by itself: ``topics`` is what the allocation starts from, ``judged``,
``expected``, ``groups``, ``owned`` and ``readings`` what findings and incidents do.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.consumer_tables import FIRST_ROUND_MS, MIXED, Population, write_tables
from bench.spark import session
from conf.settings_file import load_settings
from jobs.transforms.expectations import expectations, with_expectation
from jobs.transforms.group_rounds import (
    GROUP_OF_ROUND,
    group_reads,
    group_topics,
    progress_at,
    topic_rounds,
    with_digests,
)
from jobs.transforms.member_lists import listed_members
from jobs.transforms.member_rules import member_rules, strategy_events
from jobs.transforms.round_routes import round_routes
from schemas import (
    CLIENT_STRATEGY_STATE,
    CONSUMER_HEARTBEAT,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
    Table,
)

DIGESTS = ("member_list_hash", "queue_list_hash", "claims_hash")
DAY = datetime.fromtimestamp(FIRST_ROUND_MS / 1000, UTC).date()


def prepare(data: Path, rows: int, population: Population = MIXED) -> None:
    """Write tables and stages for about ``rows`` (queue, round) rows under ``data``."""
    write_tables(data, rows, population)
    spark = session()
    drift, rounds = load_settings(None).drift, load_settings(None).rounds

    def read(table: Table) -> DataFrame:
        return spark.read.parquet(str(data / table.name))

    def stage(name: str, frame: DataFrame) -> DataFrame:
        frame.write.parquet(str(data / name))
        return stage_of(spark, data, name)

    captures, owned = read(SNAPSHOT_CAPTURE), read(QUEUE_OWNERSHIP)
    carried = spark.createDataFrame([], CLIENT_STRATEGY_STATE.columns)
    events = strategy_events(read(REBALANCE_RESULT), captures, carried)
    listed = listed_members(captures, read(CONSUMER_HEARTBEAT))
    groups = stage("groups", group_reads(captures).join(listed, list(GROUP_OF_ROUND), "left"))
    rules = member_rules(groups.where(F.col("connections").isNotNull()), events, configured=[])
    routes = round_routes(captures, read(TOPIC_ROUTE))
    readings = stage("readings", progress_at(groups, read(QUEUE_PROGRESS), valid_s=drift.progress_valid_s))
    known = group_topics(groups, owned, readings, lookback_s=drift.lookback_s)
    topics = topic_rounds(groups, known, rules, routes, loose_spread_s=rounds.loose_spread_s)
    snapshot = F.xxhash64("consumer_group", "topic", "round_at").alias("snapshot")
    topics = stage("topics", topics.drop(*DIGESTS).select("*", snapshot))
    digested = with_digests(topics)
    expected = stage("expected", expectations(digested))
    stage("judged", with_expectation(digested, expected, lookback_s=drift.lookback_s))
    stage("owned", owned)


def stage_of(spark: SparkSession, data: Path, name: str) -> DataFrame:
    """What a stage handed on; its rows come in small batches, as one of a thousand members holds 200 KB."""
    spark.conf.set("spark.sql.parquet.columnarReaderBatchSize", "256")
    return spark.read.parquet(str(data / name))


def rows_of(data: Path) -> dict[str, int]:
    """(queue, round) rows by strategy."""
    table = pq.read_table(data / "topics", columns=["strategy", "queues"])
    counts: dict[str, int] = {}
    for strategy in pc.unique(table["strategy"]).to_pylist():
        own = table.filter(pc.equal(table["strategy"], strategy))
        counts[strategy] = pc.sum(pc.list_value_length(own["queues"])).as_py()
    return counts
