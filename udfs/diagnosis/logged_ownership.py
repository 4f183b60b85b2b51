"""The events of a process in, who held which queues from when to when out: as far as its lines tell, and no further.

A client prints all its queues of a topic whenever they change ("rebalanced result changed"), so between two words of
its process it holds what it said last. Nothing is known of it before its first result, while its log is silent, after
its last word, and after a part of the log that is missing. A result is what was allotted: a push consumer takes it,
but for queues that it could not lock; what one that pulls makes of it no line tells.
Source: RebalanceImpl#rebalanceByTopic, #updateProcessQueueTableInRebalance, #truncateMessageQueueNotMyTopic;
RebalancePushImpl#messageQueueChanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import CONSUMER_STOPPED, Event, Stretch, clients_named, stretch_at
from hindsight.udfs.diagnosis.log_processes import STAMPS_ERR_MS, Process
from hindsight.udfs.rebalances.share_ledger import NOT_ADDED, NotTaken

Queues = tuple[tuple[str, int], ...]
OWNED, SHARED, STOPPED, UNKNOWN = "owned", "shared", "stopped", "unknown"
LOG_BEGINS, LOG_SILENT, LOG_ENDS, PART_MISSING = "LOG_BEGINS", "LOG_SILENT", "LOG_ENDS", "PART_MISSING"
PULLS, NOT_SAID_WHETHER_PUSH, WHOSE_NOT_SAID = "PULLS", "NOT_SAID_WHETHER_PUSH", "WHOSE_NOT_SAID"
RESTARTED = "RESTARTED"
NO_CLIENT_LOG, NO_RESULT = "NO_CLIENT_LOG", "NO_RESULT"
# Why it is not known what a client owns, for a person.
WHY = {
    LOG_BEGINS: "the log begins later",
    LOG_SILENT: "its log is silent",
    LOG_ENDS: "after its last line",
    PART_MISSING: "a part of the log is missing",
    RESTARTED: "when it ended before its restart",
    PULLS: "it pulls, and may leave queues out",
    NOT_SAID_WHETHER_PUSH: "no line shows whether it takes them",
    WHOSE_NOT_SAID: "several clients share the log, and the line names none",
    NO_CLIENT_LOG: "its own log is not here",
    NO_RESULT: "no line shows its queues",
}
_PUSH, _PULL = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"
_BROADCASTING = "BROADCASTING"
_APPLIED_WITHIN_MS = 1000
_STOPS_WITHIN_MS = 2000


class Key(NamedTuple):
    """What is shared: a topic of a group; ``client_id`` None: of a broadcasting client that no line names."""

    consumer_group: str
    topic: str
    client_id: str | None


class Said(NamedTuple):
    """What a client's line says of its queues; ``queues`` None: that what was known no longer holds, for ``reason``."""

    at: int
    queues: Queues | None
    state: str = OWNED
    reason: str | None = None


class Ownership(NamedTuple):
    """A stretch, epoch milliseconds; ``until`` None: no log tells when it ended.

    ``state`` owned: these queues and no others; shared: by POP, with others; stopped: it said that it stopped; unknown:
    for ``reason``, ``queues`` is then what it last said, if anything.
    """

    key: Key
    since: int
    until: int | None
    state: str
    queues: Queues
    reason: str | None
    log: str
    pid: int | None


Consumes = Mapping[tuple[str, str], tuple[str, str]]


