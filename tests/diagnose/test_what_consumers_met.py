"""What clients say about consuming, and sends that were given up: read, counted by whom it met, told first."""

from __future__ import annotations

from datetime import UTC

import pytest

from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.logs.client_log_lines import parse_client_log
from tests.diagnose.made_logs import log, ms
from tests.diagnose.test_diagnose_command import diagnose
from tests.diagnose.test_logged_calls import CLIENT, traced
from tests.diagnose.told_by_logs import told

QUEUE = "MessageQueue [topic=T, brokerName=broker-a, queueId=3]"
PULL = f"PullRequest [consumerGroup=g_off, messageQueue={QUEUE}, nextOffset=500]"
GIVEN_UP = "Send [3] times, still failed, cost [3012]ms, Topic: T, BrokersSent: [broker-a, broker-b, null]"


def refused(code, why):
    return f"{CLIENT}MQBrokerException: CODE: {code}  DESC: {why} BROKER: 10.0.0.1:10911"


def rows(raw):
    lines = read_lines([raw], gzipped=False, max_line_bytes=1 << 20)
    return [record.row for parsed in parse_client_log(lines, zone=UTC, file="a.log") for record in parsed.records]


def troubles(raw):
    (one,) = told({"client.log": raw}).troubles
    return one


def in_short(tmp_path, raw):
    (tmp_path / "client.log").write_bytes(raw)
    return "\n".join(diagnose(tmp_path / "client.log").stdout.splitlines()[:10])


@pytest.mark.parametrize(
    ("raw", "group", "code"),
    [
        (
            traced(1, "execute the pull request exception", refused(24, "the consumer's subscription not exist")),
            None,
            24,
        ),
        (
            traced(
                1,
                f"execute the pull request exception, group=g, messageQueue={QUEUE}",
                refused(16, "the broker[10.0.0.1] pulling message is forbidden"),
                pid=7,
            ),
            "g",
            16,
        ),
        (log((1, f"the subscription is not latest, group=g, messageQueue={QUEUE}"), pid=7), "g", 25),
    ],
)
def test_a_refused_pull_is_told_with_its_code(tmp_path, raw, group, code):
    ((subject, tally),) = troubles(raw).consuming.items()
    assert (subject[0], subject[1], subject[4], tally.count) == ("pull_failed", group, code, 1)
    assert f"code {code} (" in in_short(tmp_path, raw)


def test_an_offset_that_jumped_is_told_with_who_set_it(tmp_path):
    result = (
        "PullResult [pullStatus=OFFSET_ILLEGAL, nextBeginOffset=900, minOffset=900, maxOffset=1200, msgFoundList=0]"
    )
    raw = log(
        (1, f"the pull request offset illegal, {PULL} {result}"),
        (11, f"fix the pull request offset, {PULL.replace('500', '900')}"),
        (
            20,
            "invoke reset offset operation from broker. brokerAddr=h:1, topic=T, group=g_off, timestamp=1795168800000",
        ),
    )
    illegal, fixed, reset = troubles(raw).offsets
    assert (illegal.at, illegal.offset, illegal.new_offset, illegal.min_offset) == (ms(1), 500, 900, 900)
    assert (fixed.kind, fixed.new_offset, reset.kind, reset.broker_address) == (
        "offset_fixed",
        900,
        "offset_reset",
        "h:1",
    )
    assert "500 was asked for, the broker has 900 to 1200; the client goes on at 900, 400 on: these are skipped" in (
        " ".join(in_short(tmp_path, raw).split())
    )


def test_a_listener_that_failed_is_told_with_what_it_threw():
    thrown = "java.lang.IllegalStateException: no stock Group: x, com.x.L.consumeMessage(L.java:12)"
    message = (
        "MessageExt [brokerName=broker-a, queueOffset=5, msgId=0A01, reconsumeTimes=4, toString()=Message{topic='T'}]"
    )
    (row,) = rows(log((1, f"consumeMessage exception: {thrown} Group: g Msgs: [{message}] MQ: {QUEUE}")))
    assert (row["exception"], row["error"]) == ("java.lang.IllegalStateException", "no stock Group: x")
    assert (row["consumer_group"], row["topic"], row["queue_id"]) == ("g", "T", 3)
    assert (row["msg_id"], row["reconsume_times"], row["arguments_lost"]) == ("0A01", 4, False)


def test_a_listener_s_exception_of_several_lines_keeps_its_row():
    (row,) = rows(
        log((1, "consumeMessage exception: java.lang.IllegalStateException: no stock")) + b"in the warehouse\n"
    )
    assert (row["kind"], row["exception"], row["arguments_lost"]) == (
        "consume_failed",
        "java.lang.IllegalStateException",
        True,
    )


SPRING = "2026-11-20 10:01:03.123 ERROR 7 --- [main] c.x.OrderSender : "


@pytest.mark.parametrize(
    "text",
    [
        f"{SPRING}send failed: {GIVEN_UP}\n",
        f"{SPRING}cannot send\n{CLIENT}MQClientException: {GIVEN_UP}\nSee http://rocketmq.apache.org for details.\n",
        f"{SPRING}cannot send\norg.x.MessagingException: {GIVEN_UP}\n\tat x.Y.z(Y.java:1)\n"
        f"Caused by: {CLIENT}MQClientException: {GIVEN_UP}\n\tat x.Y.z(Y.java:1)\n",
        f"{SPRING}err={GIVEN_UP}\n",
    ],
)
def test_an_exception_that_ends_a_send_is_read_once_wherever_it_is_printed(text):
    (row,) = rows(text.encode())
    assert (row["kind"], row["attempts"], row["brokers_sent"]) == ("send_given_up", 3, ["broker-a", "broker-b"])
    assert (row["latency_ms"], row["topic"], row["logged_at"]) == (3012, "T", 1795168863123)


def test_two_records_with_one_exception_are_two_sends(tmp_path):
    timeout = "org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException: sendDefaultImpl call timeout\n"
    raw = "".join(f"{SPRING.replace(':03', f':0{n}')}oops\n{timeout}" for n in (3, 4)).encode()
    assert [row["logged_at"] for row in rows(raw)] == [1795168863123, 1795168864123]
    assert "2 sends failed: sendDefaultImpl call timeout" in in_short(tmp_path, raw)


def test_an_exception_without_a_record_before_it_is_refused():
    (one,) = parse_client_log(
        read_lines([f"{CLIENT}MQClientException: {GIVEN_UP}".encode()], gzipped=False, max_line_bytes=1 << 20), zone=UTC
    )
    assert one.refusal.code == "UNKNOWN_LOG_LAYOUT"


def test_flow_control_suspension_and_dropped_results_are_counted_by_whom_they_met():
    flow = f"pullRequest={PULL}, flowControlTimes=1001"
    raw = log(
        (
            1,
            f"the cached message count exceeds the threshold 1000, so do flow control, minOffset=1, maxOffset=1001, "
            f"count=1001, size=4 MiB, {flow}",
        ),
        (2, "consumer was paused, execute pull request later. instanceName=DEFAULT, group=g_off"),
        (3, f"processQueue is dropped without process consume result. messageQueue={QUEUE}, msgs=[]"),
        (4, "send expire msg back. topic=T, msgId=0A01, storeHost=/10.0.0.1:10911, queueId=3, queueOffset=77"),
    )
    assert {subject[:4] for subject in troubles(raw).consuming} == {
        ("flow_control", "g_off", "T", "broker-a"),
        ("pull_suspended", "g_off", None, None),
        ("result_dropped", None, "T", "broker-a"),
        ("message_expired", None, "T", None),
    }
