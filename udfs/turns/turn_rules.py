"""A Go or C++ producer's list and the attempt to come in, the queue whose turn it is out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.clients.client_kinds import ordered_queues
from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue


class Sent(NamedTuple):
    """One attempt.

    Attributes:
        queue: broker and queue id.
        begin_ms, chosen_ms: between them the client chose.
        end_ms: when its result came.
        thread: None: not recorded.
        mode: SYNC, ASYNC or ONEWAY.
        send: id that attempts of one send share, if its client gives one.
        is_retry: another attempt of the same send was before it.
        last_broker_name: that attempt's broker.
        last_queue: that attempt's queue; None: not recorded.
        skips: attempts between the two are not recorded.
        failed: it ended otherwise than SEND_OK.
    """

    queue: tuple[str, int]
    begin_ms: int
    chosen_ms: int
    end_ms: int
    thread: str | None
    mode: str
    send: str = ""
    is_retry: bool = False
    last_broker_name: str | None = None
    last_queue: tuple[str, int] | None = None
    skips: bool = False
    failed: bool = False


class GoTurns:
    """One counter for all attempts; source: ``RoundRobin``. A state is the place whose turn is next."""

    start = 1  # of a producer that has not sent

    def __init__(self, queues: Sequence[MessageQueue], profile: str) -> None:
        """``queues``: not empty."""
        self._brokers = [queue.broker_name for queue in queues]
        self._avoids = CLIENT_FAMILIES[profile].avoids_last

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """The place whose turn it is, and the state behind it; None: it depends on what is not recorded.

        A retry passes over queues of the broker that failed, where its release looks at it.
        """
        size, place = len(self._brokers), state
        if self.looks_on(sent):
            if sent.last_broker_name is None:
                return None, state
            steps = ((state + step) % size for step in range(size))
            place = next((p for p in steps if self._brokers[p] != sent.last_broker_name), state)
        return place, (place + 1) % size

    def follows_send(self, sent: Sent) -> bool:
        """Whether the attempt goes by the one before it in its send, and not by the state: never."""
        return False

    def looks_on(self, sent: Sent) -> bool:
        """Whether the attempt may count more than one queue: where it passes over a broker."""
        return sent.is_retry and sent.mode in self._avoids


class CppTurns:
    """The next send begins where the counter stands; its retries go on from its own queue; source: ``PublishTable``."""

    start = 0

    def __init__(self, queues: Sequence[MessageQueue], _profile: str) -> None:
        """``queues``: not empty."""
        self._queues = [(queue.broker_name, queue.queue_id) for queue in queues]

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """A retry takes another broker; where there is none it is used up, and the next takes the queue behind."""
        size = len(self._queues)
        if not sent.is_retry:
            return state, (state + 1) % size
        if sent.last_queue not in self._queues:
            return None, state
        last = self._queues.index(sent.last_queue)
        for looks in range(1, size + 1):
            place = (last + looks) % size
            if self._queues[place][0] != self._queues[last][0]:
                return (None, state) if sent.skips else (place, (state + looks) % size)
        return (last + 2) % size, (state + 1) % size

    def follows_send(self, sent: Sent) -> bool:
        """Every retry does."""
        return sent.is_retry

    def looks_on(self, sent: Sent) -> bool:
        """Every retry may."""
        return sent.is_retry


Rule = GoTurns | CppTurns


def rule_of(queues: Sequence[MessageQueue], profile: str) -> Rule:
    """How a producer of the family counts ``queues``, which are not empty."""
    return CppTurns(queues, profile) if CLIENT_FAMILIES[profile].language == "CPP" else GoTurns(queues, profile)


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
