"""Rows of send_call: whose attempts they hold, on which date they are, and what is said of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests import dated_cases
from tests.folded import OPTIONS, cut_at, epoch_ms, folded, rows_of

CONNECT = "org.apache.rocketmq.remoting.exception.RemotingConnectException"
TIMEOUT = dated_cases.TIMEOUT
BROKER = "org.apache.rocketmq.client.exception.MQBrokerException"
SETTINGS = {"retry_times_sync": 2, "retry_times_async": 2, "retry_another_broker": False, "send_timeout_ms": 3000}


def at(day, clock):
    return datetime.fromisoformat(f"2026-01-0{day}T{clock}").replace(tzinfo=UTC)


class Producer:
    """One producer's attempts and start."""

    def __init__(self, version="4.9.8", **settings):
        who = {"cluster": "c", "producer_group": "g", "client_id": "p"}
        where = {"source": "producer_hook", "source_file": "f", "source_line": 1}
        self.common = {**who, **where}
        self.attempts = []
        self.starts = [
            {
                **self.common,
                **(SETTINGS | settings),
                "event_date": at(5, "00:00:00").date(),
                "started_at": at(5, "00:00:00"),
                "client_version": version,
                "latency_fault_enabled": False,
            }
        ]

    def send(self, begin, broker, outcome, *, msg="m", number=0, took=10, mode="SYNC", **columns):
        is_thrown = "." in outcome
        end = begin + timedelta(milliseconds=took)
        self.attempts.append(
            {
                **self.common,
                "event_date": begin.date(),
                "topic": "T",
                "thread": "t",
                "msg_id": msg,
                "mode": mode,
                "attempt": number,
                "broker_name": broker,
                "broker_named_as": broker,
                "queue_id": 1,
                "begin_at": begin,
                "end_at": end,
                "latency_ms": took,
                "outcome": "EXCEPTION" if is_thrown else outcome,
                "exception": outcome if is_thrown else None,
                "exceptions_observable": True,
                "phase": "result",
                **columns,
            }
        )
        return self

    def others(self, *days):
        """Plain sends much later, so that the producer's record goes on."""
        for day in days:
            self.send(at(day, "20:00:00"), "a", "SEND_OK", msg=f"later {day}")
        return self

    def calls(self, cuts=()):
        cut = {"cut": cut_at(cuts)} if cuts else {}
        return folded(rows_of(self.attempts, self.starts), OPTIONS, **cut)["send_call"].to_pylist()

    def call(self):
        (row,) = self.calls()
        return row


def test_a_plain_send_has_no_row():
    sent = Producer().send(at(5, "10:00:00"), "a", "SEND_OK")
    for mode in ("ASYNC", "ONEWAY"):
        sent.send(at(5, "10:00:01"), "a", "SUBMITTED", msg=mode, mode=mode, number=None)
    assert sent.calls() == []


def test_a_send_that_failed_three_times_is_told_as_its_caller_saw_it():
    sent = Producer()
    for number, (clock, took) in enumerate((("10:00:00", 5), ("10:00:00.005", 20), ("10:00:00.025", 2975))):
        sent.send(at(5, clock), "abc"[number], TIMEOUT if number == 2 else CONNECT, number=number, took=took)
    row = sent.others(5).call()
    assert (row["result"], row["retry_verdict"], row["retry_reason"]) == ("exception", "right", None)
    text = "Send [3] times, still failed, cost [3000]ms, Topic: T, BrokersSent: [a, b, c]"
    assert (row["result_text"], row["cost_ms"], row["timeout_ms"], row["used_up_by"]) == (text, 3000, 3000, 2)
    assert [each["latency_ms"] for each in row["attempts"]] == [5, 20, 2975]
    assert (row["brokers_sent"], row["stored_twice"]) == (["a", "b", "c"], "no")


def test_a_time_out_that_was_retried_may_be_stored_twice():
    sent = Producer(send_timeout_ms=10_000).send(at(5, "10:00:00"), "a", TIMEOUT, took=400)
    row = sent.send(at(5, "10:00:00.400"), "b", "SEND_OK", number=1).others(5).call()
    assert (row["result"], row["stored_twice"], row["stored_twice_reasons"]) == ("ok", "possible", ["timeout_retried"])
    assert row["retry_verdict"] == "right"


@pytest.mark.parametrize(("another", "verdict"), [(True, "right"), (False, "not_allowed"), (None, "unknown")])
def test_a_status_is_retried_only_where_that_is_set(another, verdict):
    sent = Producer(retry_another_broker=another).send(at(5, "10:00:00"), "a", "FLUSH_DISK_TIMEOUT")
    row = sent.send(at(5, "10:00:00.010"), "b", "SEND_OK", number=1).others(5).call()
    assert (row["retry_verdict"], row["stored_twice_reasons"]) == (verdict, ["not_store_ok_retried"])
    assert ("retryAnotherBrokerWhenNotStoreOK" in row["assumed"]) == (another is None)


