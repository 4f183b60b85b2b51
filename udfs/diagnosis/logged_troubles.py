"""The events of a process in; what went wrong by kind and subject out: sends, locks, lists, isolations, whole calls.

Source of isolations: MQFaultStrategy and LatencyFaultToleranceImpl, 5.1.4 on; older clients print none. A window that
is printed is only ever extended, so those of one broker that overlap are one.

A call of send() makes several attempts, which share its time-out (4.3.0 on): what one broker takes, the next lacks. A
client prints only attempts that failed: whether a later one succeeded no line says, but that a call ended by throwing.
Source: DefaultMQProducerImpl#sendDefaultImpl and #sendKernelImpl, MQClientAPIImpl#onExceptionImpl, 4.0.0 to 5.5.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hindsight.udfs.diagnosis.log_findings import Event
from hindsight.udfs.diagnosis.log_processes import Process
from hindsight.udfs.logs.client_log_events import GIVEN_UP
from hindsight.udfs.producer.retry_rules import is_surely_not_stored

# Kinds that are counted by group and topic, in words for a person.
FAILURES = {
    "member_list_failed": "no member list",
    "topic_unknown": "topic not known yet",
    "allocation_failed": "the strategy failed",
    "rebalance_failed": "rebalance failed",
    "queue_add_failed": "queue not taken",
    "queue_pull_expired": "queue given up, not pulled from for 120 s",
    "unlock_blocked": "queue not unlocked, still consuming",
    "selection_failed": "selection_failed",
    "heartbeat_failed": "heartbeat_failed",
}
# What consumers met, counted by whom it met, in words of one and of several.
CONSUMING = {
    "pull_failed": ("pull failed", "pulls failed"),
    "consume_failed": ("time the listener failed", "times the listener failed"),
    "flow_control": ("pull put off by the client's flow control", "pulls put off by the client's flow control"),
    "pull_suspended": ("pull suspended", "pulls suspended"),
    "consumer_suspended": ("time the consumer was suspended", "times the consumer was suspended"),
    "consumer_resumed": ("time the consumer was resumed", "times the consumer was resumed"),
    "consume_not_locked": ("time a queue was not locked", "times a queue was not locked"),
    "message_expired": ("message sent back, too long in the listener", "messages sent back, too long in the listener"),
    "send_back_failed": ("message could not be sent back", "messages could not be sent back"),
    "result_dropped": ("result dropped: the messages come again", "results dropped: the messages come again"),
    "offset_not_stored": ("offset not read or stored", "offsets not read or stored"),
}
OFFSETS = ("offset_illegal", "offset_fixed", "offset_reset", "offset_went_back")
_REASON = re.compile(r"\b(?:e|ex|err|error|exception|reason|cause|desc)[:=] ?", re.IGNORECASE)
Subject = tuple[str | int | bool | tuple[str, ...] | None, ...]
_Counted = TypeVar("_Counted", bound=Subject)
NO_TIME_MS = 10  # in which no broker need answer
_THREW = "throw exception"


@dataclass
class Tally:
    """How often something happened, first and last when; ``most``: the highest of its figures."""

    count: int = 0
    first: int = 0
    last: int = 0
    most: int | None = None

    def add(self, at: int, figure: int | None) -> None:
        """Count one more."""
        self.first, self.last = (min(self.first, at), max(self.last, at)) if self.count else (at, at)
        self.count += 1
        if figure is not None:
            self.most = figure if self.most is None else max(self.most, figure)

    def join(self, other: Tally) -> None:
        """Count what another counted too."""
        for at, figure in ((other.first, other.most), (other.last, None)):
            self.add(at, figure)
        self.count += other.count - 2


class Isolation(NamedTuple):
    """A stretch in which a client held a broker unavailable, epoch milliseconds; ``until``: as it printed.

    ``state`` isolated, or unreachable: then ``until`` is when it was reachable again, None: no line tells.
    """

    broker_name: str
    state: str
    since: int
    until: int | None
    lines: int


class OffsetSet(NamedTuple):
    """An offset that was not taken up where it was left: ``kind`` says who set it, and why.

    ``offset_illegal``: the broker does not have what the client asked for; ``offset_fixed``: the client stored the new
    one; ``offset_went_back``: the broker answered with an earlier one; ``offset_reset``: an operator's command, sent by
    the broker at ``broker_address``.
    """

    at: int
    kind: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    queue_id: int | None
    offset: int | None
    new_offset: int | None
    min_offset: int | None
    max_offset: int | None
    broker_address: str | None
    detail: str | None


@dataclass
class Troubles:
    """What went wrong in one process, each kind by its subject in order.

    ``sends``: attempts by broker, response code, exception, whether the line lost its arguments; most: latency, ms.
    ``calls``: what these attempts were of, where they say. ``retried``: failed attempts of ASYNC sends by the broker
    that failed, its address, response code, exception, and the broker that was tried next. ``not_listed``: group,
    client; most: members in the list. ``locks``: group, topic, broker, queue. ``failures``: kind, group, topic,
    exception. ``given_up``: sends that ended with an exception by topic, brokers of the attempts, and what was said;
    most: ms. ``consuming``: what consumers met by kind, group, topic, broker, response code, exception and detail.
    ``offsets``: offsets that were set. ``notices``: of brokers that a group's members changed, by group: no trouble by
    themselves.
    """

    process: Process
    sends: dict[Subject, Tally]
    calls: list[LoggedCall]
    retried: dict[Subject, Tally]
    not_listed: dict[Subject, Tally]
    locks: dict[Subject, Tally]
    failures: dict[Subject, Tally]
    isolations: list[Isolation]
    given_up: dict[Subject, Tally]
    consuming: dict[Subject, Tally]
    offsets: list[OffsetSet]
    notices: dict[Subject, Tally]


def troubles_of(process: Process, brokers: Mapping[str, str]) -> Troubles:
    """What went wrong in a process; ``brokers``: names by address."""
    events = process.events
    return Troubles(
        process,
        _tally(events, "send_failed", _send, "latency_ms"),
        calls_of(events),
        _tally(events, "async_send_retried", lambda one: _retried(one, brokers)),
        _tally(events, "member_not_listed", lambda one: _named(one, "consumer_group", "client_id"), "member_count"),
        _locks(events),
        {subject: tally for kind in FAILURES for subject, tally in _failures(events, kind).items()},
        isolations_of(events),
        _tally(events, GIVEN_UP, _given_up, "latency_ms"),
        {
            subject: tally
            for kind in CONSUMING
            for subject, tally in _tally(events, kind, lambda one: _consuming(one, brokers), "reconsume_times").items()
        },
        [
            OffsetSet(one.at, one.kind, *(one.row.get(name) for name in OffsetSet._fields[2:]))
            for one in events
            if one.kind in OFFSETS
        ],
        _tally(events, "members_changed", lambda one: _named(one, "consumer_group")),
    )


def of_other_clients(events: Iterable[Event]) -> dict[Subject, Tally]:
    """What Go, C++ and gRPC clients tell.

    By language, kind, group, topic, client, broker, its address or the endpoints, queue, response code and reason.
    """
    names = "consumer_group", "topic", "client_id", "broker_name", "broker_address", "queue_id", "response_code"
    return tallied(
        ((one.row["language"], one.kind, *_named(one, *names), _reason(one)), one.at, one.row.get("latency_ms"))
        for one in sorted(events, key=lambda one: one.at)
    )


def _reason(one: Event) -> str | None:
    """Why: the exception, or what the line says of it; a gRPC client's detail is its whole line, with ids in it."""
    detail = str(one.row.get("detail") or "")
    said = _REASON.search(detail)
    told = detail[said.end() :] if said else "" if one.row["language"] == "GRPC" else detail
    return short_name(one.row.get("exception")) or told[:160] or None


