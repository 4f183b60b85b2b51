"""Failed attempts of a process in, the calls that they were of out: who used the time up, and who had none.

A call of send() makes several attempts, which share its time-out (4.3.0 on): what one broker takes, the next lacks. A
client prints only attempts that failed: whether a later one succeeded no line says, but that a call ended by throwing.
Source: DefaultMQProducerImpl#sendDefaultImpl and #sendKernelImpl, MQClientAPIImpl#onExceptionImpl, 4.0.0 to 5.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import Event
from hindsight.udfs.producer.send_results import is_surely_not_stored

NO_TIME_MS = 10  # in which no broker need answer
_THREW = "throw exception"


class LoggedAttempt(NamedTuple):
    """An attempt that failed; ``at``: when it had. ``time_left_ms``: what its request was given; None: not said.

    ``had_no_time``: others had used it up, so its broker is not to blame. ``may_be_stored``: its request may have been
    carried out all the same.
    """

    at: int
    broker_name: str | None
    queue_id: int | None
    latency_ms: int | None
    time_left_ms: int | None
    exception: str | None
    response_code: int | None
    had_no_time: bool
    may_be_stored: bool


class LoggedCall(NamedTuple):
    """The failed attempts of one call, in order; ``threw``: its last one ended it.

    ``used_up_by``: the broker that took the time which later attempts lacked; None: they had some, or it is not said.
    ``may_be_stored_twice``: an attempt that may be stored was followed by another.
    """

    invoke_id: int
    topic: str | None
    attempts: tuple[LoggedAttempt, ...]
    threw: bool
    used_up_by: str | None
    may_be_stored_twice: bool


class AsyncRetry(NamedTuple):
    """An attempt of an ASYNC send that failed, and the broker that was tried next.

    ``broker_name``: of who failed, where lines give its address a name.
    """

    at: int
    broker_name: str | None
    address: str | None
    response_code: int | None
    exception: str | None
    next_broker: str | None


def calls_of(events: Iterable[Event]) -> list[LoggedCall]:
    """The calls of a process whose attempts name them, by their first failed attempt."""
    by_call: dict[int, list[Event]] = {}
    for one in events:
        if one.kind == "send_failed" and one.row.get("invoke_id") is not None:
            by_call.setdefault(one.row["invoke_id"], []).append(one)
    return [_call(invoke_id, of_call) for invoke_id, of_call in by_call.items()]


def _call(invoke_id: int, events: list[Event]) -> LoggedCall:
    attempts = tuple(map(_attempt, events))
    threw = events[-1].row.get("detail") == _THREW
    goes_on = attempts[:-1] if threw else attempts
    return LoggedCall(
        invoke_id,
        events[0].row.get("topic"),
        attempts,
        threw,
        _used_up_by(attempts),
        any(one.may_be_stored for one in goes_on),
    )


def _attempt(one: Event) -> LoggedAttempt:
    row = one.row
    exception, left, took = row.get("exception"), row.get("time_left_ms"), row.get("latency_ms")
    return LoggedAttempt(
        one.at,
        row.get("broker_name"),
        row.get("queue_id"),
        took,
        left,
        short_name(exception),
        row.get("response_code"),
        left is not None and max(left, took or 0) <= NO_TIME_MS,
        exception is not None and not is_surely_not_stored(exception),
    )


def _used_up_by(attempts: tuple[LoggedAttempt, ...]) -> str | None:
    """Of the attempts before the first without time the one that took longest."""
    without = next((i for i, one in enumerate(attempts) if one.had_no_time), 0)
    slowest = max(attempts[:without], key=lambda one: one.latency_ms or 0, default=None)
    return slowest.broker_name if slowest is not None and slowest.latency_ms else None


def async_retries_of(events: Iterable[Event], brokers: Mapping[str, str]) -> list[AsyncRetry]:
    """The failed attempts of ASYNC sends; ``brokers``: names by address."""
    return [
        AsyncRetry(
            one.at,
            brokers.get(one.row.get("failed_address", "")),
            one.row.get("failed_address"),
            one.row.get("response_code"),
            short_name(one.row.get("exception")),
            one.row.get("broker_name"),
        )
        for one in events
        if one.kind == "async_send_retried"
    ]


def short_name(exception: str | None) -> str | None:
    """A class without its package."""
    return exception.rpartition(".")[2] if exception else None
