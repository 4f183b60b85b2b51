"""Readings of a group's offsets in, since when each queue's offset stands and what came meanwhile out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hindsight.udfs.consumer.offset_marks import Reading
from hindsight.udfs.consumer.round_facts import Progress, TopicQueue


class _Standing(NamedTuple):
    """A queue's last reading, and since which reading the group's offset is what it is."""

    read_at: int
    broker_offset: int
    consumer_offset: int
    lag_before: int | None
    standing_since: int
    broker_offset_then: int
    came_late_at: int | None = None  # see ``Progress``, as for the next
    waiting_since: int | None = None


class Standings:
    """The last reading of each queue, and what the readings before it leave to say."""

    def __init__(self, standing: Mapping[TopicQueue, _Standing] | None = None) -> None:
        self._standing = dict(standing or {})
        self.stuck: set[TopicQueue] = set()  # of which messages have been waiting for ``stuck_ms``

    def take(self, reading: Reading, late_ms: int, stuck_ms: int) -> None:
        """Take in a reading; one that is not later than the queue's last changes nothing.

        ``late_ms``: messages that come to a queue which has stood for so long come late; ``stuck_ms``: see ``stuck``.
        """
        last = self._standing.get(reading.queue)
        if last is not None and last.read_at >= reading.read_at:
            return
        stands = last is not None and last.consumer_offset == reading.consumer_offset
        self._standing[reading.queue] = _Standing(
            reading.read_at,
            reading.broker_offset,
            reading.consumer_offset,
            None if last is None else last.broker_offset - last.consumer_offset,
            last.standing_since if last and stands else reading.read_at,
            last.broker_offset_then if last and stands else reading.broker_offset,
            _came_late_at(last, reading, late_ms) if last and stands else None,
            _waiting_since(last if stands else None, reading),
        )
        waiting_since = self._standing[reading.queue].waiting_since
        if waiting_since is not None and reading.read_at - waiting_since >= stuck_ms:
            self.stuck.add(reading.queue)
        elif self.stuck:
            self.stuck.discard(reading.queue)

    def read_at(self, queue: TopicQueue) -> int:
        """When the queue was read last."""
        return self._standing[queue].read_at

    def first_since(self, instant: int, otherwise: int) -> int:
        """When the queue was read of those since an instant that were read first; ``otherwise``: none was."""
        return min((s.read_at for s in self._standing.values() if s.read_at >= instant), default=otherwise)

    def since(self, instant: int) -> Mapping[TopicQueue, Progress]:
        """What readings since an instant (epoch ms) say, whatever is taken in later."""
        return _Valid(dict(self._standing), instant)

    def to_state(self) -> list[list[Any]]:
        """As JSON values, in an order that equal ones share."""
        return [[*queue, *s] for queue, s in sorted(self._standing.items())]

    @classmethod
    def of_state(cls, state: Iterable[list[Any]]) -> Standings:
        """What ``to_state`` wrote."""
        return cls({(t, b, q): _Standing(*s) for t, b, q, *s in state})


class _Valid(Mapping[TopicQueue, Progress]):
    """What the readings since an instant say, worked out for the queues that are asked about: few ever are."""

    def __init__(self, standing: Mapping[TopicQueue, _Standing], since: int) -> None:
        self._standing, self._since = standing, since

    def __getitem__(self, queue: TopicQueue) -> Progress:
        s = self._standing[queue]
        if s.read_at < self._since:
            raise KeyError(queue)
        lag, accrued = s.broker_offset - s.consumer_offset, s.broker_offset - s.broker_offset_then
        told = s.broker_offset, s.came_late_at, s.waiting_since
        return Progress(s.read_at, lag, s.lag_before, s.standing_since, accrued, *told)

    def __contains__(self, queue: object) -> bool:
        s = self._standing.get(queue)  # type: ignore[call-overload]
        return s is not None and s.read_at >= self._since

    def __iter__(self) -> Iterator[TopicQueue]:
        return (queue for queue, s in self._standing.items() if s.read_at >= self._since)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _came_late_at(last: _Standing, reading: Reading, late_ms: int) -> int | None:
    """When messages were first seen to come to a queue that had stood for so long already."""
    comes = reading.broker_offset > last.broker_offset and last.read_at - last.standing_since >= late_ms
    return reading.read_at if last.came_late_at is None and comes else last.came_late_at


def _waiting_since(last: _Standing | None, reading: Reading) -> int | None:
    """When messages were first seen to wait while the group's offset stood as it does; ``last``: it stood there then.

    States of earlier releases do not have it.
    """
    if reading.consumer_offset >= reading.broker_offset:
        return None
    if last is None or (last.waiting_since is None and last.broker_offset <= last.consumer_offset):
        return reading.read_at
    return last.read_at if last.waiting_since is None else last.waiting_since
