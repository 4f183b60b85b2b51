"""Parsed answers of name servers and brokers in; the brokers, topics, groups and clients that they name out.

An answer of another shape names nobody: what a server leaves out is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeGuard

from hindsight.udfs.values.message_queues import is_system_group, is_system_topic

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
_PATTERN_MARKS = frozenset("*?[")
_IS_BROKER_ID = re.compile(r"[0-9]{1,18}").fullmatch
# BrokerConfig, 5.0 on: by what a broker hands out queues to members that let it assign.
_HANDS_OUT_BY = frozenset({"defaultMessageRequestMode", "defaultPopShareQueueNum", "serverLoadBalancerEnable"})
# RunningStats: of each delay level `delayOffset,maxOffset`.
SCHEDULE_OFFSET = "scheduleMessageOffset_"
_HALF_PAIR = re.compile("[\ud800-\udfff]").search


def broker_addresses(cluster_info: Any) -> dict[str, str]:
    """By broker name (106) the address of its master, or of the replica of the lowest id where there is no master."""
    found = {}
    for name, broker in _members(cluster_info, "brokerAddrTable").items():
        by_id = {
            int(id_): address
            for id_, address in _members(broker, "brokerAddrs").items()
            if _IS_BROKER_ID(str(id_)) and _is_text(address)
        }
        if by_id and _is_text(name):
            found[name] = by_id[min(by_id)]
    return found


def cluster_names(cluster_info: Any) -> set[str]:
    """The clusters that a name server knows (106); each has a topic of its name."""
    return set(filter(_is_text, _members(cluster_info, "clusterAddrTable")))


def listed_topics(topic_list: Any) -> list[str]:
    """Topics that a name server knows (206)."""
    return _texts(topic_list, "topicList")


def route_brokers(route: Any) -> set[str]:
    """Names of the brokers that hold a topic (105)."""
    return {name for queue in _objects(route, "queueDatas") if _is_text(name := queue.get("brokerName"))}


def configured_groups(subscription_groups: Any) -> set[str]:
    """Groups that a broker has a configuration of (201)."""
    return set(filter(_is_text, _members(subscription_groups, "subscriptionGroupTable")))


def consuming_groups(group_list: Any, topic: str) -> set[str]:
    """Groups that are connected for a topic or have offsets of it at a broker (300).

    5.3.3 names the topic itself among them, which is no group; one of that name is configured (201).
    """
    return set(_texts(group_list, "groupList")) - {topic}


def configured(properties: str) -> dict[str, str]:
    """Of a broker's properties (26, ``name=value`` lines) those that say how it hands out queues; all else is left."""
    lines = (line.partition("=") for line in properties.splitlines())
    return {name: value for name, _, value in lines if name in _HANDS_OUT_BY}


def scheduled(runtime_info: Any) -> dict[str, dict[str, str]]:
    """Of a broker's runtime info (28) how far it is with delayed messages, level by level; all else is left."""
    table = _members(runtime_info, "table")
    return {"table": {name: value for name, value in table.items() if name.startswith(SCHEDULE_OFFSET)}}


def listed_clients(consumer_connection: Any) -> list[str]:
    """Client ids that a broker or a proxy lists for a group (203), each once, in the answer's order."""
    connections = _objects(consumer_connection, "connectionSet")
    return list(dict.fromkeys(c["clientId"] for c in connections if _is_text(c.get("clientId"))))


def topics_of_group(answer: Any) -> set[str]:
    """Topics that a group consumes: by its connections (203), its offsets (208) or a running info (307)."""
    keys = (key for name in ("offsetTable", "mqTable") for key in _members(answer, name))
    queues = [dict(key) for key in keys if isinstance(key, tuple)]
    told = [one.get("topic") for one in (*queues, *_objects(answer, "subscriptionSet"))]
    return set(filter(_is_text, (*told, *_members(answer, "subscriptionTable"))))


def retrying_groups(topics: Iterable[str], known_groups: Collection[str]) -> dict[str, str]:
    """By retry topic the group that it belongs to.

    ``%RETRY%<group>``; of POP also ``%RETRY%<group>_<topic>`` and, from 5.2.0 on, ``%RETRY%<group>+<topic>``. A ``_``
    is legal in names too: such a topic is POP's where group and topic are both known, and the whole is no known group.
    """
    names = set(topics)
    found = {}
    for retry in sorted(names):
        if retry.startswith(RETRY_PREFIX):
            own = retry.removeprefix(RETRY_PREFIX)
            group = own.partition("+")[0]
            found[retry] = group if group != own or own in known_groups else _pop_group(own, names, known_groups)
    return found


def _pop_group(own: str, topics: Collection[str], known_groups: Collection[str]) -> str:
    cuts = (at for at, mark in enumerate(own) if mark == "_")
    return next((own[:at] for at in cuts if own[:at] in known_groups and own[at + 1 :] in topics), own)


def chosen_topics(topics: Iterable[str], patterns: Collection[str], of_servers: Collection[str]) -> list[str]:
    """Topics to ask for, sorted: those that a pattern fits, without patterns all but RocketMQ's own.

    Retry topics are left out. ``of_servers``: names of clusters and brokers, each of which has a topic of its own.
    """

    def is_own(topic: str) -> bool:
        return is_system_topic(topic) or topic in of_servers or topic.removesuffix("_REPLY_TOPIC") in of_servers

    return _chosen((t for t in topics if not t.startswith(RETRY_PREFIX)), patterns, is_own)


def chosen_groups(groups: Iterable[str], patterns: Collection[str]) -> list[str]:
    """Groups to ask for, sorted: those that a pattern fits, without patterns all but RocketMQ's own."""
    return _chosen(groups, patterns, is_system_group)


def _chosen(names: Iterable[str], patterns: Collection[str], is_own: Callable[[str], bool]) -> list[str]:
    if not patterns:
        return sorted({name for name in names if not is_own(name)})
    fitting = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
    return sorted(fitting | {pattern for pattern in patterns if not _PATTERN_MARKS & set(pattern)})


def _is_text(value: Any) -> TypeGuard[str]:
    """Whether a value can be asked for and written: a text, not empty, without halves of surrogate pairs."""
    return isinstance(value, str) and value != "" and not _HALF_PAIR(value)


def _members(value: Any, name: str) -> Mapping[Any, Any]:
    members = value.get(name) if isinstance(value, dict) else None
    return members if isinstance(members, dict) else {}


def _items(value: Any, name: str) -> list[Any]:
    items = value.get(name) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _texts(value: Any, name: str) -> list[str]:
    return [item for item in _items(value, name) if _is_text(item)]


def _objects(value: Any, name: str) -> list[dict[Any, Any]]:
    return [item for item in _items(value, name) if isinstance(item, dict)]
