"""A topic's queues, and how its brokers hand them out to a group, in; what each member may have been given out.

A client asks one broker of the topic, drawn by lot (``MQClientInstance#queryAssignment``), by the list of members and
the message request mode of that one. Where brokers differ, a client may have been given what any of them hands out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hindsight.udfs.allocation import MessageQueue
from hindsight.udfs.consumer.broker_assignment import POP, PULL, query_assignment
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
        for client_id, strategy in strategies.items():
            share = _share(broker, client_id, strategy, mq_all)
            if share is None:
                kept.add(client_id)
            else:
                found[client_id].add(share)
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


def _share(broker: AskedBroker, client_id: str, strategy: str, mq_all: Sequence[MessageQueue]) -> Share | None:
    mode, share, balances = broker.mode
    answer = query_assignment(
        mode, strategy, client_id, mq_all, broker.members, pop_share_queue_num=share, balances=balances
    )
    return None if answer is None else frozenset((mode, queue.broker_name, queue.queue_id) for queue in answer)
