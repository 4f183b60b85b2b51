"""A topic's route in, the queues that a Go or C++ producer sends to out, in the order in which it counts them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.clients.order_topic_conf import ordered_queues
from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue

_WRITABLE = 2  # PermName.PERM_WRITE
# Go sorts longer lists by another algorithm, which its comparison of places leads elsewhere.
_LONGEST_GO_ROUTE = 12


def publish_queues(
    queue_datas: Sequence[Mapping[str, Any]],
    *,
    topic: str,
    profile: str,
    masters: Collection[str] | None = None,
    order_topic_conf: str = "",
) -> list[MessageQueue] | None:
    """The list of a producer that reads the topic's route for the first time; None: the order is not known.

    Args:
        queue_datas: the route's ``queueDatas`` as the name server told them: ``brokerName``, ``writeQueueNums``,
            ``perm``.
        profile: id of the producer's family.
        masters: brokers whose master the route names; None: all of them.
        order_topic_conf: the route's; Go before master does not read it.

    Where several Go producers share a client, or after a change of the route, the order of brokers may be turned
    round once more (before master).
    Source: internal/route.go#routeData2PublishInfo, 2.0.0-alpha3 to 2.1.2 and master; TopicRouteData.h and
    MQClientFactory.cpp#topicRouteData2TopicPublishInfo of C++, 1.2.0 to 2.2.0.
    """
    order = CLIENT_FAMILIES[profile].publish_order
    if order == "by_name" and order_topic_conf:
        queues = ordered_queues(order_topic_conf)
        if queues is None:
            return None
        return [MessageQueue(topic, name, number) for name, count in queues.items() for number in range(count)]
    if order == "counter" or (order != "by_name" and len(queue_datas) > _LONGEST_GO_ROUTE):
        return None
    return [
        MessageQueue(topic, data["brokerName"], number)
        for data in _in_order(order, queue_datas)
        if data["perm"] & _WRITABLE and (masters is None or data["brokerName"] in masters)
        for number in range(data["writeQueueNums"])
    ]


def _in_order(order: str, queue_datas: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if order == "by_name":
        return sorted(queue_datas, key=lambda data: utf8_key(data["brokerName"]))
    return queue_datas[::-1] if order == "reversed" else queue_datas
