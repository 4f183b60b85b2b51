"""Messages of ``rocketmq_client.log`` in, what they tell out: the registry of the event kinds that are taken in.

A message is recognised by how it begins (and a mark further on, where several begin alike) and then read whole; one
that is recognised and cannot be read is refused (BAD_EVENT_LINE), any other is ignored. Every pattern is a chain of
fields between fixed texts, none of which can match in two ways: time is linear.
Source: RebalanceImpl, RebalancePushImpl, AbstractAllocateMessageQueueStrategy, ClientRemotingProcessor,
MQClientInstance, MQClientAPIImpl, MQFaultStrategy, LatencyFaultToleranceImpl; 4.1.0 to 5.5.0. Of consuming, and of
sends that were given up: DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl, DefaultMQPullConsumerImpl,
PullMessageService, ProcessQueue, RemoteBrokerOffsetStore, the ConsumeMessage services,
DefaultMQProducerImpl#sendDefaultImpl and SendResult; 4.0.0 to 5.5.0.
The wordings of each release: ``tests/golden/log_templates``.
"""

from __future__ import annotations

import re
from typing import Any

from hindsight.udfs.lines.parsed_line import ERROR_CHARS, java_number
from hindsight.udfs.logs.grpc_client_logs import GRPC_NEEDLES
from hindsight.udfs.logs.log_templates import Reader, Template, TemplateIndex, holds_any, read_message, templates
from hindsight.udfs.logs.log_wrappers import may_be_wrapped
from hindsight.udfs.logs.other_client_logs import may_be_foreign

GIVEN_UP = "send_given_up"  # told by exceptions, in whatever log they are printed
RETURNED = "send_returned"  # told by the SendResult that an application prints

_GROUP = r"(?P<consumer_group>[^, ]++)"
_MQ = (
    r"MessageQueue \[topic=(?P<topic>[^,\[\]]++), brokerName=(?P<broker_name>[^,\[\]]++), "
    r"queueId=(?P<queue_id>-?\d{1,10}+)\]"
)
_PARTS = {
    "GROUP": _GROUP,
    "QUEUE": _MQ,
    "PULL_REQUEST": (
        rf"PullRequest \[consumerGroup={_GROUP}, messageQueue={_MQ}, nextOffset=(?P<offset>-?\d{{1,19}}+)\]"
    ),
    "POP_REQUEST": rf"PopRequest \[topic=[^,\[\]]*+, consumerGroup={_GROUP}, messageQueue={_MQ}\]",
    "PULL_RESULT": (
        r"PullResult \[pullStatus=[A-Z_]++, nextBeginOffset=(?P<new_offset>-?\d{1,19}+), "
        r"minOffset=(?P<min_offset>-?\d{1,19}+), maxOffset=(?P<max_offset>-?\d{1,19}+), msgFoundList=\d++\]"
    ),
    "DROPPED": rf"(?:\(pop\))?\.(?: group={_GROUP},?)? ?(?:messageQueue=)?{_MQ}",
    "MESSAGES": rf"(?P<messages>.*) MQ: {_MQ}",
    "STORED": r"minOffset=(?P<min_offset>-?\d{1,19}+), maxOffset=(?P<max_offset>-?\d{1,19}+), ",
    "IDS": r"[^, \]]++(?:,[^, \]]++)*+",
    "TIMES": r"flowControlTimes=\d++",
    # 4.4.0 leaves out the broker's id where the heartbeat failed.
    "BEAT": r"send heart beat to broker\[(?P<broker_name>[^ ]++) (?:\d++ )?(?P<broker_address>[^ \]]++)\]",
    "THEN": "(?#)(?P<detail>resend at once|throw exception)",
}