def isolations_of(events: Iterable[Event]) -> list[Isolation]:
    """Stretches in which brokers were held unavailable, in order."""
    found: list[Isolation] = []
    open_at: dict[tuple[str, str], int] = {}  # place in ``found`` of the last stretch of a broker and state
    for one in events:
        broker = str(one.row.get("broker_name"))
        if one.kind == "broker_isolated":
            _isolate(found, open_at, broker, one)
        elif one.kind == "broker_unreachable" and (broker, "unreachable") not in open_at:
            open_at[broker, "unreachable"] = len(found)
            found.append(Isolation(broker, "unreachable", one.at, None, 1))
        elif one.kind == "broker_reachable" and (broker, "unreachable") in open_at:
            place = open_at.pop((broker, "unreachable"))
            found[place] = found[place]._replace(until=one.at)
    return found


def _isolate(found: list[Isolation], open_at: dict[tuple[str, str], int], broker: str, one: Event) -> None:
    until = one.at + one.row["duration_ms"]
    place = open_at.get((broker, "isolated"))
    if place is not None and one.at <= (found[place].until or 0):
        last = found[place]
        found[place] = last._replace(until=max(last.until or 0, until), lines=last.lines + 1)
    else:
        open_at[broker, "isolated"] = len(found)
        found.append(Isolation(broker, "isolated", one.at, until, 1))


