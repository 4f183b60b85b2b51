"""A topic's name in; whether it is a light queue (LMQ, 5.0 on), and of a Lite topic (5.4 on) its parent, out.

A light queue is a queue of a broker beside those of topics; its name begins with ``%LMQ%`` and may hold anything, as no
check of a client is asked. RocketMQ makes ``%LMQ%$<parent>$<lite>`` for a Lite topic, and assumes that no topic holds
``$``. Source: MixAll#LMQ_PREFIX, LiteUtil of 5.4.0 and 5.5.0.
"""

from __future__ import annotations

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
