from __future__ import annotations

import operator
from datetime import UTC, datetime
from time import process_time
from zoneinfo import ZoneInfo

import pytest

from hindsight.schemas import CLIENT_EVENT
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.logs.client_log_events import TEMPLATES
from hindsight.udfs.logs.client_log_lines import TRACE_CHARS, TRACE_LINES, parse_client_log
from hindsight.udfs.logs.grpc_client_logs import _EVENTS as GRPC_EVENTS

SET = "[MessageQueue [topic=T, brokerName=broker-b, queueId=0], MessageQueue [topic=T, brokerName=broker-a, queueId=1]]"
TEXT = (
    "rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=g, topic=T, clientId=c@1, mqAllSize=4, "
    f"cidAllSize=2, rebalanceResultSize=2, rebalanceResultSet={SET}"
)
INNER = "2026-11-21 09:30:07,163 INFO RocketmqClient - "
LOGBACK = "2026-11-21 17:30:11.209 INFO  [7121] [RebalanceService] [o.a.r.c.i.c.RebalanceImpl#?:?] - client "
OLDEST = "2026-01-05 10:15:00 INFO RebalanceService - "


def parse(*texts, zone=UTC):
    lines = [Line(i, 0, len(t), t, None) for i, t in enumerate(texts, 1)]
    return list(parse_client_log(lines, zone=zone))


def row(text, zone=UTC):
    return parse(text, zone=zone)[0].records[0].row


def at(*parts):
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


def test_the_line_of_4_x_gives_what_the_client_saw_and_took():
    made = row(INNER + TEXT)
    assert (made["strategy"], made["consumer_group"], made["topic"], made["client_id"]) == ("AVG", "g", "T", "c@1")
    assert (made["queue_count"], made["member_count"], made["queues_text"]) == (4, 2, "broker-a:1 broker-b:0")


def test_the_inner_layout_is_in_the_zone_of_the_jvm():
    assert row(INNER + TEXT)["logged_at"] == at(2026, 11, 21, 9, 30, 7, 163000)
    assert row(INNER + TEXT, zone=ZoneInfo("Asia/Shanghai"))["logged_at"] == at(2026, 11, 21, 1, 30, 7, 163000)


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("America/New_York")])
def test_the_layout_of_5_1_on_is_always_gmt_8(zone):
    assert row(LOGBACK + TEXT, zone=zone)["logged_at"] == at(2026, 11, 21, 9, 30, 11, 209000)


def test_the_layout_of_4_1_is_gmt_8_to_the_second():
    made = row(OLDEST + TEXT)
    assert (made["logged_at"], made["resolution_ms"]) == (at(2026, 1, 5, 2, 15, 0), 1000)


def test_seconds_repeated_as_the_fraction_tell_nothing():
    made = row("2026-11-21 09:30:07,007 INFO RocketmqClient - " + TEXT)
    assert (made["logged_at"], made["resolution_ms"]) == (at(2026, 11, 21, 9, 30, 7), 1000)


def test_equal_lines_of_one_instant_are_counted():
    other = INNER.replace("07,163", "08,001") + TEXT
    made = parse(INNER + TEXT, INNER + TEXT, other)
    assert [p.records[0].row["occurrence"] for p in made] == [1, 2, 1]
    # Threads write out of order by some milliseconds.
    made = parse(INNER + TEXT, other, INNER + TEXT, other)
    assert [p.records[0].row["occurrence"] for p in made] == [1, 1, 2, 2]


def test_an_empty_result_is_an_empty_set():
    empty = TEXT.replace("rebalanceResultSize=2", "rebalanceResultSize=0").replace(SET, "[]")
    assert row(INNER + empty)["queues"] == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (INNER + TEXT[:-30], "BAD_REBALANCE_LINE"),
        (INNER + TEXT.replace("rebalanceResultSize=2", "rebalanceResultSize=3"), "BAD_REBALANCE_LINE"),
        (INNER + TEXT.replace("cidAllSize=2", "cidAllSize=two"), "BAD_REBALANCE_LINE"),
        (INNER + TEXT.replace(", topic=T, clientId", ", clientId"), "BAD_REBALANCE_LINE"),
        ("%PARSER_ERROR[defaultTopicQueueNums] INFO t - " + TEXT, "UNKNOWN_LOG_LAYOUT"),
        ("2026-13-41 09:30:07,163 INFO RocketmqClient - " + TEXT, "BAD_TIMESTAMP"),
    ],
)
def test_a_broken_line_is_refused(text, code):
    assert parse(text)[0].refusal.code == code