@dataclass
class ProcessWalk:
    """Walks the events of a process; ``said``: by key, in order. ``created``: client ids of which it has the begin."""

    process: Process
    consumes: Consumes
    silence_ms: int
    said: dict[Key, list[Said]] = field(default_factory=dict)
    created: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    is_push: set[tuple[str, str]] = field(default_factory=set)
    _not_taken: NotTaken = field(default_factory=NotTaken)
    _last_of_topic: dict[str, tuple[Key, int]] = field(default_factory=dict)

    def walk(self) -> ProcessWalk:
        """Take in all events."""
        for event in self.process.events:
            take = _TAKEN.get(event.kind)
            if take is not None:
                take(self, event)
        return self

    def take_result(self, event: Event) -> None:
        """All queues of a client's topic, but for those that this pass could not lock."""
        row = event.row
        key = Key(row["consumer_group"], row["topic"], row["client_id"])
        state = SHARED if row.get("is_shared") else OWNED
        self._say(key, Said(event.at, self._taken(key, row["queues"]), state))
        if event.kind == "queues_assigned":  # only a push consumer asks the broker
            self.is_push.add((row["client_id"], key.consumer_group))
        else:
            self._last_of_topic[key.topic] = (key, event.at)

    def take_broadcast(self, event: Event) -> None:
        """All queues of the topic; the line names no client: it is known where one of the process broadcasts there."""
        group = event.row["consumer_group"]
        named = {client_id for client_id, of_group in self.consumes if of_group == group}
        named &= clients_named(self.process.events)
        client_id = named.pop() if len(named) == 1 else None
        self._say(Key(group, event.row["topic"], client_id), Said(event.at, event.row["queues"]))
        if client_id is not None:
            self.is_push.add((client_id, group))

    def take_applied(self, event: Event) -> None:
        """A push consumer prints it right after a result."""
        key, at = self._last_of_topic.pop(event.row["topic"], (None, 0))
        if key is not None and key.client_id is not None and event.at - at <= _APPLIED_WITHIN_MS:
            self.is_push.add((key.client_id, key.consumer_group))

    def take_attempt(self, event: Event) -> None:
        """A queue that was allotted, and could be taken or not."""
        if event.row.get("detail"):
            row = event.row
            self._not_taken.hear(row["consumer_group"], row["topic"], event.kind, {_queue(row)}, event.at)

    def take_removal(self, event: Event) -> None:
        """A queue of a topic that is no longer subscribed: no result follows."""
        if (event.row.get("detail") or "").startswith("truncate"):
            self._give_up(event)

    def take_drop(self, event: Event) -> None:
        """A queue of which the broker lacks the offset: the client drops it, and takes it again."""
        row = event.row
        if row.get("consumer_group") and row.get("queue_id") is not None:
            self._give_up(event)
            self._not_taken.hear(row["consumer_group"], row["topic"], NOT_ADDED, {_queue(row)}, event.at)

    def _give_up(self, event: Event) -> None:
        row = event.row
        of_topic = (key for key in self.said if key[:2] == (row["consumer_group"], row["topic"]))
        holders = [key for key in of_topic if _queue(row) in self._held(key)]
        for key in holders:
            left = tuple(queue for queue in self._held(key) if queue != _queue(row))
            told = Said(event.at, left) if len(holders) == 1 else Said(event.at, None, reason=WHOSE_NOT_SAID)
            self._say(key, told)

    def take_creation(self, event: Event) -> None:
        """A client begins, perhaps anew: it holds nothing yet, and when it ended before, its log does not tell."""
        client_id = event.row["client_id"]
        self.created.setdefault(client_id, event.at)
        self.stopped.pop(client_id, None)
        for key in [key for key in self.said if key.client_id == client_id]:
            last = self.said[key][-1]
            if last.state != STOPPED:
                self._say(key, Said(max(last.at, event.at - self.silence_ms), None, reason=RESTARTED))
                self._say(key, Said(event.at, (), STOPPED))

    def take_start(self, event: Event) -> None:
        """A client has begun: for it the log is whole."""
        self.created.setdefault(event.row["client_id"], event.at)

    def take_stop(self, event: Event) -> None:
        """A client stopped in good order, with all its consumers."""
        self.stopped[event.row["client_id"]] = event.at
        for key in [key for key in self.said if key.client_id == event.row["client_id"]]:
            self._say(key, Said(event.at, (), STOPPED))

    def take_consumer_stop(self, event: Event) -> None:
        """A consumer stopped; the line names its group. Its client has said so just before, unless others use it."""
        group = event.row["consumer_group"]
        keys = [key for key in self.said if key.consumer_group == group]
        just_stopped = [client_id for client_id, at in self.stopped.items() if event.at - at <= _STOPS_WITHIN_MS]
        if any(self._groups(client_id) <= {group} or group in self._groups(client_id) for client_id in just_stopped):
            return
        still = [key for key in keys if self.said[key][-1].state != STOPPED]
        is_alone = len({key.client_id for key in still}) == 1
        for key in still:
            self._say(key, Said(event.at, (), STOPPED) if is_alone else Said(event.at, None, reason=WHOSE_NOT_SAID))

    def _taken(self, key: Key, given: Queues) -> Queues:
        before = set(self._held(key)) if key in self.said else set()
        return tuple(sorted(self._not_taken.taken(key.consumer_group, key.topic, set(given), before)))

    def _say(self, key: Key, said: Said) -> None:
        self.said.setdefault(key, []).append(said)

    def _groups(self, client_id: str) -> set[str]:
        named = {of_group for of_client, of_group in self.consumes if of_client == client_id}
        return named | {key.consumer_group for key in self.said if key.client_id == client_id}

    def _held(self, key: Key) -> Queues:
        return self.said[key][-1].queues or ()


