"""What members of a group took and gave up in; from whom each queue came and for how long nobody read it, out.

Instants are epoch milliseconds. What is seen only from time to time is an interval: it happened later than ``after``,
at ``at`` at the latest; of what a log tells both are the same.
Source: RebalanceImpl#updateProcessQueueTableInRebalance: a client gives up before it takes, and waits for nobody but,
in an ordered group, for the broker's lock.

Lines of clients' logs that tell of a group's queues: what each holds, and which kinds there are.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

from hindsight.udfs.consumer.round_facts import TopicQueue
from hindsight.udfs.values.kept_states import Kept

RESULT = "rebalance_result"
SWALLOWED = ("rebalance_failed", "allocation_failed", "member_list_failed", "queue_add_failed")
NOTICE, REFUSED, GRANTED, EXPIRY = "members_changed", "lock_failed", "lock_acquired", "queue_pull_expired"
NOT_ADDED, ADDED = "queue_add_failed", "queue_added"
BEGAN, FIRST_READ, SENT_ON, STORED = "queue_began", "offset_first_read", "offset_illegal", "offset_stored"
HEARD = (*SWALLOWED, NOTICE, REFUSED, GRANTED, EXPIRY, ADDED, BEGAN, FIRST_READ, SENT_ON, STORED)
_ONE_PASS_MS = 3_000  # of a client over the queues of a topic, from the lines of those it took to its result


@dataclass
class HandOver:
    """A queue that a client took.

    Attributes:
        from_client_id: who had it before; None: not known.
        released_at: when it gave it up, or when that showed; None: not known, or not before it was taken.
        unread_ms: for how long nobody had it, at most; None: not known.
        unread_at_least_ms: the same, at least.
        lock_failures: how often the broker refused its lock before.
        stored_offset: what who had it before stored as it gave it up, as that one's log says; None: no log does.
        began_offset: where the client began to read it, as its log says; None: it does not.
        sent_on_to: where the broker sent it on before it had read anything; None: nowhere, or not logged.
    """

    queue: TopicQueue
    from_client_id: str | None
    released_at: int | None
    unread_ms: int | None
    unread_at_least_ms: int
    lock_failures: int = 0
    stored_offset: int | None = None
    began_offset: int | None = None
    sent_on_to: int | None = None


class _Given(NamedTuple):
    client_id: str
    after: int
    at: int
    stored: int | None = None


@dataclass
class ShareLedger(Kept):
    """Who holds what. ``given``: queues that nobody has taken since they were given up."""

    holders: dict[TopicQueue, dict[str, int]] = field(default_factory=dict)  # with when it was taken
    given: dict[TopicQueue, _Given] = field(default_factory=dict)
    _doubles: dict[tuple[TopicQueue, str], HandOver] = field(default_factory=dict)

    def held_by(self, client_id: str) -> set[TopicQueue]:
        """The queues of a client."""
        return {queue for queue, holders in self.holders.items() if client_id in holders}

    def give(self, client_id: str, queue: TopicQueue, after: int, at: int, stored: int | None = None) -> int:
        """A client gives a queue up, perhaps with its offset stored; for how long another had had it by then, ms."""
        holders = self.holders.get(queue, {})
        holders.pop(client_id, None)
        double = self._doubles.pop((queue, client_id), None)
        if double is not None:
            double.unread_ms = 0
            double.stored_offset = stored if holders else None  # else who took it has it no more
        if holders:
            return max(0, at - max(holders.values()))
        self.holders.pop(queue, None)
        self.given[queue] = _Given(client_id, after, at, stored)
        return 0

    def take(self, client_id: str, queue: TopicQueue, after: int, at: int) -> HandOver:
        """A client takes a queue."""
        given, holders = self.given.pop(queue, None), self.holders.setdefault(queue, {})
        if given is not None:
            unread = max(0, at - given.after), max(0, after - given.at)
            made = HandOver(queue, given.client_id, given.at, *unread, stored_offset=given.stored)
        else:
            made = HandOver(queue, min(holders, default=None), None, None, 0)
            for other in holders:
                self._doubles[queue, other] = made
        holders[client_id] = at
        return made

    def leave(self, client_id: str, after: int, at: int) -> None:
        """A client goes, and with it whatever it has."""
        for queue in sorted(self.held_by(client_id)):
            self.give(client_id, queue, after, at)

    def close_date(self) -> None:
        """Nothing that comes later changes a hand-over that was told."""
        self._doubles.clear()


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
    offset: int | None = None
    new_offset: int | None = None


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


class Begins:
    """Where clients began to read what they took, and what they stored of what they gave up. Of a date.

    A client stores the offset of a queue right before it gives it up, and its result follows.
    A client writes the offset right before its result, one that consumes in order once more when it has the lock: the
    second counts. A line of a queue that nobody is known to have taken tells nothing.
    Source: RebalancePushImpl#dispatchPullRequest and #removeUnnecessaryMessageQueue, RemoteBrokerOffsetStore#persist,
    DefaultMQPushConsumerImpl#pullMessage.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, TopicQueue], Line] = {}
        self._taken: dict[tuple[str, TopicQueue], HandOver] = {}
        self._unread: set[tuple[str, TopicQueue]] = set()
        self._stored: dict[tuple[str, TopicQueue], Line] = {}

    def hear(self, line: Line) -> None:
        """Take in a line."""
        if line.kind == STORED:
            self._stored |= {(str(line.client_id), (str(line.topic), *queue)): line for queue in line.queues}
            return
        for key in ((line.folder, (str(line.topic), *queue)) for queue in line.queues):
            if line.kind == BEGAN:
                self._told[key] = line
            made = self._taken.get(key)
            if made is None:
                continue
            if line.kind == FIRST_READ and key in self._unread:
                made.began_offset = line.new_offset
                self._unread.discard(key)
            # It asked for where it began, so it had read nothing.
            elif line.kind == SENT_ON and made.sent_on_to is None and line.offset == made.began_offset is not None:
                made.sent_on_to = line.new_offset

    def stored(self, client_id: str, queue: TopicQueue, at: int) -> int | None:
        """What a client stored of a queue that it gives up."""
        told = self._stored.pop((client_id, queue), None)
        return told.offset if told is not None and at - told.at <= _ONE_PASS_MS else None

    def take(self, log: str, made: HandOver, at: int) -> None:
        """A client of a log took a queue."""
        key = log, made.queue
        told = self._told.pop(key, None)
        if told is not None and at - told.at <= _ONE_PASS_MS:
            made.began_offset = told.offset
        self._taken[key] = made
        self._unread.add(key)
