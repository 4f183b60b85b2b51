"""A topic's queues and a group's ids in, what a 5.x broker hands out to each client that lets it assign, out.

A push consumer of 5.x with ``clientRebalance=false`` asks the broker, which answers by its own rule: one owner a queue
in PULL mode, shared queues in POP mode. Shared ownership is legal there: it is neither double nor wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate_for
from hindsight.udfs.consumer.round_facts import RETRY_PREFIX, Owner, Queue, Share


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