_TAKEN: Mapping[str, Callable[[ProcessWalk, Event], None]] = {
    "rebalance_result": ProcessWalk.take_result,
    "queues_assigned": ProcessWalk.take_result,
    "broadcast_queues_changed": ProcessWalk.take_broadcast,
    "rebalance_applied": ProcessWalk.take_applied,
    "lock_failed": ProcessWalk.take_attempt,
    "queue_add_failed": ProcessWalk.take_attempt,
    "queue_added": ProcessWalk.take_attempt,
    "queue_removed": ProcessWalk.take_removal,
    "offset_illegal": ProcessWalk.take_drop,
    "client_created": ProcessWalk.take_creation,
    "client_started": ProcessWalk.take_start,
    "client_stopped": ProcessWalk.take_stop,
    CONSUMER_STOPPED: ProcessWalk.take_consumer_stop,
}


def ownership_of(walk: ProcessWalk) -> list[Ownership]:
    """The stretches of every client of a walked process, without a gap from its first word on."""
    keys = sorted(walk.said, key=lambda key: (key.consumer_group, key.topic, key.client_id or ""))
    return [one for key in keys for one in _OfKey(walk, key).stretches()]


class _OfKey:
    """The stretches of one client's topic: what it said, as long as it is known to hold."""

    def __init__(self, walk: ProcessWalk, key: Key) -> None:
        self.walk, self.key = walk, key
        self.said = walk.said[key]
        self.lives = walk.process.lives_of(key.client_id)
        self.why_never = self._why_never()
        self.found: list[Ownership] = []

    def stretches(self) -> list[Ownership]:
        if not self.lives:
            return []
        first = self.said[0]
        created = self.walk.created
        has_begun = self.key.client_id in created if self.key.client_id else bool(created)
        if not has_begun and self.lives[0].start < first.at:
            self._add(self.lives[0].start, first.at, UNKNOWN, (), LOG_BEGINS)
        for one, after in zip(self.said, [*self.said[1:], None], strict=True):
            self._of_said(one, after.at if after else None)
        return _merged(self.found)

    def _of_said(self, said: Said, end: int | None) -> None:
        """From one line to the next: known while the process writes, unknown while it does not."""
        if said.state == STOPPED:
            self._add(said.at, end, STOPPED, (), None)
            return
        at, reason = said.at, said.reason
        span = stretch_at(self.walk.process.spans, said.at)
        for life in (one for one in self.lives if one.end >= said.at and (end is None or one.start < end)):
            if life.start > at:
                why = self._why_silent(span, life.start)
                self._add(at, life.start, UNKNOWN, said.queues or (), why)
                reason = reason or (PART_MISSING if why == PART_MISSING else None)
            begin, stop = max(life.start, said.at), life.end if end is None else min(life.end, end)
            unknown = reason or self.why_never
            self._add(begin, stop, UNKNOWN if unknown else said.state, said.queues or (), unknown)
            at = stop
        if end is None or at < end:
            self._add(at, end, UNKNOWN, said.queues or (), LOG_ENDS if end is None else self._why_silent(span, end))

    def _why_silent(self, span: Stretch | None, until: int) -> str:
        """Whether the log is there over a silence: else what the client said before need not hold after."""
        return LOG_SILENT if span is not None and until <= span.end else PART_MISSING

    def _why_never(self) -> str | None:
        """Why what it was allotted says nothing of what it holds."""
        of_group = (self.key.client_id or "", self.key.consumer_group)
        consume_type = self.walk.consumes.get(of_group, ("", ""))[0]
        if consume_type == _PULL:
            return PULLS
        is_push = self.key.client_id is None or consume_type == _PUSH or of_group in self.walk.is_push
        return None if is_push or consume_type else NOT_SAID_WHETHER_PUSH

    def _add(self, since: int, until: int | None, state: str, queues: Queues, reason: str | None) -> None:
        process = self.walk.process
        self.found.append(Ownership(self.key, since, until, state, queues, reason, process.log, process.pid))


