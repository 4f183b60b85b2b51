"""Which recorded routes a client may hold at an instant."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.conf.settings_file import load_settings
from hindsight.schemas import TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.producer.recorded_routes import ENTRY_COLUMNS, RecordedRoutes, Route, entries_of, with_read_ms


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


def test_one_poll_that_a_silent_name_server_swallows_is_thinkable_and_two_are_not():
    """By the settings as they come: polls each 30 s, and the failed one waits 3 s (ClientConfig of 4.9.8 and 5.3.3)."""
    options = load_settings().replay
    ms = {"stale_ms": 1000 * options.route_stale_s, "valid_ms": 1000 * options.route_valid_s}
    routes = RecordedRoutes([row(at, "a" if at < 60_000 else "b") for at in range(0, 300_000, 15_000)], **ms)
    held = {after: [*map(Route.brokers, routes.held("T", 60_000 + 1000 * after))] for after in (63, 64, 90)}
    assert held == {63: [{"a"}, {"b"}], 64: [{"b"}], 90: [{"b"}]}


def test_a_route_that_no_client_can_read_is_not_held():
    routes = RecordedRoutes([row(0, "a"), row(5, "b", order="b")], stale_ms=31_000, valid_ms=300_000)
    assert [route.brokers() for route in routes.held("T", 10)] == [{"a"}]
    assert routes.held("other", 10) == []


def test_a_client_keeps_its_route_however_long_it_is_given_one_that_it_cannot_read():
    routes = RecordedRoutes([row(0, "a"), row(5, "b", order="a:4;b")], stale_ms=31_000, valid_ms=300_000)
    assert [route.brokers() for route in routes.held("T", 40_000)] == [{"a"}]
    assert routes.edges("T") == [0, 31_000, 300_001]


class Oracle:
    """Each read by itself."""

    def __init__(self, rows, stale_ms, valid_ms):
        self.stale_ms, self.valid_ms = stale_ms, valid_ms
        self.reads = defaultdict(list)
        for each in rows:
            self.reads[each["captured_ms"]].append(each)

    def held(self, now_ms):
        valid = [at for at in sorted(self.reads) if now_ms - self.valid_ms <= at <= now_ms]
        replaced = sum(at <= now_ms - self.stale_ms for at in valid)
        return [sorted(map(said, self.reads[at])) for at in valid[max(replaced - 1, 0) :]]


def said(entry):
    return entry["broker_name"], entry["write_queue_nums"]


def distinct(each):
    return [one for place, one in enumerate(each) if not place or each[place - 1] != one]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sets(st.sampled_from("abc"), min_size=1), st.integers(1, 2)), max_size=30
    ),
    st.integers(0, 12),
    st.integers(1, 15),
)
def test_reads_that_say_the_same_say_what_each_by_itself_does(reads, stale_ms, valid_ms):
    told = {at: (brokers, queues) for at, brokers, queues in reads}  # at one instant one answer
    rows = [
        row(at, broker) | {"write_queue_nums": queues, "place_in_answer": None}
        for at, (brokers, queues) in told.items()
        for broker in brokers
    ]
    columns = {name: [each[name] for each in rows] for name in ENTRY_COLUMNS}
    columns["captured_at"] = [datetime.fromtimestamp(each["captured_ms"] / 1000, UTC) for each in rows]
    schema = arrow_schema(TOPIC_ROUTE)
    table = pa.table(columns, schema=pa.schema([schema.field(name) for name in columns]))
    oracle = Oracle(rows, stale_ms, valid_ms)
    several = RecordedRoutes(rows, stale_ms=stale_ms, valid_ms=valid_ms)
    together = RecordedRoutes(with_read_ms(entries_of(table)), stale_ms=stale_ms, valid_ms=valid_ms)
    changes, before = together.edges("T"), []
    for now_ms in range(-1, 100):
        expected = distinct(oracle.held(now_ms))
        for routes in (several, together):
            held = routes.held("T", now_ms)
            assert [sorted(map(said, route.entries.values())) for route in held] == expected
        assert expected == before or now_ms in changes
        before = expected
