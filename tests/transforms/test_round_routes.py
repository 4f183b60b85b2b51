"""Routes of rounds: which queues they tell of, in RocketMQ's order, and how many at most."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import readable_queues
from jobs.transforms.round_routes import round_routes

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ROUND = "cluster string, collector string, round_at timestamp, topic string, captured_at timestamp"
CAPTURES = (
    f"{ROUND}, kind string, name_server string, answered boolean, error string, error_code int, source_file string, "
    "source_line long"
)
LOGICAL = (
    "logical_broker_name string, logical_queue_nums int, logical_queues array<struct<logical_id int, queue_id int>>"
)
ROUTES = f"{ROUND}, name_server string, broker_name string, read_queue_nums int, perm int, {LOGICAL}"
PHYSICAL = (None, None, None)


@pytest.fixture
def queues_of(spark):
    """The queues of a topic whose route lists these brokers, queues and permissions."""

    def found(*brokers, answered=True):
        asked = ("c", "", AT, "T", AT)
        captures = spark.createDataFrame([(*asked, "topicRoute", None, answered, None, None, "f", 1)], CAPTURES)
        routes = spark.createDataFrame([(*asked, None, *broker, *PHYSICAL) for broker in brokers], ROUTES)
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


@pytest.fixture
def route_of(spark):
    """The route of a topic as each name server told it: name server, broker, queues, logical columns."""

    def found(*told, failed=()):
        asked = ("c", "", AT, "T", AT)
        servers = dict.fromkeys(server for server, *_ in told)
        reads = [(*asked, "topicRoute", s, True, None, None, "f", 1) for s in servers]
        reads += [(*asked, "topicRoute", s, False, "time-out", None, "f", 1) for s in failed]
        rows = [(*asked, server, broker, queues, 6, *logical) for server, broker, queues, *logical in told]
        routes = spark.createDataFrame(rows, ROUTES)
        (row,) = round_routes(spark.createDataFrame(reads, CAPTURES), routes).collect()
        return row

    return found


def test_name_servers_that_tell_the_same_route_tell_one_route(route_of):
    row = route_of(("n1", "a", 4, *PHYSICAL), ("n2", "a", 4, *PHYSICAL), failed=("n3",))
    assert ([tuple(b) for b in row.brokers], row.routes_differ, row.name_servers) == ([("a", 4)], False, 2)
    assert (row.queue_kind, row.route_brokers) == ("physical", ["a"])


def test_of_different_routes_only_what_all_name_servers_tell_counts(route_of):
    row = route_of(("n1", "a", 4, *PHYSICAL), ("n1", "b", 4, *PHYSICAL), ("n2", "a", 4, *PHYSICAL))
    assert ([tuple(b) for b in row.brokers], row.routes_differ) == ([("a", 4)], True)


def test_a_static_topic_has_its_logical_queues_under_the_name_that_clients_give_them(route_of):
    """Which of a scope's counts counts: MQClientInstance#topicRouteData2EndpointsForStaticTopic takes the largest."""
    a, b = ("__syslo__global__", 5, [(0, 0), (2, 1)]), ("__syslo__global__", 6, [(1, 0), (3, 1)])
    row = route_of((None, "a", 2, *a), (None, "b", 2, *b))
    assert [tuple(broker) for broker in row.brokers] == [("__syslo__global__", 6)]
    assert (row.queue_kind, row.route_brokers, row.routes_differ) == ("logical", ["a", "b"], False)
    hosts = {(h.broker_name, q.queue_id): q.logical_id for h in row.hosts for q in h.logical_queues}
    assert hosts == {("a", 0): 0, ("a", 1): 2, ("b", 0): 1, ("b", 1): 3}
