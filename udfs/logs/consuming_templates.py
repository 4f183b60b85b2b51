"""What Java clients write of consuming, and of sends that were given up: one template per kind of line.

Source: DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl, DefaultMQPullConsumerImpl, PullMessageService,
ProcessQueue, RemoteBrokerOffsetStore, ClientRemotingProcessor, the ConsumeMessage services,
DefaultMQProducerImpl#sendDefaultImpl and SendResult; 4.0.0 to 5.5.0.
"""

from __future__ import annotations

from hindsight.udfs.logs.log_templates import Template, template

GIVEN_UP = "send_given_up"  # told by exceptions, in whatever log they are printed
RETURNED = "send_returned"  # told by the SendResult that an application prints

GROUP = r"(?P<consumer_group>[^, ]++)"
QUEUE = (
    r"MessageQueue \[topic=(?P<topic>[^,\[\]]++), brokerName=(?P<broker_name>[^,\[\]]++), "
    r"queueId=(?P<queue_id>-?\d{1,10}+)\]"
)
PULL_REQUEST = rf"PullRequest \[consumerGroup={GROUP}, messageQueue={QUEUE}, nextOffset=(?P<offset>-?\d{{1,19}}+)\]"
_POP = rf"PopRequest \[topic=[^,\[\]]*+, consumerGroup={GROUP}, messageQueue={QUEUE}\]"
_RESULT = (
    r"PullResult \[pullStatus=[A-Z_]++, nextBeginOffset=(?P<new_offset>-?\d{1,19}+), "
    r"minOffset=(?P<min_offset>-?\d{1,19}+), maxOffset=(?P<max_offset>-?\d{1,19}+), msgFoundList=\d++\]"
)
_MESSAGES = r"(?P<messages>.*) MQ: " + QUEUE
_STORED = r"minOffset=(?P<min_offset>-?\d{1,19}+), maxOffset=(?P<max_offset>-?\d{1,19}+), "
_IDS = r"[^, \]]++(?:,[^, \]]++)*+"
_TIMES = r"flowControlTimes=\d++"

