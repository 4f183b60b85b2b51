"""Which of several sources is computed with, and how brokers known by their address get their names."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import functions as F

from jobs.transforms.broker_names import address_book, with_broker_names
from jobs.transforms.nearest_source import nearest_attempts
from udfs.landing_formats import distances
from udfs.store_hosts import KnownAddress, StoreHosts

BASE_MS = 1795253414272
DAY = date(2026, 11, 21)
MESSAGE = "7F00000142CF5FFD2B27" + "0A1B2C3D0001"
OTHER = "7F00000142D05FFD2B27" + "0A1B2C3D0001"


def at(ms: int) -> datetime:
    return datetime.fromtimestamp((BASE_MS + ms) / 1000, UTC)


@pytest.mark.parametrize("seed", range(3))
def test_addresses_are_named_as_the_kernel_names_them(spark, seed):
    draw = random.Random(seed)
    addresses = [f"h{n}:{port}" for n in range(3) for port in (10909, 10911)] + ["h", "h1:x", ""]
    seen = [(draw.randrange(20), draw.choice(addresses), draw.choice("abc")) for _ in range(30)]
    asked = [(address, ms) for address in addresses for ms in range(-1, 22, 3)]
    routes = [("oracle", address, name, at(ms)) for ms, address, name in seen]
    columns = "cluster string, master_address string, broker_name string, captured_at timestamp"
    book = address_book(spark.createDataFrame(routes, columns))
    attempts = spark.createDataFrame(
        [("oracle", address, at(ms), ms) for address, ms in asked],
        "cluster string, broker_address string, begin_at timestamp, ms int",
    )
    hosts = StoreHosts(KnownAddress(ms, address, name) for ms, address, name in seen)
    expected = {(address, ms): hosts.broker_of(address, ms) for address, ms in asked}
    named = with_broker_names(attempts, book).collect()
    assert {(row.broker_address, row.ms): row.broker_name for row in named} == expected
    assert None in expected.values() and len(set(expected.values())) == 4


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
