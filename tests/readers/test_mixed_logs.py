"""Lines of all programs and layouts in one file, in any order: none is lost, and none is told of another's."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.logs.broker_log_lines import parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log
from tests.random_examples import examples
from tests.readers.test_log_templates import BROKER, CLIENT, filled

JAVA = (
    "2026-01-05 10:15:00 INFO RebalanceService - ",
    "2026-01-05 10:15:00,123 INFO RocketmqClient - ",
    "2026-01-05 10:15:00.123 INFO  [7] [RebalanceService] [o.a.r.c.i.c.RebalanceImpl#?:?] - ",
    "2026-01-05 10:15:00.123  INFO 7 --- [main] c.x.App : ",
)
ORDINARY = (
    "2026-01-05 10:15:00 INFO main - register broker[0]to name server h:1 OK",  # broker.log
    "2026-01-05 10:15:00 - [WATERMARK] Send Queue Size: 0",
    "2026-01-05 10:15:00 INFO - [TOPIC_PUT_NUMS] [T] Stats In One Minute",  # stats.log
    "2026-01-05 10:15:00,123 INFO RocketmqClient - [persistAll] Group: g ClientId: c updateConsumeOffsetToBroker x 5",
    "an order was taken in",
    "\tat com.x.App.main(App.java:1)",
    "",
)
OTHERS = {
    'time="2026-01-05T10:15:00+08:00" level=info msg="do defaultConsumer, add a new mq" consumerGroup=g '
    'MessageQueue="MessageQueue [topic=T, brokerName=b, queueId=3]"': ("queue_added", "GO"),
    "[2026-01-05 10:15:00.123] [info] add mq:MessageQueue [topic=T, brokerName=b, queueId=3]": ("queue_added", "CPP"),
    "2026-01-05 10:15:00,123 WARN 77 Failed to send message, would attempt to resend right now, topic=T, "
    "endpoints=e:1, clientId=c": ("send_failed", "GRPC"),
    "2026-01-05 10:15:00,123 [ERROR] send message exception, topic: T, e: x": ("send_failed", "GRPC"),
    "2026-01-05T01:15:00.123456Z ERROR rocketmq::client: send heartbeat failed: x": ("heartbeat_failed", "GRPC"),
    '{"msg":"receive messages error: x","level":"ERRO","ts":"2026-01-05T01:15:00.123456Z"}': ("pull_failed", "GRPC"),
}
MESSAGES = {filled(text, slots): kind for text, (kind, slots) in CLIENT.items()}
OF_BROKERS = {filled(text, slots): kind for text, (kind, slots) in BROKER.items()} | {
    "new broker registered, 10.1.0.11:10911 HAServer: 10.1.0.11:10912": "broker_registered",
    "The broker channel expired, 10.1.0.11:10911 120000ms": "broker_expired",
    "remove topic[T] all queue, from topicQueueTable, because channel destroyed": "topic_unregistered",
}
wanted = st.builds(
    lambda head, message: (head + message, MESSAGES[message]), st.sampled_from(JAVA), st.sampled_from([*MESSAGES])
)
of_others = st.sampled_from([(text, kind) for text, (kind, _) in OTHERS.items()])
of_brokers = st.sampled_from([(JAVA[0] + message, kind) for message, kind in OF_BROKERS.items()])
nothing = st.sampled_from([(text, None) for text in ORDINARY])


def lines(texts):
    return [Line(i, 0, len(text), text, None) for i, text in enumerate(texts, 1)]


def kinds(parsed):
    return {one.line.number: record.row.get("kind", record.table) for one in parsed for record in one.records}


@examples(20, 600)
@given(st.lists(st.one_of(wanted, of_others, of_brokers, nothing), max_size=30))
def test_each_line_is_told_as_what_it_is_wherever_it_stands(mixed):
    texts = [text for text, _ in mixed]
    for parse, own in (
        (parse_client_log, {*MESSAGES.values(), *(kind for kind, _ in OTHERS.values())}),
        (parse_broker_log, {*OF_BROKERS.values()}),
    ):
        parsed = list(parse(lines(texts), zone=UTC, file="all.log"))
        assert sorted(one.line.number for one in parsed) == list(range(1, len(texts) + 1))
        told = kinds(parsed)
        for number, (text, kind) in enumerate(mixed, 1):
            is_of_client = any(text.endswith(message) for message in MESSAGES) or text in OTHERS
            if kind is None or is_of_client != (parse is parse_client_log):
                assert number not in told, text
            else:
                assert told[number] == kind and kind in own, text