def test_lines_that_tell_nothing_are_ignored():
    parsed = parse(INNER + "anything else", "\tat a.b.C.d(C.java:1)", "more", "", "2 lines", "% of what")
    assert all(p.records == () and p.refusal is None for p in parsed)


def event(text, *more, **context):
    (record,) = parse(text, *more, **context)[0].records
    assert record.table == "client_event"
    return record.row


MQ = "MessageQueue [topic=T, brokerName=b, queueId=3]"


SENT = f"SendResult [sendStatus=SEND_OK, msgId=A, offsetMsgId=B, messageQueue={MQ}, queueOffset=27]"
OF_GO = f"SendResult [sendStatus=0, msgIds=A, offsetMsgId=B, queueOffset=27, messageQueue={MQ}]"


def test_a_send_result_is_read_wherever_an_application_prints_it_with_a_time():
    row = event(f"2026-11-21 09:30:07.163 INFO 7 --- [main] c.x.Orders : order 5 sent, {SENT}, took 3 ms")
    told = {
        "kind": "send_returned",
        "msg_id": "A",
        "queue_id": 3,
        "offset": 27,
        "logged_at": at(2026, 11, 21, 9, 30, 7, 163_000),
    }
    assert {name: row[name] for name in told} == told
    for text in (SENT, f"sent: {SENT}", f"\tat a.b.C {SENT}", INNER + OF_GO):
        (parsed,) = parse(text)
        assert (parsed.records, parsed.refusal) == ((), None)
    assert parse(INNER + SENT.replace("queueId=3", "queueId=x"))[0].refusal.code == "BAD_EVENT_LINE"


