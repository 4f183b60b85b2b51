"""Whether a recorded route lists a broker: by its counts, or by its orderTopicConf."""

import pytest

from udfs.choice_readings import BrokerRecord, RouteEntry, route_readings
from udfs.choice_rows import ChoiceJudge
from udfs.order_topic_conf import ordered_queues
from udfs.release_profiles import PROFILES
from udfs.send_verdicts import Choice

P533 = PROFILES["P533"]


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("a:4", {"a": 4}),
        ("b:2;a:4", {"b": 2, "a": 4}),
        ("a:4;", {"a": 4}),  # Java's split drops what is empty at the end, and there alone
        (";a:4", None),
        (";", {}),
        ("a:0;b:-1", {"a": 0, "b": 0}),
        ("a:1;a:2", {"a": 3}),
        ("a:4:9", {"a": 4}),
        ("a:2147483647;b:00000000001", {"a": 2147483647, "b": 1}),
        ("a:2147483648", None),
        ("a", None),
        ("a:", None),
        ("a: 4", None),
        ("a:four", None),
    ],
)
def test_order_topic_conf_is_read_as_the_client_reads_it(text, queues):
    assert ordered_queues(text) == queues


@pytest.mark.parametrize(
    ("entry", "listed"),
    [
        (RouteEntry(4, True, True), True),
        (RouteEntry(4, False, True), False),
        (RouteEntry(4, True, False), False),
        (RouteEntry(0, True, True), False),
        (RouteEntry(None, False, False), False),
        (RouteEntry(4, False, False, ordered_queues=1), True),  # no permission and no master is asked for
        (RouteEntry(None, False, False, ordered_queues=1), True),
        (RouteEntry(4, True, True, ordered_queues=0), False),
    ],
)
def test_an_order_topic_conf_counts_instead_of_the_entry(entry, listed):
    (reading,) = route_readings(BrokerRecord("b", None, None, (), None, None, (entry,)), Choice("a", None, 0), P533)
    assert reading.listed is listed
    assert reading.write_queue_nums == entry.write_queue_nums  # what the fallback looks up


def row(*routes, chosen="a"):
    """A choice of a, held though reachable, beside b; 5.3.3."""
    held = {"latency_ms": 1800, "start_ms": 5000, "reachable": True, "updated_at_ms": 0, "forgotten_at_ms": None}
    unused = {"near": None, "used_before_ms": None, "used_after_ms": None, "on_date": True}
    ladders = {"latency_max_ms": P533.latency_max_ms, "not_available_ms": P533.not_available_ms}
    return {
        "profile": "P533",
        "latency_fault_enabled": True,
        "detector_enabled": False,
        **ladders,
        "event_date": None,
        "begin_ms": 1000,
        "broker_name": chosen,
        "last_broker_name": None,
        "routes": routes,
        "brokers": [{"known_broker": "a", "item": held, **unused}],
        "msg_id": "m",
        "thread": "t",
        "attempt": 0,
    }


def route(order, *brokers):
    counts = {"write_queue_nums": 4, "perm": 6, "has_master": True, "order_topic_conf": order}
    return [{"broker_name": broker, **counts} for broker in brokers]


@pytest.mark.parametrize(
    ("order", "verdict", "admissible"),
    [
        (None, "impossible", ["b"]),
        ("", "impossible", ["b"]),
        ("a:4", "consistent", ["a"]),
        ("a:4;c:1", "impossible", ["c"]),
        ("a:4;b", "consistent", ["a"]),  # no client goes by it: nothing tells of b
    ],
)
def test_a_verdict_goes_by_the_order_topic_conf(order, verdict, admissible):
    judged = ChoiceJudge(tolerance_ms=3).verdict(row(route(order, "a", "b")))
    assert (judged["verdict"], judged["admissible"]) == (verdict, admissible)


def test_a_choice_that_only_an_earlier_route_admits_names_it():
    judged = ChoiceJudge(tolerance_ms=3).verdict(row(route(None, "a"), route(None, "a", "b")))
    assert (judged["verdict"], judged["reason"]) == ("possible", "stale_route")
    assert judged["admissible"] == ["a", "b"]
