"""What rounds show of a group's members and their queues in; rebalances as intervals between two reads out.

A round that shows what the one before showed is not given: what is given says when the one before it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hindsight.udfs.consumer.group_rows import to_ms
from hindsight.udfs.consumer.owned_queues import Owned
from hindsight.udfs.consumer.round_facts import BROADCASTING, TopicQueue
from hindsight.udfs.consumer.topic_facts import GroupFacts, TopicFacts
from hindsight.udfs.rebalances.rebalance_event import (
    APPLIED,
    BY_ROUNDS,
    GONE,
    JOINED,
    REACTS_WITHIN_MS,
    ROUTE,
    START,
    UNKNOWN,
    Around,
    Rebalance,
    Sign,
    Signs,
    Trigger,
    trigger_of,
)
from hindsight.udfs.rebalances.share_ledger import HandOver, ShareLedger
from hindsight.udfs.values.kept_states import Kept
from hindsight.udfs.values.message_queues import is_system_topic

SHARES = "shares"  # what a fold of rounds gives beside its other rows
_ACTS_WITHIN_MS = 5_000  # once it is told
_STARTED_WITHIN_MS = 60_000  # before the first round of a group
LOCK_LIFE_MS = 60_000  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME


class Answer(NamedTuple):
    """A member's running info: when it was read, where it stands, when its client started, and what it holds."""

    at: int
    evidence: str
    started_at: int | None
    queues: frozenset[TopicQueue]


class ShareRound(NamedTuple):
    """A round of a group. ``after``: the first read of the round before it; None: none is near.

    Attributes:
        members: as listed; None: nobody told.
        routes: by topic, a digest of its queues.
        alone: a queue is one client's.
    """

    at: int
    after: int | None
    members: tuple[str, ...] | None
    answers: Mapping[str, Answer]
    routes: Mapping[str, str]
    ordered: bool | None
    alone: bool


@dataclass
class RoundShares(Kept):
    """The rounds of a group as one collector read them, one after the other."""

    ledger: ShareLedger = field(default_factory=ShareLedger)
    members: list[str] | None = None
    seen: dict[str, int] = field(default_factory=dict)  # when a client last answered
    answering: list[str] = field(default_factory=list)  # in the last round
    started: dict[str, int | None] = field(default_factory=dict)
    routes: dict[str, str] = field(default_factory=dict)
    last_at: int | None = None

    def take(self, group: ShareRound) -> tuple[list[Sign], list[Moved]]:
        """What a round shows: signs of what changed, and clients that had other queues than before."""
        if group.after is not None:
            # Of a round that is not given nobody's own read is kept; one that is given must tell the same.
            self.seen |= dict.fromkeys(self.answering, group.after)
        signs = list(self._signs(group))
        for sign in signs:
            if sign.kind == GONE:
                self.ledger.leave(sign.subject, self.seen.get(sign.subject, sign.earliest), sign.at)
        found = list(self._moved(group))
        self.answering = sorted(group.answers)
        self.seen |= {c: answer.at for c, answer in group.answers.items()}
        self.started |= {c: answer.started_at for c, answer in group.answers.items()}
        self.routes |= group.routes
        self.last_at = group.at
        if group.members is not None:
            self.members = sorted(set(group.members))
            self.seen = {c: at for c, at in self.seen.items() if c in self.members or c in group.answers}
            self.started = {c: at for c, at in self.started.items() if c in self.seen}
        return signs, found

    def _signs(self, group: ShareRound) -> Iterator[Sign]:
        after = self.last_at if group.after is None else group.after
        if group.members is not None and self.members is not None:
            was, now = set(self.members), set(group.members)
            for kind, clients in ((JOINED, now - was), (GONE, was - now)):
                yield from (Sign(group.at, kind, client, after) for client in sorted(clients))
        for topic, queues in sorted(group.routes.items()):
            if self.routes.get(topic, queues) != queues:
                yield Sign(group.at, ROUTE, topic, after)

    def _moved(self, group: ShareRound) -> Iterator[Moved]:
        held = {client: self.ledger.held_by(client) for client in group.answers}
        twice: dict[str, int] = {}
        for client, answer in sorted(group.answers.items()):
            for queue in sorted(held[client] - answer.queues):
                doubled = self.ledger.give(client, queue, self.seen.get(client, answer.at), answer.at)
                twice[client] = max(twice.get(client, 0), doubled if group.alone else 0)
        is_known = self.members is not None
        for client, answer in sorted(group.answers.items()):
            after = self.seen.get(client, group.after if is_known and group.after is not None else answer.at)
            taken, lost = sorted(answer.queues - held[client]), tuple(sorted(held[client] - answer.queues))
            gained = tuple(self._took(client, queue, after, answer.at, group.alone) for queue in taken)
            started = self._started(client, answer, is_known=is_known, is_first=not held[client])
            if started is not None and client not in self.seen:
                after = min(started, answer.at)
            if (gained or lost) and (client in self.seen or is_known or started is not None):
                made = Rebalance(
                    client_id=client,
                    after=after if after < answer.at else None,
                    began_at=answer.at,
                    at=answer.at,
                    told_by=BY_ROUNDS,
                    outcome=APPLIED,
                    topics=tuple(sorted({queue[0] for queue in (*taken, *lost)})),
                    members=(None, None if group.members is None else len(group.members)),
                    gained=gained,
                    lost=lost,
                    held=len(answer.queues),
                    held_twice_ms=twice.get(client, 0),
                    ordered=group.ordered,
                    evidence=(answer.evidence,),
                )
                yield Moved(made, after, started)

    def _took(self, client: str, queue: TopicQueue, after: int, at: int, alone: bool) -> HandOver:
        made = self.ledger.take(client, queue, after, at)
        return made if alone else HandOver(queue, None, None, None, 0)

    def _started(self, client: str, answer: Answer, *, is_known: bool, is_first: bool) -> int | None:
        """When the client started, if that is why it has queues: it did since it was last seen, or lately."""
        at = answer.started_at
        if at is None:
            return None
        is_new = self.started.get(client) != at and (client in self.seen or is_known)
        lacked_at = self.seen.get(client)  # when it was last seen without queues
        is_late = answer.at - at > _STARTED_WITHIN_MS if lacked_at is None else lacked_at - at > REACTS_WITHIN_MS
        return at if is_new or (is_first and not is_late) else None

    def close_date(self) -> None:
        """Nothing that comes later changes what was told."""
        self.ledger.close_date()