def _merged(found: list[Ownership]) -> list[Ownership]:
    """Without stretches of no length, and those joined that say the same one after the other."""
    kept: list[Ownership] = []
    for one in found:
        if one.until == one.since and one.state != STOPPED:
            continue
        if kept and kept[-1].until == one.since and kept[-1][3:] == one[3:]:
            kept[-1] = kept[-1]._replace(until=one.until)
        else:
            kept.append(one)
    return kept


def _queue(row: Mapping[str, object]) -> tuple[str, int]:
    return str(row["broker_name"]), int(str(row["queue_id"]))


class HeldByTwo(NamedTuple):
    """Queues that several clients held at once, as they say themselves, epoch milliseconds."""

    consumer_group: str
    topic: str
    client_ids: tuple[str, ...]
    queues: Queues
    since: int
    until: int


class _Hold(NamedTuple):
    since: int
    until: int
    client_id: str


def held_by_two(known: Iterable[Ownership], consumes: Consumes) -> list[HeldByTwo]:
    """Where two clients of a group that shares its queues held one at once, for longer than stamps may err."""
    found: dict[tuple[int, int, str, str, tuple[str, str]], list[tuple[str, int]]] = {}
    for (group, topic, queue), holds in _by_queue(known, consumes).items():
        for since, until, clients in _pairs_at_once(holds):
            found.setdefault((since, until, group, topic, clients), []).append(queue)
    return [
        HeldByTwo(group, topic, clients, tuple(sorted(queues)), since, until)
        for (since, until, group, topic, clients), queues in sorted(found.items())
    ]


def _by_queue(
    known: Iterable[Ownership], consumes: Consumes
) -> dict[tuple[str, str, tuple[str, int]], dict[str, list[_Hold]]]:
    """Who held a queue when, each client's stretches that touch joined."""
    found: dict[tuple[str, str, tuple[str, int]], dict[str, list[_Hold]]] = {}
    for one in sorted(known, key=lambda one: one.since):
        group, topic, client_id = one.key
        if one.state != OWNED or client_id is None or one.until is None:
            continue
        if consumes.get((client_id, group), ("", ""))[1] == _BROADCASTING:
            continue
        for queue in one.queues:
            holds = found.setdefault((group, topic, queue), {}).setdefault(client_id, [])
            if holds and holds[-1].until == one.since:
                holds[-1] = holds[-1]._replace(until=one.until)
            else:
                holds.append(_Hold(one.since, one.until, client_id))
    return found


def _pairs_at_once(holds: dict[str, list[_Hold]]) -> Iterator[tuple[int, int, tuple[str, str]]]:
    """Stretches of two clients that overlap, each pair once, with when."""
    running: list[_Hold] = []
    for one in sorted(hold for of_client in holds.values() for hold in of_client):
        running = [other for other in running if other.until - one.since > STAMPS_ERR_MS]
        for other in running:
            until = min(one.until, other.until)
            if until - one.since > STAMPS_ERR_MS and other.client_id != one.client_id:
                first, second = sorted((one.client_id, other.client_id))
                yield one.since, until, (first, second)
        running.append(one)
