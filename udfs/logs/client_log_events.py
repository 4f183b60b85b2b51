"""Messages of ``rocketmq_client.log`` in, what they tell out: the registry of the event kinds that are taken in.

A message is recognised by how it begins (and a mark further on, where several begin alike) and then read whole; one
that is recognised and cannot be read is refused (BAD_EVENT_LINE), any other is ignored. Every pattern is a chain of
fields between fixed texts, none of which can match in two ways: time is linear.
Source: RebalanceImpl, RebalancePushImpl, AbstractAllocateMessageQueueStrategy, ClientRemotingProcessor,
MQClientInstance, DefaultMQProducerImpl, MQClientAPIImpl, MQFaultStrategy, LatencyFaultToleranceImpl,
DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl and the ConsumeMessage services; 4.1.0 to 5.5.0.
The wordings of each release:
``tests/golden/log_templates``.
"""

from __future__ import annotations

import re
from typing import Any

from hindsight.udfs.lines.parsed_line import java_number
from hindsight.udfs.logs.client_log_templates import RESULTS, TEMPLATES
from hindsight.udfs.logs.foreign_client_logs import may_be_foreign
from hindsight.udfs.logs.grpc_client_logs import may_be_grpc
from hindsight.udfs.logs.log_templates import Reader, Template, TemplateIndex, holds_any, read_message
from hindsight.udfs.logs.log_wrappers import may_be_wrapped

_QUEUE = re.compile(r"MessageQueue \[topic=[^,\[\]]++, brokerName=([^,\[\]]++), queueId=(-?\d{1,10}+)\]")


_QUEUE_DATA = re.compile(
    r"QueueData \[brokerName=([^,\[\]]++), readQueueNums=(\d{1,9}+), writeQueueNums=(\d{1,9}+), perm=(\d{1,9}+)"
)


_BROKER_DATA = re.compile(r"BrokerData \[(?:cluster=[^,\[\]]*+, )?brokerName=([^,\[\]]++), brokerAddrs=\{([^{}]*+)\}")


_PROPERTY = re.compile(r"(?:^|, )(KEYS|UNIQ_KEY)=([^,]++)")


# Texts of which each wanted message holds one, and ordinary lines few.
_NEEDLES = (
    "essage{t",
    "essage [t",
    "by retry",
    "Fix Offset",
    "[WRONG]mq",
    "messageQueue. ",
    "alance",
    "ge queue",
    "sendKernel",
    "umerIdList",
    "oute info",
    "RouteInfoFromNameS",
    "is offline",
    "heart beat to",
    "isolated for",
    "eachable",
    "client I",
    "factory [",
    "[BUG] C",
    "'s notif",
    "request[P",
    "ageQueueC",
    "QueueStrategy",
)
MESSAGES = TemplateIndex((*RESULTS, *TEMPLATES), _NEEDLES)


def tells_nothing(text: str) -> bool:
    """Whether a line certainly holds no wanted message, of no client, and nothing wraps it; quick for most lines."""
    if holds_any(text, _NEEDLES) or may_be_grpc(text):
        return False
    # What begins as ``2026-01-05 `` is of a Java logger, or nearly so: the needles are enough.
    return text[4:11:6] == "- " or not (may_be_wrapped(text) or may_be_foreign(text))


def read_event(form: Template, message: str) -> dict[str, Any]:
    """What a recognised message tells, as columns of ``client_event``; refused: BAD_EVENT_LINE."""
    row = read_message(form, message, _READ)
    row["arguments_lost"] = form.lost
    return row


def _queues(printed: str) -> dict[str, Any]:
    queues = dict.fromkeys((m[1], java_number(m[2], 32)) for m in _QUEUE.finditer(printed))
    return {"queues": [{"broker_name": broker, "queue_id": number} for broker, number in sorted(queues)]}


def _route(printed: str) -> dict[str, Any]:
    """The route after the change; master: the address that stands for broker id 0."""
    masters = {}
    for broker in _BROKER_DATA.finditer(printed):
        addresses = dict(pair.partition("=")[::2] for pair in broker[2].split(", "))
        masters[broker[1]] = addresses.get("0")
    route = [
        {
            "broker_name": queue[1],
            "read_queue_nums": int(queue[2]),
            "write_queue_nums": int(queue[3]),
            "perm": int(queue[4]),
            "master_address": masters.get(queue[1]),
        }
        for queue in _QUEUE_DATA.finditer(printed)
    ]
    return {"route": sorted(route, key=lambda broker: str(broker["broker_name"]))}


def _properties(printed: str) -> dict[str, Any]:
    properties = dict(_PROPERTY.findall(printed))
    return {"msg_id": properties.get("UNIQ_KEY"), "message_key": properties.get("KEYS")}


_READ: dict[str, Reader] = {
    "queue_id": lambda text: {"queue_id": java_number(text, 32)},
    "invoke_id": lambda text: {"invoke_id": java_number(text, 64)},
    "latency_ms": lambda text: {"latency_ms": java_number(text, 64)},
    "duration_ms": lambda text: {"duration_ms": java_number(text, 64)},
    "retry": lambda text: {"retry": java_number(text, 32)},
    "members": lambda text: {"members": text[:-1].split(", ") if len(text) > 1 else []},
    "queues": _queues,
    "route": _route,
    "properties": _properties,
    "ignored": lambda text: {},
}
