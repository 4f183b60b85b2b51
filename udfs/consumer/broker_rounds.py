"""A round of a group whose brokers assign the queues in; what each member may have been given, and took, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hindsight.udfs.clients.client_kinds import OTHER_CLASS
from hindsight.udfs.consumer.broker_assignment import (
    BROKER_STRATEGIES,
    Asked,
    AskedBroker,
    RequestModes,
    handed_out,
    taken_by,
)
from hindsight.udfs.consumer.owned_queues import Owned
from hindsight.udfs.consumer.round_facts import Share
from hindsight.udfs.consumer.rows_of_rounds import instant
from hindsight.udfs.consumer.topic_facts import TopicFacts

ASSIGNMENT = "assignment"  # the kind of rows of ``broker_assignment``
_MOST_KEPT = 256


class Handed(NamedTuple):
    """What brokers hand out of a topic; ``number`` is equal for rounds in which it is the same.

    Attributes:
        shares: by member, each share that it may have been given; None: not known, ``reason`` says why.
    """

    number: int
    shares: Mapping[str, frozenset[Share]] | None
    reason: str | None = None


def handed(number: int, topic: TopicFacts, asked: Asked) -> Handed:
    """What the brokers of a topic hand out to a group, by the lists of members and the modes that they told."""
    if asked.silent or not asked.modes:
        silent = ", ".join(asked.silent) or "the brokers"
        return Handed(number, None, f"message request mode: not known of {silent}")
    listed = topic.facts.listed
    lists = {view["broker_name"]: tuple(view["members"]) for view in (listed.broker_views if listed else ())}
    unlisted = [name for name, _ in asked.modes if name not in lists and None not in lists]
    if unlisted or topic.queues is None:
        return Handed(number, None, f"consumer list of {', '.join(unlisted)}: not read" if unlisted else "no route")
    # A member that shows none asks by AVG, RocketMQ's default.
    told = ((rule["client_id"] or "", rule["strategy"]) for rule in topic.rules.members)
    strategies = {c: "AVG" if strategy is None else strategy.removeprefix(OTHER_CLASS) for c, strategy in told}
    others = [c for c, strategy in strategies.items() if strategy not in BROKER_STRATEGIES]
    if others:
        known = " and ".join(BROKER_STRATEGIES)
        return Handed(number, None, f"brokers assign by {known} only: {', '.join(others[:3])} ask for another strategy")
    brokers = [AskedBroker(name, lists.get(name, lists.get(None, ())), mode) for name, mode in asked.modes]
    shares = handed_out(topic.topic, topic.queues.pairs, brokers, strategies)
    known_shares = {client_id: given for client_id, given in shares.items() if given is not None}
    if len(known_shares) < len(shares):
        return Handed(number, None, "a broker lists no member: it gives no answer")
    return Handed(number, known_shares)


class Assigned(NamedTuple):
    """What brokers hand out in a round, by topic, and the round before, and what members pop."""

    handed: Mapping[str, Handed]
    before: Mapping[str, Handed]
    popped: list[dict[str, Any]]

    @property
    def shows(self) -> tuple[Any, ...]:
        """Equal where two rounds show the same."""
        numbers = [(topic, one.number) for of in (self.handed, self.before) for topic, one in of.items()]
        return (tuple(numbers), tuple(tuple(row.values()) for row in self.popped))

    def row(self, topic: str) -> dict[str, Any]:
        """What the walk takes of a topic."""
        now = self.handed.get(topic)
        return {"handed": self.shares(topic), "not_handed": now and now.reason}

    def shares(self, topic: str) -> dict[str, frozenset[Share]] | None:
        """By member, each share that it may have been given, now or a round before; None: not known."""
        now, before = self.handed.get(topic), self.before.get(topic)
        if now is None or now.shares is None:
            return None
        earlier = (before.shares if before else None) or {}
        return {client_id: given | earlier.get(client_id, frozenset()) for client_id, given in now.shares.items()}


NOT_ASSIGNED = Assigned({}, {}, [])


@dataclass
class _Stretch:
    """Rounds on end in which brokers handed a member the same, and it showed the same."""

    from_us: int
    until_us: int
    rounds: int
    shows: tuple[frozenset[Share] | None, Share | None, str | None, bool | None]


class BrokerAssignments:
    """The rounds of a group whose brokers assign, one after the other; key: cluster, collector, consumer group."""

    def __init__(self, key: tuple[str, str, str], modes: RequestModes, lookback_s: int) -> None:
        self._key, self._modes, self._lookback_us = key, modes, lookback_s * 1_000_000
        self._known: dict[tuple[int, Asked], Handed] = {}
        self._numbers = 0
        self._before: dict[str, tuple[int, Handed]] = {}
        self._shown: dict[str, tuple[Any, dict[str, Share]]] = {}
        self._open: dict[tuple[str, str], _Stretch] = {}
        self._closed: list[tuple[tuple[str, str], _Stretch]] = []

    def of(self, topics: Sequence[TopicFacts], at: int, until: int, popped: list[dict[str, Any]]) -> Assigned:
        """What is handed out in a round that was read until an instant, epoch us."""
        found, before = {}, {}
        for topic in topics:
            last, earlier = self._before.get(topic.topic, (0, None))
            if earlier is not None and at - last <= self._lookback_us:
                before[topic.topic] = earlier
            found[topic.topic] = one = self._handed(topic, until)
            if one.shares is not None:
                self._before[topic.topic] = at, one
        return Assigned(found, before, popped)

    def _handed(self, topic: TopicFacts, until: int) -> Handed:
        _, collector, consumer_group = self._key
        brokers = (topic.route.route_brokers if topic.route else None) or ()
        asked = self._modes.of(topic.topic, consumer_group, collector, brokers, until)
        name = topic.number, asked
        if name not in self._known:
            self._numbers += 1
            self._known[name] = handed(self._numbers, topic, asked)
            if len(self._known) > _MOST_KEPT:
                del self._known[next(iter(self._known))]
        return self._known[name]

    def take(
        self,
        topic: TopicFacts,
        at: int,
        assigned: Assigned,
        owned: Owned,
        scope_reason: str | None,
    ) -> None:
        """Note a judged round of a topic."""
        now, allowed = assigned.handed[topic.topic], assigned.shares(topic.topic)
        taken = self._taken(topic.topic, owned, assigned)
        for client_id, own in _subscribers(topic).items():
            shares = None if now.shares is None else now.shares.get(client_id)
            shown = taken.get(client_id, frozenset()) if own else None
            agrees = None
            if allowed is not None and client_id in allowed and own and scope_reason is None:
                agrees = shown in allowed[client_id]
            self._add((topic.topic, client_id), at, (shares, shown, scope_reason, agrees))

    def _taken(self, topic: str, owned: Owned, assigned: Assigned) -> dict[str, Share]:
        """What members show of a topic; of a round that shows what the one before did it is known."""
        shows = owned.shows, assigned.shows[1]
        if self._shown.get(topic, (None,))[0] != shows:
            self._shown[topic] = shows, taken_by(topic, owned.by_topic().get(topic, {}), assigned.popped)
        return self._shown[topic][1]

    def _add(self, name: tuple[str, str], at: int, shows: Any) -> None:
        last = self._open.get(name)
        if last is not None and last.shows == shows:
            last.until_us, last.rounds = at, last.rounds + 1
            return
        if last is not None:
            self._closed.append((name, last))
        self._open[name] = _Stretch(at, at, 1, shows)

    @property
    def is_open(self) -> bool:
        """A stretch was noted that ``close`` has not given yet."""
        return bool(self._open or self._closed)

    def close(self) -> Iterator[dict[str, Any]]:
        """The stretches of the date that ends, as rows of ``broker_assignment`` without their place."""
        for (topic, client_id), one in sorted([*self._closed, *self._open.items()], key=lambda e: (e[0], e[1].from_us)):
            shares, shown, reason, agrees = one.shows
            yield {
                "topic": topic,
                "client_id": client_id,
                "from_at": instant(one.from_us),
                "until_at": instant(one.until_us),
                "rounds": one.rounds,
                "handed_out": None if shares is None else _queues(shares),
                "taken": None if shown is None else _queues(frozenset({shown})),
                "agrees": agrees,
                "reason": reason,
            }
        self._closed.clear()
        self._open.clear()


def _subscribers(topic: TopicFacts) -> dict[str, bool]:
    """The members that may be given queues of a topic, in their order, with whether they answered.

    One that answered and does not subscribe the topic asks for none of it.
    """
    own: dict[str, bool] = {}
    for read in topic.facts.reads.reads:
        if read["answered"] and read["subscriptions"] is not None:
            own[read["client_id"]] = any(s["topic"] == topic.topic for s in read["subscriptions"])
    return {c: c in own for c in dict.fromkeys(topic.facts.members) if own.get(c, True)}


def _queues(shares: frozenset[Share]) -> list[dict[str, Any]]:
    """Every queue of any of these shares; ``certain``: it is in all of them."""
    certain = frozenset.intersection(*shares) if shares else frozenset()
    return [
        {"mode": queue[0], "broker_name": queue[1], "queue_id": queue[2], "certain": queue in certain}
        for queue in sorted(frozenset().union(*shares))
    ]
