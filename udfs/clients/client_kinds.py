"""What a consumer says of itself in; what kind of client it is, and what that lets a round show, out.

A rule of ownership can only be held against clients that show what they hold: push consumers always do, lite pull
consumers from 5.1.1 on, plain pull consumers never. POP consumers hold no queue, clients behind a proxy are not asked.
Source: DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl, DefaultMQPullConsumerImpl#consumerRunningInfo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

OTHER_CLASS = "class:"  # stands before the name of a strategy's class that is none of RocketMQ's own

PUSH, PULL, LITE_PULL, POP = "push", "pull", "lite_pull", "pop"
GRPC, REMOTING_PROXY, OTHER, UNKNOWN = "grpc", "remoting_proxy", "other", "unknown"
CLIENT_KINDS = (PUSH, PULL, LITE_PULL, POP, GRPC, REMOTING_PROXY, OTHER, UNKNOWN)
_HOLDS_NOTHING_TO_SEE = frozenset({PULL, POP, GRPC, REMOTING_PROXY})
_LITE_PULL_SHOWS_FROM = (5, 1, 1)  # its mqTable is empty before
_LOGICAL_QUEUES_FROM = (5, 0, 0)  # MQClientInstance#topicRouteData2TopicSubscribeInfo
_PASSIVELY = ("CONSUME_PASSIVELY", "push")  # the latter from Go's clients through 2.0.0-rc2
_RELEASE = re.compile(r"V?(\d{1,3})[._](\d{1,3})[._](\d{1,3})")
# Properties of a running info are the fields of the consumer's class: these hold the consumer itself.
_LITE_PULL_FIELD, _PUSH_FIELD = "defaultLitePullConsumerImpl", "defaultMQPushConsumerImpl"
# host@pid@number@time in base 36: ClientId of the gRPC clients, whatever their language.
GRPC_CLIENT_ID = r"^[^@]+@[0-9]+@[0-9]+@[0-9a-z]+$"


def kind_of_running_info(properties: Mapping[Any, Any], pops: Collection[Any]) -> str | None:
    """The kind that a running info tells; None: it does not.

    Args:
        properties: its ``properties``.
        pops: entries of its ``mqPopTable``.
    """
    consume_type = properties.get("PROP_CONSUME_TYPE")
    if consume_type == "CONSUME_POP" or pops:
        return POP
    if consume_type == "CONSUME_ACTIVELY":
        return LITE_PULL if _LITE_PULL_FIELD in properties else PULL
    return PUSH if consume_type in _PASSIVELY or _PUSH_FIELD in properties else None


def shows_queues(kind: str | None, client_version: str | None) -> bool:
    """Whether a client of this kind and release (``V5_3_3``) lists the queues that it holds in its running info.

    One of which the kind is not known is taken for a push consumer; a lite pull consumer that names no release, for an
    old one.
    """
    if kind == LITE_PULL:
        return _release(client_version) >= _LITE_PULL_SHOWS_FROM
    return kind not in _HOLDS_NOTHING_TO_SEE


def pulls(kind: str | None) -> bool:
    """Whether the application itself asks for messages: it may then choose its queues by hand."""
    return kind in (PULL, LITE_PULL)


def knows_logical_queues(client_version: str | None) -> bool:
    """Whether a Java client of this release holds the logical queues of a static topic; one of none does."""
    return client_version is None or _release(client_version) >= _LOGICAL_QUEUES_FROM


def _release(client_version: str | None) -> tuple[int, ...]:
    found = _RELEASE.match(client_version or "")
    return tuple(int(part) for part in found.groups()) if found else ()
