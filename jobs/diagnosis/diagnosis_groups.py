"""What is known of one consumer group in, lines for a person out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from hindsight.jobs.diagnosis.diagnosis_consuming import consuming_told
from hindsight.jobs.diagnosis.diagnosis_words import Clock, Names, cut, few, queues_told, some, when, wrapped
from hindsight.udfs.diagnosis.log_diagnosis import Diagnosis, Rebalance
from hindsight.udfs.diagnosis.log_members import Member
from hindsight.udfs.diagnosis.logged_ownership import (
    LOG_ENDS,
    NOT_SAID_WHETHER_PUSH,
    PULLS,
    SHARED,
    STOPPED,
    UNKNOWN,
    WHY,
    Ownership,
)
from hindsight.udfs.diagnosis.logged_troubles import FAILURES, Tally
from hindsight.udfs.rebalances.rebalance_event import (
    BY_NOTICE,
    BY_TIMER,
    EXPIRED,
    LOCKED,
    ROUTE,
    START,
    SUBSCRIPTION,
    TIMER,
)
from hindsight.udfs.rebalances.rebalance_event import WHY as CAUSE_OF_ONE

_BRIEF_MS = 5_000  # shorter stretches one after the other are told as one
_RETRY = "%RETRY%"
_ALLOTTED = (PULLS, NOT_SAID_WHETHER_PUSH)
_CAUSE = {
    **CAUSE_OF_ONE,
    START: "clients started",
    ROUTE: "the topic's queues changed",
    SUBSCRIPTION: "other topics were subscribed",
    LOCKED: "a lock was acquired at last",
    EXPIRED: "a queue had not been pulled from for 120 s",
    **dict.fromkeys((TIMER, UNKNOWN), "no line shows why"),
}


def group_told(group: str, diagnosis: Diagnosis, names: Names, clock: Clock) -> Iterator[str]:
    """Members, who held what, rebalances, and what failed."""
    members = [one for one in diagnosis.members if one.consumer_group == group]
    yield f"{group}: {_members(members)}"
    owned = [one for one in diagnosis.ownership if one.key.consumer_group == group]
    yield from cut(_ownership(owned, {one.client_id for one in diagnosis.same_ids}, names, clock), "  ")
    behind = 4 + len(clock.at(0))
    rebalances = [one for one in diagnosis.rebalances if one.consumer_group == group]
    yield from _section("Owned by two at once", _held_by_two(group, diagnosis, clock))
    yield from _section("Rebalances", _rebalances(rebalances, clock), behind)
    yield from _section("Where new owners began", _moved_begins(group, diagnosis, clock), behind)
    yield from _section("Consuming", consuming_told(group, diagnosis.troubles, clock), 6)
    yield from _section("What failed", _failures(group, diagnosis, names, clock), 6)


def _section(title: str, texts: Iterable[str], hanging: int = 0) -> Iterator[str]:
    """``hanging``: how far lines of a text after its first are indented; 0: each text is one line."""
    lines = [line for one in texts for line in (wrapped(one, indent=2, hanging=hanging) if hanging else [f"  {one}"])]
    if lines:
        yield f"  {title}"
        yield from (f"  {line}" for line in cut(lines, "  "))


def _members(members: list[Member]) -> str:
    how = ["broadcasting"] if any(one.message_model == "BROADCASTING" for one in members) else []
    how += ["pulling"] if any(one.consume_type == "CONSUME_ACTIVELY" for one in members) else []
    without = sum(one.log is None for one in members)
    parts = [some(len(members), "member") if members else "members not named", *how]
    return ", ".join(parts) + (f"; {without} without a log here" if without else "")


def _ownership(owned: list[Ownership], twice: set[str], names: Names, clock: Clock) -> Iterator[str]:
    told = [one for one in owned if not one.key.topic.startswith(_RETRY)]
    for topic, of_topic in groupby(told, key=lambda one: one.key.topic):
        yield f"  Who owned what of {topic}" if topic else "  Members whose queues no line shows"
        for client_id, of_client in groupby(of_topic, key=lambda one: one.key.client_id):
            whose = names.process if client_id in twice else lambda log, pid: ""
            by_process = sorted(of_client, key=lambda one: whose(one.log, one.pid))
            for process, stretches in groupby(by_process, key=lambda one: whose(one.log, one.pid)):
                yield f"    {client_id or 'a client that its log does not name'}{process and f' in {process}'}"
                for line in _stretches(list(stretches), clock):
                    yield from wrapped(line, indent=6, hanging=12)
    hidden = sorted({one.key.topic for one in owned if one.key.topic.startswith(_RETRY)})
    if hidden:
        yield f"  ({', '.join(hidden)}: --json has it)"


def _stretches(stretches: list[Ownership], clock: Clock) -> Iterator[str]:
    ends = ""
    if len(stretches) > 1 and stretches[-1].reason == LOG_ENDS and stretches[-1].until is None:
        *stretches, _ = stretches
        ends = "; not known after"
    last = max((one.since for one in stretches if one.state != STOPPED), default=0)
    for is_brief, some_of_them in groupby(stretches, key=lambda one: _is_brief(one) and one.since != last):
        run = list(some_of_them)
        if is_brief and len(run) > 1:
            yield f"{clock.at(run[0].since)} to {clock.at(run[-1].until or 0)}  changed {len(run)} times"
            continue
        for one in run:
            until = f"to {clock.at(one.until)}" if one.until is not None else "on".ljust(3 + len(clock.at(0)))
            yield f"{clock.at(one.since)} {until}  {_held(one)}{ends if one is stretches[-1] else ''}"


def _is_brief(one: Ownership) -> bool:
    return one.until is not None and one.until - one.since < _BRIEF_MS


def _held(one: Ownership) -> str:
    if one.state == STOPPED:
        return "stopped"
    if one.state == SHARED:
        return f"{queues_told(one.queues)}, shared with others (POP)"
    if one.state != UNKNOWN:
        return queues_told(one.queues)
    if one.reason in _ALLOTTED:
        return f"allotted {queues_told(one.queues)}; unknown: {WHY[one.reason]}"
    last = f" (last said: {queues_told(one.queues)})" if one.queues else ""
    return f"unknown: {WHY[str(one.reason)]}{last}"


def _held_by_two(group: str, diagnosis: Diagnosis, clock: Clock) -> Iterator[str]:
    for one in diagnosis.held_by_two:
        if one.consumer_group == group:
            when = f"{clock.at(one.since)} to {clock.at(one.until)}"
            yield f"{when}  {one.topic} {queues_told(one.queues)}: {' and '.join(one.client_ids)}"


def _rebalances(rebalances: list[Rebalance], clock: Clock) -> Iterator[str]:
    for run in _of_one_start(rebalances):
        took = (max(one.ended_at for one in run) - run[0].began_at) / 1000
        text = f"took {took:.1f} s  clients started: {len(run)} rebalances, {_counts(run[0], run[-1])}"
        told = _rebalance(run[0]) if len(run) == 1 else text
        yield f"{clock.at(run[0].began_at)}  {told}"


def _moved_begins(group: str, diagnosis: Diagnosis, clock: Clock) -> Iterator[str]:
    for one in diagnosis.moved_begins:
        if one.consumer_group == group:
            what = f"{one.skipped:,} skipped" if one.skipped else f"{one.read_again:,} read again"
            stored = f"{one.from_client_id} stored {one.stored_offset}"
            queue = f"{one.topic} {one.broker_name}:{one.queue_id}"
            yield f"{clock.at(one.at)}  {queue}: {what}: {one.client_id} began at {one.began_offset}, {stored}"


def _of_one_start(rebalances: list[Rebalance]) -> list[list[Rebalance]]:
    """Rebalances of clients that started one soon after the other, together; each other one by itself."""
    found: list[list[Rebalance]] = []
    for one in rebalances:
        before = found[-1][-1] if found else None
        is_start = before is not None and START in one.triggers and START in before.triggers
        if before is not None and is_start and one.began_at - before.ended_at <= _BRIEF_MS:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _counts(first: Rebalance, last: Rebalance) -> str:
    before, after = first.members_before, last.members_after
    if after is None:
        return "members not counted"
    return some(after, "member") if before in (None, after) else f"{before} -> {some(after, 'member')}"


def _rebalance(one: Rebalance) -> str:
    why = " and ".join(dict.fromkeys(_CAUSE[cause] for cause in one.triggers))
    who = [f"{'started' if START in one.triggers else 'joined'}: {few(one.joined)}"] if one.joined else []
    who += [f"left: {few(one.left)}"] if one.left else []
    maybe = [_CAUSE[cause] for cause in one.also] if UNKNOWN in one.triggers else []
    who += [f"perhaps {' or '.join(maybe)}"] if maybe else []
    told = {BY_NOTICE: "woken by a broker", BY_TIMER: "found at the 20 s timer"}.get(one.woken_by)
    moved = f"{some(len(one.clients), 'client')} shared again, {some(one.moved, 'queue')} moved"
    parts = [f"{why} ({_counts(one, one)})", *who, *([told] if told else []), moved]
    at_least = "" if one.took_ms is not None else "at least "
    return f"took {at_least}{one.took_at_least_ms / 1000:.1f} s  " + "; ".join(parts)


def _failures(group: str, diagnosis: Diagnosis, names: Names, clock: Clock) -> Iterator[str]:
    for one in diagnosis.troubles:
        log = names.of(one.process.log)
        for subject, tally in one.not_listed.items():
            if subject[0] == group:
                size = f", which had {tally.most}" if tally.most is not None else ""
                yield f"{subject[1]} not in the member list{size}: {_times(tally, clock)}"
        for subject, tally in one.locks.items():
            if subject[0] == group:
                yield f"{subject[1]} {subject[2]}:{subject[3]} not locked: {_times(tally, clock)} ({log})"
        for subject, tally in one.failures.items():
            if subject[1] == group:
                about = " ".join(str(part) for part in subject[2:] if part)
                what = FAILURES[str(subject[0])]
                yield f"{what}, {about}: {_times(tally, clock)} ({log})"


def _times(tally: Tally, clock: Clock) -> str:
    return (f"{some(tally.count, 'time')}, " if tally.count > 1 else "") + when(tally, clock)
