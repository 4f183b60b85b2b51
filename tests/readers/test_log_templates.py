"""The readers of logs against what the jars of each release can log: ``golden/log_templates``."""

from __future__ import annotations

import json
import re
from datetime import UTC

import pytest

from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile
from hindsight.udfs.logs.broker_log_lines import TEMPLATES as BROKER_TEMPLATES
from hindsight.udfs.logs.broker_log_lines import is_server_s
from hindsight.udfs.logs.client_log_events import MESSAGES, RESULTS
from hindsight.udfs.logs.client_log_events import TEMPLATES as CLIENT_TEMPLATES
from tests.readers.line_checks import GOLDEN

MQ = "MessageQueue [topic=T, brokerName=b, queueId=3]"
PULL = f"PullRequest [consumerGroup=g, messageQueue={MQ}, nextOffset=7]"
POP = f"PopRequest [topic=T, consumerGroup=g, messageQueue={MQ}]"
NETTY = "[id: 0xdd655462, L:/127.0.0.1:20911 - R:/127.0.0.1:53216]"
INFO = (
    f"ClientChannelInfo [channel={NETTY}, clientId=c@1, language=JAVA, version=479, lastUpdateTimestamp=1795252687013]"
)
SUBSCRIPTION = (
    "SubscriptionData [classFilterMode=false, topic=T, subString=*, tagsSet=[], codeSet=[], subVersion=7, "
    "expressionType=TAG]"
)
RESULT = "rebalanced result changed. allocateMessageQueueStrategyName={}, group={}, topic={}, clientId={}, "
COUNTS = "mqAllSize={}, cidAllSize={}, rebalanceResultSize={}, rebalanceResultSet={}"
OF_RESULT = ("AVG", "g", "T", "c@1", "4", "2", "1", f"[{MQ}]")
GROUP_AND_QUEUE = ("g", MQ)
PULLED = "PullResult [pullStatus=OFFSET_ILLEGAL, nextBeginOffset=9, minOffset=9, maxOffset=12, msgFoundList=0]"
MESSAGE = (
    "MessageExt [brokerName=b, queueId=3, storeSize=192, queueOffset=5, sysFlag=0, bornTimestamp=1795252687013, "
    "bornHost=/h:1, storeTimestamp=1795252687013, storeHost=/h:1, msgId=0A01, commitLogOffset=5, bodyCRC=1, "
    "reconsumeTimes=2, preparedTransactionOffset=0, toString()=Message{topic='T', flag=0, properties={A=b}, "
    "body=[1], transactionId='null'}]"
)
THROWN = "java.lang.IllegalStateException: no stock, com.x.Listener.consumeMessage(Listener.java:12)"
OF_LISTENER = (THROWN, "g", f"[{MESSAGE}]", MQ)
FLOW = "so do flow control"
HELD = "minOffset={}, maxOffset={}, "
DROPPED = "the message queue not be able to consume, because it's dropped"

