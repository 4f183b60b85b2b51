"""Logs as people pasted them in public, names replaced and cut small: what each asked, and what is told first.

| thread | asked | before |
|---|---|---|
| sohutv/mqcloud#51 | why does sending fail now and then | the exception below the application's line was ignored |
| alibaba/canal#4804 | the like, of a send to a chosen queue | the same |
| sohutv/mqcloud, wiki, subscriptionNotLatest | why does a consumer that starts print CODE 25 | the line was ignored |
| apache/rocketmq#6979 | why does a pull's answer go back | the line was ignored |
| apache/rocketmq#8419 | what does consumerOffset -1 mean | the line was ignored |
| apache/rocketmq#7570 | why does a group that changes not rebalance | told that nothing of members was found |
| apache/rocketmq-client-cpp#345 | why can no queue be locked | told that nothing of queues was found |
"""

from __future__ import annotations

import json

import pytest

from tests.diagnose.test_diagnose_command import diagnose

EXCEPTION = "org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException: "
FRAME = "\tat org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl.sendDefaultImpl(X.java:690)\n"
THREADS = {
    "mqcloud#51": (
        "2023-11-21 07:57:00.168 ERROR [DubboServerHandler-10.0.0.1:17690-thread-193] [TID:e66d.570.17] "
        f"c.x.mq.RocketMQProducer Line:284 - send error\n{EXCEPTION}sendDefaultImpl call timeout\n"
        f"        {FRAME.strip()}\n",
        "1 send failed: sendDefaultImpl call timeout, at 07:57:00.1",
    ),
    "canal#4804": (
        f"2023-07-18 11:05:43.735 [pool-4-thread-1] ERROR c.a.CanalRocketMQProducer - {EXCEPTION}sendKernelImpl call "
        f"timeout\n\njava.lang.RuntimeException: {EXCEPTION}sendKernelImpl call timeout\n\n        {FRAME.strip()}\n",
        "1 send failed: sendKernelImpl call timeout, at 11:05:43.7",
    ),
    "mqcloud wiki": (
        "2019-12-11 09:57:47 WARN NettyClientPublicExecutor_1 - execute the pull request exception\n"
        "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 25 DESC: the consumer's subscription not "
        "latest\n"
        f"For more information, please visit the url, http://rocketmq.apache.org/docs/faq/\n{FRAME}",
        "1 pull failed, code 25 (the broker has an older subscription",
    ),
    "rocketmq#6979": (
        "2023-06-30 19:43:57,910 WARN RocketmqClient - [BUG] pull message result maybe data wrong, nextBeginOffset: "
        "2947 firstMsgOffset: 9223372036854775807 prevRequestOffset: 2954\n",
        "a pull's answer went back from 2954 to 2947",
    ),
    "rocketmq#8419": (
        "2024-07-22 09:46:01 ERROR main - consumerOffset is -1 in messageQueue [MessageQueue [topic=TopicTest, "
        "brokerName=broker-a, queueId=3]].\n",
        "1 offset not read or stored of TopicTest at broker-a, consumerOffset is -1",
    ),
    "rocketmq#7570": (
        "2023-11-17 10:20:30.814 INFO  [46212] [NettyClientPublicExecutor_5] [o.a.r.c.i.ClientRemotingProcessor#?:?] - "
        "receive broker's notification[x.x.x.x:10931], the consumer group: CID_1 changed, rebalance immediately\n",
        "1 time a broker said that the members of CID_1 changed, at 02:20:30.8",
    ),
    "rocketmq-client-cpp#345": (
        "[2021-02-01 14:23:42.545] [warning] [thread@30244] - doRebalance, myGroup, add a new mq failed, MessageQueue "
        "[topic=T, brokerName=broker-a, queueId=0], because lock failed\n",
        "C++ client: a queue could not be locked, myGroup, T broker-a:0",
    ),
}


@pytest.mark.parametrize("thread", THREADS)
def test_what_was_asked_is_told_in_the_first_ten_lines(thread, tmp_path):
    text, told = THREADS[thread]
    (tmp_path / "app.log").write_text(text)
    done = diagnose(tmp_path / "app.log")
    assert told in " ".join("\n".join(done.stdout.splitlines()[:10]).split())


