"""A topic's queues and a group's ids in, what a 5.x broker hands out to each client that lets it assign, out.

A push consumer of 5.x with ``clientRebalance=false`` asks the broker, which answers by its own rule: one owner a queue
in PULL mode, shared queues in POP mode. Shared ownership is legal there: it is neither double nor wrong.

A round of a group whose brokers assign the queues in; what each member may have been given, and took, out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate_for
from hindsight.udfs.clients.client_kinds import OTHER_CLASS
from hindsight.udfs.consumer.owned_queues import Owned
from hindsight.udfs.consumer.round_facts import RETRY_PREFIX, Owner, Queue, Share
from hindsight.udfs.consumer.topic_facts import TopicFacts
from hindsight.udfs.values.columns import instant


class RequestMode(NamedTuple):
    """How a broker hands out a topic's queues to a group.

    Attributes:
        mode: PULL or POP.
        pop_share_queue_num: POP: with how many members one shares its queues; 0 or less: with all.
        balances: ``serverLoadBalancerEnable``.
    """

    mode: str
    pop_share_queue_num: int = -1
    balances: bool = True


class AskedBroker(NamedTuple):
    """A broker that a client may ask; ``members`` as it lists them, sorted as RocketMQ sorts them."""

    broker_name: str
    members: tuple[str, ...]
    mode: RequestMode


def request_mode(topic: str, set_mode: tuple[str, int] | None, own: RequestMode) -> RequestMode:
    """The mode that a broker goes by: as set for topic and group, else as its own settings ``own`` say.

    A retry topic is pulled. Source: QueryAssignmentProcessor#queryAssignment, 5.0.0 to 5.3.3.
    """
    if set_mode is not None:
        return RequestMode(*set_mode, own.balances)
    return own._replace(mode=PULL) if topic.startswith(RETRY_PREFIX) else own


def handed_out(
    topic: str, queues: Sequence[tuple[str, int]], brokers: Iterable[AskedBroker], strategies: Mapping[str, str]
) -> dict[str, frozenset[Share] | None]:
    """By member, each share that one of the brokers may have given it; None: one gives no answer, and it keeps its own.

    Args:
        queues: broker name and queue id, sorted as RocketMQ sorts them.
        strategies: the name that each member asks by; brokers know AVG and AVG_BY_CIRCLE only.

    Example: two members, queues a/0 and a/1, POP shared with all: both {(POP, a, -1)}; PULL: {(PULL, a, 0)} and
    {(PULL, a, 1)}.
    """
    mq_all = tuple(MessageQueue(topic, *queue) for queue in queues)
    found: dict[str, set[Share]] = {client_id: set() for client_id in strategies}
    kept = set()
    for broker in dict.fromkeys(one._replace(broker_name="") for one in brokers):
        mode, share, balances = broker.mode
        for client_id, strategy in strategies.items():
            own = mode, strategy, client_id, mq_all, broker.members
            answer = query_assignment(*own, pop_share_queue_num=share, balances=balances)
            if answer is None:
                kept.add(client_id)
            else:
                found[client_id].add(frozenset((mode, queue.broker_name, queue.queue_id) for queue in answer))
    return {client_id: None if client_id in kept else frozenset(shares) for client_id, shares in found.items()}


def taken_by(
    topic: str, owners: Mapping[Queue, Iterable[Owner]], pops: Iterable[Mapping[str, Any]]
) -> dict[str, Share]:
    """What members show of a topic: queues that they pull (``owners``, by queue) and that they pop."""
    shown: dict[str, set[tuple[str, str, int]]] = {}
    for queue, own in owners.items():
        for owner in own:
            shown.setdefault(owner.client_id, set()).add((PULL, *queue))
    for row in pops:
        if row["topic"] == topic:
            shown.setdefault(row["client_id"], set()).add((POP, row["broker_name"], row["queue_id"]))
    return {client_id: frozenset(given) for client_id, given in shown.items()}


PULL, POP = "PULL", "POP"
# Strategies that the broker knows; for others it gives no answer, and the client keeps what it has.
BROKER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")
_EVERY_QUEUE = -1


def query_assignment(
    mode: str,
    strategy: str,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    *,
    pop_share_queue_num: int = -1,
    balances: bool = True,
) -> list[MessageQueue] | None:
    """The broker's answer to one client, in RocketMQ's order.

    Args:
        mode: PULL (always so for retry topics) or POP, as set on the broker.
        mq_all: q queues; cid_all: c distinct client ids. Both sorted, as the broker sorts them.
        pop_share_queue_num: with how many following clients one shares its queues; 0 or less: with all.
        balances: the broker's ``serverLoadBalancerEnable``; without it every client gets every queue.
    Returns: the queues; queue id -1 is every queue of that broker. None: no answer, the client keeps what it has.

    Example: POP, 4 queues, 4 clients, share 1: {0, 1}, {1, 2}, {2, 3}, {3, 0}.
    Source: QueryAssignmentProcessor#doLoadBalance and #allocate4Pop, 5.0.0 to 5.3.3.
    """
    if mode not in (PULL, POP):
        raise ValueError(f"message request mode {mode!r} is not known (known: {PULL}, {POP}).")
    if not mq_all or not balances:
        return list(mq_all) or None
    if not cid_all or strategy not in BROKER_STRATEGIES:
        return None
    try:
        if mode == PULL:
            return allocate_for(strategy, current_cid, mq_all, cid_all)
        return _shared(strategy, current_cid, mq_all, cid_all, pop_share_queue_num)
    except AllocationError:
        return None


def _shared(
    strategy: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str], share: int
) -> list[MessageQueue] | None:
    if share <= 0 or share >= len(cid_all) - 1:
        return list(dict.fromkeys(queue._replace(queue_id=_EVERY_QUEUE) for queue in mq_all))
    if current_cid not in cid_all:
        return []
    place = cid_all.index(current_cid)
    if len(cid_all) > len(mq_all):
        # More clients than queues: nobody is idle, a queue has several clients.
        return [mq_all[place % len(mq_all)]]
    following = [cid_all[(place + step) % len(cid_all)] for step in range(share + 1)]
    given = [queue for client_id in following for queue in allocate_for(strategy, client_id, mq_all, cid_all) or ()]
    return list(dict.fromkeys(given))


_SET, _OWN = "messageRequestModes", "brokerConfig"
# What is needed of a row of the table.
NEEDED = (
    "topic", "consumer_group", "broker_name", "told_by", "captured_at", "mode", "pop_share_queue_num",
    "server_load_balancer",
)  # fmt: skip
Place = tuple[str, str | None]  # collector, broker


class Asked(NamedTuple):
    """How a topic's brokers hand out its queues, by name; ``silent``: those of which it is not known."""

    modes: tuple[tuple[str, RequestMode], ...]
    silent: tuple[str, ...]


