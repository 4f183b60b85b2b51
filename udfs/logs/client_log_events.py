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
from hindsight.udfs.logs.consuming_templates import CONSUMING, PULL_REQUEST
from hindsight.udfs.logs.consuming_templates import GROUP as _G
from hindsight.udfs.logs.consuming_templates import QUEUE as _MQ
from hindsight.udfs.logs.grpc_client_logs import GRPC_NEEDLES
from hindsight.udfs.logs.log_templates import Reader, Template, TemplateIndex, holds_any, read_message, template
from hindsight.udfs.logs.log_wrappers import may_be_wrapped
from hindsight.udfs.logs.other_client_logs import may_be_foreign

_REST = r"(?P<detail>.*+)"
# 4.4.0 leaves out the broker's id where the heartbeat failed.
_BEAT = r"send heart beat to broker\[(?P<broker_name>[^ ]++) (?:\d++ )?(?P<broker_address>[^ \]]++)\]"
_THEN = "(?#)(?P<detail>resend at once|throw exception)"

# "rebalanced result changed" (through 4.9.8) and "client rebalanced result changed" (5.0.0 on), with its own reader.
RESULTS: tuple[Template, ...] = (
    template("rebalance_result", r"client rebalanced result changed\. allocateMessageQueueStrategyName=.*+"),
    template("rebalance_result", r"rebalanced result changed\. allocateMessageQueueStrategyName=.*+"),
)

