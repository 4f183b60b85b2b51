"""A send's attempts and what is known of its producer in; whether each retry was right, and what its caller got, out.

sendDefaultImpl is a loop of 1 + retryTimesWhenSendFailed attempts (SYNC) or of one (ASYNC, ONEWAY). It goes on after
the exceptions that it catches, after a broker's error if its code is among retryResponseCodes, and after a status other
than SEND_OK if retryAnotherBrokerWhenNotStoreOK. From 4.3.0 on it stops when the time-out of all attempts is over.
An attempt whose end is not known may have stored the message: then it may be there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from hindsight.udfs.producer.attempt_updates import failure_of, is_before_the_request
from hindsight.udfs.release_profiles import STATUSES, FaultProfile

RetryVerdict = Literal["right", "missing", "not_allowed", "beyond_budget", "unknown"]

STORED = (*STATUSES, "NOT_STORE_OK")
RETRY_TIMES, ANOTHER, TIMEOUT, CODES = (
    "retryTimesWhenSendFailed",
    "retryAnotherBrokerWhenNotStoreOK",
    "sendMsgTimeout",
    "retryResponseCodes",
)
# No later record tells of the producer; no later record is there yet.
PRODUCER_ENDS, RECORD_ENDS = "producer_ends", "record_ends"
ResultKind = Literal["ok", "not_ok", "exception", "timeout", "unknown"]

_CALL_TIMEOUT = "sendDefaultImpl call timeout"
# What surely stored nothing: the request never left, or the broker refused it.
_NOT_STORED = ("RemotingConnectException", "RemotingTooMuchRequestException", "MQBrokerException")
_TIMED_OUT = "RemotingTimeoutException"


class SendSettings(NamedTuple):
    """How a producer sends; each as recorded, None: not recorded, so the default of DefaultMQProducer counts."""

    retry_times_sync: int | None = None
    retry_times_async: int | None = None
    retry_another_broker: bool | None = None
    send_timeout_ms: int | None = None

    @property
    def times_total(self) -> int:
        """The most attempts of a SYNC send."""
        return 1 + (2 if self.retry_times_sync is None else self.retry_times_sync)

    @property
    def timeout_ms(self) -> int:
        """Time-out of a send that is not given one of its own."""
        return 3000 if self.send_timeout_ms is None else self.send_timeout_ms

    def assumed(self, profile: FaultProfile) -> tuple[str, ...]:
        """Names of what a SYNC send's verdict rests on and no record tells."""
        known = {RETRY_TIMES: self.retry_times_sync, ANOTHER: self.retry_another_broker, TIMEOUT: self.send_timeout_ms}
        not_told = tuple(name for name, value in known.items() if value is None)
        return (*not_told, CODES) if profile.retry_codes_configurable else not_told


class Attempt(NamedTuple):
    """One attempt; instants in ms of one clock.

    Attributes:
        number: 0 for the first of its send; None: not recorded.
        outcome: as in ``send_attempt``.
        code: the broker's response code; None: none is told.
    """

    number: int | None
    begin_ms: int
    end_ms: int
    broker_name: str | None
    queue_id: int | None
    outcome: str
    exception: str | None = None
    error: str | None = None
    code: int | None = None


class Asked(NamedTuple):
    """Whether the rules ask for another attempt; ``rule``: why, ``rests_on``: the setting that decides."""

    goes_on: bool | None
    rule: str
    rests_on: str | None = None


def after(attempt: Attempt, profile: FaultProfile, settings: SendSettings) -> Asked:
    """What follows a SYNC attempt by its outcome alone, as long as times and time last; None: not known.

    Source: DefaultMQProducerImpl#sendDefaultImpl, 4.2.0 to 5.5.0.
    """
    if attempt.outcome == "SEND_OK":
        return Asked(False, "stored")
    if attempt.outcome in STORED:
        return Asked(bool(settings.retry_another_broker), f"status {attempt.outcome}", ANOTHER)
    if attempt.exception is None:
        return Asked(None, "no_result")
    failure = failure_of(attempt.exception)
    if failure != "broker":
        return Asked(failure in ("remoting", "client"), attempt.exception.rpartition(".")[2])
    if attempt.code is None:
        return Asked(None, "no_response_code")
    if attempt.code in profile.retry_response_codes:  # DefaultMQProducer#addRetryResponseCode takes none away
        return Asked(True, f"response code {attempt.code}")
    return Asked(False, f"response code {attempt.code}", CODES if profile.retry_codes_configurable else None)


