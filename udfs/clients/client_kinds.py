"""What a consumer says of itself in; what kind of client it is, and what that lets a round show, out.

A rule of ownership can only be held against clients that show what they hold: push consumers always do, lite pull
consumers from 5.1.1 on, plain pull consumers never. POP consumers hold no queue, clients behind a proxy are not asked.
Source: DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl, DefaultMQPullConsumerImpl#consumerRunningInfo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
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


JAVA = "JAVA"
_NO_TABLE = "no release of it has a fault table"
# Language codes of RocketMQ, and GRPC for gRPC clients in whatever language: why their sends are not replayed.
NOT_REPLAYED = {
    "GO": f"a Go client: {_NO_TABLE}",
    "CPP": "a C++ client: it leaves out single queues after a failure, in active mode only, never brokers",
    "GRPC": "a gRPC client: it isolates endpoints, and the proxy decides which queue stores a message",
    **dict.fromkeys(
        ("DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "PHP", "OMS", "RUST", "NODE_JS"),
        "a client of another language: its rules are not known",
    ),
}
LANGUAGES = (JAVA, *NOT_REPLAYED)
_BY_TURNS = ("GO", "CPP")


def stated_release(language: str | None, release: str | None) -> str | None:
    """``4.9.8`` for Java, ``GO 2.1.2`` for others, ``GO`` where the release is not told."""
    if language in (None, JAVA):
        return release
    return " ".join(filter(None, (language, release)))


def why_not_replayed(stated: str | None) -> str | None:
    """Why a client that stated this has no windows by its nature; None: it is a Java client, or nobody told."""
    return NOT_REPLAYED.get((stated or "").partition(" ")[0])


def takes_turns(stated: str | None) -> bool:
    """Whether a client that stated this takes one queue after the other: its choices are judged by that."""
    return (stated or "").partition(" ")[0] in _BY_TURNS


def names_each_attempt(stated: str | None) -> bool:
    """Whether a client that stated this makes a message id for each attempt, not for each send."""
    return (stated or "").partition(" ")[0] == "CPP"