# What the client's reader takes in: the kind, and what stands in the slots. A text of which the rest is put together
# elsewhere stands for the whole message, which is given instead of the slots.
CLIENT: dict[str, tuple[str, tuple[str, ...] | str]] = {
    RESULT + COUNTS: ("rebalance_result", OF_RESULT),
    f"client {RESULT}{COUNTS}": ("rebalance_result", OF_RESULT),
    f"broker {RESULT}assignmentSet={{}}": ("queues_assigned", ("AVG", "g", "T", "c@1", f"[{MQ}]")),
    "doRebalance, {}, add a new mq, {}": ("queue_added", GROUP_AND_QUEUE),
    "doRebalance, {}, add a new pop mq, {}": ("queue_added", GROUP_AND_QUEUE),
    "doRebalance, {}, add a new pull request {}": ("queue_began", ("g", PULL)),
    "[persist] Group: {} ClientId: {} updateConsumeOffsetToBroker {} {}": ("offset_stored", ("g", "c@1", MQ, "7")),
    "doRebalance, {}, add a new mq failed, {}, because lock failed": ("lock_failed", GROUP_AND_QUEUE),
    "doRebalance, {}, add new mq failed, {}": ("queue_add_failed", GROUP_AND_QUEUE),
    "doRebalance, {}, compute offset failed, {}": ("queue_add_failed", GROUP_AND_QUEUE),
    "doRebalance, {}, remove unnecessary mq, {}": ("queue_removed", GROUP_AND_QUEUE),
    "doRebalance, {}, remove unnecessary pop mq, {}": ("queue_removed", GROUP_AND_QUEUE),
    "doRebalance, {}, truncateMessageQueueNotMyTopic remove unnecessary mq, {}": ("queue_removed", GROUP_AND_QUEUE),
    "doRebalance, {}, truncateMessageQueueNotMyTopic remove unnecessary pop mq, {}": ("queue_removed", GROUP_AND_QUEUE),
    "doRebalance, {}, mq already exists, {}": ("queue_kept", GROUP_AND_QUEUE),
    "doRebalance, {}, mq pop already exists, {}": ("queue_kept", GROUP_AND_QUEUE),
    "[BUG]doRebalance, {}, remove unnecessary mq, {}, because pull is pause, so try to fixed it": (
        "queue_pull_expired",
        GROUP_AND_QUEUE,
    ),
    "[BUG]doRebalance, {}, try remove unnecessary mq, {}, because pull is pause, so try to fixed it": (
        "queue_pull_expired",
        GROUP_AND_QUEUE,
    ),
    "[BUG]doRebalance, {}, try remove unnecessary pop mq, {}, because pop is pause, so try to fixed it": (
        "queue_pull_expired",
        GROUP_AND_QUEUE,
    ),
    "the pull request[{}] is dropped.": ("queue_dropped", (PULL,)),
    "the pop request[{}] is dropped.": ("queue_dropped", (POP,)),
    f"{DROPPED}. {{}}": ("queue_dropped", (MQ,)),
    f"{DROPPED}. group={{}} {{}}": ("queue_dropped", GROUP_AND_QUEUE),
    f"{DROPPED}(pop). group={{}} {{}}": ("queue_dropped", GROUP_AND_QUEUE),
    f"run, {DROPPED}. {{}}": ("queue_dropped", (MQ,)),
    f"run, {DROPPED.removeprefix('the ')}. {{}}": ("queue_dropped", (MQ,)),
    f"consumeMessage, {DROPPED}. {{}}": ("queue_dropped", (MQ,)),
    "The message queue not be able to poll, because it's dropped. group={}, messageQueue={}": (
        "queue_dropped",
        GROUP_AND_QUEUE,
    ),
    "Fix Offset, {}, remove unnecessary mq, {} Droped: {}": ("queue_dropped", (*GROUP_AND_QUEUE, "true")),
    "[WRONG]mq is consuming, so can not unlock it, {}. maybe hanged for a while, {}": ("unlock_blocked", (MQ, "2")),
    "the message queue lock {}, {} {}": ("lock_acquired", ("OK", *GROUP_AND_QUEUE)),
    "message queue lock {}, {} {}": ("lock_failed", ("Failed", *GROUP_AND_QUEUE)),
    "the message queue locked Failed, Group: {} {}": ("lock_failed", GROUP_AND_QUEUE),
    "the message queue locked OK, Group: {} {}": ("lock_acquired", GROUP_AND_QUEUE),
    "unlock messageQueue. group:{}, clientId:{}, mq:{}": ("queue_unlocked", ("g", "c@1", MQ)),
    "messageQueueChanged {} {} {} {}": ("broadcast_queues_changed", ("g", "T", f"[{MQ}]", f"[{MQ}]")),
    "[BUG] ConsumerGroup: {} The consumerId: {} not in cidAll: {}": ("member_not_listed", ("g", "c@1", "[a, b]")),
    "receive broker's notification[{}], the consumer group: {} changed, rebalance immediately": (
        "members_changed",
        ("h:1", "g"),
    ),
    "getConsumerIdListByGroup exception, ": ("member_list_failed", "getConsumerIdListByGroup exception, h:1 g"),
    "doRebalance, {} {}, get consumer id list failed": ("member_list_failed", ("g", "T")),
    "doRebalance, {}, but the topic[{}] not exist.": ("topic_unknown", ("g", "T")),
    "AllocateMessageQueueStrategy.allocate Exception. allocateMessageQueueStrategyName={}": (
        "allocation_failed",
        ("AVG",),
    ),
    "allocate message queue exception. strategy name: {}, ex: {}": ("allocation_failed", ("AVG", "java.lang.X: y")),
    "rebalanceByTopic Exception": ("rebalance_failed", ()),
    "rebalance Exception": ("rebalance_failed", ()),
    "{} Rebalance changed, also update version: {}, {}": ("rebalance_applied", ("T", "1", "2")),
    "the topic[{}] route info changed, old[{}] ,new[{}]": ("route_changed", ("T", "null", "null")),
    "get Topic [{}] RouteInfoFromNameServer is not exist value": ("route_missing", ("T",)),
    "updateTopicRouteInfoFromNameServer, getTopicRouteInfoFromNameServer return null, Topic: {}": (
        "route_read_failed",
        ("T",),
    ),
    "updateTopicRouteInfoFromNameServer, getTopicRouteInfoFromNameServer return null, Topic: {}. [{}]": (
        "route_read_failed",
        ("T", "c@1"),
    ),
    "updateTopicRouteInfoFromNameServer Exception": ("route_read_failed", ()),
    "the broker addr[{} {}] is offline, remove it": ("broker_offline", ("b", "h:1")),
    "the broker[{}] name's host is offline, remove it": ("broker_offline", ("b",)),
    "send heart beat to broker[{} {} {}] success": ("heartbeat_sent", ("b", "0", "h:1")),
    **{
        f"{by}send heart beat to broker[{slots}] {how}": ("heartbeat_failed", ("b", "0", "h:1")[-slots.count("{") :])
        for by, slots in (("", "{} {} {}"), ("", "{} {}"), ("sendHeartbeatToAllBrokerV2 ", "{} {} {}"))
        for how in ("failed", "exception, because the broker not up, forget it")
    },
    "sendKernelImpl exception": ("send_failed", ()),
    **{
        f"sendKernelImpl exception, {what}, InvokeID: {slot}, RT: {slot}ms, Broker: {slot}": (
            "send_failed",
            ("7", "3", MQ),
        )
        for what in ("resend at once", "throw exception")
        for slot in ("%s", "{}")
    },
    "async send msg by retry {} times. topic={}, brokerAddr={}, brokerName={}": (
        "async_send_retried",
        ("1", "T", "h:1", "b"),
    ),
    "Error occurred when selecting message queue": ("selection_failed", ()),
    "execute the pull request exception": ("pull_failed", ()),
    "execute the pull request exception, group={}, messageQueue={}": ("pull_failed", GROUP_AND_QUEUE),
    "execute the pull request exception: {}": ("pull_failed", ("{}",)),
    "the subscription is not latest, group={}, messageQueue={}": ("pull_failed", GROUP_AND_QUEUE),
    "find the consumer's subscription failed, {}": ("pull_failed", (PULL,)),
    **dict.fromkeys(
        (
            "pullKernelImpl exception",
            "popAsync exception",
            "pullAsync unknow exception",
            "pullAsync unknown exception",
            "pullMessage exception, consumer state not ok",
            "popMessage exception, consumer state not ok",
        ),
        ("pull_failed", ()),
    ),
    "consumer was paused, execute pull request later. instanceName={}, group={}": ("pull_suspended", ("i", "g")),
    "pull message later because not locked in broker, {}": ("pull_suspended", (PULL,)),
    "suspend this consumer, {}": ("consumer_suspended", ("g",)),
    "resume this consumer, {}": ("consumer_resumed", ("g",)),
    f"the cached message count exceeds the threshold {{}}, {FLOW}, {HELD}count={{}}, size={{}} MiB, pullRequest={{}}, "
    "flowControlTimes={}": ("flow_control", ("1000", "1", "2", "3", "4", PULL, "5")),
    f"the cached message size exceeds the threshold {{}} MiB, {FLOW}, {HELD}count={{}}, size={{}} MiB, "
    "pullRequest={}, flowControlTimes={}": ("flow_control", ("100", "1", "2", "3", "4", PULL, "5")),
    f"the consumer message buffer is full, {FLOW}, {HELD}size={{}}, pullRequest={{}}, flowControlTimes={{}}": (
        "flow_control",
        ("1", "2", "3", PULL, "5"),
    ),
    f"the queue's messages, span too long, {FLOW}, {HELD}maxSpan={{}}, pullRequest={{}}, flowControlTimes={{}}": (
        "flow_control",
        ("1", "2", "3", PULL, "5"),
    ),
    f"the messages waiting to ack exceeds the threshold {{}}, {FLOW}, popRequest={{}}, flowControlTimes={{}}, "
    "wait count={}": ("flow_control", ("96", POP, "5", "97")),
    f"The cached message count exceeds the threshold {{}}, {FLOW}, {HELD}count={{}}, size={{}} MiB, "
    "flowControlTimes={}": ("flow_control", ("1000", "1", "2", "3", "4", "5")),
    f"The cached message size exceeds the threshold {{}} MiB, {FLOW}, {HELD}count={{}}, size={{}} MiB, "
    "flowControlTimes={}": ("flow_control", ("100", "1", "2", "3", "4", "5")),
    f"The queue's messages, span too long, {FLOW}, {HELD}maxSpan={{}}, flowControlTimes={{}}": (
        "flow_control",
        ("1", "2", "3", "5"),
    ),
    f"The consume request count exceeds threshold {{}}, {FLOW}, consume request count={{}}, flowControlTimes={{}}": (
        "flow_control",
        ("10000", "10001", "5"),
    ),
    "the pull request offset illegal, {} {}": ("offset_illegal", (PULL, PULLED)),
    "The pull request offset illegal, {}": ("offset_illegal", (PULLED,)),
    "fix the pull request offset, {}": ("offset_fixed", (PULL,)),
    "the first time to pull message, so fix offset from broker. pullRequest: {} NewOffset: {} brokerBusy: {}": (
        "offset_first_read",
        (PULL, "7", "false"),
    ),
    "invoke reset offset operation from broker. brokerAddr={}, topic={}, group={}, timestamp={}": (
        "offset_reset",
        ("h:1", "T", "g", "1795252687013"),
    ),
    "updateConsumeOffsetToBroker exception, ": ("offset_not_stored", f"updateConsumeOffsetToBroker exception, {MQ}"),
    "fetchConsumeOffsetFromBroker exception, ": ("offset_not_stored", f"fetchConsumeOffsetFromBroker exception, {MQ}"),
    "consumeMessage exception: {} Group: {} Msgs: {} MQ: {}": ("consume_failed", OF_LISTENER),
    "consumeMessage exception: %s Group: %s Msgs: %s MQ: %s": ("consume_failed", OF_LISTENER),
    "consumeMessage return null, Group: {} Msgs: {} MQ: {}": ("consume_failed", OF_LISTENER[1:]),
    "consumeMessage Orderly return not OK, Group: {} Msgs: {} MQ: {}": ("consume_failed", OF_LISTENER[1:]),
    "BROADCASTING, the message consume failed, drop it, {}": ("consume_failed", (MESSAGE,)),
    "send expire msg back. topic={}, msgId={}, storeHost={}, queueId={}, queueOffset={}": (
        "message_expired",
        ("T", "0A01", "/h:1", "3", "5"),
    ),
    "sendMessageBack exception, group: ": ("send_back_failed", f"sendMessageBack exception, group: g msg: {MESSAGE}"),
    "Failed to send message back, consumerGroup={}, brokerName={}, mq={}, message={}": (
        "send_back_failed",
        ("g", "b", MQ, MESSAGE),
    ),
    "sendMessageBack Exception, ": ("send_back_failed", "sendMessageBack Exception, g"),
    "processQueue is dropped without process consume result. messageQueue={}, msgs={}": (
        "result_dropped",
        (MQ, f"[{MESSAGE}]"),
    ),
    **{
        f"processQueue invalid{what}. isDropped={{}}, isPopTimeout={{}}, messageQueue={{}}, msgs={{}}": (
            "result_dropped",
            ("true", "false", MQ, f"[{MESSAGE}]"),
        )
        for what in ("", " or popTimeout")
    },
    "the pop message time out so abort consume. popTime={} invisibleTime={}, group={} {}": (
        "result_dropped",
        ("1795252687013", "60000", *GROUP_AND_QUEUE),
    ),
    "the message queue not locked, so consume later, {}": ("consume_not_locked", (MQ,)),
    "the message queue lock expired, so consume later, {}": ("consume_not_locked", (MQ,)),
    "Send [%d] times, still failed, cost [%d]ms, Topic: %s, BrokersSent: %s": (
        "send_given_up",
        "Send [3] times, still failed, cost [3000]ms, Topic: T, BrokersSent: [a, b, null]",
    ),
    **{
        f"{of} call timeout": ("send_given_up", ())
        for of in ("sendDefaultImpl", "sendSelectImpl", "sendKernelImpl", "DEFAULT ASYNC send")
    },
    "consumerOffset is -1 in messageQueue [": (
        "offset_not_stored",
        f"consumerOffset is -1 in messageQueue [{MQ}].",
    ),
    "[BUG] pull message result maybe data wrong, nextBeginOffset: {} firstMsgOffset: {} prevRequestOffset: {}": (
        "offset_went_back",
        ("7", "9223372036854775807", "9"),
    ),
    " will be isolated for ": ("broker_isolated", "b will be isolated for 2000 ms."),
    " is unreachable, it will not be used until it's reachable": (
        "broker_unreachable",
        "b is unreachable, it will not be used until it's reachable",
    ),
    " is reachable now, then it can be used.": ("broker_reachable", "b is reachable now, then it can be used."),
    "Created a new client Instance, InstanceIndex:{}, ClientID:{}, ClientConfig:{}, ClientVersion:{}, "
    "SerializerType:{}": (
        "client_created",
        ("0", "c@1", "ClientConfig [namesrvAddr=h:1, clientIP=h]", "V5_3_3", "JSON"),
    ),
    "created a new client Instance, FactoryIndex: {} ClinetID: {} {} {}, serializeType={}": (
        "client_created",
        ("0", "c@1", "ClientConfig [namesrvAddr=h:1, clientIP=h]", "V4_1_0_SNAPSHOT", "JSON"),
    ),
    "the client factory [{}] start OK": ("client_started", ("c@1",)),
    "the client factory [{}] shutdown OK": ("client_stopped", ("c@1",)),
}
BROKER: dict[str, tuple[str, tuple[str, ...]]] = {
    "new consumer connected, group: {} {} {} channel: {}": (
        "consumer_connected",
        ("g", "CONSUME_PASSIVELY", "CLUSTERING", INFO),
    ),
    "unregister a consumer[{}] from consumerGroupInfo {}": ("consumer_unregistered", ("g", INFO)),
    "unregister consumer ok, no any connection, and remove consumer group, {}": ("consumer_group_removed", ("g",)),
    "NETTY EVENT: remove not active channel[{}] from ConsumerGroupInfo groupChannelTable, consumer group: {}": (
        "consumer_channel_closed",
        (INFO, "g"),
    ),
    "SCAN: remove expired channel from ConsumerManager consumerTable. channel={}, consumerGroup={}": (
        "consumer_channel_expired",
        ("h:1", "g"),
    ),
    "SCAN: remove expired channel from ConsumerManager consumerTable, all clear, consumerGroup={}": (
        "consumer_channel_expired",
        ("g",),
    ),
    "[BUG] consumer channel exist in broker, but clientId not equal. GROUP: {} OLD: {} NEW: {} ": (
        "consumer_id_changed",
        ("g", INFO, INFO),
    ),
    "ConsumerGroupInfo: consumer channel exists in broker, but clientId is not the same one, group={}, "
    "old clientChannelInfo={}, new clientChannelInfo={}": ("consumer_id_changed", ("g", INFO, INFO)),
    "subscription changed, add new topic, group: {} {}": ("subscription_added", ("g", SUBSCRIPTION)),
    "subscription changed, group: {} OLD: {} NEW: {}": ("subscription_changed", ("g", SUBSCRIPTION, SUBSCRIPTION)),
    "subscription changed, group: {} remove topic {} {}": ("subscription_removed", ("g", "T", SUBSCRIPTION)),
    "new producer connected, group: {} channel: {}": ("producer_connected", ("g", INFO)),
    "unregister a producer group[{}] from groupChannelTable": ("producer_group_removed", ("g",)),
    "unregister a producer[{}] from groupChannelTable {}": ("producer_unregistered", ("g", INFO)),
    "NETTY EVENT: remove channel[{}][{}] from ProducerManager groupChannelTable, producer group: {}": (
        "producer_channel_closed",
        (INFO, "h:1", "g"),
    ),
    "SCAN: remove expired channel[{}] from ProducerManager groupChannelTable, producer group name: {}": (
        "producer_channel_expired",
        ("h:1", "g"),
    ),
    "ProducerManager#scanNotActiveChannel: remove expired channel[{}] from ProducerManager groupChannelTable, "
    "producer group name: {}": ("producer_channel_expired", ("h:1", "g")),
    "SCAN: remove expired channel from ProducerManager groupChannelTable, all clear, group={}": (
        "producer_channel_expired",
        ("g",),
    ),
    "QueryLoad: no assignment for group[{}] topic[{}], get consumer id list failed": ("assignment_failed", ("g", "T")),
    "QueryLoad: no assignment for group[{}], the topic[{}] does not exist.": ("assignment_failed", ("g", "T")),
    "QueryLoad: no assignment for group[{}] topic[{}], allocate message queue exception. strategy name: {}, ex: {}": (
        "assignment_failed",
        ("g", "T", "AVG", "java.lang.X"),
    ),
}
LOCKS = "RebalanceLockManager#"
HELD_BY = "locked client id={}, current client id={}"
BROKER |= {
    text: (kind, slots)
    for by in ("tryLock", "tryLockBatch")
    for text, kind, slots in (
        (
            f"{by}, message queue not locked, I got it. Group: {{}} NewClientId: {{}} {{}}",
            "queue_locked",
            ("g", "c@1", MQ),
        ),
        (
            f"{by}, message queue lock expired, I got it. Group: {{}} OldClientId: {{}} NewClientId: {{}} {{}}",
            "lock_taken_over",
            ("g", "c@2", "c@1", MQ),
        ),
        (
            f"{by}, message queue locked by other client. Group: {{}} OtherClientId: {{}} NewClientId: {{}} {{}}",
            "lock_refused",
            ("g", "c@2", "c@1", MQ),
        ),
        (
            f"{LOCKS}{by}: try to lock a expired message queue, group={{}}, mq={{}}, old client id={{}}, "
            "new client id={}",
            "lock_taken_over",
            ("g", MQ, "c@2", "c@1"),
        ),
        (
            f"{LOCKS}{by}: message queue has been locked by other client, group={{}}, mq={{}}, {HELD_BY}",
            "lock_refused",
            ("g", MQ, "c@2", "c@1"),
        ),
    )
}
BROKER |= {
    f"{LOCKS}tryLock: lock a message queue which has not been locked yet, group={{}}, clientId={{}}, mq={{}}": (
        "queue_locked",
        ("g", "c@1", MQ),
    ),
    f"{LOCKS}tryLockBatch: lock a message which has not been locked yet, group={{}}, clientId={{}}, mq={{}}": (
        "queue_locked",
        ("g", "c@1", MQ),
    ),
    "unlockBatch, Group: {} {} {}": ("queue_unlocked", ("g", MQ, "c@1")),
    "unlockBatch, but mq locked by other client: {}, Group: {} {} {}": ("unlock_refused", ("c@2", "g", MQ, "c@1")),
    "unlockBatch, but mq not locked, Group: {} {} {}": ("unlock_refused", ("g", MQ, "c@1")),
    f"{LOCKS}unlockBatch: unlock mq, group={{}}, clientId={{}}, mqs={{}}": ("queue_unlocked", ("g", "c@1", MQ)),
    f"{LOCKS}unlockBatch: mq not locked, group={{}}, clientId={{}}, mq={{}}": ("unlock_refused", ("g", "c@1", MQ)),
    f"{LOCKS}unlockBatch: mq locked by other client, group={{}}, locked clientId={{}}, current clientId={{}}, "
    "mqs={}": (
        "unlock_refused",
        ("g", "c@2", "c@1", MQ),
    ),
}
TAKEN = {"client_log": CLIENT, "broker_log": BROKER}
# Written by classes that are not on the list: Message and MessageQueue by themselves, ConsumerManageProcessor.
NOT_LISTED = {
    "client_log": (
        *("Message{topic='", "Message [topic=", "SendResult [", "async send msg by retry {}"),
        "sendKernelImpl exception, %s",
    ),
    "broker_log": (
        "getConsumerGroupInfo failed, ",
        "getAllClientId failed, ",
        "clear handle of this client",
        "remove grpc channel",
        "remove remoting channel",
        " will be isolated for ",
        " is unreachable, ",
        " is reachable now, ",
        # Of name servers: tests/diagnose/test_logs_of_servers.py
        "new broker registered, ",
        "unregisterBroker, remove from ",
        "The broker channel expired, ",
        "the broker's channel destroyed, ",
        "remove topic[",
        "removeTopicByBrokerName, ",
    ),
}
SECONDS_UNTIL = ("4.1.0", "4.2.0")
BRACKETS_SINCE = (5, 1, 0)


