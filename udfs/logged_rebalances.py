"""The results that clients printed in, the rebalances that they belong to out: what set each off, and how long it took.

A client prints a result when its queues change, with the numbers of members and queues that it shared by. What differs
from its result before is the cause. Results of one group with one number of members, each soon after the one before,
are one rebalance: a client that is not told of a change finds it at its next timer, 20 s later.
Source: RebalanceService, ClientRemotingProcessor#notifyConsumerIdsChanged, MQClientInstance#rebalanceImmediately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from udfs.log_findings import Event
from udfs.logged_ownership import STOPPED, Key, ProcessWalk

STARTED, JOINED, LEFT, REPLACED = "member_started", "member_joined", "member_left", "members_changed"
ROUTE, LOCKED, EXPIRED, NOT_SAID = "route_changed", "lock_acquired", "pull_expired", "not_said"
BY_NOTICE, BY_START, BY_TIMER = "notification", "start", "timer"
_ONE_REBALANCE_MS = 25_000  # the timer's 20 s, and time to ask
_WOKEN_WITHIN_MS = 5_000  # from a notification to its result: the list is asked for, and the offsets
_ROUTE_SEEN_MS = 25_000
_STARTED_WITHIN_MS = 60_000
_SECOND_MS = 1_000  # a broker's stamp may be as much too early


class Sign(NamedTuple):
    """A member that came (``joined``) or went, as a log tells; ``broker_name`` None: as it tells itself."""

    at: int
    consumer_group: str
    client_id: str
    joined: bool
    how: str
    broker_name: str | None


class Result(NamedTuple):
    """A client's new queues of a topic, what made it share anew, and when it was told to."""

    at: int
    key: Key
    member_count: int | None
    members_before: int | None
    queue_count: int | None
    causes: tuple[str, ...]
    gained: frozenset[tuple[str, int]]
    woken_at: int | None
    began_at: int


class Rebalance(NamedTuple):
    """``began_at``: of the first sign of it, ``ended_at``: of the last result. ``moved``: queues that somebody gained.

    ``members_before`` and ``members_after``: as the clients counted. ``joined``, ``left``: whom a log names.
    """

    consumer_group: str
    topics: tuple[str, ...]
    began_at: int
    ended_at: int
    triggers: tuple[str, ...]
    woken_by: str
    members_before: int | None
    members_after: int | None
    joined: tuple[str, ...]
    left: tuple[str, ...]
    clients: tuple[str, ...]
    moved: int

    @property
    def took_ms(self) -> int:
        """From its first sign to the last client's result."""
        return self.ended_at - self.began_at


_Before = tuple[frozenset[tuple[str, int]], int | None, int | None]  # queues, members and queues of the topic


@dataclass
class _Reader:
    """Walks the events of a process for its results."""

    walk: ProcessWalk
    results: list[Result] = field(default_factory=list)
    before: dict[Key, _Before] = field(default_factory=dict)
    counted: dict[tuple[str | None, str], int] = field(default_factory=dict)  # members of a group, by a client
    told: dict[str, int] = field(default_factory=dict)
    routes: dict[str, int] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)
    expired: set[tuple[str, str]] = field(default_factory=set)

    def read(self) -> list[Result]:
        for event in self.walk.process.events:
            row, kind = event.row, event.kind
            if kind in ("rebalance_result", "queues_assigned"):
                self._result(event)
            elif kind == "members_changed":
                self.told[row["consumer_group"]] = event.at
            elif kind == "route_changed":
                self.routes[row["topic"]] = event.at
            elif kind == "lock_failed" and row.get("detail"):
                self.failed.add((row["consumer_group"], row["topic"]))
            elif kind == "queue_pull_expired":
                self.expired.add((row["consumer_group"], row["topic"]))
            elif kind in ("client_created", "client_stopped"):
                self._forget(row["client_id"])
        return self.results

    def _result(self, event: Event) -> None:
        row = event.row
        key = Key(row["consumer_group"], row["topic"], row["client_id"])
        members, queues = row.get("member_count"), row.get("queue_count")
        held = frozenset(row["queues"])
        before = self.before.get(key)
        told = self.told.get(key.consumer_group)
        woken = told if told is not None and event.at - told <= _WOKEN_WITHIN_MS else None
        causes = self._causes(event.at, key, before, members, queues, is_told=woken is not None)
        self.results.append(
            Result(
                event.at,
                key,
                members,
                self.counted.get((key.client_id, key.consumer_group)),
                queues,
                causes,
                held - (before[0] if before else frozenset()),
                woken,
                self._began(key, causes, event.at, woken),
            )
        )
        self.before[key] = (held, members, queues)
        if members is not None:
            self.counted[key.client_id, key.consumer_group] = members
        self.failed.discard(key[:2])
        self.expired.discard(key[:2])

    def _causes(
        self, at: int, key: Key, before: _Before | None, members: int | None, queues: int | None, *, is_told: bool
    ) -> tuple[str, ...]:
        """What differs from what the client shared by before; else what its log tells beside."""
        counted = self.counted.get((key.client_id, key.consumer_group))
        created = self.walk.created.get(key.client_id or "")
        found = []
        if members is not None and counted is not None and members != counted:
            found.append(JOINED if members > counted else LEFT)
        elif before and members is not None and before[1] is not None and members != before[1]:
            found.append(JOINED if members > before[1] else LEFT)  # counted already with another topic
        elif before is None and created is not None and at - created <= _STARTED_WITHIN_MS:
            found.append(STARTED)
        if before and queues is not None and before[2] is not None and queues != before[2]:
            found.append(ROUTE)
        elif not before and not found and at - self.routes.get(key.topic, at - _ROUTE_SEEN_MS - 1) <= _ROUTE_SEEN_MS:
            found.append(ROUTE)
        if not found:
            found += [cause for cause, of in ((LOCKED, self.failed), (EXPIRED, self.expired)) if key[:2] in of][:1]
        return tuple(found) or ((REPLACED,) if is_told else (NOT_SAID,))

    def _began(self, key: Key, causes: tuple[str, ...], at: int, woken: int | None) -> int:
        signs = [at, *([woken] if woken is not None else [])]
        created = self.walk.created.get(key.client_id or "")
        if STARTED in causes and created is not None and at - created <= _STARTED_WITHIN_MS:
            signs.append(created)
        route = self.routes.get(key.topic)
        if ROUTE in causes and route is not None and at - route <= _ROUTE_SEEN_MS:
            signs.append(route)
        return min(signs)

    def _forget(self, client_id: str) -> None:
        for key in [key for key in self.before if key.client_id == client_id]:
            del self.before[key]
            self.counted.pop((client_id, key.consumer_group), None)