# Tried in this order among those whose ``starts`` begins with the same word.
TEMPLATES: tuple[Template, ...] = (
    # Queues of a consumer
    template("queue_added", rf"doRebalance, {_G}, (?P<detail>add a new mq), {_MQ}", mark=", add a new mq, "),
    template(  # through 4.9.8
        "queue_began", rf"doRebalance, [^, ]++, add a new pull request {PULL_REQUEST}", mark=", add a new pull request "
    ),
    template("queue_added", rf"doRebalance, {_G}, (?P<detail>add a new pop mq), {_MQ}", mark=", add a new pop mq, "),
    template(
        "lock_failed",
        rf"doRebalance, {_G}, (?P<detail>add a new mq failed), {_MQ}, because lock failed",
        mark=", because lock failed",
    ),
    template(
        "queue_add_failed",
        rf"doRebalance, {_G}, (?P<detail>add new mq failed|compute offset failed), {_MQ}",
        mark=" failed, M",
    ),
    template(
        "queue_removed",
        rf"doRebalance, {_G}, (?P<detail>(?:truncateMessageQueueNotMyTopic )?remove unnecessary(?: pop)? mq), {_MQ}",
        mark="remove unnecessary ",
    ),
    template(
        "queue_kept", rf"doRebalance, {_G}, (?P<detail>mq (?:pop )?already exists), {_MQ}", mark=" already exists, "
    ),
    template(
        "queue_pull_expired",
        rf"\[BUG\]doRebalance, {_G}, (?P<detail>(?:try )?remove unnecessary(?: pop)? mq), {_MQ}, "
        r"because (?:pull|pop) is pause, so try to fixed it",
    ),
    template(
        "queue_dropped",
        rf"the pull request\[PullRequest (?#)\[consumerGroup={_G}, messageQueue={_MQ}, (?P<detail>[^\]]*+)\]\] "
        r"is dropped\.",
        mark="is dropped.",
    ),
    template(
        "queue_dropped",
        rf"the pop request\[PopRequest (?#)\[topic=[^,\[\]]*+, consumerGroup={_G}, messageQueue={_MQ}\]\] is dropped\.",
        mark="is dropped.",
    ),
    *(
        template("queue_dropped", rf"{starts}(?:\(pop\))?\.(?: group={_G},?)? ?(?:messageQueue=)?{_MQ}")
        for starts in (
            "the message queue not be able to consume, because it's dropped",
            "run, the message queue not be able to consume, because it's dropped",
            "run, message queue not be able to consume, because it's dropped",
            "consumeMessage, the message queue not be able to consume, because it's dropped",
            "The message queue not be able to poll, because it's dropped",
        )
    ),
    template(
        "queue_dropped", rf"Fix Offset, {_G}, remove unnecessary mq, {_MQ} Droped: {_REST}", mark="MessageQueue [topic="
    ),
    template(
        "unlock_blocked",
        rf"\[WRONG\]mq is consuming(?#), so can not unlock it, {_MQ}\. maybe hanged for a while, {_REST}",
        mark="MessageQueue [topic=",
    ),
    template("lock_failed", rf"the message queue lock Failed(?#), {_G} {_MQ}"),
    template("lock_failed", rf"message queue lock Failed(?#), {_G} {_MQ}"),  # 5.0.0-PREVIEW on
    template("lock_acquired", rf"the message queue lock OK(?#), {_G} {_MQ}"),
    template("lock_acquired", rf"message queue lock OK(?#), {_G} {_MQ}"),
    template("lock_failed", rf"the message queue locked Failed(?#), Group: {_G} {_MQ}"),
    template("lock_acquired", rf"the message queue locked OK(?#), Group: {_G} {_MQ}"),
    template(
        "queue_unlocked",
        rf"unlock messageQueue\. (?#)group:{_G}, clientId:(?P<client_id>[^, ]++), mq:{_MQ}",
        mark="MessageQueue [topic=",
    ),
    # A rebalance and what kept it from happening
    template(
        "queues_assigned",
        rf"broker rebalanced result changed\. (?#)allocateMessageQueueStrategyName=(?P<strategy>[^,]*+), group={_G}, "
        r"topic=(?P<topic>[^, ]++), clientId=(?P<client_id>[^, ]++), assignmentSet=(?P<queues>.*+)",
    ),
    template(
        "broadcast_queues_changed", r"messageQueueChanged (?P<consumer_group>[^ ]++) (?P<topic>[^ ]++) (?P<queues>.*+)"
    ),
    template(
        "member_not_listed",
        r"\[BUG\] ConsumerGroup: (?P<consumer_group>[^ ]++) The consumerId: (?P<client_id>[^ ]++) not in cidAll: "
        r"\[(?P<members>.*+)(?<=\])",
    ),
    template(
        "members_changed",
        r"receive broker's notification\[(?P<broker_address>[^\]]*+)\], the consumer group: (?P<consumer_group>[^ ]++) "
        r"changed, rebalance immediately",
    ),
    template(
        "member_list_failed",
        r"getConsumerIdListByGroup exception(?#), (?P<broker_address>[^ ]++) (?P<consumer_group>[^ ]++)",
        traced=True,
    ),
    template(
        "member_list_failed",
        r"doRebalance, (?P<consumer_group>[^, ]++) (?P<topic>[^, ]++), get consumer id list failed",
        mark=", get consumer id list failed",
    ),
    template(
        "topic_unknown", rf"doRebalance, {_G}, but the topic\[(?P<topic>[^\]]++)\] not exist\.", mark=", but the topic["
    ),
    template(
        "allocation_failed",
        r"AllocateMessageQueueStrategy\.allocate Exception(?#)\. allocateMessageQueueStrategyName=(?P<strategy>.*+)",
        traced=True,
    ),
    template(
        "allocation_failed",
        r"allocate message queue exception(?#)\. strategy name: (?P<strategy>[^,]*+), ex: ?(?P<detail>.*+)",
        traced=True,
    ),
    template("rebalance_failed", r"rebalanceByTopic Exception", traced=True),
    template("rebalance_failed", r"rebalance Exception", traced=True),
    template("rebalance_applied", r"(?P<topic>[^ ]++) Rebalance changed, also update version: (?P<detail>.*+)"),
    # Routes
    template(
        "route_changed",
        r"the topic\[(?P<topic>[^\]]++)\] route info changed, old\[.*? ?,new\[(?P<route>(?:TopicRouteData|null).*+)",
        mark="] route info changed, old[",
    ),
    template(
        "route_missing",
        r"get Topic \[(?P<topic>[^\]]++)\] RouteInfoFromNameServer is not exist value",
        mark="] RouteInfoFromNameServer is not exist value",
    ),
    template(
        "route_read_failed",
        r"updateTopicRouteInfoFromNameServer, getTopicRouteInfoFromNameServer return null, "
        r"Topic: (?P<topic>[^ .]++)(?:\. \[(?P<client_id>[^\]]++)\])?",
    ),
    template("route_read_failed", r"updateTopicRouteInfoFromNameServer Exception", traced=True),
    template(
        "broker_offline",
        r"the broker addr\[(?P<broker_name>[^ \]]++) (?P<broker_address>[^\]]++)\] is offline, remove it",
        mark="] is offline, remove it",
    ),
    template(
        "broker_offline",
        r"the broker\[(?P<broker_name>[^\]]++)\] name's host is offline, remove it",
        mark="] name's host is offline, remove it",
    ),
    # Heartbeats
    template(
        "heartbeat_sent",
        r"send heart beat to broker\[(?P<broker_name>[^ ]++) \d++ (?P<broker_address>[^ \]]++)\] success",
        mark="] success",
    ),
    *(template("heartbeat_failed", rf"{by}{_BEAT} {_REST}", traced=True) for by in ("", "sendHeartbeatToAllBrokerV2 ")),
    # Sends
    template(
        "send_failed",
        rf"sendKernelImpl exception, {_THEN}, InvokeID: (?P<invoke_id>-?\d{{1,19}}+), "
        rf"RT: (?P<latency_ms>-?\d{{1,18}}+)ms, Broker: {_MQ}",
        mark=", Broker: MessageQueue [",
        traced=True,
    ),
    template(
        "send_failed",
        rf"sendKernelImpl exception, {_THEN}, InvokeID: %s, RT: %sms, Broker: %s",
        mark="InvokeID: %s,",
        traced=True,
        lost=True,
    ),
    template("send_failed", r"sendKernelImpl exception", traced=True, lost=True),
    template(
        "failed_message", r"Message\{topic='(?P<topic>[^']*+)', flag=-?\d++, properties=\{(?P<properties>[^{}]*+)\}.*+"
    ),
    template(
        "failed_message", r"Message \[topic=(?P<topic>[^, ]*+), flag=-?\d++, properties=\{(?P<properties>[^{}]*+)\}.*+"
    ),
    # 4.9.3 and 5.0.0-ALPHA print the slots themselves.
    template(
        "async_send_retried",
        r"async send msg by retry \{\}(?#) times\. topic=\{\}, brokerAddr=\{\}, brokerName=\{\}",
        mark=" times. topic=",
        traced=True,
        lost=True,
    ),
    template(
        "async_send_retried",
        r"async send msg by retry (?P<retry>\d{1,9}+) times\. topic=(?P<topic>[^, ]++), "
        r"brokerAddr=(?P<broker_address>[^, ]++), brokerName=(?P<broker_name>[^, ]++)",
        mark=" times. topic=",
        traced=True,
    ),
    template("selection_failed", r"Error occurred when selecting message queue", traced=True),
    template("broker_isolated", r"(?P<broker_name>[^ ]++) will be isolated for (?P<duration_ms>\d{1,18}+) ms\."),
    template(
        "broker_unreachable", r"(?P<broker_name>[^ ]++) is unreachable, it will not be used(?#) until it's reachable"
    ),
    template("broker_reachable", r"(?P<broker_name>[^ ]++) is reachable now, then it can be used(?#)\."),
    # Processes
    template(
        "client_created",
        r"Created a new client Instance, (?:InstanceIndex|FactoryIndex): ?\d++, ClientID: ?(?P<client_id>[^, ]++), "
        r"[^C]*+(?:C(?!lientVersion:)[^C]*+)*(?:ClientVersion:(?P<client_version>[^, ]++))?.*+",
    ),
    template(  # through 4.3.0
        "client_created",
        r"created a new client Instance, (?#)FactoryIndex: \d++ ClinetID: (?P<client_id>[^ ]++) .* "
        r"(?P<client_version>V\d[^ ,]*+), serializeType=\w++",
    ),
    template("client_started", r"the client factory \[(?P<client_id>[^\]]++)\] start OK", mark="] start OK"),
    template("client_stopped", r"the client factory \[(?P<client_id>[^\]]++)\] shutdown OK", mark="] shutdown OK"),
    *CONSUMING,
)

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
    *("essage ", " exceptio", "ebalance", "s consum", "Impl call timeo", "e broker", "reachable", " Exceptio"),
    *("es, still failed, cost [", "he subscription is n", "voke reset offset op", "te info changed, old["),
    *("ill be isolated for", "ssage{topic='", "[BUG] Consume", "Fix Offset, ", "outeInfoFromNameSe", "pull request"),
    *("request[P", "heart beat to broker[", "send expire m", "by retry ", "messageQueue", "client Instance, "),
    *("the client factory [", "send call timeo", "so do flow contr", "er's subscription f", "fix offset from brok"),
    *("[persist] Gr", "SendResult ["),
)
MESSAGES = TemplateIndex((*RESULTS, *TEMPLATES), _NEEDLES)
_ANY = (*_NEEDLES, *GRPC_NEEDLES)


