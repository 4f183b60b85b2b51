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

from hindsight.udfs.lines.parsed_line import ERROR_CHARS, java_number
from hindsight.udfs.logs.client_log_templates import RESULTS, TEMPLATES
from hindsight.udfs.logs.foreign_client_logs import may_be_foreign
from hindsight.udfs.logs.grpc_client_logs import GRPC_NEEDLES
from hindsight.udfs.logs.log_templates import Reader, Template, TemplateIndex, read_message
from hindsight.udfs.logs.log_wrappers import may_be_wrapped

_QUEUE = re.compile(r"MessageQueue \[topic=[^,\[\]]++, brokerName=([^,\[\]]++), queueId=(-?\d{1,10}+)\]")


_QUEUE_DATA = re.compile(
    r"QueueData \[brokerName=([^,\[\]]++), readQueueNums=(\d{1,9}+), writeQueueNums=(\d{1,9}+), perm=(\d{1,9}+)"
)


_BROKER_DATA = re.compile(r"BrokerData \[(?:cluster=[^,\[\]]*+, )?brokerName=([^,\[\]]++), brokerAddrs=\{([^{}]*+)\}")


_PROPERTY = re.compile(r"(?:^|, )(KEYS|UNIQ_KEY)=([^,]++)")


_MSG_ID = re.compile(r"\bmsgId=([^,\]\s]{1,255})")


_RECONSUMED = re.compile(r"\breconsumeTimes=(\d{1,9})")


_DESCRIBED = re.compile(r"((?:[A-Za-z_][\w$]*+\.)++[\w$]++)(?:: )?(.*?)(?:, [\w$.<>/-]++\([^()]*+\))?\Z", re.DOTALL)


_NOT_LATEST = 25  # ResponseCode.SUBSCRIPTION_NOT_LATEST


# Texts of which each wanted message holds one, and ordinary lines few.
_NEEDLES = (
    "essage ",
    " exceptio",
    "ebalance",
    "s consum",
    "Impl call timeo",
    "e broker",
    "reachable",
    " Exceptio",
    "es, still failed, cost [",
    "he subscription is n",
    "voke reset offset op",
    "te info changed, old[",
    "ill be isolated for",
    "ssage{topic='",
    "[BUG] Consume",
    "Fix Offset, ",
    "outeInfoFromNameSe",
    "pull request",
    "request[P",
    "heart beat to broker[",
    "send expire m",
    "by retry ",
    "messageQueue",
    "client Instance, ",
    "the client factory [",
    "send call timeo",
    "so do flow contr",
    "er's subscription f",
    "fix offset from brok",
)
MESSAGES = TemplateIndex((*RESULTS, *TEMPLATES), _NEEDLES)
_ANY = (*_NEEDLES, *GRPC_NEEDLES)


def tells_nothing(text: str) -> bool:
    """Whether a line certainly holds no wanted message, of no client, and nothing wraps it; quick for most lines."""
    for needle in _ANY:  # not a call of holds_any: this is asked of every line
        if needle in text:
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


def _messages(printed: str) -> dict[str, Any]:
    """Of the messages that a listener was given: the first one's id, and how often one came again at most."""
    first, again = _MSG_ID.search(printed), [int(found[1]) for found in _RECONSUMED.finditer(printed)]
    told = {"msg_id": first[1] if first else None, "reconsume_times": max(again, default=None)}
    return {name: value for name, value in told.items() if value is not None}


def _thrown(described: str) -> dict[str, Any]:
    """``java.lang.X: why, com.y.Z.at(Z.java:1)``, as exceptionSimpleDesc writes it."""
    found = _DESCRIBED.match(described)
    return {"exception": found[1][:ERROR_CHARS], "error": found[2][:ERROR_CHARS] or None} if found else {}


def _brokers_sent(printed: str) -> dict[str, Any]:
    """The brokers of a send's attempts in their order; what was not tried is printed as null."""
    return {"brokers_sent": [name for name in printed.split(", ") if name not in ("", "null")]}


def _number(name: str, bits: int) -> Reader:
    return lambda text: {name: java_number(text, bits)}


_READ: dict[str, Reader] = {
    **{name: _number(name, 64) for name in ("offset", "new_offset", "min_offset", "max_offset")},
    "attempts": _number("attempts", 32),
    "messages": _messages,
    "thrown": _thrown,
    "brokers_sent": _brokers_sent,
    "not_latest": lambda text: {"response_code": _NOT_LATEST, "detail": text},
    **{name: _number(name, 64) for name in ("invoke_id", "latency_ms", "duration_ms")},
    **{name: _number(name, 32) for name in ("queue_id", "retry")},
    "members": lambda text: {"members": text[:-1].split(", ") if len(text) > 1 else []},
    "queues": _queues,
    "route": _route,
    "properties": _properties,
    "ignored": lambda text: {},
}
