"""Failed attempts to send in, lines for a person out: who took the time, who had none, what may be stored twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hindsight.jobs.diagnosis.diagnosis_words import Clock, Names, some
from hindsight.udfs.diagnosis.logged_calls import LoggedAttempt, LoggedCall
from hindsight.udfs.diagnosis.logged_troubles import Subject, Tally, Troubles

_MOST_CALLS = 10  # of one process, that are told one by one
_UNNAMED = "a broker that is not named"


def sends_in_short(troubles: Iterable[Troubles]) -> Iterator[str]:
    """The heads of what went wrong with sends; nothing: no attempt failed."""
    troubles = list(troubles)
    calls = [call for one in troubles for call in one.calls]
    if calls:
        yield from _of_calls(calls)
    lost = sum(tally.count for one in troubles for subject, tally in one.sends.items() if subject[-1])
    if lost:
        yield f"{some(lost, 'attempt')} to send failed at {_UNNAMED}"
    retried: Counter[str] = Counter()
    for one in troubles:
        for subject, tally in one.retried.items():
            retried[_who_failed(subject)] += tally.count
    if retried:
        yield f"{some(retried.total(), 'attempt')} of ASYNC sends failed and were made again: {_by_broker(retried)}"


def _of_calls(calls: list[LoggedCall]) -> Iterator[str]:
    attempts = [attempt for call in calls for attempt in call.attempts]
    threw = sum(call.threw for call in calls)
    ended = f"{threw} ended with an exception" if threw else "no line shows whether the sends failed"
    yield f"{some(len(calls), 'send')} had {some(len(attempts), 'failed attempt')}; {ended}"
    timed = Counter(_name(one) for one in attempts if not one.had_no_time)
    yield f"attempts failed at {_by_broker(timed)}{_slowest(attempts)}" if timed else "no attempt had time left"
    spent = Counter(str(call.used_up_by) for call in calls if call.used_up_by)
    starved = Counter(_name(one) for one in attempts if one.had_no_time)
    if spent:
        yield f"{', '.join(spent)} used up the time of {some(spent.total(), 'send')}"
    if starved:
        yield f"{_by_broker(starved)}: these attempts had no time left; their brokers are not to blame"
    twice = sum(call.may_be_stored_twice for call in calls)
    if twice:
        yield f"{some(twice, 'message')} may be stored twice: a request without an answer was made again"


def _slowest(attempts: list[LoggedAttempt]) -> str:
    slowest = max((one.latency_ms or 0 for one in attempts), default=0)
    return f", the slowest after {slowest:,} ms" if slowest else ""


def _by_broker(counts: Counter[str]) -> str:
    return ", ".join(f"{broker} {count:,}" for broker, count in sorted(counts.items(), key=lambda x: (-x[1], x[0])))


def _name(one: LoggedAttempt) -> str:
    return one.broker_name or _UNNAMED


def _who_failed(subject: Subject) -> str:
    name, address = subject[0], subject[1]
    return str(name or address or _UNNAMED)


def sends_told(troubles: Iterable[Troubles], names: Names, clock: Clock) -> Iterator[str]:
    """Each log's attempts by broker, then its calls one by one."""
    for one in troubles:
        if one.sends or one.retried:
            yield names.of(one.process.log)
        for subject, tally in one.sends.items():
            slowest = f", at most {tally.most:,} ms" if tally.most is not None else ""
            count = some(tally.count, "attempt")
            yield f"  {subject[0] or 'not named'}: {count}, {_why(*subject[1:3])}, {_when(tally, clock)}{slowest}"
        for subject, tally in one.retried.items():
            count, again = some(tally.count, "ASYNC attempt"), f"tried again at {subject[4] or 'a broker not named'}"
            yield f"  {_who_failed(subject)}: {count}, {_why(*subject[2:4])}, {_when(tally, clock)}; {again}"
        yield from (f"  {_call(call, clock)}" for call in one.calls[:_MOST_CALLS])
        if len(one.calls) > _MOST_CALLS:
            yield f"  and {len(one.calls) - _MOST_CALLS:,} more sends: --json has all"


def _call(call: LoggedCall, clock: Clock) -> str:
    attempts = "; ".join(map(_attempt, call.attempts))
    end = "it threw" if call.threw else "no line shows how it ended"
    twice = "; may be stored twice" if call.may_be_stored_twice else ""
    return f"send of {call.topic} at {clock.at(call.attempts[0].at)}: {attempts}; {end}{twice}"


def _attempt(one: LoggedAttempt) -> str:
    took = f"after {one.latency_ms:,} ms" if one.latency_ms is not None else "after a time that is not said"
    left = f" of {one.time_left_ms:,} ms that were left" if one.time_left_ms is not None else ""
    if one.had_no_time:
        return f"{_name(one)}:{one.queue_id} with {one.time_left_ms:,} ms left"
    return f"{_name(one)}:{one.queue_id} {took}{left}, {_why(one.response_code, one.exception)}"


def _why(code: object, exception: object) -> str:
    return f"{exception or 'no exception printed'}" + (f", code {code}" if code is not None else "")


def _when(tally: Tally, clock: Clock) -> str:
    if tally.count == 1:
        return f"at {clock.at(tally.first)}"
    return f"{clock.at(tally.first)} to {clock.at(tally.last)}"
