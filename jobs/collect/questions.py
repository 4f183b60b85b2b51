"""What is ever asked: each kind of line with its request code, all of them reads. Nothing else can be sent."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from hindsight.udfs.values.message_queues import REVIVE_GROUP

_NAME_SERVER, _BROKER = "MQClientException", "MQBrokerException"


class Read(NamedTuple):
    """A request that changes nothing: its code, and the exception in which rocketmq-tools tells its refusal.

    ``silence_tells``: a server that does not answer it is silent. Not so where a client has to answer, and of a code
    that 4.3 does not know: its brokers give no answer at all.
    """

    code: int
    exception: str
    silence_tells: bool = True


# 352 (one group's configuration) is none: a broker that may create groups makes the group that it is asked for.
READS: Mapping[str, Read] = MappingProxyType(
    {
        "clusterInfo": Read(106, _BROKER),
        "topicList": Read(206, _NAME_SERVER),
        "topicRoute": Read(105, _NAME_SERVER),
        "subscriptionGroups": Read(201, _BROKER),
        "messageRequestModes": Read(402, _BROKER, silence_tells=False),
        "brokerConfig": Read(26, _BROKER),
        "brokerRuntimeInfo": Read(28, _BROKER),
        "brokerHaStatus": Read(907, _BROKER, silence_tells=False),  # 5.0 on; older ones refuse it with code 3
        "topicConfig": Read(351, _BROKER, silence_tells=False),
        "topicConsumeByWho": Read(300, _NAME_SERVER),
        "topicStatus": Read(202, _BROKER),
        "consumerConnection": Read(203, _BROKER),
        "consumerIdList": Read(38, _BROKER),
        "consumeStats": Read(208, _BROKER),
        "consumerRunningInfo": Read(307, _NAME_SERVER, silence_tells=False),
        "producerConnection": Read(204, _BROKER),
    }
)


class Question(NamedTuple):
    """One line to be: its kind (of ``READS``), its subject, and the request's fields."""

    kind: str
    subject: str
    fields: Mapping[str, str]


CLUSTER_INFO = Question("clusterInfo", "", {})
TOPIC_LIST = Question("topicList", "", {})
SUBSCRIPTION_GROUPS = Question("subscriptionGroups", "", {})
MESSAGE_REQUEST_MODES = Question("messageRequestModes", "", {})
# What a broker says of all topics and groups and what changes seldom: which groups there are, how it hands out queues,
# how far it is with delayed messages and its replicas with it.
OF_BROKER = (
    SUBSCRIPTION_GROUPS,
    MESSAGE_REQUEST_MODES,
    Question("brokerConfig", "", {}),
    Question("brokerRuntimeInfo", "", {}),
    Question("brokerHaStatus", "", {}),
)
# How far a broker is with messages that were popped and not acknowledged: PopReviveService's own progress.
REVIVE_PROGRESS = Question("consumeStats", REVIVE_GROUP, {"consumerGroup": REVIVE_GROUP})


def topic_route(topic: str) -> Question:
    """Queues of a topic by broker, as a name server knows them."""
    return Question("topicRoute", topic, {"topic": topic})


def of_topic(topic: str) -> list[Question]:
    """What changes seldom of a topic at a broker: its configuration (5.0 on), and the groups that consume it."""
    return [
        Question("topicConfig", topic, {"topic": topic, "lo": "true"}),  # lo: static topics' queues too
        Question("topicConsumeByWho", topic, {"topic": topic}),
    ]


def topic_status(topic: str) -> Question:
    """Lowest and highest offset of a topic's queues at a broker."""
    return Question("topicStatus", topic, {"topic": topic})


def of_group(group: str) -> list[Question]:
    """Members of a group twice, as admins and as its own clients see them, and its progress, at a broker."""
    kinds = "consumerConnection", "consumerIdList", "consumeStats"
    return [Question(kind, group, {"consumerGroup": group}) for kind in kinds]


def running_info(group: str, client_id: str) -> Question:
    """What a client says of itself; the broker asks it, up to 10 s."""
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
    return Question("consumerRunningInfo", f"{group}|{client_id}", fields)


def producer_connection(subject: str) -> Question:
    """Producers of a group at a broker; ``subject`` is ``group`` or ``group@topic``."""
    return Question("producerConnection", subject, {"producerGroup": subject.partition("@")[0]})