class Judgement(NamedTuple):
    """What is said of a send's retries, and why; None: nothing stands out."""

    verdict: RetryVerdict
    reason: str | None = None


class _Fault(NamedTuple):
    verdict: RetryVerdict
    reason: str
    rests_on: tuple[str | None, ...] = ()


def judge(
    attempts: Sequence[Attempt],
    profile: FaultProfile,
    settings: SendSettings,
    *,
    tolerance_ms: int,
    ends: str | None,
) -> Judgement:
    """Whether a SYNC send's attempts are those that the rules ask for.

    Args:
        attempts: at least one, in order.
        ends: why the last one may have been followed by another that no record tells of yet; None: it may not.

    A verdict that rests on a setting which no record tells, and may be otherwise, is unknown. ``missing``: the rules
    ask for another attempt and none is recorded; a hook sees none to a broker whose address the client lacks.
    """
    if not is_whole(attempts):
        return Judgement("unknown", "attempts_not_recorded")
    assumed = settings.assumed(profile)
    for fault in _faults(attempts, profile, settings, tolerance_ms):
        supposed = [name for name in fault.rests_on if name in assumed]
        if fault.verdict == "unknown":
            return Judgement("unknown", fault.reason)
        if supposed:
            return Judgement("unknown", f"{fault.verdict}: {fault.reason}, if {', '.join(supposed)} as by default")
        if fault.verdict == "missing" and ends:
            return Judgement("unknown", ends)
        return Judgement(fault.verdict, fault.reason)
    return Judgement("right")


def _faults(
    attempts: Sequence[Attempt], profile: FaultProfile, settings: SendSettings, tolerance_ms: int
) -> Iterator[_Fault]:
    for number, (attempt, retry) in enumerate(pairwise(attempts), start=1):
        asked = after(attempt, profile, settings)
        if asked.goes_on is None:
            yield _Fault("unknown", asked.rule)
        elif not asked.goes_on:
            yield _Fault("not_allowed", f"attempt {number} after {asked.rule}", (asked.rests_on,))
        elif number >= settings.times_total:
            reason = f"attempt {number} of at most {settings.times_total}"
            yield _Fault("not_allowed", reason, (RETRY_TIMES,))
        elif (spent := _cost(attempts, retry.begin_ms, profile)) > settings.timeout_ms + tolerance_ms:
            reason = f"attempt {number} began after {spent} of {settings.timeout_ms} ms"
            yield _Fault("beyond_budget", reason, (TIMEOUT,))
    asked = after(attempts[-1], profile, settings)
    is_over = is_exhausted(attempts, settings) or is_spent(attempts, profile, settings, tolerance_ms)
    if asked.goes_on is None:
        yield _Fault("unknown", asked.rule)
    elif asked.goes_on and not is_over:
        reason = f"no attempt {len(attempts)} after {asked.rule}"
        yield _Fault("missing", reason, (asked.rests_on, RETRY_TIMES, TIMEOUT))


def is_whole(attempts: Sequence[Attempt]) -> bool:
    """Their numbers leave none out, or none is recorded."""
    return [a.number for a in attempts] in ([*range(len(attempts))], [None] * len(attempts))


def is_exhausted(attempts: Sequence[Attempt], settings: SendSettings) -> bool:
    """No attempt is left."""
    return len(attempts) >= settings.times_total


def is_spent(attempts: Sequence[Attempt], profile: FaultProfile, settings: SendSettings, tolerance_ms: int = 0) -> bool:
    """The time-out of all attempts was over as the last one ended; false where each has its own."""
    cost = _cost(attempts, attempts[-1].end_ms, profile)
    return profile.attempts_share_timeout and cost >= settings.timeout_ms - tolerance_ms


def _cost(attempts: Sequence[Attempt], at_ms: int, profile: FaultProfile) -> int:
    """Ms of the shared time-out that are gone; 0 where none is shared."""
    return at_ms - attempts[0].begin_ms if profile.attempts_share_timeout else 0


def used_up_by(attempts: Sequence[Attempt], profile: FaultProfile, settings: SendSettings) -> int | None:
    """Number of the attempt in which the time-out ran out; None: in none."""
    for number, attempt in enumerate(attempts):
        since = attempts[0] if profile.attempts_share_timeout else attempt
        if attempt.end_ms - since.begin_ms >= settings.timeout_ms:
            return number
    return None


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