def listed(format_name):
    lines = (GOLDEN / f"log_templates/{format_name.removesuffix('_log')}.jsonl").read_text().splitlines()
    return [(row["text"], row["releases"].split()) for row in map(json.loads, lines)]


def head(format_name, release):
    """What the release's own configuration writes before a message."""
    if format_name == "broker_log" or release in SECONDS_UNTIL:
        return "2026-01-05 10:15:00 INFO RebalanceService - "
    numbers = tuple(int(part) for part in release.partition("-")[0].split("."))
    if numbers >= BRACKETS_SINCE:
        return "2026-01-05 10:15:00.123 INFO  [7] [RebalanceService] [o.a.r.c.i.c.RebalanceImpl#?:?] - "
    return "2026-01-05 10:15:00,123 INFO RocketmqClient - "


def filled(text, slots):
    if isinstance(slots, str):
        return slots
    given = iter(slots)
    return re.sub(r"\{\}|%s", lambda _: next(given), text)


def parsed(format_name, text):
    (one,) = PARSERS[format_name]([Line(1, 0, len(text), text, None)], UTC, LandedFile("broker-a.log"))
    return one


def kinds(one):
    assert one.refusal is None, one.refusal
    return [record.row.get("kind", record.table) for record in one.records]


@pytest.mark.parametrize(("format_name", "text"), [(f, t) for f, texts in TAKEN.items() for t in texts])
def test_what_is_taken_in_is_recognised_in_each_release_that_writes_it(format_name, text):
    releases = [release for listed_text, held in listed(format_name) if listed_text == text for release in held]
    assert releases
    kind, slots = TAKEN[format_name][text]
    for release in sorted({*releases} - {"4.0.0"} if format_name == "client_log" else {*releases}):
        assert kinds(parsed(format_name, head(format_name, release) + filled(text, slots))) == [kind], release


