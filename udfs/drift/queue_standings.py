"""Readings of a group's offsets in, since when each queue's offset stands and what came meanwhile out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from hindsight.udfs.consumer.offset_marks import Readings
from hindsight.udfs.consumer.round_facts import Progress, TopicQueue

# A queue's last reading, and since which reading the group's offset is what it is: when it was read, its offsets, the
# lag before, since when it stands, the broker's offset then, ``came_late_at`` and ``waiting_since`` as of ``Progress``.
_Standing = tuple[int, int, int, int | None, int, int, int | None, int | None]


class Standings:
    """The last reading of each queue, and what the readings before it leave to say."""

    def __init__(
        self, standing: Mapping[TopicQueue, _Standing] | None = None, stuck: Iterable[TopicQueue] = ()
    ) -> None:
        self._standing = dict(standing or {})
        self.stuck = set(stuck)  # of which messages have been waiting for ``stuck_ms``

    def take(self, readings: Readings, late_ms: int, stuck_ms: int) -> None:
        """Take in readings; one that is not later than the queue's last changes nothing.

        ``late_ms``: messages that come to a queue which has stood for so long come late; ``stuck_ms``: see ``stuck``.
        """
        standing = self._standing
        for queue, at, broker, committed in zip(*readings[:4], strict=True):
            last, lag = standing.get(queue), None
            since, then, came, waits = at, broker, None, at if broker > committed else None
            if last is not None:
                last_at, last_broker, last_committed = last[:3]
                if last_at >= at:
                    continue
                lag = last_broker - last_committed
                if committed == last_committed:
                    since, then, came, waited = last[4:]
                    if came is None and broker > last_broker and last_at - since >= late_ms:
                        came = at
                    if waits is not None and (waited is not None or lag > 0):
                        waits = last_at if waited is None else waited  # states of earlier releases do not have it
            standing[queue] = at, broker, committed, lag, since, then, came, waits
            if waits is not None and at - waits >= stuck_ms:
                self.stuck.add(queue)
            elif self.stuck:
                self.stuck.discard(queue)

    def read_at(self, queue: TopicQueue) -> int:
        """When the queue was read last."""
        return self._standing[queue][0]

    def still_until(self, stuck_ms: float) -> float:
        """When the first of the queues of which messages wait comes to be ``stuck``, if none is consumed."""
        return min(
            (s[7] + stuck_ms for queue, s in self._standing.items() if s[7] is not None and queue not in self.stuck),
            default=inf,
        )

    def first_since(self, instant: int, otherwise: int) -> int:
        """When the queue was read of those since an instant that were read first; ``otherwise``: none was."""
        return min((s[0] for s in self._standing.values() if s[0] >= instant), default=otherwise)

    def since(self, instant: int) -> Mapping[TopicQueue, Progress]:
        """What readings since an instant (epoch ms) say, whatever is taken in later."""
        return _Valid(dict(self._standing), instant)

    def to_state(self) -> list[list[Any]]:
        """As JSON values, in an order that equal ones share."""
        return [[*queue, *s] for queue, s in sorted(self._standing.items())]

    @classmethod
    def of_state(cls, state: Iterable[list[Any]], stuck: Iterable[list[Any]] = ()) -> Standings:
        """What ``to_state`` wrote, and the queues that were ``stuck``; earlier releases did not write these."""
        return cls({(t, b, q): (*s, None, None)[:8] for t, b, q, *s in state}, ((t, b, q) for t, b, q in stuck))


class _Valid(Mapping[TopicQueue, Progress]):
    """What the readings since an instant say, worked out for the queues that are asked about: few ever are."""

    def __init__(self, standing: Mapping[TopicQueue, _Standing], since: int) -> None:
        self._standing, self._since = standing, since

    def __getitem__(self, queue: TopicQueue) -> Progress:
        read_at, broker, committed, lag_before, since, then, *told = self._standing[queue]
        if read_at < self._since:
            raise KeyError(queue)
        return Progress(read_at, broker - committed, lag_before, since, broker - then, broker, *told)

    def __contains__(self, queue: object) -> bool:
        s = self._standing.get(queue)  # type: ignore[call-overload]
        return s is not None and s[0] >= self._since

    def __iter__(self) -> Iterator[TopicQueue]:
        return (queue for queue, s in self._standing.items() if s[0] >= self._since)

    def __len__(self) -> int:
        return sum(1 for _ in self)
