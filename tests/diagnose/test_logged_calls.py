"""Failed attempts of sends: who took the time, who had none left, whose exception it was, what may be stored twice."""

from __future__ import annotations

from collections import Counter

from hindsight.udfs.diagnosis.logged_troubles import NO_TIME_MS
from tests.conftest import GOLDEN
from tests.diagnose.made_logs import log
from tests.diagnose.test_diagnose_command import as_json, diagnose
from tests.diagnose.told_by_logs import told

CASES = GOLDEN / "field_cases"
REMOTING = "org.apache.rocketmq.remoting.exception."
CLIENT = "org.apache.rocketmq.client.exception."
FRAME = "\tat org.apache.rocketmq.remoting.netty.NettyRemotingClient.invokeSync(NettyRemotingClient.java:1)\n"


def traced(second, message, *trace, pid=None):
    return log((second, message), pid=pid) + "".join(f"{line}\n" for line in trace).encode() + FRAME.encode()


def failed(second, invoke_id, broker, took, exception, *, ends="resend at once", pid=None):
    queue = f"MessageQueue [topic=T, brokerName={broker}, queueId=1]"
    message = f"sendKernelImpl exception, {ends}, InvokeID: {invoke_id}, RT: {took}ms, Broker: {queue}"
    return traced(second, message, exception, pid=pid)


def timed_out(address, ms):
    return f"{REMOTING}RemotingTimeoutException: wait response on the channel <{address}> timeout, {ms}(ms)"


def calls(raw):
    (one,) = told({"client.log": raw}).troubles
    return one.calls


def in_short(path):
    return "\n".join(diagnose(path).stdout.splitlines()[:10])


def test_c36_one_broker_used_the_time_up_and_three_had_none():
    path = CASES / "c36/client_log/rocketmq_client.log"
    sends = as_json(path)["send_call"]
    assert [one["used_up_by"] for one in sends] == ["broker-a"] * 3
    assert [[a["had_no_time"] for a in one["attempts"]] for one in sends] == [[False, True, True]] * 3
    assert [[a["time_left_ms"] for a in one["attempts"]] for one in sends] == [[3000, 0, 0]] * 3
    short = in_short(path)
    assert "3 sends had 9 failed attempts" in short and "broker-a used up the time of 3 sends" in short
    assert "broker-b 3, broker-c 2, broker-d 1: these attempts had no time left" in short
    assert "3 messages may be stored twice" in short and "sends failed:" not in short


def test_c36b_one_attempt_failed_and_nobody_knows_of_the_send():
    short = in_short(CASES / "c36b/client_log/rocketmq_client.log")
    assert "1 send had 1 failed attempt; no line shows whether the sends failed" in short
    assert "to blame" not in short


def test_c45_the_exception_names_who_failed_and_the_line_who_came_next():
    retried = as_json(CASES / "c45/client_log/rocketmq_client.log")["send_retried"]
    failed_at = Counter()
    for one in retried:
        failed_at[one["broker_name"], one["broker_address"]] += one["count"]
    assert failed_at == {(None, "10.1.0.11:10911"): 2, ("broker-b", "10.1.0.12:10911"): 1}
    assert {one["next_broker_name"] for one in retried} == {"broker-b", "broker-c"}


def test_an_attempt_whose_time_was_over_before_its_request_left_is_not_its_broker_s_fault():
    over = f"{REMOTING}RemotingTooMuchRequestException: sendKernelImpl call timeout"
    refused = f"{REMOTING}RemotingConnectException: connect to 10.0.0.1:10911 failed"
    (one,) = calls(failed(1, 7, "a", 3001, refused, pid=9) + failed(1.1, 7, "b", 0, over, pid=9))
    assert (one.used_up_by, [a.had_no_time for a in one.attempts]) == ("a", [False, True])
    assert not one.may_be_stored_twice  # neither request left


def test_a_broker_that_had_little_time_but_some_is_told_with_it():
    (one,) = calls(failed(1, 7, "a", 2600, timed_out("h:1", 2600)) + failed(2, 7, "b", 400, timed_out("h:2", 400)))
    assert [(a.time_left_ms, a.had_no_time) for a in one.attempts] == [(2600, False), (400, False)]
    assert one.used_up_by is None and one.may_be_stored_twice
    connecting = failed(1, 7, "a", 3000, timed_out("h:1", 0))  # the time went while the channel was made
    assert not calls(connecting)[0].attempts[0].had_no_time
    assert calls(failed(1, 7, "a", NO_TIME_MS, timed_out("h:1", 1)))[0].attempts[0].had_no_time


def test_clients_before_4_3_0_give_each_attempt_the_whole_time():
    raw = b"".join(failed(3 * i, 7, broker, 3001, timed_out(f"h:{i}", 3000)) for i, broker in enumerate("abc"))
    (one,) = calls(raw)
    assert (one.used_up_by, any(a.had_no_time for a in one.attempts)) == (None, False)


def test_calls_of_several_threads_are_told_apart_and_an_exception_ends_one():
    broker = f"{CLIENT}MQBrokerException: CODE: 13  DESC: the message is illegal BROKER: h:1"
    raw = (
        failed(1, 7, "a", 3000, timed_out("h:1", 3000))
        + failed(1.1, 8, "b", 5, broker, ends="throw exception")
        + failed(1.2, 7, "b", 0, timed_out("h:2", 0))
    )
    first, second = calls(raw)
    assert [a.broker_name for a in first.attempts] == ["a", "b"] and not first.threw
    assert (second.threw, second.may_be_stored_twice, second.attempts[0].response_code) == (True, False, 13)


def retry(second, number, broker, *trace):
    message = f"async send msg by retry {number} times. topic=T, brokerAddr=h-{broker}:1, brokerName={broker}"
    return traced(second, message, *trace, pid=9)


def test_async_of_5_x_names_who_failed_in_the_cause():
    trace = (f"{CLIENT}MQClientException: wait response timeout, cost=3002", FRAME.rstrip("\n"))
    raw = retry(1, 1, "b", *trace, f"Caused by: {timed_out('h-a:1', 2999)}") + retry(
        5, 2, "c", *trace, f"Caused by: {REMOTING}RemotingSendRequestException: send request to <h-b:1> failed"
    )
    (one,) = told({"client.log": raw}).troubles
    assert {subject[:2] for subject in one.retried} == {(None, "h-a:1"), ("b", "h-b:1")}


def test_async_whose_exception_names_nobody_blames_nobody():
    (one,) = told({"client.log": retry(1, 1, "b", f"{CLIENT}MQClientException: unknow reseaon")}).troubles
    ((subject, tally),) = one.retried.items()
    assert (subject[0], subject[1], subject[4], tally.count) == (None, None, "b", 1)


def test_an_address_has_a_name_where_any_log_gives_it_one_and_only_one():
    beat = "send heart beat to broker[a 0 h-a:1] success"
    raw = retry(1, 1, "b", f"{CLIENT}MQBrokerException: CODE: 2  DESC: [TIMEOUT_CLEAN_QUEUE] BROKER: h-a:1")
    for beats, name in (([beat], "a"), ([beat, beat.replace("[a", "[other")], None)):
        other = log(*((second, message) for second, message in enumerate(beats)))
        (one,) = [one for one in told({"client.log": raw, "other.log": other}).troubles if one.retried]
        assert next(iter(one.retried))[0] == name