def test_what_4_0_0_writes_is_refused_since_it_names_no_instant():
    for text, (_, slots) in CLIENT.items():
        one = parsed(
            "client_log", "%PARSER_ERROR[defaultTopicQueueNums] INFO RebalanceService - " + filled(text, slots)
        )
        assert one.refusal.code == "UNKNOWN_LOG_LAYOUT"


@pytest.mark.parametrize("format_name", TAKEN)
def test_every_other_wording_is_left_alone(format_name):
    others = [(text, held) for text, held in listed(format_name) if text not in TAKEN[format_name]]
    assert len(others) > 10
    for text, held in others:
        one = parsed(format_name, head(format_name, held[-1]) + text.replace("{}", "x").replace("%s", "x"))
        assert (one.records, one.refusal) == ((), None), text


@pytest.mark.parametrize(
    ("format_name", "templates"), [("client_log", (*RESULTS, *CLIENT_TEMPLATES)), ("broker_log", BROKER_TEMPLATES)]
)
def test_every_registered_form_is_a_wording_of_the_list(format_name, templates):
    whole = [filled(text, slots) for text, (_, slots) in TAKEN[format_name].items()]
    whole += [text.replace("OK", "Failed") for text in whole] + [text.replace("Failed", "OK") for text in whole]
    whole += [text.replace(PULL, POP) for text in whole]
    whole += [text for text, _ in listed(format_name)]  # 5.1.0 to 5.2.0 print the slots themselves
    for form in templates:
        is_listed = any(form.pattern.fullmatch(message) for message in whole)
        assert is_listed or form.starts.startswith(NOT_LISTED[format_name]), form.starts


