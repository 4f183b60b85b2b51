"""What Java clients write of consuming, and of sends that were given up: one template per kind of line.

Source: DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl, DefaultMQPullConsumerImpl, PullMessageService,
ProcessQueue, RemoteBrokerOffsetStore, ClientRemotingProcessor, the ConsumeMessage services,
DefaultMQProducerImpl#sendDefaultImpl and SendResult; 4.0.0 to 5.5.0.
"""

from __future__ import annotations

from hindsight.udfs.logs.log_templates import Template, template

GIVEN_UP = "send_given_up"  # told by exceptions, in whatever log they are printed
RETURNED = "send_returned"  # told by the SendResult that an application prints

_G = r"(?P<consumer_group>[^, ]++)"
_MQ = (
    r"MessageQueue \[topic=(?P<topic>[^,\[\]]++), brokerName=(?P<broker_name>[^,\[\]]++), "
    r"queueId=(?P<queue_id>-?\d{1,10}+)\]"
)
PULL_REQUEST = rf"PullRequest \[consumerGroup={_G}, messageQueue={_MQ}, nextOffset=(?P<offset>-?\d{{1,19}}+)\]"
_POP = rf"PopRequest \[topic=[^,\[\]]*+, consumerGroup={_G}, messageQueue={_MQ}\]"
_RESULT = (
    r"PullResult \[pullStatus=[A-Z_]++, nextBeginOffset=(?P<new_offset>-?\d{1,19}+), "
    r"minOffset=(?P<min_offset>-?\d{1,19}+), maxOffset=(?P<max_offset>-?\d{1,19}+), msgFoundList=\d++\]"
)
_MESSAGES = r"(?P<messages>.*) MQ: " + _MQ
_STORED = r"minOffset=(?P<min_offset>-?\d{1,19}+), maxOffset=(?P<max_offset>-?\d{1,19}+), "
_IDS = r"[^, \]]++(?:,[^, \]]++)*+"
_TIMES = r"flowControlTimes=\d++"

