"""Lines of clients' logs of one group and date in, the rebalances that they tell of out.

Results of a client that follow each other within 3 s are one rebalance: each broker tells of a change by itself, and
a client shares anew each time. A line that names no client is its group's in that log. At midnight a rebalance ends.
Source: RebalanceImpl#rebalanceByTopic, RebalancePushImpl, RebalanceImpl#lock, ClientRemotingProcessor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hindsight.udfs.consumer.round_facts import RETRY_PREFIX, TopicQueue
from hindsight.udfs.rebalances.rebalance_event import (
    APPLIED,
    BY_LOG,
    BY_NOTICE,
    BY_START,
    BY_TIMER,
    FAILED,
    FORGOTTEN_MS,
    REACTS_WITHIN_MS,
    SLACK_MS,
    START,
    TIMER,
    UNKNOWN,
    Around,
    Rebalance,
    Sign,
    Signs,
    Swallowed,
    Trigger,
    trigger_of,
)
from hindsight.udfs.rebalances.share_ledger import (
    EXPIRY,
    GRANTED,
    NOTICE,
    REFUSED,
    RESULT,
    SWALLOWED,
    Begins,
    HandOver,
    Line,
    NotTaken,
    ShareLedger,
)
from hindsight.udfs.values.kept_states import Kept

ONE_REBALANCE_MS = 3_000
_WOKEN_WITHIN_MS = 5_000  # from a notification to its first result
_RETRY_WITHIN_MS = 60_000  # from a client's start to its retry topic, whose route it polls every 30 s
_MOST_LINES = 5


class Shared(NamedTuple):
    """By what a client shared a topic last."""

    queues: int | None


@dataclass
class Burst:
    """Results of one client that belong together."""

    lines: list[Line] = field(default_factory=list)
    gained: dict[TopicQueue, HandOver] = field(default_factory=dict)
    lost: set[TopicQueue] = field(default_factory=set)
    held_twice_ms: int = 0
    passing: dict[TopicQueue, HandOver] = field(default_factory=dict)  # that it had a moment only, or lacked
    refused_at: list[int] = field(default_factory=list)  # locks of queues that it has now
    before: dict[str, Shared | None] = field(default_factory=dict)


class MetExceptions:
    """Exceptions of a date that clients logged and went on after, and that no rebalance has yet.

    ``clients_of``: the clients that may have written a line.
    Source: RebalanceImpl#doRebalance and #rebalanceByTopic, MQClientInstance#findConsumerIdList: all catch and log.
    """

    def __init__(self, clients_of: Callable[[Line], Sequence[str]]) -> None:
        self._clients_of = clients_of
        self._met: dict[str, list[Line]] = defaultdict(list)  # by log

    def add(self, line: Line) -> None:
        """Take an exception."""
        self._met[line.folder].append(line)

    def of(self, client_id: str, folder: str, since: int, until: int) -> tuple[Swallowed, ...]:
        """Those that a client met since the rebalance before; of several that may have met one each has it."""
        found: list[Line] = []
        left: list[Line] = []
        for one in self._met[folder]:
            clients = self._clients_of(one)
            is_own = client_id in clients and since <= one.at <= until
            if is_own:
                found.append(one)
            if not is_own or len(clients) > 1:
                left.append(one)
        # What several may have met is not waited for.
        self._met[folder] = [o for o in left if len(self._clients_of(o)) < 2 or o.at >= until - FORGOTTEN_MS]
        return tuple(self.swallowed(one) for one in found)

    def swallowed(self, line: Line) -> Swallowed:
        """An exception as a row has it."""
        certain = line.names_group and len(self._clients_of(line)) == 1
        return Swallowed(line.at, line.kind, line.exception, line.error, certain)

    def left(self) -> Iterator[tuple[str, list[Line]]]:
        """Those that are certainly a client's and that no rebalance has, by client; nothing is left then."""
        found: dict[str, list[Line]] = defaultdict(list)
        for one in (one for met in self._met.values() for one in met):
            clients = self._clients_of(one)
            if one.names_group and len(clients) == 1:
                found[clients[0]].append(one)
        self._met.clear()
        yield from sorted(found.items())