def tells_nothing(text: str) -> bool:
    """Whether a line certainly holds no wanted message, of no client, and nothing wraps it; quick for most lines."""
    for needle in _ANY:  # not a call of holds_any: this is asked of many lines
        if needle in text:
            return False
    return is_plain(text)


def tell_nothing(texts: list[str]) -> bool:
    """Whether none of several lines holds what wanted messages hold: to ask of all at once costs a third."""
    return not holds_any("\n".join(texts), _ANY)


def is_plain(text: str) -> bool:
    """Whether nothing wraps a line that holds nothing wanted, and no other client wrote it; quick for most lines."""
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


def _ids(printed: str) -> dict[str, Any]:
    """Of a message its id, of a batch those of all its messages."""
    ids = printed.split(",")
    return {"msg_id": ids[0], "batch_msg_ids": ids} if len(ids) > 1 else {"msg_id": printed}


def _number(name: str, bits: int) -> Reader:
    return lambda text: {name: java_number(text, bits)}


_READ: dict[str, Reader] = {
    **{name: _number(name, 64) for name in ("offset", "new_offset", "min_offset", "max_offset")},
    "attempts": _number("attempts", 32),
    "messages": _messages,
    "thrown": _thrown,
    # In the order of the attempts; what was not tried is printed as null.
    "brokers_sent": lambda text: {"brokers_sent": [name for name in text.split(", ") if name not in ("", "null")]},
    "msg_ids": _ids,
    "offset_msg_id": lambda text: {"offset_msg_id": text.partition(",")[0]},
    "not_latest": lambda text: {"response_code": _NOT_LATEST, "detail": text},
    **{name: _number(name, 64) for name in ("invoke_id", "latency_ms", "duration_ms")},
    **{name: _number(name, 32) for name in ("queue_id", "retry")},
    "members": lambda text: {"members": text[:-1].split(", ") if len(text) > 1 else []},
    "queues": _queues,
    "route": _route,
    "properties": _properties,
}