CONSUMING: tuple[Template, ...] = (
    # Pulls
    template(
        "pull_failed",
        rf"execute the pull request exception, group={GROUP}, messageQueue={QUEUE}",
        mark=", messageQueue=",
        traced=True,
    ),
    template("pull_failed", r"execute the pull request exception(?:: (?P<detail>.*+))?", traced=True),
    template("pull_failed", rf"the subscription is (?P<not_latest>not latest), group={GROUP}, messageQueue={QUEUE}"),
    *(
        template("pull_failed", rf"(?P<detail>find the consumer's subscription failed), (?#){request}", mark=mark)
        for request, mark in ((PULL_REQUEST, "failed, PullRequest ["), (_POP, "failed, PopRequest ["))
    ),
    *(
        template("pull_failed", rf"(?P<detail>{starts})", traced=True)
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
        rf"(?P<detail>consumer was paused), execute pull request later\. (?#)instanceName=.*?, group={GROUP}",
    ),
    template("pull_suspended", rf"pull message later because (?P<detail>not locked in broker), (?#){PULL_REQUEST}"),
    template("consumer_suspended", rf"suspend this consumer, {GROUP}"),
    template("consumer_resumed", rf"resume this consumer, {GROUP}"),
    # Flow control
    template(
        "flow_control",
        rf"(?P<detail>the cached message (?:count|size) exceeds the threshold \d++(?: MiB)?+), so do flow control, "
        rf"{_STORED}count=\d++, size=\d++ MiB, pullRequest={PULL_REQUEST}, {_TIMES}",
        mark=", so do flow control, ",
    ),
    template(
        "flow_control",
        rf"(?P<detail>the consumer message buffer is full), so do flow control, (?#){_STORED}size=\d++, "
        rf"pullRequest={PULL_REQUEST}, {_TIMES}",
    ),
    template(
        "flow_control",
        rf"(?P<detail>the queue's messages, span too long), so do flow control, (?#){_STORED}maxSpan=-?\d++, "
        rf"pullRequest={PULL_REQUEST}, {_TIMES}",
    ),
    template(
        "flow_control",
        rf"(?P<detail>the messages waiting to ack exceeds the threshold \d++), so do flow control, popRequest={_POP}, "
        rf"{_TIMES}, wait count=\d++",
        mark=", so do flow control, ",
    ),
    template(
        "flow_control",
        rf"(?P<detail>The cached message (?:count|size) exceeds the threshold \d++(?: MiB)?+), so do flow control, "
        rf"{_STORED}count=\d++, size=\d++ MiB, {_TIMES}",
        mark=", so do flow control, ",
    ),
    template(
        "flow_control",
        rf"(?P<detail>The queue's messages, span too long), so do flow control, (?#){_STORED}maxSpan=-?\d++, {_TIMES}",
    ),
    template(
        "flow_control",
        r"(?P<detail>The consume request count exceeds threshold \d++), so do flow control, "
        rf"consume request count=\d++, {_TIMES}",
        mark=", so do flow control, ",
    ),
    # Offsets
    template("offset_illegal", rf"the pull request offset illegal, (?#){PULL_REQUEST} {_RESULT}"),
    template("offset_illegal", rf"The pull request offset illegal, (?#){_RESULT}"),
    template(
        "offset_fixed", rf"fix the pull request offset, (?#){PULL_REQUEST.replace('?P<offset>', '?P<new_offset>')}"
    ),
    template(
        "offset_first_read",
        rf"the first time to pull message, so fix offset from broker\. (?#)pullRequest: {PULL_REQUEST} "
        r"NewOffset: (?P<new_offset>-?\d{1,19}+) brokerBusy: (?:true|false)",
    ),
    template(
        "offset_reset",
        r"invoke reset offset operation from broker\. (?#)brokerAddr=(?P<broker_address>[^, ]++), "
        rf"topic=(?P<topic>[^, ]++), group={GROUP}, (?P<detail>timestamp=-?\d{{1,19}}+)",
    ),
    template(  # of a queue that the client gives up; [persistAll], which names every queue each 5 s, is not taken in
        "offset_stored",
        r"\[persist\] Group: (?P<consumer_group>[^ ]++) ClientId: (?P<client_id>[^ ]++) "
        rf"updateConsumeOffsetToBroker {QUEUE} (?P<offset>-?\d{{1,19}}+)",
    ),
    *(
        template("offset_not_stored", rf"(?P<detail>{call} exception), (?#){QUEUE}", mark="MessageQueue [", traced=True)
        for call in ("updateConsumeOffsetToBroker", "fetchConsumeOffsetFromBroker")
    ),
    template("offset_not_stored", rf"(?P<detail>consumerOffset is -1) in messageQueue \[(?#){QUEUE}\]\.?"),
    template(
        "offset_went_back",
        r"\[BUG\] pull message result maybe data wrong, (?#)nextBeginOffset: (?P<new_offset>-?\d{1,19}+) "
        r"firstMsgOffset: -?\d++ prevRequestOffset: (?P<offset>-?\d{1,19}+)",
    ),
    # The listener
    template(
        "consume_failed",
        r"consumeMessage exception: (?P<thrown>[^ ]*+(?: (?!Group: [^, ]++ Msgs: )[^ ]*+)*)"
        rf" Group: {GROUP} Msgs: {_MESSAGES}",
        mark=" Msgs: ",
        traced=True,
    ),
    # What was thrown says more than a line.
    template("consume_failed", r"consumeMessage exception: (?P<thrown>.*+)", traced=True, lost=True),
    template("consume_failed", rf"consumeMessage (?P<detail>return null), (?#)Group: {GROUP} Msgs: {_MESSAGES}"),
    template(
        "consume_failed", rf"consumeMessage Orderly (?P<detail>return not OK), (?#)Group: {GROUP} Msgs: {_MESSAGES}"
    ),
    template("consume_failed", r"(?P<detail>BROADCASTING, the message consume failed, drop it), (?P<messages>.*+)"),
    template(
        "message_expired",
        r"send expire msg back\. (?#)topic=(?P<topic>[^, ]++), msgId=(?P<msg_id>[^, ]++), "
        r"storeHost=/?(?P<broker_address>[^, ]*+), queueId=(?P<queue_id>\d{1,10}+), queueOffset=(?P<offset>\d{1,19}+)",
    ),
    template(
        "send_back_failed",
        rf"sendMessageBack exception, group: {GROUP} msg: (?P<messages>.*+)",
        mark=" msg: ",
        traced=True,
    ),
    template(
        "send_back_failed",
        rf"Failed to send message back, (?#)consumerGroup={GROUP}, brokerName=(?P<broker_name>[^, ]*+), "
        r"(?P<messages>.*+)",
        traced=True,
    ),
    template("send_back_failed", rf"sendMessageBack Exception, {GROUP}", traced=True),
    template(
        "result_dropped",
        rf"processQueue is dropped without process consume result\. (?#)messageQueue={QUEUE}, msgs=(?P<messages>.*+)",
    ),
    template(
        "result_dropped",
        r"(?P<detail>processQueue invalid(?: or popTimeout)?+\. isDropped=\w++, isPopTimeout=\w++), "
        rf"messageQueue={QUEUE}, msgs=(?P<messages>.*+)",
        mark=", messageQueue=",
    ),
    template(
        "result_dropped",
        r"(?P<detail>the pop message time out so abort consume)\. (?#)popTime=-?\d++ invisibleTime=-?\d++, "
        rf"group={GROUP} {QUEUE}",
    ),
    *(
        template("consume_not_locked", rf"(?P<detail>the message queue {lock}), so consume later, (?#){QUEUE}")
        for lock in ("not locked", "lock expired")
    ),
    # Sends
    template(  # SendResult#toString, from 5.3.2 on with its recallHandle; a batch lists its messages' ids
        RETURNED,
        rf"SendResult \[sendStatus=(?P<detail>[A-Z_]++), msgId=(?P<msg_ids>{_IDS}), "
        rf"offsetMsgId=(?P<offset_msg_id>{_IDS}), messageQueue={QUEUE}, "
        r"queueOffset=(?P<offset>\d{1,19}+)(?:, recallHandle=[^ \]]*+)?+\].*+",
        mark="], queueOffset=",
    ),
    template(
        GIVEN_UP,
        r"Send \[(?P<attempts>\d{1,9}+)\] times, still failed, cost \[(?P<latency_ms>\d{1,18}+)\]ms, "
        r"Topic: (?P<topic>[^, ]++), BrokersSent: \[(?P<brokers_sent>[^\[\]]*+)\].*+",
        mark="] times, still failed, cost [",
        traced=True,
    ),
    *(
        template(GIVEN_UP, rf"(?P<detail>{starts}).*+", traced=True)
        for starts in (
            "sendDefaultImpl call timeout",
            "sendSelectImpl call timeout",
            "sendKernelImpl call timeout",
            "DEFAULT ASYNC send call timeout",
        )
    ),
)
