"""Captures and rows of many topics' routes in; a topic's route in a round out, each distinct one worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.consumer.route_entries import Rounds, are_of
from hindsight.udfs.consumer.rows_of_rounds import RowsOfRounds, microseconds, rows_of_rounds, with_evidence
from hindsight.udfs.consumer.topic_routes import TopicRoute, last_read, topic_route
from hindsight.udfs.values.arrays import chosen
from hindsight.udfs.values.row_hashes import HashArray, mixed
from hindsight.udfs.values.value_hashes import sums, value_hashes

_READ = ("name_server", "answered", "error", "error_code")
_TOLD = (
    "name_server", "broker_name", "read_queue_nums", "perm", "logical_broker_name", "logical_queue_nums",
    "logical_queues",
)  # fmt: skip
_DAY_US = 86_400_000_000


class Route(NamedTuple):
    """A topic's route, and a number for what it tells: equal for equal routes."""

    number: int
    told: TopicRoute


class RoutedTopics:
    """The routes of topics, by round."""

    def __init__(
        self, captures: pa.Table, routes: pa.Table, rounds: Rounds, collected: Iterable[tuple[str, str, int]] = ()
    ) -> None:
        """``captures``: of kind topicRoute; ``routes``: rows of ``topic_route``; ``rounds``: which may be asked for.

        ``collected``: topics, collectors and days since 1970 of rounds that are not among them.
        """
        self._collected = _collected(captures) | set(collected)
        captures, routes = (chosen(rows, are_of(rows, rounds)) for rows in (captures, routes))
        self._captures = rows_of_rounds(with_evidence(captures), "topic", ("captured_at", "name_server"))
        self._routes = rows_of_rounds(routes, "topic", ("captured_at", "name_server", "broker_name"))
        self._shows = _ordered(self._captures, _READ)
        self._told = _ordered(self._routes, _TOLD)
        self._by_hash: dict[tuple[int, int], Route] = {}
        self._numbers: dict[str, int] = {}

    def is_collected(self, topic: str, collector: str, round_us: int) -> bool:
        """Whether a collector asked for the topic's route on the date of a round."""
        return (topic, collector, round_us // _DAY_US) in self._collected

    def of(self, topic: str, collector: str, round_us: int) -> Route | None:
        """The route of a topic in a round, epoch us; None: it was not asked for."""
        key = (topic, collector, round_us)
        place = self._captures.place_of.get(key)
        if place is None:
            return None
        told = self._routes.place_of.get(key)
        shows = int(self._shows[place]), 0 if told is None else int(self._told[told])
        if shows not in self._by_hash:
            read = topic_route(self._captures.of(key).to_pylist(), self._routes.of(key).to_pylist())
            content = repr((read._replace(queues=None), read.queues and read.queues.list_hash))
            self._by_hash[shows] = Route(self._numbers.setdefault(content, len(self._numbers)), read)
        return self._by_hash[shows]

    def evidence(self, topic: str, collector: str, round_us: int) -> str | None:
        """The line of the read that counts; None: nobody asked."""
        reads = self._captures.of((topic, collector, round_us))
        if not len(reads):
            return None
        line: str = reads["evidence"][0].as_py() if len(reads) == 1 else last_read(reads.to_pylist())["evidence"]
        return line


def _collected(captures: pa.Table) -> set[tuple[str, str, int]]:
    days = pa.array(microseconds(captures, "round_at") // _DAY_US)
    each = captures.select(["topic", "collector"]).append_column("day", days)
    each = each.group_by(["topic", "collector", "day"]).aggregate([])
    return set(zip(*(each[name].to_pylist() for name in ("topic", "collector", "day")), strict=True))


def _ordered(of: RowsOfRounds, columns: tuple[str, ...]) -> HashArray:
    """A hash of each round's rows, with the order of the instants at which they were read."""
    if not len(of.starts):
        return np.zeros(0, np.uint64)
    at, number = microseconds(of.rows, "captured_at"), of.numbers()
    later = np.append(0, ((at[1:] != at[:-1]) & (number[1:] == number[:-1])).astype(np.int64))
    step = np.cumsum(later)
    place = (step - step[of.starts][number]).astype(np.uint64)
    return sums(mixed(value_hashes(of.rows, columns) + mixed(place)), of.starts)