def rebalances_of(walks: Iterable[ProcessWalk], memberships: Iterable[tuple[str, Event]]) -> list[Rebalance]:
    """All rebalances in order; ``memberships``: broker's name and what its log tells."""
    walks = list(walks)
    by_group: dict[str, list[Result]] = defaultdict(list)
    for walk in walks:
        for result in _Reader(walk).read():
            by_group[result.key.consumer_group].append(result)
    signs = sorted({*signs_of(memberships), *_own_signs(walks)}, key=lambda sign: (sign.at, str(sign)))
    found = []
    for group, results in by_group.items():
        of_group = [sign for sign in signs if sign.consumer_group == group]
        found += [_rebalance(group, waves, of_group) for waves in _grouped(results)]
    return sorted(found, key=lambda one: (one.began_at, one.consumer_group, one.ended_at, one.topics))


_SIGNS: Mapping[str, tuple[bool, str]] = {
    "consumer_connected": (True, "connected"),
    "consumer_unregistered": (False, "unregistered"),
    "consumer_channel_closed": (False, "channel closed"),
}


def signs_of(memberships: Iterable[tuple[str, Event]]) -> list[Sign]:
    """Members that came and went, as brokers' logs tell."""
    return [
        Sign(event.at, event.row["client_group"], event.row["client_id"], *_SIGNS[event.kind], broker_name)
        for broker_name, event in memberships
        if event.kind in _SIGNS
    ]


def _own_signs(walks: Iterable[ProcessWalk]) -> list[Sign]:
    """Members that say themselves that they stopped."""
    return [
        Sign(said.at, key.consumer_group, key.client_id, False, "stopped", None)
        for walk in walks
        for key, all_said in walk.said.items()
        for said in all_said
        if said.state == STOPPED and key.client_id is not None
    ]


def _grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Results of one group, by the rebalance that they belong to."""
    found: list[list[Result]] = []
    current: dict[tuple[object, ...], list[Result]] = {}
    for one in sorted(results, key=lambda result: (result.at, str(result.key))):
        of = _what(one)
        wave = current.get(of)
        if wave is None or one.at - wave[-1].at > _ONE_REBALANCE_MS:
            wave = current[of] = []
            found.append(wave)
        wave.append(one)
    return found


def _what(result: Result) -> tuple[object, ...]:
    """What results of one rebalance share."""
    if {JOINED, LEFT, STARTED, REPLACED} & set(result.causes) and result.member_count is not None:
        return ("members", result.member_count)
    if ROUTE in result.causes:
        return (ROUTE, result.key.topic, result.queue_count)
    return (*result.causes, result.key.topic)


def _rebalance(group: str, wave: list[Result], signs: list[Sign]) -> Rebalance:
    causes = {cause for one in wave for cause in one.causes}
    woken = [one.woken_at for one in wave if one.woken_at is not None]
    woken_by = BY_NOTICE if woken else BY_START if causes == {STARTED} else BY_TIMER
    began, ended = min(one.began_at for one in wave), max(one.at for one in wave)
    earliest = began - (_ONE_REBALANCE_MS if woken_by == BY_TIMER else _WOKEN_WITHIN_MS)
    near = [sign for sign in signs if earliest - _SECOND_MS <= sign.at <= ended + _SECOND_MS]
    before = [one.members_before for one in wave if one.members_before is not None]
    after = [one.member_count for one in wave if one.member_count is not None]
    left = {sign.client_id for sign in near if not sign.joined} if LEFT in causes or REPLACED in causes else set()
    joined = {sign.client_id for sign in near if sign.joined} if {JOINED, REPLACED, STARTED} & causes else set()
    joined |= {str(one.key.client_id) for one in wave if STARTED in one.causes}
    own = [sign.at for sign in near if sign.broker_name is None and sign.client_id in left and sign.at <= ended]
    return Rebalance(
        group,
        tuple(sorted({one.key.topic for one in wave})),
        min([began, *own]),
        ended,
        tuple(sorted(causes)),
        woken_by,
        before[0] if before else None,
        after[-1] if after else None,
        tuple(sorted(joined)),
        tuple(sorted(left)),
        tuple(sorted({str(one.key.client_id) for one in wave})),
        len({(one.key.topic, queue) for one in wave for queue in one.gained}),
    )
