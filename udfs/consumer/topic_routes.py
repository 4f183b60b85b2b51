"""Captures and rows of one topic's route in one round in; the queues that could be read, in RocketMQ's order, out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from hindsight.udfs.allocation import java_string_key
from hindsight.udfs.consumer.listed_members import Row, nulls_first
from hindsight.udfs.limits.door_rules import MOST_QUEUES
from hindsight.udfs.values.list_digests import digest

ROUTE = "topicRoute"
_READABLE = 4
Brokers = tuple[tuple[str, int], ...]  # names and how many queues can be read, in RocketMQ's order


class Queues:
    """The readable queues of a topic, in RocketMQ's order."""

    def __init__(self, brokers: Brokers) -> None:
        self.names = [name for name, count in brokers for _ in range(count)]
        self.ids = [queue_id for _, count in brokers for queue_id in range(count)]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def pairs(self) -> tuple[tuple[str, int], ...]:
        """Broker name and queue id of each."""
        return tuple(zip(self.names, self.ids, strict=True))

    @cached_property
    def list_hash(self) -> str:
        """The digest of the list."""
        return digest(len(self), self.pairs)


class TopicRoute(NamedTuple):
    """What a round read of a topic's route.

    Attributes:
        error, error_code: of the last read, where none was answered.
        queues: None if unanswered, and where a route tells of more queues than ``MOST_QUEUES``: it is as good as
            unread. Where name servers tell different routes, only what all of them tell.
        routes_differ: name servers tell different routes.
        name_servers: that told one.
        queue_kind: ``logical`` for a static topic, which has one broker here, the mock one of its logical queues.
        hosts: on which real brokers these lie.
        route_brokers: the real brokers.
    """

    error: str | None
    error_code: int | None
    queues: Queues | None
    routes_differ: bool
    name_servers: int
    queue_kind: str | None
    hosts: list[dict[str, Any]] | None
    route_brokers: list[str] | None


class _View(NamedTuple):
    """A route as one name server told it."""

    captured_at: Any
    brokers: Brokers
    queue_kind: str
    hosts: list[dict[str, Any]] | None
    route_brokers: list[str] | None


def last_read(captures: Iterable[Row]) -> Row:
    """The read of a topic's route that counts: an answer before a failure, the later before the earlier."""
    return max(captures, key=_order)


def topic_route(captures: Sequence[Row], rows: Iterable[Row]) -> TopicRoute:
    """The route of a topic in a round; ``captures``: the reads of it; ``rows``: of ``topic_route``, as they told it."""
    latest: dict[str, Row] = {}
    for capture in captures:
        place = capture["name_server"] or ""
        if place not in latest or _order(capture) > _order(latest[place]):
            latest[place] = capture
    told: dict[tuple[str, Any], list[Row]] = {}
    for row in rows:
        told.setdefault((row["name_server"] or "", row["captured_at"]), []).append(row)
    views = []
    for place, read in latest.items():
        view = _view(read["captured_at"], told.get((place, read["captured_at"])))
        # Settings may let rows in that the door refuses, and many brokers make many queues: none may fill the memory.
        if read["answered"] and sum(count for _, count in view.brokers) <= MOST_QUEUES:
            views.append(view)
    return _of_views(last_read(latest.values()), views)


def _of_views(read: Row, views: Sequence[_View]) -> TopicRoute:
    if not views:
        return TopicRoute(read["error"], read["error_code"], None, False, 0, None, None, None)
    distinct = list(dict.fromkeys(view.brokers for view in views))
    shared = [broker for broker in dict.fromkeys(distinct[0]) if all(broker in view for view in distinct)]
    last = max(views, key=lambda view: view.captured_at)
    return TopicRoute(
        error=read["error"],
        error_code=read["error_code"],
        queues=Queues(tuple(shared)),
        routes_differ=len(distinct) > 1,
        name_servers=len(views),
        queue_kind=last.queue_kind,
        hosts=last.hosts,
        route_brokers=last.route_brokers,
    )


def _view(captured_at: Any, rows: Sequence[Row] | None) -> _View:
    """The brokers of a route's queues: physical ones, or of its logical ones."""
    if rows is None:
        return _View(captured_at, (), "physical", None, None)
    readable = [row for row in rows if row["perm"] & _READABLE and row["read_queue_nums"] > 0]
    # The clients take the largest count of logical queues that a broker tells of a scope.
    mock: dict[str, int] = {}
    for row in rows:
        scope, count = row["logical_broker_name"], row["logical_queue_nums"] or 0
        if scope is not None and count > 0:
            mock[scope] = max(count, mock.get(scope, 0))
    real = [(row["broker_name"], row["read_queue_nums"]) for row in readable]
    brokers = sorted(mock.items() if mock else real, key=lambda broker: (java_string_key(broker[0]), broker[1]))
    hosts = [
        {name: row[name] for name in ("broker_name", "logical_broker_name", "logical_queues")}
        for row in sorted(rows, key=lambda row: row["broker_name"])
        if row["logical_broker_name"] is not None
    ]
    kind = "logical" if mock else "physical"
    return _View(captured_at, tuple(brokers), kind, hosts, sorted(row["broker_name"] for row in readable))


def _order(read: Row) -> list[tuple[bool, Any]]:
    return [nulls_first(read[name]) for name in ("answered", "captured_at", "error", "error_code", "evidence")]
