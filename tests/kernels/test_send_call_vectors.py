"""What is said of sends versus RocketMQ's own sendDefaultImpl, seventeen releases; half of its sends are kept apart."""

from __future__ import annotations

import pytest

from hindsight.udfs.producer.retry_rules import (
    CODES,
    Attempt,
    ends_async_send,
    judge,
    may_be_stored,
    once_result,
    sync_result,
    twice_because,
)
from tests.send_call_vectors import BY_TEST, HELD_BACK, vectors

RELEASES = 17


def judged(vector, attempts=None):
    return judge(attempts or vector.seen, vector.profile, vector.settings, tolerance_ms=0, ends=None)


def tells(result, told):
    """Whether a result is what the caller was told; a link to a documentation may follow the text."""
    if told is None:
        return result.kind == "unknown"
    if "status" in told:
        return result == ("ok" if told["status"] == "SEND_OK" else "not_ok", told["status"])
    is_timeout = told["error"] == "sendDefaultImpl call timeout"
    return result.kind == ("timeout" if is_timeout else "exception") and told["error"].startswith(result.text)


def check_sync(file):
    """Every retry of the real loop is right, and its caller got what is said."""
    releases = set()
    for vector in vectors(file, "SYNC"):
        if not vector.seen:
            continue  # no broker had an address
        if not vector.is_all_seen:
            assert judged(vector).verdict in ("right", "missing"), vector.record
            continue
        releases.add(vector.record["release"])
        assert judged(vector).verdict == "right", vector.record
        result = sync_result(vector.seen, vector.profile, vector.settings, "T", tolerance_ms=0)
        assert tells(result, vector.told), (result, vector.record)
    assert len(releases) == RELEASES


def check_shortened(file):
    """A send whose last attempt is left out lacks it, unless its time was over."""
    lacking = 0
    for vector in vectors(file, "SYNC"):
        cut = vector.seen[:-1]
        if not cut:
            continue
        spent = vector.profile.attempts_share_timeout and cut[-1].end_ms - cut[0].begin_ms >= vector.settings.timeout_ms
        verdict, reason = judged(vector, cut)
        assert verdict == ("right" if spent else "missing"), vector
        assert spent or f"no attempt {len(cut)} " in reason
        lacking += verdict == "missing"
    assert lacking > 100


def check_lengthened(file):
    """A send that the real loop ended has no further attempt."""
    wrong = {"not_allowed": 0, "beyond_budget": 0}
    for vector in vectors(file, "SYNC"):
        if not vector.seen or not vector.is_all_seen:
            continue
        last = vector.seen[-1]
        more = Attempt(len(vector.seen), last.end_ms, last.end_ms + 1, "b", 0, "SEND_OK")
        verdict, reason = judged(vector, [*vector.seen, more])
        if verdict == "unknown":
            assert CODES in reason and last.code is not None
        else:
            wrong[verdict] += 1
    assert min(wrong.values()) > 10, wrong


def check_once(file, mode):
    """What the caller of an ASYNC or ONEWAY send got; an ASYNC one that its loop ended was sent once."""
    thrown = 0
    for vector in vectors(file, mode):
        if not vector.seen:
            continue
        last = vector.seen[-1] if mode == "ONEWAY" else max(vector.seen, key=lambda seen: seen.exception is not None)
        told = next((seen for seen in vector.seen if seen.outcome != "SUBMITTED"), last)
        ended = mode == "ONEWAY" or ends_async_send(told, vector.profile, handed_over=len(vector.seen) > 1)
        assert tells(once_result(told, "T", in_loop=ended), vector.told), vector.record
        if ended:
            assert len(vector.record["requests"]) <= 1, vector.record
            thrown += told.exception is not None
    assert thrown > 3


def check_stored_twice(file):
    """Brokers that may hold the message twice, from what each was asked and answered, are told of."""
    told = 0
    for vector in vectors(file, "SYNC"):
        holding = [seen for seen in vector.seen if may_be_stored(seen)]
        answered = sum(seen.outcome != "EXCEPTION" or "Timeout" in seen.exception for seen in vector.seen)
        assert len(holding) >= answered
        assert bool(twice_because(vector.seen)) == (len(holding) > 1) if vector.seen else True
        told += len(holding) > 1
    assert told > 20


CHECKS = {
    "sync": check_sync,
    "shortened": check_shortened,
    "lengthened": check_lengthened,
    "async": lambda file: check_once(file, "ASYNC"),
    "oneway": lambda file: check_once(file, "ONEWAY"),
    "stored twice": check_stored_twice,
}


@pytest.mark.parametrize("check", CHECKS)
def test_sends_of_the_real_client(check):
    CHECKS[check](BY_TEST)


@pytest.mark.parametrize("check", CHECKS)
def test_sends_of_the_real_client_that_were_kept_apart(check):
    CHECKS[check](HELD_BACK)