class RequestModes:
    """What brokers told, instant by instant, epoch us."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), lookback_s: int = 0) -> None:
        """``rows``: with ``collector`` and ``NEEDED``."""
        self._lookback_us = lookback_s * 1_000_000
        self._set: dict[Place, dict[int, dict[tuple[str, str], tuple[str, int]]]] = defaultdict(dict)
        self._own: dict[Place, dict[int, RequestMode]] = defaultdict(dict)
        for row in rows:
            self._take(row, (row["collector"], row["broker_name"]), row["captured_at"])
        told: tuple[Mapping[Place, Mapping[int, Any]], ...] = (self._set, self._own)
        self._instants = [{place: sorted(answers) for place, answers in of.items()} for of in told]

    def _take(self, row: Mapping[str, Any], place: Place, at: int) -> None:
        mode, share = row["mode"], row["pop_share_queue_num"]
        if row["told_by"] == _OWN:
            if mode is not None:
                balances = row["server_load_balancer"] is not False
                self._own[place][at] = RequestMode(mode, -1 if share is None else share, balances)
            return
        answer = self._set[place].setdefault(at, {})
        if row["topic"] is not None and mode is not None:
            answer[row["topic"], row["consumer_group"]] = mode, 0 if share is None else share

    def of(self, topic: str, consumer_group: str, collector: str, brokers: Iterable[str], until_us: int) -> Asked:
        """The modes of brokers as they last told by an instant."""
        modes, silent = [], []
        for broker_name in sorted(set(brokers)):
            place = collector, broker_name
            set_at, own_at = (self._last(instants.get(place, ()), until_us) for instants in self._instants)
            if set_at is None or own_at is None:
                silent.append(broker_name)
                continue
            set_mode = self._set[place][set_at].get((topic, consumer_group))
            modes.append((broker_name, request_mode(topic, set_mode, self._own[place][own_at])))
        return Asked(tuple(modes), tuple(silent))

    def _last(self, instants: Any, until_us: int) -> int | None:
        found = bisect_right(instants, until_us)
        if not found or until_us - instants[found - 1] > self._lookback_us:
            return None
        return int(instants[found - 1])


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
