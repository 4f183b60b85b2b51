"""A diagnosis in, lines for a person out: what matters first, then group by group, then what the logs cannot tell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from hindsight.jobs.diagnosis.diagnosis_consuming import (
    brokers_in_short,
    brokers_told,
    consuming_in_short,
    consuming_told,
    given_up_in_short,
    groups_met,
    others_in_short,
    others_told,
)
from hindsight.jobs.diagnosis.diagnosis_groups import group_told
from hindsight.jobs.diagnosis.diagnosis_words import MOST, Clock, Names, cut, few, some, when, wrapped
from hindsight.udfs.diagnosis.log_diagnosis import CannotTell, Diagnosis
from hindsight.udfs.diagnosis.log_findings import BROKER_LOG, LogFindings
from hindsight.udfs.diagnosis.logged_ownership import LOG_ENDS, LOG_SILENT, NO_CLIENT_LOG
from hindsight.udfs.diagnosis.logged_troubles import LoggedAttempt, LoggedCall, Subject, Troubles, joined_tallies
from hindsight.udfs.rebalances.rebalance_event import START

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
    slowest = max((one.latency_ms or 0 for one in attempts), default=0)
    after = f", the slowest after {slowest:,} ms" if slowest else ""
    yield f"attempts failed at {_by_broker(timed)}{after}" if timed else "no attempt had time left"
    spent = Counter(str(call.used_up_by) for call in calls if call.used_up_by)
    starved = Counter(_name(one) for one in attempts if one.had_no_time)
    if spent:
        yield f"{', '.join(spent)} used up the time of {some(spent.total(), 'send')}"
    if starved:
        yield f"{_by_broker(starved)}: these attempts had no time left; their brokers are not to blame"
    twice = sum(call.may_be_stored_twice for call in calls)
    if twice:
        yield f"{some(twice, 'message')} may be stored twice: a request without an answer was made again"


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
            yield f"  {subject[0] or 'not named'}: {count}, {_why(*subject[1:3])}, {when(tally, clock)}{slowest}"
        for subject, tally in one.retried.items():
            count, again = some(tally.count, "ASYNC attempt"), f"tried again at {subject[4] or 'a broker not named'}"
            yield f"  {_who_failed(subject)}: {count}, {_why(*subject[2:4])}, {when(tally, clock)}; {again}"
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


_MOST_IN_SHORT = 5
_LONG_MS = 60_000  # before the last word of any client
_KINDS = {"client_log": "client", "broker_log": "broker", "both": "both?", "neither": "neither"}


def told(diagnosis: Diagnosis, left_alone: Iterable[str]) -> Iterator[str]:
    """What the logs tell."""
    names = Names([log.path for log in diagnosis.logs])
    clock = Clock([at for log in diagnosis.logs for at in log.wrote() or ()])
    lines = sum(log.lines for log in diagnosis.logs)
    show = "shows" if len(diagnosis.logs) == 1 else "show"
    yield f"What {some(len(diagnosis.logs), 'log')} of {some(lines, 'line')} {show}{clock.told()}"
    nothing = (
        () if diagnosis.ownership else ("Nothing of queues, members or sends was found; see the end of this page.",)
    )
    yield from _section("In short", list(_in_short(diagnosis, names, clock)) or nothing)
    yield from _section("Logs", _logs(diagnosis.logs, names, clock))
    for group in sorted({one.key.consumer_group for one in diagnosis.ownership} | _groups(diagnosis)):
        yield ""
        yield from group_told(group, diagnosis, names, clock)
    yield from _section("What brokers and proxies say", brokers_told(diagnosis.by_brokers, clock))
    yield from _section("Consuming, of groups not named", consuming_told(None, diagnosis.troubles, clock))
    yield from _section("What Go, C++ and gRPC clients say", others_told(diagnosis.other_clients, clock))
    yield from _section("Attempts to send that failed", sends_told(diagnosis.troubles, names, clock))
    yield from _section("Brokers that producers treated as unavailable", _isolations(diagnosis, names, clock))
    yield from _section("What these logs cannot show", _cannot_tell(diagnosis, names, left_alone))


def _groups(diagnosis: Diagnosis) -> set[str]:
    named = {one.consumer_group for one in diagnosis.members} | {one.consumer_group for one in diagnosis.rebalances}
    return named | {group for group in groups_met(diagnosis.troubles) if group}


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    lines = list(lines)
    if lines:
        yield ""
        yield title
        for line in cut(lines):
            yield from wrapped(line, indent=2, hanging=6)


def _in_short(diagnosis: Diagnosis, names: Names, clock: Clock) -> Iterator[str]:
    yield from given_up_in_short(diagnosis.troubles, clock)
    yield from sends_in_short(diagnosis.troubles)
    yield from brokers_in_short(diagnosis.by_brokers, clock)
    yield from consuming_in_short(diagnosis.troubles, clock)
    yield from others_in_short(diagnosis.other_clients, clock)
    isolations = [isolation for one in diagnosis.troubles for isolation in one.isolations]
    if isolations:
        brokers = ", ".join(sorted({one.broker_name for one in isolations}))
        yield f"{some(len(isolations), 'time')} a producer treated a broker as unavailable: {brokers}"
    for one in diagnosis.same_ids:
        whose = " and ".join(names.process(*process) for process in one.processes)
        when = f"{clock.at(one.since)} to {clock.at(one.until)}"
        told = f"{one.client_id} ran in two processes at once, {when}: {whose}"
        yield f"{told}. Both get the same queues: give each its own id"
    yield from _of_begins(diagnosis)
    yield from _of_queues(diagnosis)
    yield from _of_members(diagnosis, clock)
    yield from _of_rebalances(diagnosis, clock)
    yield from _of_notices(diagnosis, clock)


def _of_queues(diagnosis: Diagnosis) -> Iterator[str]:
    twice = sum(len(one.queues) for one in diagnosis.held_by_two)
    if twice:
        groups = sorted({one.consumer_group for one in diagnosis.held_by_two})
        yield f"{some(twice, 'time')} two clients owned one queue at once: {few(groups)}"
    not_listed = sum(tally.count for one in diagnosis.troubles for tally in one.not_listed.values())
    locks = sum(tally.count for one in diagnosis.troubles for tally in one.locks.values())
    if not_listed:
        yield f"{some(not_listed, 'time')} a client was not in the member list that it got, and gave its queues up"
    if locks:
        yield f"{some(locks, 'time')} a queue could not be locked"


def _of_begins(diagnosis: Diagnosis) -> Iterator[str]:
    skips = [one for one in diagnosis.moved_begins if one.skipped]
    if skips:
        groups = few(sorted({one.consumer_group for one in skips}))
        skipped = some(sum(one.skipped for one in skips), "offset")
        yield f"{some(len(skips), 'new owner')} of a queue skipped {skipped} behind what was stored: {groups}"


def _of_members(diagnosis: Diagnosis, clock: Clock) -> Iterator[str]:
    groups, members = _groups(diagnosis), diagnosis.members
    if not members:
        return
    without = sum(member.log is None for member in members)
    yield f"{some(len(groups), 'group')}, {some(len(members), 'member')}" + (
        f"; {without} without a log here: what they owned is not known" if without else ""
    )
    silent: dict[tuple[int, int], set[str]] = {}
    ended: dict[int, set[str]] = {}
    last = max(((log.wrote() or (0, 0))[1] for log in diagnosis.logs if log.kind != BROKER_LOG), default=0)
    for one in diagnosis.ownership:
        if one.reason == LOG_SILENT and one.until is not None:
            silent.setdefault((one.since, one.until), set()).add(str(one.key.client_id))
        elif one.reason == LOG_ENDS and one.queues and last - one.since > _LONG_MS:
            ended.setdefault(one.since, set()).add(str(one.key.client_id))
    for (since, until), clients in sorted(silent.items())[:_MOST_IN_SHORT]:
        when = f"from {clock.at(since)} to {clock.at(until)}, {_seconds(until - since)}"
        yield f"silent {when}: {few(clients)}. Frozen, or are lines missing?"
    for since, clients in sorted(ended.items())[:_MOST_IN_SHORT]:
        told = f"silent after {clock.at(since)}, without a stop: {few(clients)}"
        yield f"{told}. Killed, or is the rest of the log missing?"


def _of_rebalances(diagnosis: Diagnosis, clock: Clock) -> Iterator[str]:
    later = [one for one in diagnosis.rebalances if START not in one.triggers]
    if later:
        slowest = max(later, key=lambda one: (one.took_at_least_ms, -one.began_at))
        yield (
            f"{some(len(later), 'rebalance')} beside those of clients that started; the slowest took "
            f"{_seconds(slowest.took_at_least_ms)}: {slowest.consumer_group} at {clock.at(slowest.began_at)}"
        )


def _of_notices(diagnosis: Diagnosis, clock: Clock) -> Iterator[str]:
    """What brokers said of groups of which nothing else is known."""
    known = _groups(diagnosis)
    for (group,), tally in joined_tallies(one.notices for one in diagnosis.troubles).items():
        if group not in known:
            yield f"{some(tally.count, 'time')} a broker said that the members of {group} changed, {when(tally, clock)}"


def _logs(logs: list[LogFindings], names: Names, clock: Clock) -> Iterator[str]:
    width = max(len(names.of(log.path)) for log in logs)
    for log in logs:
        wrote = log.wrote()
        when = f"{clock.at(wrote[0])} to {clock.at(wrote[1])}" if wrote else "no time stamps"
        named = few(log.clients())
        lines = some(log.lines, "line").ljust(5 + len(f"{log.lines:,}")).rjust(15)
        yield f"{_KINDS[log.kind]:<8}{names.of(log.path):<{width}} {lines}  {when}  {named}".rstrip()
        for code, one in log.first_refused.items():
            yield f"        {log.refused[code]:,} refused, {code}: the first is line {one.line}: {one.detail}"


def _isolations(diagnosis: Diagnosis, names: Names, clock: Clock) -> Iterator[str]:
    for one in diagnosis.troubles:
        if one.isolations:
            yield names.of(one.process.log)
        for isolation in one.isolations[: MOST // 2]:
            until = clock.at(isolation.until) if isolation.until else "an end that no line shows"
            yield f"  {isolation.broker_name} {isolation.state} from {clock.at(isolation.since)} to {until}"
        if len(one.isolations) > MOST // 2:
            yield f"  and {len(one.isolations) - MOST // 2:,} more"


def _cannot_tell(diagnosis: Diagnosis, names: Names, left_alone: Iterable[str]) -> Iterator[str]:
    by_sentence: dict[str, list[CannotTell]] = {}
    for one in diagnosis.cannot_tell:
        by_sentence.setdefault(one.sentence, []).append(one)
    for sentence, of_it in by_sentence.items():
        whom = ", ".join(names.of(one.subject) for one in of_it[:6]) + (" and more" if len(of_it) > 6 else "")
        yield f"{whom}: {sentence}."
    groups = sorted({one.key.consumer_group for one in diagnosis.ownership if one.reason == NO_CLIENT_LOG})
    if groups:
        yield f"{', '.join(groups)}: what members without a log owned. Name their logs too."
    yield "Whether a client that is silent still owns its queues: only the cluster knows (hindsight collect)."
    for path in list(left_alone)[:MOST]:
        yield f"{os.path.relpath(path)}: not read: its name is no log's. Name the file itself."


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
