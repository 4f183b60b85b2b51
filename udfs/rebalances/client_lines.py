"""Lines of clients' logs that tell of a group's queues: what each holds, and which kinds there are."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

RESULT = "rebalance_result"
SWALLOWED = ("rebalance_failed", "allocation_failed", "member_list_failed", "queue_add_failed")
NOTICE, REFUSED, GRANTED, EXPIRY = "members_changed", "lock_failed", "lock_acquired", "queue_pull_expired"
NOT_ADDED, ADDED = "queue_add_failed", "queue_added"
HEARD = (*SWALLOWED, NOTICE, REFUSED, GRANTED, EXPIRY, ADDED)


class Line(NamedTuple):
    """A line of a client's log. ``kind`` RESULT: its new queues of a topic, with the numbers it shared by."""

    at: int
    file: str
    number: int
    kind: str
    folder: str
    client_id: str | None = None
    topic: str | None = None
    queues: frozenset[tuple[str, int]] = frozenset()
    queue_count: int | None = None
    member_count: int | None = None
    exception: str | None = None
    error: str | None = None
    names_group: bool = True


class NotTaken:
    """Queues that were given to a client of a log and that it could not take, as the log's lines say last.

    A result names all that a client was given. Before it, the client has tried each queue that it lacked, and logged
    what came of it, without its name: so a refusal is never of one that had the queue before.
    Source: RebalanceImpl#updateProcessQueueTableInRebalance.
    """

    def __init__(self) -> None:
        self._lacking: dict[tuple[str, str, str, int], list[int]] = {}  # by log, topic and queue, when it was refused
        self._waited: dict[tuple[str, str, str, int], list[int]] = {}  # the same of those that were taken since

    def hear(self, log: str, topic: str, kind: str, queues: Set[tuple[str, int]], at: int) -> None:
        """Take in a line."""
        for key in ((log, topic, *queue) for queue in queues):
            if kind in (REFUSED, NOT_ADDED):
                self._lacking.setdefault(key, []).append(at)
            elif kind in (GRANTED, ADDED) and key in self._lacking:
                self._waited[key] = self._lacking.pop(key)

    def taken(
        self, log: str, topic: str, given: Set[tuple[str, int]], before: Set[tuple[str, int]]
    ) -> frozenset[tuple[str, int]]:
        """The queues of a result that its client holds. ``before``: those of the topic that it held."""
        return frozenset(queue for queue in given if queue in before or (log, topic, *queue) not in self._lacking)

    def refused_at(self, log: str, topic: str, queue: tuple[str, int]) -> list[int]:
        """When a queue that a client now has was refused before; told once."""
        return self._waited.pop((log, topic, *queue), [])