def test_the_slots_that_5_1_0_to_5_2_0_printed_are_taken_in():
    text = "sendKernelImpl exception, resend at once, InvokeID: %s, RT: %sms, Broker: %s"
    releases = next(held for listed_text, held in listed("client_log") if listed_text == text)
    assert {"5.1.0", "5.2.0"} <= {*releases} and "5.3.0" not in releases
    (record,) = parsed("client_log", head("client_log", "5.2.0") + text).records
    assert record.row["arguments_lost"] is True


def test_a_message_is_found_where_it_begins():
    for text, (_, slots) in CLIENT.items():
        message = filled(text, slots)
        assert MESSAGES.may_hold_one(message), message
        start, _ = MESSAGES.search("x - " + message)
        assert start == 4, message


LAYOUTS = [json.loads(line) for line in (GOLDEN / "log_templates/layouts.jsonl").read_text().splitlines()]
# Written without a thread or a level; none of their lines answers a question.
OF_FIGURES = {"stats", "watermark", "protection", "commercial", "proxy_metric", "proxy_watermark"}
PARTS = {"%m%n": "%s", "%p": "INFO", "%-5p": "INFO ", "%t": "Thread_1", "%pid": "77", "%logger{12}#%M:%L": "c.X#run:12"}
PARTS |= {"%c{1}(%L)": "RocketmqClient(12)", "%defaultTopic{1}(%L)": "%PARSER_ERROR[defaultTopic](12)"}
DATES = {"HH:mm:ss,GMT+8": "10:15:00", "HH:mm:ss.SSS,GMT+8": "10:15:00.000", r"HH\:mm\:ss,SSS": "10:15:00,000"}
OF_CLIENT = "receive broker's notification[h:1], the consumer group: g changed, rebalance immediately"
OF_BROKER = "unregister consumer ok, no any connection, and remove consumer group, g"


