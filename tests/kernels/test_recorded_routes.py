"""Which recorded routes a client may hold at an instant."""

from __future__ import annotations

import pytest

from hindsight.udfs.producer.recorded_routes import RecordedRoutes


def row(captured_ms, broker, order=None):
    counts = {"write_queue_nums": 4, "perm": 6, "has_master": True, "order_topic_conf": order}
    return {"topic": "T", "captured_ms": captured_ms, "broker_name": broker, **counts}


ROUTES = RecordedRoutes(
    [row(1_000, "a"), row(60_000, "b"), row(80_000, "c"), row(80_000, "d")], stale_ms=31_000, valid_ms=300_000
)


@pytest.mark.parametrize(
    ("now_ms", "brokers"),
    [
        (999, []),
        (1_000, ["a"]),
        (60_000, ["a", "b"]),
        (90_999, ["a", "b", "cd"]),  # b's came less than 31 s ago: a's may still be held
        (91_000, ["b", "cd"]),
        (111_000, ["cd"]),
        (380_000, ["cd"]),
        (380_001, []),
    ],
)
def test_those_of_the_last_poll_and_the_one_before(now_ms, brokers):
    assert ["".join(sorted(route.brokers())) for route in ROUTES.held("T", now_ms)] == brokers


def test_a_route_that_no_client_can_read_is_not_held():
    routes = RecordedRoutes([row(0, "a"), row(5, "b", order="b")], stale_ms=31_000, valid_ms=300_000)
    assert [route.brokers() for route in routes.held("T", 10)] == [{"a"}]
    assert routes.held("other", 10) == []


def test_a_client_keeps_its_route_however_long_it_is_given_one_that_it_cannot_read():
    routes = RecordedRoutes([row(0, "a"), row(5, "b", order="a:4;b")], stale_ms=31_000, valid_ms=300_000)
    assert [route.brokers() for route in routes.held("T", 40_000)] == [{"a"}]
    assert routes.edges("T") == [0, 31_000, 300_001]