# "rebalanced result changed" (through 4.9.8) and "client rebalanced result changed" (5.0.0 on), with its own reader.
RESULTS = templates(
    r"""
rebalance_result | client rebalanced result changed\. allocateMessageQueueStrategyName=.*+
rebalance_result | rebalanced result changed\. allocateMessageQueueStrategyName=.*+
"""
)
# Tried in this order among those whose ``starts`` begins with the same word.
TEMPLATES = templates(
    r"""
# Queues of a consumer
queue_added | doRebalance, {GROUP}, (?P<detail>add a new mq), {QUEUE} | ", add a new mq, "
# Through 4.9.8.
queue_began | doRebalance, [^, ]++, add a new pull request {PULL_REQUEST} | ", add a new pull request "
queue_added | doRebalance, {GROUP}, (?P<detail>add a new pop mq), {QUEUE} | ", add a new pop mq, "
lock_failed | doRebalance, {GROUP}, (?P<detail>add a new mq failed), {QUEUE}, because lock failed
    | ", because lock failed"
queue_add_failed | doRebalance, {GROUP}, (?P<detail>add new mq failed|compute offset failed), {QUEUE} | " failed, M"
queue_removed | doRebalance, {GROUP}, (?P<detail>(?:truncateMessageQueueNotMyTopic )?remove unnecessary(?: pop)? mq),
    {QUEUE} | "remove unnecessary "
queue_kept | doRebalance, {GROUP}, (?P<detail>mq (?:pop )?already exists), {QUEUE} | " already exists, "
queue_pull_expired | \[BUG\]doRebalance, {GROUP}, (?P<detail>(?:try )?remove unnecessary(?: pop)? mq), {QUEUE},
    because (?:pull|pop) is pause, so try to fixed it
queue_dropped | the pull request\[PullRequest (?#)\[consumerGroup={GROUP}, messageQueue={QUEUE},
    (?P<detail>[^\]]*+)\]\] is dropped\. | "is dropped."
queue_dropped | the pop request\[PopRequest (?#)\[topic=[^,\[\]]*+, consumerGroup={GROUP}, messageQueue={QUEUE}\]\] is
    dropped\. | "is dropped."
queue_dropped | the message queue not be able to consume, because it's dropped{DROPPED}
queue_dropped | run, the message queue not be able to consume, because it's dropped{DROPPED}
queue_dropped | run, message queue not be able to consume, because it's dropped{DROPPED}
queue_dropped | consumeMessage, the message queue not be able to consume, because it's dropped{DROPPED}
queue_dropped | The message queue not be able to poll, because it's dropped{DROPPED}
queue_dropped | Fix Offset, {GROUP}, remove unnecessary mq, {QUEUE} Droped: (?P<detail>.*+) | "MessageQueue [topic="
unlock_blocked | \[WRONG\]mq is consuming(?#), so can not unlock it, {QUEUE}\. maybe hanged for a while,
    (?P<detail>.*+) | "MessageQueue [topic="
lock_failed | the message queue lock Failed(?#), {GROUP} {QUEUE}
# Without "the": 5.0.0-PREVIEW on.
lock_failed | message queue lock Failed(?#), {GROUP} {QUEUE}
lock_acquired | the message queue lock OK(?#), {GROUP} {QUEUE}
lock_acquired | message queue lock OK(?#), {GROUP} {QUEUE}
lock_failed | the message queue locked Failed(?#), Group: {GROUP} {QUEUE}
lock_acquired | the message queue locked OK(?#), Group: {GROUP} {QUEUE}
queue_unlocked | unlock messageQueue\. (?#)group:{GROUP}, clientId:(?P<client_id>[^, ]++), mq:{QUEUE}
    | "MessageQueue [topic="
# A rebalance and what kept it from happening
queues_assigned | broker rebalanced result changed\. (?#)allocateMessageQueueStrategyName=(?P<strategy>[^,]*+),
    group={GROUP}, topic=(?P<topic>[^, ]++), clientId=(?P<client_id>[^, ]++), assignmentSet=(?P<queues>.*+)
broadcast_queues_changed | messageQueueChanged (?P<consumer_group>[^ ]++) (?P<topic>[^ ]++) (?P<queues>.*+)
member_not_listed | \[BUG\] ConsumerGroup: (?P<consumer_group>[^ ]++) The consumerId: (?P<client_id>[^ ]++) not in
    cidAll: \[(?P<members>.*+)(?<=\])
members_changed | receive broker's notification\[(?P<broker_address>[^\]]*+)\], the consumer group:
    (?P<consumer_group>[^ ]++) changed, rebalance immediately
member_list_failed | getConsumerIdListByGroup exception(?#), (?P<broker_address>[^ ]++) (?P<consumer_group>[^ ]++)
    | traced
member_list_failed | doRebalance, {GROUP} (?P<topic>[^, ]++), get consumer id list failed
    | ", get consumer id list failed"
topic_unknown | doRebalance, {GROUP}, but the topic\[(?P<topic>[^\]]++)\] not exist\. | ", but the topic["
allocation_failed | AllocateMessageQueueStrategy\.allocate Exception(?#)\.
    allocateMessageQueueStrategyName=(?P<strategy>.*+) | traced
allocation_failed | allocate message queue exception(?#)\. strategy name: (?P<strategy>[^,]*+), ex: ?(?P<detail>.*+)
    | traced
rebalance_failed | rebalanceByTopic Exception | traced
rebalance_failed | rebalance Exception | traced
rebalance_applied | (?P<topic>[^ ]++) Rebalance changed, also update version: (?P<detail>.*+)
# Routes
route_changed | the topic\[(?P<topic>[^\]]++)\] route info changed,
    old\[.*? ?,new\[(?P<route>(?:TopicRouteData|null).*+) | "] route info changed, old["
route_missing | get Topic \[(?P<topic>[^\]]++)\] RouteInfoFromNameServer is not exist value
    | "] RouteInfoFromNameServer is not exist value"
route_read_failed | updateTopicRouteInfoFromNameServer, getTopicRouteInfoFromNameServer return null, Topic:
    (?P<topic>[^ .]++)(?:\. \[(?P<client_id>[^\]]++)\])?
route_read_failed | updateTopicRouteInfoFromNameServer Exception | traced
broker_offline | the broker addr\[(?P<broker_name>[^ \]]++) (?P<broker_address>[^\]]++)\] is offline, remove it
    | "] is offline, remove it"
broker_offline | the broker\[(?P<broker_name>[^\]]++)\] name's host is offline, remove it
    | "] name's host is offline, remove it"
# Heartbeats
heartbeat_sent | send heart beat to broker\[(?P<broker_name>[^ ]++) \d++ (?P<broker_address>[^ \]]++)\] success
    | "] success"
heartbeat_failed | {BEAT} (?P<detail>.*+) | traced
heartbeat_failed | sendHeartbeatToAllBrokerV2 {BEAT} (?P<detail>.*+) | traced
# Sends
send_failed | sendKernelImpl exception, {THEN}, InvokeID: (?P<invoke_id>-?\d{1,19}+), RT:
    (?P<latency_ms>-?\d{1,18}+)ms, Broker: {QUEUE} | ", Broker: MessageQueue [" traced
send_failed | sendKernelImpl exception, {THEN}, InvokeID: %s, RT: %sms, Broker: %s | "InvokeID: %s," traced lost
send_failed | sendKernelImpl exception | traced lost
failed_message | Message\{topic='(?P<topic>[^']*+)', flag=-?\d++, properties=\{(?P<properties>[^{}]*+)\}.*+
failed_message | Message \[topic=(?P<topic>[^, ]*+), flag=-?\d++, properties=\{(?P<properties>[^{}]*+)\}.*+
# 4.9.3 and 5.0.0-ALPHA print the slots themselves.
async_send_retried | async send msg by retry \{\}(?#) times\. topic=\{\}, brokerAddr=\{\}, brokerName=\{\}
    | " times. topic=" traced lost
async_send_retried | async send msg by retry (?P<retry>\d{1,9}+) times\. topic=(?P<topic>[^, ]++),
    brokerAddr=(?P<broker_address>[^, ]++), brokerName=(?P<broker_name>[^, ]++) | " times. topic=" traced
selection_failed | Error occurred when selecting message queue | traced
broker_isolated | (?P<broker_name>[^ ]++) will be isolated for (?P<duration_ms>\d{1,18}+) ms\.
broker_unreachable | (?P<broker_name>[^ ]++) is unreachable, it will not be used(?#) until it's reachable
broker_reachable | (?P<broker_name>[^ ]++) is reachable now, then it can be used(?#)\.
# Processes
client_created | Created a new client Instance, (?:InstanceIndex|FactoryIndex): ?\d++, ClientID:
    ?(?P<client_id>[^, ]++), [^C]*+(?:C(?!lientVersion:)[^C]*+)*(?:ClientVersion:(?P<client_version>[^, ]++))?.*+
# Through 4.3.0.
client_created | created a new client Instance, (?#)FactoryIndex: \d++ ClinetID: (?P<client_id>[^ ]++) .*
    (?P<client_version>V\d[^ ,]*+), serializeType=\w++
client_started | the client factory \[(?P<client_id>[^\]]++)\] start OK | "] start OK"
client_stopped | the client factory \[(?P<client_id>[^\]]++)\] shutdown OK | "] shutdown OK"
# Pulls
pull_failed | execute the pull request exception, group={GROUP}, messageQueue={QUEUE} | ", messageQueue=" traced
pull_failed | execute the pull request exception(?:: (?P<detail>.*+))? | traced
pull_failed | the subscription is (?P<not_latest>not latest), group={GROUP}, messageQueue={QUEUE}
pull_failed | (?P<detail>find the consumer's subscription failed), (?#){PULL_REQUEST} | "failed, PullRequest ["
pull_failed | (?P<detail>find the consumer's subscription failed), (?#){POP_REQUEST} | "failed, PopRequest ["
pull_failed | (?P<detail>pullKernelImpl exception) | traced
pull_failed | (?P<detail>popAsync exception) | traced
pull_failed | (?P<detail>pullAsync unknow exception) | traced
pull_failed | (?P<detail>pullAsync unknown exception) | traced
pull_failed | (?P<detail>pullMessage exception, consumer state not ok) | traced
pull_failed | (?P<detail>popMessage exception, consumer state not ok) | traced
pull_suspended | (?P<detail>consumer was paused), execute pull request later\. (?#)instanceName=.*?, group={GROUP}
pull_suspended | pull message later because (?P<detail>not locked in broker), (?#){PULL_REQUEST}
consumer_suspended | suspend this consumer, {GROUP}
consumer_resumed | resume this consumer, {GROUP}
# Flow control
flow_control | (?P<detail>the cached message (?:count|size) exceeds the threshold \d++(?: MiB)?+), so do flow control,
    {STORED}count=\d++, size=\d++ MiB, pullRequest={PULL_REQUEST}, {TIMES} | ", so do flow control, "
flow_control | (?P<detail>the consumer message buffer is full), so do flow control, (?#){STORED}size=\d++,
    pullRequest={PULL_REQUEST}, {TIMES}
flow_control | (?P<detail>the queue's messages, span too long), so do flow control, (?#){STORED}maxSpan=-?\d++,
    pullRequest={PULL_REQUEST}, {TIMES}
flow_control | (?P<detail>the messages waiting to ack exceeds the threshold \d++), so do flow control,
    popRequest={POP_REQUEST}, {TIMES}, wait count=\d++ | ", so do flow control, "
flow_control | (?P<detail>The cached message (?:count|size) exceeds the threshold \d++(?: MiB)?+), so do flow control,
    {STORED}count=\d++, size=\d++ MiB, {TIMES} | ", so do flow control, "
flow_control | (?P<detail>The queue's messages, span too long), so do flow control, (?#){STORED}maxSpan=-?\d++,
    {TIMES}
flow_control | (?P<detail>The consume request count exceeds threshold \d++), so do flow control, consume request
    count=\d++, {TIMES} | ", so do flow control, "
# Offsets
offset_illegal | the pull request offset illegal, (?#){PULL_REQUEST} {PULL_RESULT}
offset_illegal | The pull request offset illegal, (?#){PULL_RESULT}
offset_fixed | fix the pull request offset, (?#)PullRequest \[consumerGroup={GROUP}, messageQueue={QUEUE},
    nextOffset=(?P<new_offset>-?\d{1,19}+)\]
offset_first_read | the first time to pull message, so fix offset from broker\. (?#)pullRequest: {PULL_REQUEST}
    NewOffset: (?P<new_offset>-?\d{1,19}+) brokerBusy: (?:true|false)
offset_reset | invoke reset offset operation from broker\. (?#)brokerAddr=(?P<broker_address>[^, ]++),
    topic=(?P<topic>[^, ]++), group={GROUP}, (?P<detail>timestamp=-?\d{1,19}+)
# Of a queue that the client gives up; [persistAll], which names every queue each 5 s, is not taken in.
offset_stored | \[persist\] Group: (?P<consumer_group>[^ ]++) ClientId: (?P<client_id>[^ ]++)
    updateConsumeOffsetToBroker {QUEUE} (?P<offset>-?\d{1,19}+)
offset_not_stored | (?P<detail>updateConsumeOffsetToBroker exception), (?#){QUEUE} | "MessageQueue [" traced
offset_not_stored | (?P<detail>fetchConsumeOffsetFromBroker exception), (?#){QUEUE} | "MessageQueue [" traced
offset_not_stored | (?P<detail>consumerOffset is -1) in messageQueue \[(?#){QUEUE}\]\.?
offset_went_back | \[BUG\] pull message result maybe data wrong, (?#)nextBeginOffset: (?P<new_offset>-?\d{1,19}+)
    firstMsgOffset: -?\d++ prevRequestOffset: (?P<offset>-?\d{1,19}+)
# The listener
consume_failed | consumeMessage exception: (?P<thrown>[^ ]*+(?: (?!Group: [^, ]++ Msgs: )[^ ]*+)*) Group: {GROUP}
    Msgs: {MESSAGES} | " Msgs: " traced
# What was thrown says more than a line.
consume_failed | consumeMessage exception: (?P<thrown>.*+) | traced lost
consume_failed | consumeMessage (?P<detail>return null), (?#)Group: {GROUP} Msgs: {MESSAGES}
consume_failed | consumeMessage Orderly (?P<detail>return not OK), (?#)Group: {GROUP} Msgs: {MESSAGES}
consume_failed | (?P<detail>BROADCASTING, the message consume failed, drop it), (?P<messages>.*+)
message_expired | send expire msg back\. (?#)topic=(?P<topic>[^, ]++), msgId=(?P<msg_id>[^, ]++),
    storeHost=/?(?P<broker_address>[^, ]*+), queueId=(?P<queue_id>\d{1,10}+), queueOffset=(?P<offset>\d{1,19}+)
send_back_failed | sendMessageBack exception, group: {GROUP} msg: (?P<messages>.*+) | " msg: " traced
send_back_failed | Failed to send message back, (?#)consumerGroup={GROUP}, brokerName=(?P<broker_name>[^, ]*+),
    (?P<messages>.*+) | traced
send_back_failed | sendMessageBack Exception, {GROUP} | traced
result_dropped | processQueue is dropped without process consume result\. (?#)messageQueue={QUEUE},
    msgs=(?P<messages>.*+)
result_dropped | (?P<detail>processQueue invalid(?: or popTimeout)?+\. isDropped=\w++, isPopTimeout=\w++),
    messageQueue={QUEUE}, msgs=(?P<messages>.*+) | ", messageQueue="
result_dropped | (?P<detail>the pop message time out so abort consume)\. (?#)popTime=-?\d++ invisibleTime=-?\d++,
    group={GROUP} {QUEUE}
consume_not_locked | (?P<detail>the message queue not locked), so consume later, (?#){QUEUE}
consume_not_locked | (?P<detail>the message queue lock expired), so consume later, (?#){QUEUE}
# Sends. SendResult#toString, from 5.3.2 on with its recallHandle; a batch lists its messages' ids.
send_returned | SendResult \[sendStatus=(?P<detail>[A-Z_]++), msgId=(?P<msg_ids>{IDS}),
    offsetMsgId=(?P<offset_msg_id>{IDS}), messageQueue={QUEUE},
    queueOffset=(?P<offset>\d{1,19}+)(?:, recallHandle=[^ \]]*+)?+\].*+ | "], queueOffset="
send_given_up | Send \[(?P<attempts>\d{1,9}+)\] times, still failed, cost \[(?P<latency_ms>\d{1,18}+)\]ms, Topic:
    (?P<topic>[^, ]++), BrokersSent: \[(?P<brokers_sent>[^\[\]]*+)\].*+ | "] times, still failed, cost [" traced
send_given_up | (?P<detail>sendDefaultImpl call timeout).*+ | traced
send_given_up | (?P<detail>sendSelectImpl call timeout).*+ | traced
send_given_up | (?P<detail>sendKernelImpl call timeout).*+ | traced
send_given_up | (?P<detail>DEFAULT ASYNC send call timeout).*+ | traced
""",
    _PARTS,
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
