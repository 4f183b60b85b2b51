"""The events of a process in, each client's results with what made it share anew out.

A client prints a result when its queues change, with the numbers of members and queues that it shared by. What differs
from what it shared by before is the cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import Event
from hindsight.udfs.diagnosis.log_life import stretch_at
from hindsight.udfs.diagnosis.logged_ownership import Key, ProcessWalk

STARTED, JOINED, LEFT, REPLACED = "member_started", "member_joined", "member_left", "members_changed"
ROUTE, LOCKED, EXPIRED, NOT_SAID = "route_changed", "lock_acquired", "pull_expired", "not_said"
ONE_REBALANCE_MS = 25_000  # the timer's 20 s, and time to ask
WOKEN_WITHIN_MS = 5_000  # from a notification to its result: the list is asked for, and the offsets
_STARTED_WITHIN_MS = 60_000
_NEVER = -(2**62)


class Result(NamedTuple):
    """A client's new queues of a topic, what made it share anew, and when it was told to.

    ``members_before``: as the client counted last, with whatever topic. ``began_at``: of the first sign in its log.
    ``is_log_whole``: whether the log would hold what had told it to.
    """

    at: int
    key: Key
    member_count: int | None
    members_before: int | None
    queue_count: int | None
    causes: tuple[str, ...]
    gained: frozenset[tuple[str, int]]
    woken_at: int | None
    began_at: int
    is_log_whole: bool


class _Shared(NamedTuple):
    """What a client shared a topic by, and what it got."""

    queues: frozenset[tuple[str, int]]
    member_count: int | None
    queue_count: int | None


_UNTOLD = _Shared(frozenset(), None, None)


@dataclass
class ResultReader:
    """Walks the events of a process for its results."""

    walk: ProcessWalk
    results: list[Result] = field(default_factory=list)
    before: dict[Key, _Shared] = field(default_factory=dict)
    counted: dict[tuple[str | None, str], tuple[int, int]] = field(default_factory=dict)  # members, since when
    told: dict[str, int] = field(default_factory=dict)
    routes: dict[str, int] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)
    expired: set[tuple[str, str]] = field(default_factory=set)

    def read(self) -> list[Result]:
        """All results in order."""
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
        of_client = (key.client_id, key.consumer_group)
        now = _Shared(frozenset(row["queues"]), row.get("member_count"), row.get("queue_count"))
        before = self.before.get(key)
        told = self.told.get(key.consumer_group, _NEVER)
        woken = told if event.at - told <= WOKEN_WITHIN_MS else None
        members_before = self.counted.get(of_client, (None, 0))[0]
        found = [self._of_members(event.at, key, now, before), self._of_route(event.at, key, now, before)]
        causes = tuple(cause for cause in found if cause) or (self._of_queues(key, is_told=woken is not None),)
        self.results.append(
            Result(
                event.at,
                key,
                now.member_count,
                members_before,
                now.queue_count,
                causes,
                now.queues - (before or _UNTOLD).queues,
                woken,
                self._began(key, causes, event.at, woken),
                stretch_at(self.walk.process.spans, event.at - WOKEN_WITHIN_MS) is not None,
            )
        )
        self.before[key] = now
        if now.member_count is not None and now.member_count != members_before:
            self.counted[of_client] = (now.member_count, event.at)
        self.failed.discard(key[:2])
        self.expired.discard(key[:2])

    def _of_members(self, at: int, key: Key, now: _Shared, before: _Shared | None) -> str | None:
        """Members came or went since the client counted last, or with another topic a moment ago; or it began."""
        counted, since = self.counted.get((key.client_id, key.consumer_group), (None, _NEVER))
        if now.member_count is not None and counted is not None:
            then = counted
            if counted == now.member_count and at - since <= ONE_REBALANCE_MS and before:
                then = before.member_count or counted
            if now.member_count != then:
                return JOINED if now.member_count > then else LEFT
        created = self.walk.created.get(key.client_id or "", _NEVER)
        is_first = counted is None and created != _NEVER
        return STARTED if before is None and (is_first or at - created <= ONE_REBALANCE_MS) else None

    def _of_route(self, at: int, key: Key, now: _Shared, before: _Shared | None) -> str | None:
        """The topic has more or fewer queues; or it is new to a client that has been running."""
        if before is not None:
            is_other = None not in (now.queue_count, before.queue_count) and now.queue_count != before.queue_count
            return ROUTE if is_other else None
        has_started = at - self.walk.created.get(key.client_id or "", _NEVER) > ONE_REBALANCE_MS
        return ROUTE if has_started and at - self.routes.get(key.topic, _NEVER) <= ONE_REBALANCE_MS else None

    def _of_queues(self, key: Key, *, is_told: bool) -> str:
        """What its log tells of a result that shares by the same numbers as before."""
        if key[:2] in self.failed:
            return LOCKED
        if key[:2] in self.expired:
            return EXPIRED
        return REPLACED if is_told else NOT_SAID

    def _began(self, key: Key, causes: tuple[str, ...], at: int, woken: int | None) -> int:
        signs = [at, at if woken is None else woken]
        created = self.walk.created.get(key.client_id or "", _NEVER)
        if STARTED in causes and at - created <= _STARTED_WITHIN_MS:
            signs.append(created)
        route = self.routes.get(key.topic, _NEVER)
        if ROUTE in causes and at - route <= ONE_REBALANCE_MS:
            signs.append(route)
        return min(signs)

    def _forget(self, client_id: str) -> None:
        for key in [key for key in self.before if key.client_id == client_id]:
            del self.before[key]
            self.counted.pop((client_id, key.consumer_group), None)
