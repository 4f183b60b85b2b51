"""Message queues and client ids in, the same in RocketMQ's order out: what every client sorts before it allocates."""

from collections.abc import Iterable
from typing import NamedTuple

from hindsight.udfs.values.java_strings import java_string_key


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker; ``queue_id`` counts from 0 per broker (-1 only under POP)."""

    topic: str
    broker_name: str
    queue_id: int


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """The queues by topic, broker name (both in UTF-16 code units) and queue id: ``mq_all`` of a real client.

    Repeated queues stay repeated. Queue ids are numbers here: 2 comes before 10. Java subtracts them in 32 bits,
    which agrees for all ids of one sign; no broker hands out others.
    Source: MessageQueue#compareTo, same in 4.0.0 to 5.3.3.
    """
    return sorted(queues, key=_queue_key)


def sort_client_ids(ids: Iterable[str]) -> list[str]:
    """The client ids in UTF-16 code units: ``cid_all`` of a real client. Repeated ids stay repeated.

    Example: ``10.0.0.10@5#1 < 10.0.0.2@12#1 < 10.0.0.2@5 < 10.0.0.2@5#1``; digits compare as text.
    Source: RebalanceImpl#rebalanceByTopic (Collections.sort), same in 4.0.0 to 5.3.3.
    """
    return sorted(ids, key=java_string_key)


def java_to_string(queue: MessageQueue) -> str:
    """The queue as Java prints it in logs and error texts; CONSISTENT_HASH hashes this text.

    Example: ``MessageQueue [topic=T, brokerName=broker-a, queueId=0]``.
    Source: MessageQueue#toString, same in 4.0.0 to 5.3.3.
    """
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def _queue_key(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    return java_string_key(queue.topic), java_string_key(queue.broker_name), queue.queue_id


LIGHT_PREFIX = "%LMQ%"
_LITE_PREFIX = "%LMQ%$"


def is_light(topic: str | None) -> bool:
    """Whether a topic is a light queue."""
    return topic is not None and topic.startswith(LIGHT_PREFIX)


def lite_parent(topic: str) -> str | None:
    """The parent of a Lite topic; None: it is none."""
    parent, found, lite = topic.removeprefix(_LITE_PREFIX).partition("$")
    is_lite = topic.startswith(_LITE_PREFIX) and parent and found and lite and "$" not in lite
    return parent if is_lite else None
