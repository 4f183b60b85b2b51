"""What logs and rounds tell of one group, date by date, in; its rebalances, and the state that a date hands on, out.

A client's own log tells of each rebalance exactly; where it does, what rounds show of the same one is left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hindsight.udfs.rebalances.logged_shares import LoggedShares
from hindsight.udfs.rebalances.rebalance_event import Rebalance, fill, tells
from hindsight.udfs.rebalances.rebalance_triggers import DIED, FORGOTTEN_MS, JOINED, LEFT, ROUTE, Sign, Signs
from hindsight.udfs.rebalances.round_shares import RoundShares, ShareRound
from hindsight.udfs.rebalances.share_ledger import Line

# ConsumerManager#scanNotActiveChannel: CHANNEL_EXPIRED_TIMEOUT 120 s (from 5.1.0 on a setting), looked at every 10 s.
EXPIRED_MS = 130_000
_HEARTBEAT_MS = 40_000  # sent every 30 s
_ONE_CHANGE_MS = 60_000  # brokers tell of one change each by itself


class Membership(NamedTuple):
    """A line of a broker's log about a group's member. ``heard_at``: its last heartbeat by then; None: not told."""

    at: int
    kind: str
    client_id: str | None
    address: str | None
    heard_at: int | None


class Day(NamedTuple):
    """What is told of a group on a date; ``ends_at``: the midnight after it, epoch ms.

    Attributes:
        created: clients that were created, and when.
        rounds: by collector, rounds that show something new.
    """

    ends_at: int
    lines: Sequence[Line] = ()
    created: Sequence[tuple[str, int]] = ()
    stopped: Sequence[tuple[str, int]] = ()
    routes: Sequence[tuple[str, int]] = ()
    memberships: Sequence[Membership] = ()
    rounds: Mapping[str, Sequence[ShareRound]] = {}


HOW = {
    "consumer_connected": JOINED,
    "consumer_unregistered": LEFT,
    "consumer_channel_closed": DIED,
    "consumer_channel_expired": DIED,
}


@dataclass
class RebalanceFold:
    """One group. ``signs``: those of the end of the date before; ``addresses``: whose a channel is."""

    logged: LoggedShares = field(default_factory=LoggedShares)
    rounds: dict[str, RoundShares] = field(default_factory=dict)
    signs: list[Sign] = field(default_factory=list)
    created: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def walk(self, day: Day) -> Iterator[tuple[str, Rebalance]]:
        """The rebalances of a date, each with the collector whose rounds showed it; '': a client's log told it."""
        started: dict[str, list[int]] = defaultdict(list)
        for client_id, at in (*self.created.items(), *day.created):
            started[client_id].append(at)
        ends, told = self._told(day)
        moved: list[tuple[str, Any, int | None]] = []
        shown: list[Sign] = []
        for collector, rounds in sorted(day.rounds.items()):
            of_collector = self.rounds.setdefault(collector, RoundShares())
            for group in rounds:
                signs, found = of_collector.take(group)
                shown += signs
                moved += [(collector, one, None if group.members is None else len(group.members)) for one in found]
            of_collector.close_date()
        every = Signs([*self.signs, *told, *shown])
        last = dict(self.logged.last)
        logged = [*self.logged.walk(day.lines, every, started, ends)]
        by_client: dict[str, list[Rebalance]] = defaultdict(list)
        for one in logged:
            by_client[one.client_id].append(one)
        for collector, move, members in moved:
            made = move.rebalance(every, members)
            telling = [one for one in by_client[made.client_id] if tells(one, made)]
            for one in telling:
                fill(one, made)
            if not telling and last.get(made.client_id, -1) < (made.after or made.at) - 1_000:
                yield collector, made
        yield from (("", one) for one in logged)
        self.signs = [sign for sign in every if sign.at >= day.ends_at - FORGOTTEN_MS]
        self.created |= dict(day.created)

    def _told(self, day: Day) -> tuple[list[Sign], list[Sign]]:
        """Members that went, and all signs that logs tell; of what several brokers tell, the first."""
        clients = {line.client_id for line in day.lines} | self.logged.last.keys()
        topics = {line.topic for line in day.lines} | {topic for _, topic in self.logged.shared}
        told = [Sign(at, LEFT, client_id) for client_id, at in day.stopped if client_id in clients]
        heard: dict[tuple[int, str], int] = {}
        for line in sorted(day.memberships, key=lambda line: line.at):
            if line.client_id is not None and line.address is not None:
                self.addresses[line.address] = line.client_id
            subject = line.client_id or self.addresses.get(line.address or "") or line.address
            if subject is not None:
                told.append(Sign(line.at, HOW[line.kind], subject))
                if HOW[line.kind] != JOINED:
                    self.addresses.pop(line.address or "", None)
                silent_since = _silent_since(line)
                if silent_since is not None:
                    heard[line.at, subject] = silent_since
        first = list(_first(told))
        routes = [Sign(at, ROUTE, topic) for topic, at in day.routes if topic in topics]
        # Of one that was silent before nobody may have read the queues since its last heartbeat.
        ends = [s._replace(after=heard.get((s.at, s.subject))) for s in first if s.kind != JOINED]
        return ends, [*first, *routes]

    def forget(self, before: int) -> None:
        """Forget clients of whose queues nothing was told since an instant, and starts of no use any more."""
        self.logged.forget(before)
        known = self.logged.last.keys()
        self.created = {c: at for c, at in self.created.items() if c in known or at >= before}

    def to_json(self) -> str:
        """The state; equal folds give equal texts."""
        state = {
            "logged": self.logged.to_state(),
            "rounds": {collector: one.to_state() for collector, one in sorted(self.rounds.items())},
            "signs": [list(sign) for sign in self.signs],
            "created": self.created,
            "addresses": self.addresses,
        }
        return json.dumps(state, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def of_json(cls, text: str) -> RebalanceFold:
        """The fold that ``to_json`` wrote."""
        state = json.loads(text)
        return cls(
            LoggedShares.of_state(state["logged"]),
            {collector: RoundShares.of_state(one) for collector, one in state["rounds"].items()},
            [Sign(*sign) for sign in state["signs"]],
            dict(state["created"]),
            dict(state["addresses"]),
        )


def _silent_since(line: Membership) -> int | None:
    """When a member that went had its last heartbeat, if it missed one: its process may have stood still since."""
    if HOW[line.kind] != DIED:
        return None
    if line.heard_at is None:
        return line.at - EXPIRED_MS if line.kind == "consumer_channel_expired" else None
    return line.heard_at if line.at - line.heard_at > _HEARTBEAT_MS else None


def _first(signs: Iterable[Sign]) -> Iterator[Sign]:
    """Of signs of one kind and member that follow each other soon, the first."""
    last: dict[tuple[str, str], int] = {}
    for sign in sorted(signs):
        key = sign.kind, sign.subject
        if sign.at - last.get(key, -_ONE_CHANGE_MS) >= _ONE_CHANGE_MS:
            yield sign
        last[key] = sign.at