@pytest.mark.parametrize(("version", "code", "verdict"), [("4.7.1", 2, "right"), ("5.3.0", 2, "missing")])
def test_a_busy_broker_is_retried_from_530_on(version, code, verdict):
    sent = Producer(version).send(at(5, "10:00:00"), "a", BROKER, response_code=code, error="CODE: 2  DESC: busy")
    row = sent.others(5).call()
    assert row["retry_verdict"] == verdict
    if verdict == "right":
        assert (row["result"], row["result_text"]) == ("exception", "CODE: 2  DESC: busy")


def test_a_retry_after_the_time_is_beyond_the_budget():
    sent = Producer().send(at(5, "10:00:00"), "a", TIMEOUT, took=3000)
    sent.send(at(5, "10:00:03.500"), "b", "SEND_OK", number=1).others(5)
    row = sent.call()
    assert (row["retry_verdict"], row["retry_reason"]) == ("beyond_budget", "attempt 1 began after 3500 of 3000 ms")


def test_before_430_each_attempt_has_the_whole_time():
    sent = Producer("4.2.0").send(at(5, "10:00:00"), "a", TIMEOUT, took=3000)
    row = sent.send(at(5, "10:00:03.500"), "b", "SEND_OK", number=1).others(5).call()
    assert (row["retry_verdict"], row["used_up_by"]) == ("right", 0)


@pytest.mark.parametrize("ends", [True, False])
def test_the_end_of_a_record_is_no_missing_retry(ends):
    sent = Producer().send(at(5, "10:00:00"), "a", CONNECT)
    row = (sent if ends else sent.others(5)).call()
    assert (row["retry_verdict"], row["retry_reason"]) == (
        ("unknown", "record_ends") if ends else ("missing", "no attempt 1 after RemotingConnectException")
    )


def over_midnight():
    sent = Producer().send(at(5, "23:59:59.990"), "a", CONNECT, took=5)
    sent.send(at(5, "23:59:59.995"), "b", CONNECT, number=1, took=10)
    return sent.send(at(6, "00:00:00.005"), "c", "SEND_OK", number=2).others(5, 6)


def test_a_send_over_midnight_is_one_row_of_the_date_on_which_it_began():
    row = over_midnight().call()
    assert (row["event_date"], row["brokers_sent"]) == (at(5, "00:00:00").date(), ["a", "b", "c"])
    assert (row["result"], row["retry_verdict"]) == ("ok", "right")


@pytest.mark.parametrize("gap_ms", [1, 5, 10, 14])
def test_a_send_that_is_cut_by_the_parts_of_a_date_is_one_row(gap_ms):
    sent = Producer().send(at(5, "10:00:00"), "a", CONNECT, took=5)
    sent.send(at(5, "10:00:00.005"), "b", CONNECT, number=1, took=5)
    sent.send(at(5, "10:00:00.010"), "c", "SEND_OK", number=2).others(5)
    edge = 36_000_000 + gap_ms
    assert sent.calls(cuts=[edge]) == sent.calls()
    assert [row["brokers_sent"] for row in sent.calls(cuts=[edge])] == [["a", "b", "c"]]


def test_a_message_that_the_application_sends_again_is_two_sends():
    sent = Producer().send(at(5, "10:00:00"), "a", BROKER, response_code=13, error="CODE: 13  DESC: illegal")
    sent.send(at(5, "10:00:05"), "b", BROKER, response_code=13, error="CODE: 13  DESC: illegal").others(5)
    assert [row["brokers_sent"] for row in sent.calls()] == [["a"], ["b"]]


def test_a_trace_tells_of_a_status_and_the_answer_after_it():
    trace = {"number": None, "mode": None, "exceptions_observable": False, "queue_id": None}
    sent = Producer().send(at(5, "10:00:00"), "a", "NOT_STORE_OK", **trace)
    row = sent.send(at(5, "10:00:00.050"), "b", "SEND_OK", **trace).others(5).call()
    assert (row["brokers_sent"], row["result"], row["retry_verdict"]) == (["a", "b"], "ok", "unknown")
    assert row["stored_twice_reasons"] == ["not_store_ok_retried"]


def test_an_async_failure_may_hide_retries_and_what_they_stored():
    submit = {"submit_end_at": at(5, "10:00:00.001"), "callback_end_at": at(5, "10:00:00.010")}
    sent = Producer().send(at(5, "10:00:00"), "a", TIMEOUT, mode="ASYNC", number=None, error="late", **submit)
    row = sent.others(5).call()
    told = ("exception", "late", "unknown", "attempts_not_recorded", "unknown")
    names = ("result", "result_text", "retry_verdict", "retry_reason", "stored_twice")
    assert tuple(row[name] for name in names) == told


def test_settings_of_a_start_hold_on_later_dates():
    sent = Producer(retry_times_sync=0, send_timeout_ms=700).others(5).send(at(6, "10:00:00"), "a", CONNECT)
    row = sent.others(6).call()
    assert (row["retry_verdict"], row["timeout_ms"], row["assumed"]) == ("right", 700, ["retryResponseCodes"])
    assert epoch_ms(row["event_date"]) == epoch_ms(at(6, "00:00:00").date())
