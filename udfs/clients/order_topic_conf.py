"""A route's orderTopicConf in, the queues that a producer makes of it out."""

from __future__ import annotations

import re
from functools import lru_cache

# Integer.parseInt takes the digits of every script, but no character beyond 16 bits.
_PARSED_INT = re.compile(r"[+-]?0*(?:(?![\U00010000-\U0010ffff])\d){1,10}")
_INTS = range(-(2**31), 2**31)


@lru_cache(maxsize=1024)
def ordered_queues(order_topic_conf: str) -> dict[str, int] | None:
    """Queues by broker; None: the client throws on the text as a whole (``a:4;b``), and keeps the list that it has.

    Each ``broker:queues`` counts as it stands, whatever the permission and the master of the broker.
    Source: MQClientInstance#topicRouteData2TopicPublishInfo, 4.0.0 to 5.3.3.
    """
    queues: dict[str, int] = {}
    written = order_topic_conf.rstrip(";")  # Java's split drops empty entries at the end
    for entry in written.split(";") if written else ():
        broker_name, *rest = entry.split(":")
        if not rest or _PARSED_INT.fullmatch(rest[0]) is None or int(rest[0]) not in _INTS:
            return None
        queues[broker_name] = queues.get(broker_name, 0) + max(int(rest[0]), 0)
    return queues