@dataclass
class LoggedShares(Kept):
    """The logs of a group's clients, date by date."""

    ledger: ShareLedger = field(default_factory=ShareLedger)
    shared: dict[tuple[str, str], Shared] = field(default_factory=dict)  # by client and topic
    last: dict[str, int] = field(default_factory=dict)  # a client's last result
    counted: dict[str, int] = field(default_factory=dict)  # members as a client counted them last, with whatever topic
    folders: dict[str, list[str]] = field(default_factory=dict)  # a log's clients of the group
    orders: bool = False  # a broker refused a lock
    _open: dict[str, Burst] = field(default_factory=dict)
    _heard: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))  # lately, by log
    _not_taken: NotTaken = field(default_factory=NotTaken)
    _begins: Begins = field(default_factory=Begins)
    _met: MetExceptions = field(init=False)
    _told: dict[str, int] = field(default_factory=dict)  # a client's last rebalance of the date that is a row

    def __post_init__(self) -> None:
        self._met = MetExceptions(self._of)

    def walk(
        self, lines: Iterable[Line], signs: Signs, started: Mapping[str, Sequence[int]], ends: Sequence[Sign]
    ) -> Iterator[Rebalance]:
        """The rebalances of a date.

        Args:
            lines: of the date, in any order.
            signs: of the group, with what came shortly before the date.
            started: when clients were created.
            ends: members that went, of the date.
        """
        going = sorted(ends)
        for line in sorted(lines):
            while going and going[0].at < line.at:
                yield from self._end(going.pop(0), signs, started)
            over = [c for c, burst in self._open.items() if line.at - burst.lines[-1].at > ONE_REBALANCE_MS]
            for client_id in sorted(over):
                yield from self._closed(client_id, signs, started)
            if line.kind == RESULT:
                self._result(line, started)
            else:
                self._hear(line)
        for sign in going:
            yield from self._end(sign, signs, started)
        for client_id in sorted(self._open):
            yield from self._closed(client_id, signs, started)
        for client_id, of_client in self._met.left():
            yield self._failed(client_id, of_client)
        self._heard.clear()
        self._told.clear()
        self._not_taken = NotTaken()  # who lacks a queue tries again, and logs it
        self._begins = Begins()
        self.ledger.close_date()

    def _hear(self, line: Line) -> None:
        self.orders |= line.kind in (REFUSED, GRANTED)
        self._not_taken.hear(line.folder, str(line.topic), line.kind, line.queues, line.at)
        self._begins.hear(line)
        if line.kind in SWALLOWED:
            self._met.add(line)
        if line.kind not in (NOTICE, EXPIRY):
            return
        if line.kind == EXPIRY:  # it takes the queue again, if it can
            for queue in ((str(line.topic), *queue) for queue in line.queues):
                holders = [client_id for client_id in self._of(line) if client_id in self.ledger.holders.get(queue, {})]
                for client_id in holders if len(holders) == 1 else ():
                    self.ledger.give(client_id, queue, line.at, line.at)
        heard = self._heard[line.folder]
        heard.append(line)
        if heard[0].at < line.at - 2 * FORGOTTEN_MS:
            self._heard[line.folder] = [one for one in heard if one.at >= line.at - FORGOTTEN_MS]

    def _end(self, sign: Sign, signs: Signs, started: Mapping[str, Sequence[int]]) -> Iterator[Rebalance]:
        if sign.subject in self._open:
            yield from self._closed(sign.subject, signs, started)
        self.ledger.leave(sign.subject, sign.earliest, sign.at)

    def _result(self, line: Line, started: Mapping[str, Sequence[int]]) -> None:
        client_id, topic = str(line.client_id), str(line.topic)
        self._forget_before(client_id, line.at, started.get(client_id, ()))
        burst = self._open.setdefault(client_id, Burst())
        burst.lines.append(line)
        burst.before.setdefault(topic, self.shared.get((client_id, topic)))
        self._move(client_id, topic, line, burst)
        self.shared[client_id, topic] = Shared(line.queue_count)
        if client_id not in self.folders.setdefault(line.folder, []):
            self.folders[line.folder].append(client_id)

    def _forget_before(self, client_id: str, at: int, started: Sequence[int]) -> None:
        """A client that was created anew holds nothing of before."""
        since = max((s for s in started if s <= at), default=None)
        if since is not None and self.last.get(client_id, since) < since:
            self.ledger.leave(client_id, self.last[client_id], since)
            self.shared = {key: one for key, one in self.shared.items() if key[0] != client_id}
            del self.last[client_id]
            self.counted.pop(client_id, None)

    def _move(self, client_id: str, topic: str, line: Line, burst: Burst) -> None:
        held = {queue for queue in self.ledger.held_by(client_id) if queue[0] == topic}
        taken = self._not_taken.taken(line.folder, topic, line.queues, {queue[1:] for queue in held})
        now = {(topic, *queue) for queue in taken}
        for queue in sorted(held - now):
            stored = self._begins.stored(client_id, queue, line.at)
            twice = self.ledger.give(client_id, queue, line.at, line.at, stored)
            burst.held_twice_ms = max(burst.held_twice_ms, twice)
            made = burst.gained.pop(queue, None)
            if made is None:
                burst.lost.add(queue)
            else:
                burst.passing[queue] = made
        for queue in sorted(now - held):
            made = self.ledger.take(client_id, queue, line.at, line.at)
            refused = self._not_taken.refused_at(line.folder, topic, queue[1:])
            made.lock_failures = len(refused)
            self._begins.take(line.folder, made, line.at)
            burst.refused_at += refused[:1]
            if queue in burst.lost:
                burst.lost.discard(queue)
                burst.passing[queue] = made
            else:
                burst.gained[queue] = made

    def _closed(self, client_id: str, signs: Signs, started: Mapping[str, Sequence[int]]) -> Iterator[Rebalance]:
        """The rebalance that has ended; none where no queue came or went, be it for a moment."""
        burst = self._open.pop(client_id)
        first, last, before = burst.lines[0], burst.lines[-1], self.last.get(client_id)
        around = self._around(client_id, burst, before, started.get(client_id, ()))
        self.last[client_id] = last.at
        trigger = trigger_of(around, signs)
        if not (burst.gained or burst.lost):
            burst.gained, burst.lost = burst.passing, set(burst.passing)
        if not burst.gained and not burst.lost:
            return
        exceptions = self._met.of(client_id, first.folder, self._told.get(client_id, 0) - SLACK_MS, last.at)
        self._told[client_id] = last.at
        yield Rebalance(
            client_id=client_id,
            after=None,
            began_at=first.at,
            at=last.at,
            told_by=BY_LOG,
            outcome=APPLIED,
            trigger=trigger,
            woken_by=_woken_by(trigger, around, before),
            results=len(burst.lines),
            topics=tuple(sorted(burst.before)),
            members=around.members or (None, last.member_count),
            gained=tuple(one for _, one in sorted(burst.gained.items())),
            lost=tuple(sorted(burst.lost)),
            held=len(self.ledger.held_by(client_id)),
            held_twice_ms=burst.held_twice_ms,
            exceptions=exceptions,
            ordered=True if self.orders else None,
            evidence=tuple(f"{one.file}:{one.number}" for one in burst.lines[:_MOST_LINES]),
        )

    def _around(self, client_id: str, burst: Burst, before: int | None, started: Sequence[int]) -> Around:
        """What its log tells around a rebalance; ``before``: its last result before it."""
        first, last = burst.lines[0], burst.lines[-1]
        since = max(before or 0, last.at - FORGOTTEN_MS) - SLACK_MS
        heard = self._heard[first.folder]
        near = [one for one in heard if since <= one.at <= last.at and client_id in self._of(one)]
        notices = [one.at for one in near if one.kind == NOTICE]
        woken = [at for at in notices if first.at - _WOKEN_WITHIN_MS <= at]
        last_of = {line.topic: line for line in burst.lines}
        return Around(
            client_id,
            last.at,
            since,
            started_at=_begun(burst, started, first.at),
            members=self._counted(client_id, burst),
            other_queues=[t for t, was in burst.before.items() if _is_other_route(was, last_of[t])],
            other_topics=self._other_topics(burst, before),
            refused_at=min(burst.refused_at, default=None),
            expired_at=min((one.at for one in near if one.kind == EXPIRY), default=None),
            woken_at=min(woken, default=None),
            told_before=len(notices) > len(woken),
            likely_since=(*(at - SLACK_MS for at in woken[:1]), first.at - REACTS_WITHIN_MS),
            default=UNKNOWN if before is None else TIMER,
        )

    def _counted(self, client_id: str, burst: Burst) -> tuple[int, int] | None:
        """Members as it counted them before and last; None: it does not tell."""
        after = [line.member_count for line in burst.lines if line.member_count is not None]
        before = self.counted.get(client_id, after[0] if len(set(after)) > 1 else None)
        self.counted |= {client_id: after[-1]} if after else {}
        return (before, after[-1]) if before is not None and after else None

    def _other_topics(self, burst: Burst, before: int | None) -> list[str]:
        """Topics that a client which had shared others had not shared. Its retry topic is nobody's choice."""
        if before is None:
            return []
        return [topic for topic, was in burst.before.items() if was is None and not topic.startswith(RETRY_PREFIX)]

    def _of(self, line: Line) -> list[str]:
        """The clients of the group that may have written a line."""
        return [line.client_id] if line.client_id else self.folders.get(line.folder, [])

    def _failed(self, client_id: str, lines: Sequence[Line]) -> Rebalance:
        """Exceptions after which nothing came any more that day."""
        return Rebalance(
            client_id=client_id,
            after=None,
            began_at=lines[0].at,
            at=lines[-1].at,
            told_by=BY_LOG,
            outcome=FAILED,
            topics=tuple(sorted({one.topic for one in lines if one.topic})),
            held=len(self.ledger.held_by(client_id)),
            exceptions=tuple(self._met.swallowed(one) for one in lines),
            ordered=True if self.orders else None,
            evidence=tuple(f"{one.file}:{one.number}" for one in lines[:_MOST_LINES]),
        )

    def forget(self, before: int) -> None:
        """Forget clients whose last result is from before an instant."""
        for client_id in [client_id for client_id, at in self.last.items() if at < before]:
            for queue in self.ledger.held_by(client_id):
                holders = self.ledger.holders[queue]
                del holders[client_id]
                if not holders:
                    del self.ledger.holders[queue]
            del self.last[client_id]
        self.counted = {client_id: count for client_id, count in self.counted.items() if client_id in self.last}
        self.shared = {key: one for key, one in self.shared.items() if key[0] in self.last}
        self.folders = {
            folder: kept for folder, of in self.folders.items() if (kept := [c for c in of if c in self.last])
        }


def _woken_by(trigger: Trigger, around: Around, before: int | None) -> str | None:
    if trigger.kind == START:
        return BY_START
    if around.woken_at is not None:
        return BY_NOTICE
    return BY_TIMER if before else None


def _begun(burst: Burst, started: Sequence[int], first_at: int) -> int | None:
    """When the client was created, if these are its first results of their topics, shortly after."""
    since = max((s for s in started if s <= first_at), default=None)
    if since is None or any(was is not None for was in burst.before.values()):
        return None
    of_retries = all(topic.startswith(RETRY_PREFIX) for topic in burst.before)
    return since if first_at - since <= (_RETRY_WITHIN_MS if of_retries else REACTS_WITHIN_MS) else None


def _is_other_route(was: Shared | None, now: Line) -> bool:
    """Whether a topic has more or fewer queues than the client shared before."""
    return was is not None and None not in (was.queues, now.queue_count) and was.queues != now.queue_count