@pytest.mark.parametrize(
    ("message", "kind", "told"),
    [
        (f"doRebalance, g, add a new mq, {MQ}", "queue_added", {"consumer_group": "g", "queue_id": 3}),
        (f"doRebalance, g, add a new pop mq, {MQ}", "queue_added", {"detail": "add a new pop mq"}),
        (
            f"doRebalance, g, add a new pull request PullRequest [consumerGroup=g, messageQueue={MQ}, nextOffset=27]",
            "queue_began",
            {"consumer_group": "g", "topic": "T", "broker_name": "b", "queue_id": 3, "offset": 27},
        ),
        (
            f"SendResult [sendStatus=SEND_OK, msgId=A1, offsetMsgId=B2, messageQueue={MQ}, queueOffset=27] in 3 ms",
            "send_returned",
            {"msg_id": "A1", "offset_msg_id": "B2", "offset": 27, "detail": "SEND_OK", "broker_name": "b"},
        ),
        (
            f"SendResult [sendStatus=SEND_OK, msgId=A1,A2, offsetMsgId=B2,B3, messageQueue={MQ}, queueOffset=27, "
            "recallHandle=null]",
            "send_returned",
            {"msg_id": "A1", "batch_msg_ids": ["A1", "A2"], "offset_msg_id": "B2", "offset": 27},
        ),
        (
            f"[persist] Group: g ClientId: 10.0.0.1@5#1 updateConsumeOffsetToBroker {MQ} 27",
            "offset_stored",
            {"consumer_group": "g", "client_id": "10.0.0.1@5#1", "topic": "T", "queue_id": 3, "offset": 27},
        ),
        (f"doRebalance, g, remove unnecessary mq, {MQ}", "queue_removed", {"topic": "T", "broker_name": "b"}),
        (
            f"doRebalance, g, truncateMessageQueueNotMyTopic remove unnecessary mq, {MQ}",
            "queue_removed",
            {"detail": "truncateMessageQueueNotMyTopic remove unnecessary mq"},
        ),
        (f"doRebalance, g, mq already exists, {MQ}", "queue_kept", {"queue_id": 3}),
        (f"doRebalance, g, mq pop already exists, {MQ}", "queue_kept", {"queue_id": 3}),
        (f"doRebalance, g, add a new mq failed, {MQ}, because lock failed", "lock_failed", {"queue_id": 3}),
        (f"doRebalance, g, add new mq failed, {MQ}", "queue_add_failed", {"queue_id": 3}),
        (f"doRebalance, g, compute offset failed, {MQ}", "queue_add_failed", {"detail": "compute offset failed"}),
        (
            f"[BUG]doRebalance, g, remove unnecessary mq, {MQ}, because pull is pause, so try to fixed it",
            "queue_pull_expired",
            {"queue_id": 3},
        ),
        (
            f"[BUG]doRebalance, g, try remove unnecessary pop mq, {MQ}, because pop is pause, so try to fixed it",
            "queue_pull_expired",
            {"queue_id": 3},
        ),
        (f"Fix Offset, g, remove unnecessary mq, {MQ} Droped: true", "queue_dropped", {"detail": "true"}),
        (
            f"[WRONG]mq is consuming, so can not unlock it, {MQ}. maybe hanged for a while, 2",
            "unlock_blocked",
            {"detail": "2"},
        ),
        (f"the message queue lock Failed, g {MQ}", "lock_failed", {"consumer_group": "g"}),
        (f"the message queue locked Failed, Group: g {MQ}", "lock_failed", {"consumer_group": "g"}),
        (f"unlock messageQueue. group:g, clientId:c@1, mq:{MQ}", "queue_unlocked", {"client_id": "c@1"}),
        (
            "broker rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=g, topic=T, clientId=c, "
            f"assignmentSet=[MessageQueueAssignment [messageQueue={MQ}, mode=PULL, attachments=null]]",
            "queues_assigned",
            {"strategy": "AVG", "queues": [{"broker_name": "b", "queue_id": 3}]},
        ),
        (f"messageQueueChanged g T [{MQ}] [{MQ}]", "broadcast_queues_changed", {"consumer_group": "g", "topic": "T"}),
        (
            "[BUG] ConsumerGroup: g The consumerId: c not in cidAll: [a, b]",
            "member_not_listed",
            {"members": ["a", "b"]},
        ),
        ("[BUG] ConsumerGroup: g The consumerId: c not in cidAll: []", "member_not_listed", {"members": []}),
        ("doRebalance, g, but the topic[T] not exist.", "topic_unknown", {"topic": "T"}),
        ("doRebalance, g %RETRY%g, get consumer id list failed", "member_list_failed", {"topic": "%RETRY%g"}),
        ("getConsumerIdListByGroup exception, h:1 g", "member_list_failed", {"broker_address": "h:1"}),
        (
            "AllocateMessageQueueStrategy.allocate Exception. allocateMessageQueueStrategyName=AVG",
            "allocation_failed",
            {"strategy": "AVG"},
        ),
        (
            "allocate message queue exception. strategy name: AVG, ex: java.lang.IllegalArgumentException: cidAll",
            "allocation_failed",
            {"strategy": "AVG", "detail": "java.lang.IllegalArgumentException: cidAll"},
        ),
        ("rebalanceByTopic Exception", "rebalance_failed", {}),
        ("rebalance Exception", "rebalance_failed", {}),
        ("T Rebalance changed, also update version: 1, 2", "rebalance_applied", {"topic": "T", "detail": "1, 2"}),
        ("the broker addr[b h:1] is offline, remove it", "broker_offline", {"broker_address": "h:1"}),
        ("send heart beat to broker[b 0 h:1] exception, because the broker not up, forget it", "heartbeat_failed", {}),
        ("broker will be isolated for 2000 ms.", "broker_isolated", {"broker_name": "broker", "duration_ms": 2000}),
        ("b is unreachable, it will not be used until it's reachable", "broker_unreachable", {"broker_name": "b"}),
        ("b is reachable now, then it can be used.", "broker_reachable", {"broker_name": "b"}),
        ("Error occurred when selecting message queue", "selection_failed", {}),
    ],
)
def test_each_message_of_the_templates_is_an_event(message, kind, told):
    made = event(INNER + message)
    assert made["kind"] == kind
    assert {name: made[name] for name in told} == told