@pytest.mark.parametrize("one", LAYOUTS, ids=lambda one: f"{one['artifact']} {one['log']} {one['pattern'][:24]}")
def test_each_log_of_each_release_is_read_in_the_layout_of_its_own_configuration(one):
    name, pattern, is_client = one["log"].removesuffix(".log"), one["pattern"], one["artifact"] == "client"
    assert is_client or is_server_s(one["log"])
    if name in OF_FIGURES:
        return
    for slot, written in (("%d{yyy-MM-dd ", "2026-01-05 "), *sorted(PARTS.items(), key=lambda part: -len(part[0]))):
        pattern = pattern.replace(slot, written)
    for slot, written in DATES.items():
        pattern = pattern.replace(f"{slot}}}", written)
    text = pattern.replace("%s", OF_CLIENT if is_client else OF_BROKER)
    parse = PARSERS["client_log" if is_client else "broker_log"]
    (parsed,) = parse([Line(1, 0, len(text), text, None)], zone=UTC, file=LandedFile(one["log"]))
    if one["releases"] == "4.0.0":
        assert parsed.refusal is not None  # it writes no instant: %PARSER_ERROR
        return
    (record,) = parsed.records
    hours = 0 if "GMT+8" not in one["pattern"] else 8
    assert record.row["logged_at"] == 1767608100000 - hours * 3_600_000, text