def tallied(counted: Iterable[tuple[_Counted, int, int | None]]) -> dict[_Counted, Tally]:
    """Subjects with instants and figures, counted by subject in order of appearance."""
    found: dict[_Counted, Tally] = {}
    for subject, at, figure in counted:
        found.setdefault(subject, Tally()).add(at, figure)
    return found


def most_first(tallies: Mapping[Subject, Tally]) -> dict[Subject, Tally]:
    """The same, the most frequent first."""
    return dict(sorted(tallies.items(), key=lambda item: (-item[1].count, str(item[0]))))


def joined_tallies(several: Iterable[Mapping[Subject, Tally]]) -> dict[Subject, Tally]:
    """What several count of the same subjects, together."""
    found: dict[Subject, Tally] = {}
    for tallies in several:
        for subject, tally in tallies.items():
            found.setdefault(subject, Tally()).join(tally)
    return found


def _tally(
    events: Iterable[Event], kind: str, subject: Callable[[Event], Subject], figure: str = ""
) -> dict[Subject, Tally]:
    return most_first(tallied((subject(one), one.at, one.row.get(figure)) for one in events if one.kind == kind))


def _retried(one: Event, brokers: Mapping[str, str]) -> Subject:
    address = one.row.get("failed_address")
    return brokers.get(address or ""), address, *_error(one), one.row.get("broker_name")


def _given_up(one: Event) -> Subject:
    return one.row.get("topic"), one.row.get("brokers_sent", ()), one.row.get("detail")


def _consuming(one: Event, brokers: Mapping[str, str]) -> Subject:
    address = one.row.get("failed_address")
    broker = one.row.get("broker_name") or brokers.get(address or "", address)
    told = _named(one, "consumer_group", "topic")
    detail = one.row.get("detail")
    return one.kind, *told, broker, *_error(one), None if detail == "{}" else detail


def _failures(events: Iterable[Event], kind: str) -> dict[Subject, Tally]:
    """By kind, group, topic and exception. A member list that is not got is told twice: once with the exception."""
    found = _tally(events, kind, lambda one: (kind, *_named(one, "consumer_group", "topic"), _error(one)[1]))
    explained = {subject[1] for subject in found if subject[3]}
    if kind == "member_list_failed":
        return {subject: tally for subject, tally in found.items() if subject[3] or subject[1] not in explained}
    return found


def _locks(events: list[Event]) -> dict[Subject, Tally]:
    """A lock that is not got is told twice, as such and as a queue that was not added: the more frequent counts."""
    names = ("consumer_group", "topic", "broker_name", "queue_id")
    plain = _tally([one for one in events if not one.row.get("detail")], "lock_failed", lambda one: _named(one, *names))
    added = _tally([one for one in events if one.row.get("detail")], "lock_failed", lambda one: _named(one, *names))
    return {
        subject: max((of[subject] for of in (plain, added) if subject in of), key=lambda tally: tally.count)
        for subject in {**plain, **added}
    }


def _send(one: Event) -> Subject:
    return (one.row.get("broker_name"), *_error(one), bool(one.row.get("arguments_lost")))


def _error(one: Event) -> Subject:
    return one.row.get("response_code"), short_name(one.row.get("exception"))


def _named(one: Event, *names: str) -> Subject:
    return tuple(one.row.get(name) for name in names)


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


def short_name(exception: str | None) -> str | None:
    """A class without its package."""
    return exception.rpartition(".")[2] if exception else None
