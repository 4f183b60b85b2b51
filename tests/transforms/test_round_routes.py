"""Routes of rounds: which queues they tell of, in RocketMQ's order, and how many at most."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import readable_queues
from jobs.transforms.round_routes import round_routes

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ROUND = "cluster string, collector string, round_at timestamp, topic string, captured_at timestamp"
CAPTURES = f"{ROUND}, kind string, answered boolean, error string, source_file string, source_line long"
ROUTES = f"{ROUND}, broker_name string, read_queue_nums int, perm int"


@pytest.fixture
def queues_of(spark):
    """The queues of a topic whose route lists these brokers, queues and permissions."""

    def found(*brokers, answered=True):
        asked = ("c", "", AT, "T", AT)
        captures = spark.createDataFrame([(*asked, "topicRoute", answered, None, "f", 1)], CAPTURES)
        routes = spark.createDataFrame([(*asked, *broker) for broker in brokers], ROUTES)
        (row,) = round_routes(captures, routes).select(readable_queues(F.col("brokers")).alias("queues")).collect()
        return row.queues

    return found


def test_queues_stand_in_the_order_of_java_s_strings(queues_of):
    listed = queues_of(("\uffff", 1, 6), ("b", 2, 6), ("\U0001f600", 1, 4), ("a", 9, 2), ("c", 0, 6))
    assert [tuple(q) for q in listed] == [("b", 0), ("b", 1), ("\U0001f600", 0), ("\uffff", 0)]
    assert queues_of() == []
    assert queues_of(answered=False) is None


@pytest.mark.parametrize(
    "brokers", [[("a", 2**31 - 1, 6)], [("a", 65_536, 6), ("b", 1, 6)]], ids=["of_a_broker", "together"]
)
def test_a_route_of_more_queues_than_can_be_is_as_good_as_unread(queues_of, brokers):
    assert queues_of(*brokers) is None


def test_a_route_of_as_many_queues_as_can_be_is_read(queues_of):
    assert len(queues_of(("a", 65_535, 6), ("b", 1, 6))) == 65_536