def test_a_failed_send_names_broker_latency_and_exception():
    trace = (
        "org.apache.X: CODE: 2  DESC: busy",
        "\tat a.B.c(B.java:1)",
        "Caused by: java.io.IOException",
        "\t... 2 more",
    )
    sent = f"sendKernelImpl exception, resend at once, InvokeID: -7, RT: 3003ms, Broker: {MQ}"
    first, *others = parse(INNER + sent, *trace, INNER + "and then")
    row = first.records[0].row
    assert (row["latency_ms"], row["broker_name"], row["queue_id"], row["invoke_id"]) == (3003, "b", 3, -7)
    assert (row["exception"], row["error"], row["response_code"]) == ("org.apache.X", "CODE: 2  DESC: busy", 2)
    assert row["stack_trace"].splitlines() == list(trace)
    assert not row["arguments_lost"]
    assert all(p.records == () and p.refusal is None for p in others)


@pytest.mark.parametrize(
    "sent",
    [
        "sendKernelImpl exception, resend at once, InvokeID: %s, RT: %sms, Broker: %s",
        "sendKernelImpl exception",
    ],
)
def test_a_failed_send_whose_arguments_were_never_filled_in_has_no_broker(sent):
    row = event(LOGBACK.removesuffix("client ") + sent, "java.lang.RuntimeException: x")
    assert (row["kind"], row["arguments_lost"], row["exception"]) == ("send_failed", True, "java.lang.RuntimeException")
    assert "broker_name" not in row and "latency_ms" not in row


def test_an_asynchronous_retry_of_4_9_3_printed_its_slots():
    row = event(INNER + "async send msg by retry {} times. topic={}, brokerAddr={}, brokerName={}")
    assert (row["kind"], row["arguments_lost"]) == ("async_send_retried", True)
    row = event(INNER + "async send msg by retry 2 times. topic=T, brokerAddr=h:1, brokerName=b")
    assert (row["retry"], row["topic"], row["broker_address"], row["broker_name"]) == (2, "T", "h:1", "b")


def test_the_message_that_failed_is_named_by_its_unique_id():
    told = "Message{topic='T', flag=0, properties={KEYS=k1, UNIQ_KEY=7F00, WAIT=true}, body=[98], transactionId='null'}"
    assert (event(INNER + told)["msg_id"], event(INNER + told)["message_key"]) == ("7F00", "k1")
    told = "Message [topic=T, flag=0, properties={UNIQ_KEY=7F00, WAIT=true}, body=4]"
    assert (event(INNER + told)["msg_id"], event(INNER + told)["message_key"]) == ("7F00", None)


def test_a_route_change_tells_the_new_route():
    data = "QueueData [brokerName={}, readQueueNums=4, writeQueueNums=2, perm=6, topicSysFlag=0]"
    route = (
        f"TopicRouteData [orderTopicConf=null, queueDatas=[{data.format('b')}, {data.format('a')}], brokerDatas="
        "[BrokerData [cluster=c, brokerName=a, brokerAddrs={0=h:1, 1=h:2}, enableActingMaster=false], "
        "BrokerData [brokerName=b, brokerAddrs={1=h:3}]], filterServerTable={}]"
    )
    row = event(INNER + f"the topic[T] route info changed, old[null] ,new[{route}]")
    counts = {"read_queue_nums": 4, "write_queue_nums": 2, "perm": 6}
    assert row["route"] == [
        {"broker_name": "a", **counts, "master_address": "h:1"},
        {"broker_name": "b", **counts, "master_address": None},
    ]


def test_the_thread_is_known_in_layouts_that_write_it():
    assert (event(LOGBACK.removesuffix("client ") + "rebalance Exception")["pid"]) == 7121
    assert event(LOGBACK.removesuffix("client ") + "rebalance Exception")["thread"] == "RebalanceService"
    assert event(OLDEST + "rebalance Exception")["thread"] == "RebalanceService"
    assert event(INNER + "rebalance Exception")["thread"] is None