class Moved(NamedTuple):
    """A client that answered with other queues than before, later than ``after``; what set it off is not known yet."""

    made: Rebalance
    after: int
    started_at: int | None

    def rebalance(self, signs: Signs) -> Rebalance:
        """The rebalance, with what set it off by all signs of the group."""
        return self.made._replace(trigger=self._trigger(signs))

    def _trigger(self, signs: Signs) -> Trigger:
        client_id, at = self.made.client_id, self.made.at
        slow = LOCK_LIFE_MS if self.made.ordered else 0
        since = self.after - REACTS_WITHIN_MS - slow
        # A list may show a change right before a client has acted on it.
        likely = self.after + 1, self.after, self.after - _ACTS_WITHIN_MS, since
        around = Around(client_id, at, since, started_at=self.started_at, likely_since=likely)
        idle_ms = 0 if self.started_at is None else self.after - self.started_at
        others = [s for s in signs.near(self.after + 1, at) if s.subject != client_id]
        if idle_ms <= 0 or not others:
            return trigger_of(around, signs)
        # It was seen without queues after its start, and then something else changed.
        of_others = trigger_of(around._replace(started_at=None), signs)
        if idle_ms > _ACTS_WITHIN_MS:
            return of_others
        return Trigger(UNKNOWN, also=(START, *dict.fromkeys((of_others.kind, *of_others.also))))


class ShownShares:
    """The rounds of a group as one collector read them, one after the other. Instants are epoch us."""

    def __init__(self, lookback_s: int) -> None:
        """``lookback_s``: a round that is longer ago says nothing of when something changed."""
        self._lookback_us = lookback_s * 1_000_000
        self._last_at: int | None = None
        self.shows: list[Any] | None = None  # what the last round of the date showed, as JSON values

    def pass_by(self, at: int) -> None:
        """A round was read from this instant on, whatever it shows: what came later it may not show."""
        self._last_at = at

    def is_other(self, members: int, topics: Sequence[TopicFacts], owned: Owned) -> bool:
        """Whether a round shows something else than the one before, or is the first of its date.

        ``members``: equal where two rounds show the same of the group's members; 0: it may be something else each time.
        """
        routes = [topic.queues.list_hash for topic in topics if topic.queues is not None]
        shows = [members, *owned.shows, routes]
        is_other, self.shows = not members or shows != self.shows, shows
        return is_other

    def close_date(self) -> None:
        """The next round is the first of its date, whether or not the same run walks on."""
        self.shows = None

    def shown(self, at: int, facts: GroupFacts, topics: Sequence[TopicFacts], owned: Owned) -> ShareRound:
        """A round; ``facts``: its own, with its own instants."""
        is_near = self._last_at is not None and at - self._last_at <= self._lookback_us
        held: dict[str, set[TopicQueue]] = defaultdict(set)
        for topic, of_topic in owned.by_topic().items():
            for queue, own in of_topic.items():
                for owner in () if is_system_topic(topic) else own:
                    held[owner.client_id].add((topic, *queue))
        return ShareRound(
            at // 1000,
            self._last_at // 1000 if is_near and self._last_at is not None else None,
            tuple(facts.members) if facts.is_listed else None,
            {row["client_id"]: _answer(row, held) for row in facts.reads.reads if row["answered"]},
            {topic.topic: topic.queues.list_hash for topic in topics if topic.queues is not None},
            facts.reads.ordered,
            not facts.shared and facts.model != BROADCASTING,
        )


def _answer(row: Mapping[str, Any], held: Mapping[str, set[TopicQueue]]) -> Answer:
    queues = frozenset(held.get(row["client_id"], ()))
    return Answer(to_ms(row["captured_at"]) or 0, row["evidence"], to_ms(row["client_started_at"]), queues)
