"""A seed in; a group whose joins, leaves and deaths are known, what logs and rounds show of it, its rebalances, out."""

from __future__ import annotations

import random
from typing import NamedTuple

from hindsight.udfs.allocation import MessageQueue, allocate, sort_client_ids
from hindsight.udfs.rebalances.rebalance_fold import Day, Membership
from hindsight.udfs.rebalances.round_shares import Answer, ShareRound
from hindsight.udfs.rebalances.share_ledger import NOTICE, RESULT, Line

DAY_MS = 86_400_000
MIDNIGHT = 20_000 * DAY_MS
TOPIC = "T"
LINES_OF = {
    "member_joined": "consumer_connected",
    "member_left": "consumer_unregistered",
    "member_died": "consumer_channel_closed",
}


class Made(NamedTuple):
    """A rebalance that a client made: when, of what, how many queues came and went, how long the longest stood."""

    client_id: str
    at: int
    trigger: str
    subject: str
    trigger_at: int
    gained: int
    lost: int
    longest_unread_ms: int | None


class SimulatedGroup:
    """Half an hour around a midnight. ``made``: its rebalances; ``owned``: each client's queues from when on."""

    def __init__(self, seed: int) -> None:
        self._draw = draw = random.Random(seed)
        brokers = {f"b{n}": draw.randint(1, 5) for n in range(draw.randint(1, 3))}
        self.queues = [MessageQueue(TOPIC, b, q) for b, n in sorted(brokers.items()) for q in range(n)]
        self.lines: list[Line] = []
        self.memberships: list[Membership] = []
        self.created: list[tuple[str, int]] = []
        self.made: list[Made] = []
        self.owned: dict[str, list[tuple[int, frozenset[MessageQueue]]]] = {}
        self.listed: list[tuple[int, tuple[str, ...]]] = []
        self._members: list[str] = []
        self._freed: dict[MessageQueue, int] = {}
        self._number = 0
        at = MIDNIGHT - 900_000
        for _ in range(draw.randint(3, 20)):
            at += draw.randint(30_000, 120_000)
            # A rebalance ends at midnight: none of these is then.
            at += 40_000 if abs(at - MIDNIGHT) < 20_000 else 0
            at += at % 1000 == 0  # a broker's whole second may be of any instant within it
            self._change(at)

    def _change(self, at: int) -> None:
        kind = self._draw.choice(("member_joined", "member_joined", "member_left", "member_died"))
        if len(self._members) < 2:
            kind = "member_joined"
        if kind == "member_joined":
            subject = f"10.0.0.{self._draw.randint(1, 250)}@{len(self.created)}"
            self._members.append(subject)
            self.created.append((subject, at - 300))
            self._log(at - 300, "client_created", subject)
        else:
            subject = self._members.pop(self._draw.randrange(len(self._members)))
            for queue in self._shares(subject):
                self._freed[queue] = at
            self.owned.setdefault(subject, []).append((at, frozenset()))
        self.listed.append((at, tuple(self._members)))
        self.memberships.append(Membership(at, LINES_OF[kind], subject, f"h:{subject}", None))
        self._rebalance(at, kind, subject)

    def _shares(self, client_id: str) -> frozenset[MessageQueue]:
        return self.owned[client_id][-1][1] if client_id in self.owned else frozenset()

    def _rebalance(self, at: int, kind: str, subject: str) -> None:
        """Each member shares anew a moment after, in any order: a queue is held twice, or by nobody, for a while."""
        wanted = allocate("AVG", self.queues, sort_client_ids(self._members))
        shares = {c: frozenset(wanted[c] or ()) for c in self._members}
        for client_id in self._draw.sample(self._members, len(self._members)):
            at += self._draw.randint(20, 400)
            before, now = self._shares(client_id), shares[client_id]
            started = client_id == subject
            if not started:
                self._log(at - 10, NOTICE, client_id)
            if before == now:
                continue
            self._result(at, client_id, now)
            had = {q for c in self._members if c != client_id for q in self._shares(c)}
            free = [at - self._freed.pop(q, at) for q in sorted(now - before) if q in had or q in self._freed]
            self._freed |= dict.fromkeys(before - now - had, at)
            self.owned.setdefault(client_id, []).append((at, now))
            why = ("start", client_id, self.created[-1][1]) if started else (kind, subject, self.listed[-1][0])
            counts = len(now - before), len(before - now)
            self.made.append(Made(client_id, at, *why, *counts, max(free, default=None)))

    def _log(self, at: int, kind: str, whose: str, **changes: object) -> None:
        self._number += 1
        line = Line(at, f"log of {whose}", self._number, kind, f"log of {whose}")
        if kind != "client_created":
            self.lines.append(line._replace(**changes))

    def _result(self, at: int, client_id: str, queues: frozenset[MessageQueue]) -> None:
        pairs = frozenset((queue.broker_name, queue.queue_id) for queue in queues)
        counts = {"queue_count": len(self.queues), "member_count": len(self._members)}
        self._log(at, RESULT, client_id, client_id=client_id, topic=TOPIC, queues=pairs, **counts)

    def days(self, *, logs: bool = True, rounds: tuple[ShareRound, ...] = ()) -> list[Day]:
        """What is told, date by date."""
        found = []
        for ends_at in (MIDNIGHT, MIDNIGHT + DAY_MS):

            def of(rows, at=lambda row: row.at, ends_at=ends_at):
                return [row for row in rows if ends_at - DAY_MS <= at(row) < ends_at]

            found.append(
                Day(
                    ends_at,
                    of(self.lines) if logs else (),
                    of(self.created, lambda row: row[1]) if logs else (),
                    memberships=of(self.memberships) if logs else (),
                    rounds={"": of(rounds)},
                )
            )
        return found

    def rounds(self, interval_ms: int, *, spread_ms: int = 0, full: bool = False) -> tuple[ShareRound, ...]:
        """What a collector sees that looks from time to time, at one member so long after the other.

        Rounds that show nothing new are left out, unless all are read in ``full``.
        """
        found: list[ShareRound] = []
        last, shown = None, None
        first = MIDNIGHT - 1_000_000
        for begun in range(first, self.made[-1].at + 2 * interval_ms, interval_ms):
            members = self._members_at(begun)
            reads = {c: begun + number * spread_ms for number, c in enumerate(members)}
            reads = {c: at for c, at in reads.items() if c in self._members_at(at)}  # who has gone does not answer
            held = {c: self._at(c, at) for c, at in reads.items()}
            answers = {c: Answer(at, f"f:{at}", dict(self.created)[c], held[c]) for c, at in reads.items()}
            at = max(reads.values(), default=begun)
            if full or (members, held) != shown:
                found.append(ShareRound(at, last, members, answers, {TOPIC: "h"}, False, True))
            last, shown = begun, (members, held)
        return tuple(found)

    def _members_at(self, at: int) -> tuple[str, ...]:
        return next((members for since, members in reversed(self.listed) if since <= at), ())

    def _at(self, client_id: str, at: int) -> frozenset[tuple[str, str, int]]:
        told = [queues for since, queues in self.owned.get(client_id, ()) if since <= at]
        return frozenset((q.topic, q.broker_name, q.queue_id) for q in told[-1]) if told else frozenset()