CONSUMING: tuple[Template, ...] = (
    # Pulls
    template(
        "pull_failed",
        "execute the pull request exception, group=",
        rf"execute the pull request exception, group={_G}, messageQueue={_MQ}",
        mark=", messageQueue=",
        traced=True,
    ),
    template(
        "pull_failed",
        "execute the pull request exception",
        r"execute the pull request exception(?:: (?P<detail>.*+))?",
        traced=True,
    ),
    template(
        "pull_failed",
        "the subscription is not latest, group=",
        rf"the subscription is (?P<not_latest>not latest), group={_G}, messageQueue={_MQ}",
    ),
    *(
        template(
            "pull_failed",
            "find the consumer's subscription failed, ",
            rf"(?P<detail>find the consumer's subscription failed), {request}",
            mark=mark,
        )
        for request, mark in ((PULL_REQUEST, "failed, PullRequest ["), (_POP, "failed, PopRequest ["))
    ),
    *(
        template("pull_failed", starts, rf"(?P<detail>{starts})", traced=True)
        for starts in (
            "pullKernelImpl exception",
            "popAsync exception",
            "pullAsync unknow exception",
            "pullAsync unknown exception",
            "pullMessage exception, consumer state not ok",
            "popMessage exception, consumer state not ok",
        )
    ),
    template(
        "pull_suspended",
        "consumer was paused, execute pull request later. ",
        rf"(?P<detail>consumer was paused), execute pull request later\. instanceName=.*?, group={_G}",
    ),
    template(
        "pull_suspended",
        "pull message later because not locked in broker, ",
        rf"pull message later because (?P<detail>not locked in broker), {PULL_REQUEST}",
    ),
    template("consumer_suspended", "suspend this consumer, ", rf"suspend this consumer, {_G}"),
    template("consumer_resumed", "resume this consumer, ", rf"resume this consumer, {_G}"),
    # Flow control
    template(
        "flow_control",
        "the cached message ",
        rf"(?P<detail>the cached message (?:count|size) exceeds the threshold \d++(?: MiB)?+), so do flow control, "
        rf"{_STORED}count=\d++, size=\d++ MiB, pullRequest={PULL_REQUEST}, {_TIMES}",
        mark=", so do flow control, ",
    ),
    template(
        "flow_control",
        "the consumer message buffer is full, so do flow control, ",
        rf"(?P<detail>the consumer message buffer is full), so do flow control, {_STORED}size=\d++, "
        rf"pullRequest={PULL_REQUEST}, {_TIMES}",
    ),
    template(
        "flow_control",
        "the queue's messages, span too long, so do flow control, ",
        rf"(?P<detail>the queue's messages, span too long), so do flow control, {_STORED}maxSpan=-?\d++, "
        rf"pullRequest={PULL_REQUEST}, {_TIMES}",
    ),
    template(
        "flow_control",
        "the messages waiting to ack exceeds the threshold ",
        rf"(?P<detail>the messages waiting to ack exceeds the threshold \d++), so do flow control, popRequest={_POP}, "
        rf"{_TIMES}, wait count=\d++",
        mark=", so do flow control, ",
    ),
    template(
        "flow_control",
        "The cached message ",
        rf"(?P<detail>The cached message (?:count|size) exceeds the threshold \d++(?: MiB)?+), so do flow control, "
        rf"{_STORED}count=\d++, size=\d++ MiB, {_TIMES}",
        mark=", so do flow control, ",
    ),
    template(
        "flow_control",
        "The queue's messages, span too long, so do flow control, ",
        rf"(?P<detail>The queue's messages, span too long), so do flow control, {_STORED}maxSpan=-?\d++, {_TIMES}",
    ),
    template(
        "flow_control",
        "The consume request count exceeds threshold ",
        r"(?P<detail>The consume request count exceeds threshold \d++), so do flow control, "
        rf"consume request count=\d++, {_TIMES}",
        mark=", so do flow control, ",
    ),
    # Offsets
    template(
        "offset_illegal",
        "the pull request offset illegal, ",
        rf"the pull request offset illegal, {PULL_REQUEST} {_RESULT}",
    ),
    template("offset_illegal", "The pull request offset illegal, ", rf"The pull request offset illegal, {_RESULT}"),
    template(
        "offset_fixed",
        "fix the pull request offset, ",
        rf"fix the pull request offset, {PULL_REQUEST.replace('?P<offset>', '?P<new_offset>')}",
    ),
    template(
        "offset_first_read",
        "the first time to pull message, so fix offset from broker. ",
        rf"the first time to pull message, so fix offset from broker\. pullRequest: {PULL_REQUEST} "
        r"NewOffset: (?P<new_offset>-?\d{1,19}+) brokerBusy: (?P<ignored>true|false)",
    ),
    template(
        "offset_reset",
        "invoke reset offset operation from broker. ",
        r"invoke reset offset operation from broker\. brokerAddr=(?P<broker_address>[^, ]++), "
        rf"topic=(?P<topic>[^, ]++), group={_G}, (?P<detail>timestamp=-?\d{{1,19}}+)",
    ),
    template(  # of a queue that the client gives up; [persistAll], which names every queue each 5 s, is not taken in
        "offset_stored",
        "[persist] Group: ",
        r"\[persist\] Group: (?P<consumer_group>[^ ]++) ClientId: (?P<client_id>[^ ]++) "
        rf"updateConsumeOffsetToBroker {_MQ} (?P<offset>-?\d{{1,19}}+)",
    ),
    *(
        template(
            "offset_not_stored",
            starts,
            rf"(?P<detail>{starts.rstrip(', ')}), {_MQ}",
            mark="MessageQueue [",
            traced=True,
        )
        for starts in ("updateConsumeOffsetToBroker exception, ", "fetchConsumeOffsetFromBroker exception, ")
    ),
    template(
        "offset_not_stored",
        "consumerOffset is -1 in messageQueue [",
        rf"(?P<detail>consumerOffset is -1) in messageQueue \[{_MQ}\]\.?",
    ),
    template(
        "offset_went_back",
        "[BUG] pull message result maybe data wrong, ",
        r"\[BUG\] pull message result maybe data wrong, nextBeginOffset: (?P<new_offset>-?\d{1,19}+) "
        r"firstMsgOffset: (?P<ignored>-?\d++) prevRequestOffset: (?P<offset>-?\d{1,19}+)",
    ),
    # The listener
    template(
        "consume_failed",
        "consumeMessage exception: ",
        r"consumeMessage exception: (?P<thrown>[^ ]*+(?: (?!Group: [^, ]++ Msgs: )[^ ]*+)*)"
        rf" Group: {_G} Msgs: {_MESSAGES}",
        mark=" Msgs: ",
        traced=True,
    ),
    template(  # what was thrown says more than a line
        "consume_failed",
        "consumeMessage exception: ",
        r"consumeMessage exception: (?P<thrown>.*+)",
        traced=True,
        lost=True,
    ),
    template(
        "consume_failed",
        "consumeMessage return null, ",
        rf"consumeMessage (?P<detail>return null), Group: {_G} Msgs: {_MESSAGES}",
    ),
    template(
        "consume_failed",
        "consumeMessage Orderly return not OK, ",
        rf"consumeMessage Orderly (?P<detail>return not OK), Group: {_G} Msgs: {_MESSAGES}",
    ),
    template(
        "consume_failed",
        "BROADCASTING, the message consume failed, drop it, ",
        r"(?P<detail>BROADCASTING, the message consume failed, drop it), (?P<messages>.*+)",
    ),
    template(
        "message_expired",
        "send expire msg back. ",
        r"send expire msg back\. topic=(?P<topic>[^, ]++), msgId=(?P<msg_id>[^, ]++), "
        r"storeHost=/?(?P<broker_address>[^, ]*+), queueId=(?P<queue_id>\d{1,10}+), queueOffset=(?P<offset>\d{1,19}+)",
    ),
    template(
        "send_back_failed",
        "sendMessageBack exception, group: ",
        rf"sendMessageBack exception, group: {_G} msg: (?P<messages>.*+)",
        mark=" msg: ",
        traced=True,
    ),
    template(
        "send_back_failed",
        "Failed to send message back, ",
        rf"Failed to send message back, consumerGroup={_G}, brokerName=(?P<broker_name>[^, ]*+), (?P<messages>.*+)",
        traced=True,
    ),
    template("send_back_failed", "sendMessageBack Exception, ", rf"sendMessageBack Exception, {_G}", traced=True),
    template(
        "result_dropped",
        "processQueue is dropped without process consume result. ",
        rf"processQueue is dropped without process consume result\. messageQueue={_MQ}, msgs=(?P<messages>.*+)",
    ),
    template(
        "result_dropped",
        "processQueue invalid",
        r"(?P<detail>processQueue invalid(?: or popTimeout)?+\. isDropped=\w++, isPopTimeout=\w++), "
        rf"messageQueue={_MQ}, msgs=(?P<messages>.*+)",
        mark=", messageQueue=",
    ),
    template(
        "result_dropped",
        "the pop message time out so abort consume. ",
        r"(?P<detail>the pop message time out so abort consume)\. popTime=-?\d++ invisibleTime=-?\d++, "
        rf"group={_G} {_MQ}",
    ),
    *(
        template(
            "consume_not_locked",
            starts,
            rf"(?P<detail>{starts.removesuffix(', so consume later, ')}), so consume later, {_MQ}",
        )
        for starts in (
            "the message queue not locked, so consume later, ",
            "the message queue lock expired, so consume later, ",
        )
    ),
    # Sends
    template(  # SendResult#toString, from 5.3.2 on with its recallHandle; a batch lists its messages' ids
        RETURNED,
        "SendResult [sendStatus=",
        rf"SendResult \[sendStatus=(?P<detail>[A-Z_]++), msgId=(?P<msg_ids>{_IDS}), "
        rf"offsetMsgId=(?P<offset_msg_id>{_IDS}), messageQueue={_MQ}, "
        r"queueOffset=(?P<offset>\d{1,19}+)(?:, recallHandle=[^ \]]*+)?+\](?P<ignored>.*+)",
        mark="], queueOffset=",
    ),
    template(
        GIVEN_UP,
        "Send [",
        r"Send \[(?P<attempts>\d{1,9}+)\] times, still failed, cost \[(?P<latency_ms>\d{1,18}+)\]ms, "
        r"Topic: (?P<topic>[^, ]++), BrokersSent: \[(?P<brokers_sent>[^\[\]]*+)\](?P<ignored>.*+)",
        mark="] times, still failed, cost [",
        traced=True,
    ),
    *(
        template(GIVEN_UP, starts, rf"(?P<detail>{starts})(?P<ignored>.*+)", traced=True)
        for starts in (
            "sendDefaultImpl call timeout",
            "sendSelectImpl call timeout",
            "sendKernelImpl call timeout",
            "DEFAULT ASYNC send call timeout",
        )
    ),
)