def test_the_time_out_of_one_attempt_ends_no_send(tmp_path):
    queue = "MessageQueue [topic=T, brokerName=broker-b, queueId=1]"
    (tmp_path / "app.log").write_text(
        "2023-07-18 11:05:43,735 WARN RocketmqClient - sendKernelImpl exception, resend at once, InvokeID: 7, RT: 0ms"
        f", Broker: {queue}\n{EXCEPTION}sendKernelImpl call timeout\n{FRAME}"
    )
    told = diagnose(tmp_path / "app.log").stdout
    assert "1 send had 1 failed attempt" in told and "1 send failed" not in told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "[2026-11-20 10:00:01.753692](info):lockBatchMQ fails of mq:MessageQueue [topic=T, brokerName=broker-a, "
            "queueId=1][lockAll:99]",
            "C++ client: a queue could not be locked, T broker-a:1, at 10:00:01.7",
        ),
        (
            'time="2026-11-20T10:00:07+00:00" level=warning msg="do defaultConsumer, add a new mq failed, because lock '
            'failed" MessageQueue="MessageQueue [topic=T, brokerName=broker-a, queueId=0]" consumerGroup=g',
            "Go client: a queue could not be locked, g, T broker-a:0, at 10:00:07.0",
        ),
        (
            "2026-11-20 10:00:00,123 [ERROR] send message exception, topic: T, e: connect to 10.1.0.1:8081 timed out",
            "gRPC client: a send failed, T, connect to 10.1.0.1:8081 timed out, at 10:00:00.1",
        ),
    ],
)
def test_clients_of_other_languages_are_told_first_too(line, told, tmp_path):
    (tmp_path / "rocketmq_client.log").write_text(f"{line}\n")
    done = diagnose(tmp_path / "rocketmq_client.log")
    assert told in " ".join("\n".join(done.stdout.splitlines()[:10]).split())
    assert "Nothing of queues" not in done.stdout


def test_lines_of_a_server_that_are_quoted_are_in_its_zone_wherever_their_time_is_told(tmp_path):
    (tmp_path / "broker.log").write_text(
        "> 2022-11-08 13:54:00 INFO HeartbeatThread_6 - subscription changed, group: g OLD: SubscriptionData "
        "[classFilterMode=false, topic=T, subString=a, tagsSet=[a], codeSet=[97], subVersion=1667886840000, "
        "expressionType=TAG] NEW: SubscriptionData [classFilterMode=false, topic=T, subString=b, tagsSet=[b], "
        "codeSet=[98], subVersion=1667886840001, expressionType=TAG]\n"
    )
    told = diagnose(tmp_path / "broker.log").stdout
    assert "13:54" not in told and told.count("05:54:00") >= 3


NOTICE = (
    "2026-01-05 10:15:0{},125 INFO RocketmqClient - receive broker's notification[10.0.0.9:10911], the consumer "
    "group: {} changed, rebalance immediately\n"
)


def test_notices_are_told_of_groups_alone_of_which_nothing_else_is(tmp_path):
    (tmp_path / "app.log").write_text(
        NOTICE.format(0, "known")
        + NOTICE.format(1, "unknown")
        + "2026-01-05 10:15:02,125 INFO RocketmqClient - rebalanced result changed. "
        "allocateMessageQueueStrategyName=AVG, group=known, topic=T, clientId=c@1, mqAllSize=1, cidAllSize=1, "
        "rebalanceResultSize=1, rebalanceResultSet=[MessageQueue [topic=T, brokerName=b, queueId=0]]\n"
    )
    told = diagnose(tmp_path / "app.log").stdout
    assert "1 time a broker said that the members of unknown changed" in told
    assert "the members of known changed" not in told


def test_a_log_in_json_has_its_span_from_lines_that_tell_nothing_too(tmp_path):
    at = "2026-01-05T10:1{}:00.123Z"
    lines = [{"message": f"order {n} " * 20, "level": "INFO", "@timestamp": at.format(n)} for n in (5, 9)]
    (tmp_path / "app.log").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert "10:15:00.1 to 10:19:00.1" in diagnose(tmp_path / "app.log").stdout
