"""Routes of rounds: which queues they tell of, in RocketMQ's order, and how many at most."""

from __future__ import annotations

import pytest

from hindsight.udfs.consumer.topic_routes import topic_route

PHYSICAL = (None, None, None)


def read(server, *, answered=True, second=0):
    error = None if answered else "time-out"
    return {
        "name_server": server,
        "answered": answered,
        "captured_at": second,
        "error": error,
        "error_code": None,
        "evidence": "f:1",
    }


def row(server, broker, queues, perm, scope, count, logical, second=0):
    return {
        "name_server": server,
        "captured_at": second,
        "broker_name": broker,
        "read_queue_nums": queues,
        "perm": perm,
        "logical_broker_name": scope,
        "logical_queue_nums": count,
        "logical_queues": logical and [{"logical_id": i, "queue_id": q} for i, q in logical],
    }


def queues_of(*brokers, answered=True):
    """The queues of a topic whose route lists these brokers, queues and permissions."""
    found = topic_route([read(None, answered=answered)], [row(None, *broker, *PHYSICAL) for broker in brokers])
    return None if found.queues is None else found.queues.pairs


def test_queues_stand_in_the_order_of_java_s_strings():
    listed = queues_of(("\uffff", 1, 6), ("b", 2, 6), ("\U0001f600", 1, 4), ("a", 9, 2), ("c", 0, 6))
    assert listed == (("b", 0), ("b", 1), ("\U0001f600", 0), ("\uffff", 0))
    assert queues_of() == ()
    assert queues_of(answered=False) is None


@pytest.mark.parametrize(
    "brokers", [[("a", 2**31 - 1, 6)], [("a", 65_536, 6), ("b", 1, 6)]], ids=["of_a_broker", "together"]
)
def test_a_route_of_more_queues_than_can_be_is_as_good_as_unread(brokers):
    assert queues_of(*brokers) is None


def test_a_route_of_as_many_queues_as_can_be_is_read():
    assert len(queues_of(("a", 65_535, 6), ("b", 1, 6))) == 65_536


def route_of(*told, failed=()):
    """The route of a topic as each name server told it: name server, broker, queues, logical columns."""
    servers = dict.fromkeys(server for server, *_ in told)
    reads = [read(server) for server in servers] + [read(server, answered=False) for server in failed]
    return topic_route(reads, [row(server, broker, queues, 6, *logical) for server, broker, queues, *logical in told])


def brokers_of(found):
    return [(name, found.queues.names.count(name)) for name in dict.fromkeys(found.queues.names)]


def test_name_servers_that_tell_the_same_route_tell_one_route():
    found = route_of(("n1", "a", 4, *PHYSICAL), ("n2", "a", 4, *PHYSICAL), failed=("n3",))
    assert (brokers_of(found), found.routes_differ, found.name_servers) == ([("a", 4)], False, 2)
    assert (found.queue_kind, found.route_brokers) == ("physical", ["a"])


def test_of_different_routes_only_what_all_name_servers_tell_counts():
    found = route_of(("n1", "a", 4, *PHYSICAL), ("n1", "b", 4, *PHYSICAL), ("n2", "a", 4, *PHYSICAL))
    assert (brokers_of(found), found.routes_differ) == ([("a", 4)], True)


def test_of_one_name_server_an_answer_counts_before_a_later_failure_and_the_later_of_two_answers():
    reads = [read("n1"), read("n1", second=1), read("n1", answered=False, second=2)]
    rows = [row("n1", "a", 4, 6, *PHYSICAL), row("n1", "b", 2, 6, *PHYSICAL, second=1)]
    assert brokers_of(topic_route(reads, rows)) == [("b", 2)]


def test_why_there_is_no_route_is_what_the_last_read_says():
    found = topic_route([read("n1", answered=False) | {"error": "refused", "error_code": 17, "captured_at": 1}], [])
    assert (found.error, found.error_code, found.queues, found.queue_kind) == ("refused", 17, None, None)


def test_a_static_topic_has_its_logical_queues_under_the_name_that_clients_give_them():
    """Which of a scope's counts counts: MQClientInstance#topicRouteData2EndpointsForStaticTopic takes the largest."""
    a, b = ("__syslo__global__", 5, [(0, 0), (2, 1)]), ("__syslo__global__", 6, [(1, 0), (3, 1)])
    found = route_of((None, "a", 2, *a), (None, "b", 2, *b))
    assert brokers_of(found) == [("__syslo__global__", 6)]
    assert (found.queue_kind, found.route_brokers, found.routes_differ) == ("logical", ["a", "b"], False)
    hosts = {(h["broker_name"], q["queue_id"]): q["logical_id"] for h in found.hosts for q in h["logical_queues"]}
    assert hosts == {("a", 0): 0, ("a", 1): 2, ("b", 0): 1, ("b", 1): 3}
