"""Rows of send_call: whose attempts they hold, on which date they are, and what is said of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.producer.retry_rules import Attempt, SendSettings, judge, may_be_stored, sync_result, twice_because
from hindsight.udfs.release_profiles import PROFILES
from tests.folded import epoch_ms
from tests.sent_producer import BROKER, CONNECT, TIMEOUT, Producer, at, over_midnight


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


def test_what_a_send_lacks_at_the_end_of_the_record_may_still_come():
    sent = Producer().send(at(5, "23:59:59.990"), "a", CONNECT, took=5)
    sent.send(at(5, "23:59:59.998"), "a", "SEND_OK", msg="another")
    row = sent.call()
    assert (row["retry_verdict"], row["retry_reason"]) == ("unknown", "record_ends")
    row = sent.others(6).call()
    assert row["retry_verdict"] == "missing"


OUTCOMES = st.sampled_from([("SEND_OK", None), ("FLUSH_SLAVE_TIMEOUT", None), *((None, e) for e in (CONNECT, TIMEOUT))])
RECORDED = st.builds(SendSettings, st.integers(0, 4), st.just(2), st.booleans(), st.sampled_from([50, 1000, 9000]))


@st.composite
def sends(draw):
    """Attempts one after the other, with gaps now and then."""
    found, now = [], 0
    for number, (outcome, exception) in enumerate(draw(st.lists(OUTCOMES, min_size=1, max_size=6))):
        now += draw(st.sampled_from([0, 0, 0, 2000]))
        took = draw(st.sampled_from([1, 49, 500]))
        code = {"exception": exception} if exception else {}
        found.append(Attempt(number, now, now + took, "abc"[number % 3], 0, outcome or "EXCEPTION", **code))
        now += took
    return found


@given(sends(), RECORDED, st.sampled_from(sorted(PROFILES)))
def test_a_send_whose_first_attempts_are_wrong_is_not_righted_by_more(attempts, settings, profile):
    """Only its end can turn out right: what is not allowed, or too late, stays so, and a missing retry is its last."""
    wrong = {"not_allowed", "beyond_budget"}
    said = [
        judge(attempts[: n + 1], PROFILES[profile], settings, tolerance_ms=0, ends=None).verdict
        for n in range(len(attempts))
    ]
    for before, after in pairwise(said):
        assert after in wrong if before in wrong else True
        assert after not in wrong or before != "missing" or "beyond_budget" in after
    if len(attempts) > settings.times_total:
        assert said[-1] in wrong


@given(sends(), RECORDED, st.sampled_from(sorted(PROFILES)), st.integers(-(10**12), 10**12))
def test_nothing_that_is_said_depends_on_when_it_was(attempts, settings, profile, shift):
    moved = [a._replace(begin_ms=a.begin_ms + shift, end_ms=a.end_ms + shift) for a in attempts]
    for each in (attempts, moved):
        judged = judge(each, PROFILES[profile], settings, tolerance_ms=3, ends=None)
        result = sync_result(each, PROFILES[profile], settings, "T", tolerance_ms=3)
        if each is attempts:
            expected = judged, result
    assert (judged, result) == expected


@given(sends())
def test_a_message_is_stored_twice_only_by_two_attempts_that_may_have_stored_it(attempts):
    assert bool(twice_because(attempts)) == (sum(map(may_be_stored, attempts)) > 1)
