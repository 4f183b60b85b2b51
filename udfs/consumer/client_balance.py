"""What the servers answered a client in, the queues it then pulls out: one whole round of one client, Java or not.

The client sorts both lists itself, as its family sorts, and its family decides what an error answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Unpack

from hindsight.udfs.allocation import allocate_for
from hindsight.udfs.client_families import CLIENT_FAMILIES, CPP
from hindsight.udfs.strategies.allocation_strategies import AllocationError, AllocationParameters
from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue, sort_client_ids, sort_queues

_READABLE = 4  # PermName.PERM_READ


def queues_pulled(
    queue_datas: Iterable[Mapping[str, Any]],
    consumer_ids: Sequence[str] | None,
    client_id: str,
    strategy: str,
    *,
    topic: str,
    profile: str,
    held: Collection[MessageQueue] = (),
    **parameters: Unpack[AllocationParameters],
) -> set[MessageQueue] | None:
    """The queues of a topic that a client pulls after a round of its own.

    Args:
        queue_datas: the route's ``queueDatas`` as the name server told them: ``brokerName``, ``readQueueNums``,
            ``perm``.
        consumer_ids: the group's ids as the broker told them, in any order; None: an error answer.
        client_id: the client itself.
        profile: id of its family, as for ``allocate_for``; so are ``strategy`` and ``parameters``.
        held: what it pulled before: Java and C++ keep that where they have no list, or their strategy throws.
    Returns: None: it drops the whole topic, for want of a list of members that it is in.
    Raises: AllocationError: where a Go client panics, and for gRPC clients, to which the proxy assigns.
    Source: RebalanceImpl#rebalanceByTopic, 4.0.0 to 5.3.3; consumer/consumer.go#doBalance, 2.0.0-alpha1 to 2.1.2;
    src/consumer/Rebalance.cpp#doRebalance, 1.2.0 to 2.2.0.
    """
    family = CLIENT_FAMILIES.get(profile)
    mq_all, cid_all = sorted_as(profile)(readable_queues(queue_datas, topic), consumer_ids or ())
    try:
        taken = allocate_for(strategy, client_id, mq_all, cid_all, profile=profile, **parameters)
    except AllocationError:
        if family is not None and family.language != CPP:
            raise
        return set(held)
    if consumer_ids is None and not (family is not None and family.error_drops_topic):
        return set(held)
    if taken is None and not mq_all:
        return set()  # nothing is there to be dropped
    return None if taken is None else set(taken)


def readable_queues(queue_datas: Iterable[Mapping[str, Any]], topic: str) -> list[MessageQueue]:
    """The queues that a consumer may read, in the order of the route."""
    return [
        MessageQueue(topic, data["brokerName"], queue_id)
        for data in queue_datas
        if data["perm"] & _READABLE
        for queue_id in range(data["readQueueNums"])
    ]


Sort = Callable[[Iterable[MessageQueue], Iterable[str]], tuple[list[MessageQueue], list[str]]]


def sorted_as(profile: str) -> Sort:
    """How clients of a profile sort queues and client ids before they share them.

    Java compares UTF-16 code units, Go and C++ bytes of UTF-8; Go through 2.0.0-rc1 has topics and brokers descend.
    """
    family = CLIENT_FAMILIES.get(profile)

    def sort(queues: Iterable[MessageQueue], ids: Iterable[str]) -> tuple[list[MessageQueue], list[str]]:
        if family is None:
            return sort_queues(set(queues)), sort_client_ids(ids)
        by_id = sorted(queues, key=lambda mq: mq.queue_id)
        by_broker = sorted(by_id, key=_topic_and_broker, reverse=family.brokers_descending)
        return by_broker, sorted(ids, key=utf8_key)

    return sort


def _topic_and_broker(queue: MessageQueue) -> tuple[bytes, bytes]:
    return utf8_key(queue.topic), utf8_key(queue.broker_name)
