"""Message queues and client ids in, the same in RocketMQ's order out: what every client sorts before it allocates.

Which topics and groups are RocketMQ's own: they take no part in verdicts, and the collector leaves them out.

Source: MixAll and TopicValidator (4.7.1 on; 5.2.0 added CHECKPOINT_TOPIC), the proxy's HeartbeatSyncer (5.0 on). Names
of clusters and brokers, which join them at run time, are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from hindsight.udfs.values.java_strings import java_string_key

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"  # PopAckConstants, 5.0 on: each broker's own, of messages popped in vain
HEARTBEAT_SYNCER = "DefaultHeartBeatSyncerTopic"  # the proxies' own
_TOPICS = frozenset(
    {
        "TBW102",
        "AUTO_CREATE_TOPIC_KEY",  # 4.3.0, in place of TBW102
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        HEARTBEAT_SYNCER,
    }
)
_TOPIC_PREFIXES = ("RMQ_SYS_", "rmq_sys_")
_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        f"CID_{HEARTBEAT_SYNCER}",
    }
)
_GROUP_PREFIXES = ("CID_ONSAPI_", "CID_RMQ_SYS_")


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


@lru_cache(maxsize=4096)
def is_system_topic(topic: str) -> bool:
    """Whether a topic is RocketMQ's own."""
    return topic in _TOPICS or topic.startswith(_TOPIC_PREFIXES)


def is_system_group(consumer_group: str) -> bool:
    """Whether a group is RocketMQ's own."""
    return consumer_group in _GROUPS or consumer_group.startswith(_GROUP_PREFIXES)


def is_like(text: str, pattern: str) -> bool:
    """Whether a shell pattern matches: ``*`` and ``?`` alone mean something."""
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
