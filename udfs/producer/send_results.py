"""The attempts of one send in, what its caller got, and whether the message may be stored twice, out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from hindsight.udfs.producer.retry_rules import STORED, Attempt, SendSettings, after, is_exhausted, is_spent, is_whole
from hindsight.udfs.producer.send_outcome import failure_of, is_before_the_request
from hindsight.udfs.release_profiles import FaultProfile

ResultKind = Literal["ok", "not_ok", "exception", "timeout", "unknown"]

_CALL_TIMEOUT = "sendDefaultImpl call timeout"
# What surely stored nothing: the request never left, or the broker refused it.
_NOT_STORED = ("RemotingConnectException", "RemotingTooMuchRequestException", "MQBrokerException")
_TIMED_OUT = "RemotingTimeoutException"


class Result(NamedTuple):
    """What the caller got; ``text``: the SendStatus, or the exception's message; None: not known."""

    kind: ResultKind
    text: str | None


def sync_result(
    attempts: Sequence[Attempt], profile: FaultProfile, settings: SendSettings, topic: str, *, tolerance_ms: int
) -> Result:
    """What a SYNC send returned or threw.

    Once a broker answered with a status other than SEND_OK, that status is returned whatever later attempts threw, but
    for what ends the loop at once. ``tolerance_ms``: of the instants beside each other.
    Source: DefaultMQProducerImpl#sendDefaultImpl, 4.2.0 to 5.5.0.
    """
    last = attempts[-1]
    if last.outcome in STORED:
        return Result("ok" if last.outcome == "SEND_OK" else "not_ok", last.outcome)
    if last.exception is None:
        return Result("unknown", None)
    if not is_whole(attempts):
        return _last_of_some(last, profile, settings)
    failure = failure_of(last.exception)
    if failure in (None, "interrupted"):
        return Result("exception", _message(last))
    asked = after(last, profile, settings)
    if asked.goes_on and not is_exhausted(attempts, settings):
        if not is_spent(attempts, profile, settings, tolerance_ms):
            return Result("unknown", None)
        return _answered_before(attempts) or Result("timeout", _CALL_TIMEOUT)
    thrown = _message(last) if asked.goes_on is False else still_failed(attempts, topic)
    return _answered_before(attempts) or Result("exception", thrown)


def _last_of_some(last: Attempt, profile: FaultProfile, settings: SendSettings) -> Result:
    """What a send got by its last attempt alone, where some before it are in no line: its message is not known."""
    asked = after(last, profile, settings)
    is_last = asked.goes_on is False or (last.number or 0) + 1 >= settings.times_total
    return Result("exception" if is_last and not settings.retry_another_broker else "unknown", None)


def _answered_before(attempts: Sequence[Attempt]) -> Result | None:
    answers = [attempt.outcome for attempt in attempts if attempt.outcome in STORED]
    return Result("not_ok", answers[-1]) if answers else None


def still_failed(attempts: Sequence[Attempt], topic: str) -> str:
    """The message of the exception that ends the loop, as far as the links to a documentation that follow."""
    cost = attempts[-1].end_ms - attempts[0].begin_ms
    brokers = ", ".join(str(attempt.broker_name) for attempt in attempts)
    return f"Send [{len(attempts)}] times, still failed, cost [{cost}]ms, Topic: {topic}, BrokersSent: [{brokers}]"


def once_result(attempt: Attempt, topic: str, *, in_loop: bool) -> Result:
    """What a send got that tries once: ONEWAY, ASYNC, or to a queue that the application chose.

    ``in_loop``: sendDefaultImpl saw what the attempt threw, so its own exception is what the caller got.
    """
    if attempt.outcome in STORED:
        return Result("ok" if attempt.outcome == "SEND_OK" else "not_ok", attempt.outcome)
    if attempt.exception is None:
        return Result("unknown", None)
    if in_loop and failure_of(attempt.exception) in ("remoting", "client"):
        return Result("exception", still_failed([attempt], topic))
    return Result("exception", _message(attempt))


def ends_async_send(attempt: Attempt, profile: FaultProfile, *, handed_over: bool) -> bool:
    """Whether sendDefaultImpl itself saw an ASYNC attempt fail; else its callback told, after any retries.

    ``handed_over``: the hook saw the request handed over before it failed.
    Source: MQClientAPIImpl#sendMessageAsync, 4.2.0 to 5.5.0.
    """
    if attempt.exception is None:
        return False
    if is_before_the_request(attempt.exception, attempt.error):
        return True
    return profile.async_throws_first_failure and not handed_over and failure_of(attempt.exception) == "remoting"


def _message(attempt: Attempt) -> str | None:
    return attempt.error if attempt.error is not None else attempt.exception


def may_be_stored(attempt: Attempt) -> bool:
    """Whether the broker may hold the message by this attempt."""
    return attempt.exception is None or not is_surely_not_stored(attempt.exception)


def is_surely_not_stored(exception: str) -> bool:
    """Whether an attempt that threw this surely stored nothing."""
    return exception.rpartition(".")[2] in _NOT_STORED


def twice_because(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Why the message may be stored more than once: what was retried though it may have stored; empty: it is not.

    The broker knows nothing of a retry: each attempt that reaches it stores the message anew, under one unique id.
    """
    stored = [attempt for attempt in attempts if may_be_stored(attempt)]
    return tuple(dict.fromkeys(map(_word, stored[:-1])))


def _word(attempt: Attempt) -> str:
    if attempt.outcome in STORED:
        return "stored_and_retried" if attempt.outcome == "SEND_OK" else "not_store_ok_retried"
    if attempt.exception is not None and attempt.exception.rpartition(".")[2] == _TIMED_OUT:
        return "timeout_retried"
    return "no_answer_retried"