def test_the_coloured_console_copy_reads_as_the_file():
    coloured = (
        "\x1b[33m2026-11-21 17:30:11.209\x1b[0;39m \x1b[34mINFO \x1b[0;39m [7121] [t] [l#m:1] - rebalance Exception"
    )
    assert event(coloured)["logged_at"] == at(2026, 11, 21, 9, 30, 11, 209000)


def test_the_folder_of_the_log_stands_in_each_event():
    line = Line(1, 0, 9, INNER + "rebalance Exception", None)
    (parsed,) = parse_client_log([line], zone=UTC, file="host-1/a/rocketmq_client.log")
    assert parsed.records[0].row["log_folder"] == "host-1/a"


def test_an_endless_stack_trace_is_held_in_part_and_counted_whole():
    lines = [Line(1, 0, 9, INNER + "rebalance Exception", None)]
    lines += [Line(i, 0, 9, "\tat " + "x" * 90, None) for i in range(2, 1002)]
    unread = iter(lines)
    parsed = parse_client_log(unread, zone=UTC)
    first = next(parsed)
    assert operator.length_hint(unread) >= len(lines) - TRACE_LINES - 2
    assert len(first.records[0].row["stack_trace"]) <= TRACE_CHARS
    assert [p.line for p in (first, *parsed)] == lines


def test_huge_lines_of_a_stack_trace_are_not_held():
    lines = [Line(1, 0, 9, INNER + "rebalance Exception", None)]
    lines += [Line(i, 0, 9, "\tat " + "x" * 300_000, None) for i in range(2, 12)]
    unread = iter(lines)
    first = next(parse_client_log(unread, zone=UTC))
    assert operator.length_hint(unread) >= len(lines) - 3
    assert len(first.records[0].row["stack_trace"]) <= TRACE_CHARS


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (INNER + "doRebalance, g, add a new mq, MessageQueue [topic=T, brok", "BAD_EVENT_LINE"),
        (INNER + "sendKernelImpl exception, resend at once, Invo", "BAD_EVENT_LINE"),
        (INNER + f"doRebalance, g, add a new mq, {MQ.replace('3', '3000000000')}", "OUT_OF_RANGE"),
        (INNER + TEXT.replace("queueId=1]", "queueId=3000000000]"), "OUT_OF_RANGE"),
        (f"08:00:01 [t] INFO c.E - doRebalance, g, add a new mq, {MQ}", "UNKNOWN_LOG_LAYOUT"),
        (f"%PARSER_ERROR[defaultTopicQueueNums] INFO t - doRebalance, g, add a new mq, {MQ}", "UNKNOWN_LOG_LAYOUT"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused(text, code):
    assert parse(text)[0].refusal.code == code


@pytest.mark.parametrize(
    "hostile",
    [
        "rebalanced result changed. allocateMessageQueueStrategyName=" + ", group=" * 100_000,
        "messageQueueChanged g T " + "MessageQueue [topic=" * 50_000,
        "the topic[T] route info changed, old[" + " ,new[" * 150_000,
        "the topic[T] route info changed, old[null] ,new[TopicRouteData" + "BrokerData [cluster=" * 50_000,
        "the topic[T] route info changed, old[null] ,new[TopicRouteData"
        + "BrokerData [brokerName=a, brokerAddrs={" * 30_000,
        "Message{topic='T', flag=0, properties={" + ", KEYS=" * 150_000,
        "Created a new client Instance, InstanceIndex:0, ClientID:c, " + "ClientVersion" * 70_000,
        "[BUG] ConsumerGroup: g The consumerId: c not in cidAll: [" + ", " * 400_000,
        "sendKernelImpl exception, resend at once, InvokeID: " + "1" * 900_000,
        " - " * 300_000,
        "\x1b[" * 300_000,
    ],
    ids=lambda text: text[:24],
)
def test_time_is_linear_in_the_length_of_a_line(hostile):
    began = process_time()
    parse(INNER + hostile, hostile, "\x1b[" + hostile)
    assert process_time() - began < 1.0


def test_every_kind_of_event_is_a_value_of_the_table():
    assert {template.kind for template in TEMPLATES} | {kind for kind, _ in GRPC_EVENTS} == set(
        CLIENT_EVENT.known("kind")
    )
