"""Which topics and groups are RocketMQ's own: they take no part in verdicts, and the collector leaves them out.

Source: MixAll and TopicValidator (4.7.1 on; 5.2.0 added CHECKPOINT_TOPIC), the proxy's HeartbeatSyncer (5.0 on). Names
of clusters and brokers, which join them at run time, are not among them.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

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
