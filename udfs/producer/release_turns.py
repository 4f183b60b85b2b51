"""Attempts of one process under one candidate in; whether brokers got their turn once nothing held them, out.

A thread's sends to a topic take the queues in turn, from a random start. So of twice as many sends as the topic has
queues one goes to every broker that is listed and available. A *lap* is so many first attempts of a thread on end,
without a retry between them. The laps count that begin just after a broker's last reason to be avoided: with the
switch on the end of its window; with the switch off, where nothing is a reason, a slow or failed attempt.

Source: ThreadLocalIndex and TopicPublishInfo#selectOneMessageQueue, 4.2.0 to 5.5.0.

How often something told against a candidate, of how many chances, in; whether that rules it out, out.

A record is never known to be whole: a hook measures a little later than its client, a line is lost, a route is stale.
So one impossible choice proves nothing. A candidate is ruled out when so many of its chances went wrong as a record
would show only once in ten thousand times if one chance in ten was misread; real records misread fewer than one in a
hundred. Four wrong chances of four are not enough, five are:

>>> Count(4, 4).rules_out(), Count(5, 5).rules_out(), Count(5, 300).rules_out()
(False, True, False)

A sample of attempts in, what every candidate looks at in it, out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import ATTEMPTS, FAR, NEVER, SYNC, Attempts, attempts_of, order_of, sent_by
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.release_profiles import PROFILES, STATUSES, FaultProfile
from hindsight.udfs.values.columns import BoolArray, IntArray

MISREAD = 0.1
_LEVEL = 1e-4
_MANY = 1_000
# A route lacks a broker for one poll of 30 s at least: one that was used twice within this time was listed all along.
LISTED_MS = 25_000
_AFTER_MS = 50  # sends that were chosen as the reason ended are left out
MOST = 5_000
_PLAIN = pa.array(["SEND_OK", "SUBMITTED"])


class Count(NamedTuple):
    """Chances that a candidate had, and those that went against it."""

    against: int
    chances: int

    def rules_out(self) -> bool:
        """Whether misread chances do not explain it."""
        return not self.is_misread() and _tail(self) < _LEVEL

    def is_misread(self) -> bool:
        """Whether no more went wrong than may be misread anyway."""
        return self.against <= MISREAD * self.chances


NONE = Count(0, 0)


def _tail(count: Count) -> float:
    """How likely at least so many of the chances are misread."""
    against, chances = count
    if chances > _MANY:  # many more than misread ones explain: the share alone decides
        return 0.0 if against > 2 * MISREAD * chances else 1.0
    return sum(comb(chances, k) * MISREAD**k * (1 - MISREAD) ** (chances - k) for k in range(against, chances + 1))


_RETRIED = [frozenset(profile.retry_response_codes) for profile in PROFILES.values()]
_NOT_RETRIED_BY_ALL = sorted(frozenset.union(*_RETRIED) - frozenset.intersection(*_RETRIED))


# By response code, how SYNC sends of a process went on after it: rows of attempts that were retried, and of those that
# ended their sends.
AfterCodes = Mapping[int, tuple[list[int], list[int]]]


def after_codes(a: Attempts, rows: IntArray) -> AfterCodes:
    """``rows``: those of one process."""
    code = a.table["response_code"].fill_null(0).to_numpy()
    own = rows[a.texts("mode").are(SYNC)[rows] & (a.attempt[rows] >= 0) & ~a.pinned[rows]]
    if not np.isin(code[own], _NOT_RETRIED_BY_ALL).any():
        return {}
    ids = a.table["msg_id"].to_pylist()
    sends: dict[str, dict[int, int]] = defaultdict(dict)
    for row in own.tolist():
        sends[ids[row]][int(a.attempt[row])] = row
    begun = {msg_id: int(a.begin[attempts[0]]) for msg_id, attempts in sends.items() if 0 in attempts}
    most = max((max(attempts) for attempts in sends.values()), default=0)
    spent = max((int(a.begin[max(sends[m].values())]) - at for m, at in begun.items()), default=0)
    found: dict[int, tuple[list[int], list[int]]] = {}
    for msg_id, attempts in sends.items():
        for number, row in sorted(attempts.items()):
            if int(code[row]) not in _NOT_RETRIED_BY_ALL or msg_id not in begun:
                continue
            retried, ended = found.setdefault(int(code[row]), ([], []))
            if number + 1 in attempts:
                retried.append(row)
            elif number < most and int(a.end[row]) - begun[msg_id] < spent:
                ended.append(row)
    return found


def count_of(family: FaultProfile, after: AfterCodes) -> tuple[Count, int | None]:
    """What tells against a family, of all sends that could; and the first such attempt."""
    chances, wrong = 0, list[int]()
    for code, (retried, ended) in after.items():
        is_retried = code in family.retry_response_codes
        if is_retried or not family.retry_codes_configurable:
            chances += len(retried) + len(ended)
            wrong += ended if is_retried else retried
    return Count(len(wrong), chances), min(wrong, default=None)


class Series(NamedTuple):
    """A thread's attempts to a topic, in order.

    Attributes:
        row: their places among the attempts of the sample.
        begin, broker: ms of the date, code.
        run: number of the run without a retry that it is in; -1: it is a retry.
        lap: how many sends make a lap.
    """

    topic: str
    row: IntArray
    begin: IntArray
    broker: IntArray
    run: IntArray
    lap: int


class Reason(NamedTuple):
    """A broker is to get its turn from ``at`` on, until ``until`` (the next time that something holds it)."""

    broker: int
    at: int
    until: int


# By topic and broker, when the process sent to it, in order.
Uses = Mapping[tuple[str, int], IntArray]
# Whether a topic's recorded routes list a broker at an instant, ms of the date; None: none is recorded.
Listed = Callable[[str, int, int], bool | None]


def turns_of(
    series: Sequence[Series], uses: Uses, reasons: Iterable[Reason], listed: Listed
) -> tuple[Count, int | None]:
    """Laps in which a broker had to come and did not, of how many; and the first attempt of the first of them."""
    ends: dict[tuple[int, int], int] = {}
    against, chances, first = 0, 0, None
    in_order = sorted(reasons, key=lambda r: (r.at, r.broker))
    later = np.array([reason.at + _AFTER_MS for reason in in_order])
    places = [np.searchsorted(own.begin, later, side="right").tolist() for own in series]
    for nth, reason in enumerate(in_order):
        for number, own in enumerate(series):
            place = places[number][nth]
            last = place + own.lap - 1
            if last >= len(own.begin) or reason.at < ends.get((number, reason.broker), -1):
                continue
            used = uses.get((own.topic, reason.broker))
            if used is None or own.run[place] < 0 or (own.run[place:last] != own.run[last]).any():
                continue
            since, until = int(own.begin[place]), int(own.begin[last])
            if until >= reason.until or not _is_listed(used, since, until, own.topic, reason.broker, listed):
                continue
            ends[number, reason.broker] = until
            chances += 1
            if not (own.broker[place : last + 1] == reason.broker).any():
                against += 1
                first = int(own.row[place]) if first is None else first
    return Count(against, chances), first


def uses_of(topic: Sequence[str], broker: IntArray, begin: IntArray) -> Uses:
    """The uses of some attempts."""
    found: dict[tuple[str, int], list[int]] = {}
    for of, code, at in zip(topic, broker.tolist(), begin.tolist(), strict=True):
        found.setdefault((of, code), []).append(at)
    return {key: np.sort(np.array(instants)) for key, instants in found.items()}


def _is_listed(used: IntArray, since: int, until: int, topic: str, broker: int, listed: Listed) -> bool:
    told = [listed(topic, broker, at) for at in (since, until)]
    if None not in told:
        return all(told)
    before, after = np.searchsorted(used, since, side="right") - 1, np.searchsorted(used, until)
    if before < 0 or after >= len(used):
        return False
    return bool(used[after] - used[before] < LISTED_MS)


def series_of(
    row: IntArray,
    begin: IntArray,
    broker: IntArray,
    topic: Sequence[str],
    thread: Sequence[str | None],
    retry: BoolArray,
    queue: IntArray,
) -> list[Series]:
    """The series of one process, whose attempts are given in order; those without a thread or a queue are left out.

    ``row``: where each attempt stands in the sample.
    """
    by_thread: dict[tuple[str, str], list[int]] = {}
    queues: dict[tuple[str, int], int] = {}
    for nth, (of, name) in enumerate(zip(topic, thread, strict=True)):
        key = of, int(broker[nth])
        queues[key] = max(queues.get(key, 0), int(queue[nth]) + 1)
        if name is not None:
            by_thread.setdefault((of, name), []).append(nth)
    laps: dict[str, int] = {}
    for (of, _), count in queues.items():
        laps[of] = laps.get(of, 0) + 2 * count
    found = []
    for (of, _), places in sorted(by_thread.items()):
        place = np.array(places)
        again = retry[place]
        run = np.where(again, -1, np.cumsum(again))
        found.append(Series(of, row[place], begin[place], broker[place], run, laps[of]))
    return found


def sample_of(
    tables: Callable[[], Iterable[pa.Table]], day: Day, slow_ms: Mapping[int, int]
) -> tuple[Attempts, frozenset[int]]:
    """The attempts that count, of each process in their order, and the processes that made more of them.

    Args:
        tables: gives the date's attempts part by part, in order; it is asked twice where some process is asked for.
        slow_ms: the processes that are asked for, by place, each with the least latency that some candidate holds a
            broker back for.
    """
    limit = np.full(len(day.processes) + 1, FAR)
    for place, ms in slow_ms.items():
        limit[place] = ms
    names = [day.processes[place].producer for place in slow_ms]
    first = np.full(len(limit), FAR)
    for table in tables() if slow_ms else ():
        a, process, own = _own(sent_by(table, names), day, limit)
        struck = own & _strikes(a, limit[process])
        np.minimum.at(first, process[struck], a.begin[struck])
    kept, cut = ATTEMPTS.empty_table(), set[int]()
    for every in tables() if (first < FAR).any() else ():
        table = sent_by(every, names)
        a, process, own = _own(table, day, limit)
        counts = own & (a.begin >= first[process])
        if counts.any():
            kept, more = _earliest(pa.concat_tables([kept, table.filter(pa.array(counts)).cast(ATTEMPTS)]), day)
            cut |= more
    return attempts_of(kept, day.midnight_ms), frozenset(cut)


def _own(table: pa.Table, day: Day, limit: IntArray) -> tuple[Attempts, IntArray, BoolArray]:
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    named = a.texts("broker_name").codes >= 0
    return a, process, (limit[process] < FAR) & a.on_date & named & a.flags("exceptions_observable")


def _strikes(a: Attempts, slow_ms: IntArray) -> BoolArray:
    plain = np.asarray(pc.is_in(a.table["outcome"].cast(pa.string()), _PLAIN))
    found: BoolArray = ~plain | ((a.end != NEVER) & (a.end - a.begin >= slow_ms))
    return found


def _earliest(table: pa.Table, day: Day) -> tuple[pa.Table, set[int]]:
    """Of each process the first ``MOST`` rows by begin, thread, message and attempt; and which processes had more."""
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    texts = {name: table[name] for name in ("thread", "msg_id", "attempt")}
    order = order_of({"process": process, "begin": a.begin, **texts})
    rank = np.arange(len(order)) - np.searchsorted(process[order], process[order], side="left")
    return table.take(pa.array(order[rank < MOST])), set(process[order][rank >= MOST].tolist())


STRIKES_MS = 550  # with the switch off: an attempt that every family's own ladder holds against its broker


class Chosen(NamedTuple):
    """The n first attempts of a process to one topic, which has m brokers.

    Attributes:
        begin: ms of the date.
        brokers: the codes of the m brokers, in order.
        chosen: of each attempt, the place of its broker among them.
        queues: how many queues each of the m has.
        listed: n x m; which of them the route had.
    """

    begin: IntArray
    brokers: IntArray
    chosen: IntArray
    queues: IntArray
    listed: BoolArray


class Process(NamedTuple):
    """The rows of one process in the sample, in order, as the counts need them.

    Attributes:
        rows: their places in the sample.
        series: of its threads and topics.
        uses: when it sent to each broker for each topic, in order.
        chosen: its first attempts, topic by topic.
    """

    rows: IntArray
    series: Sequence[Series]
    uses: Uses
    chosen: Sequence[Chosen]


class Looked(NamedTuple):
    """A sample as all candidates look at it.

    Attributes:
        attempts, process: those that count, and the place of each one's process.
        cut: processes that made more of them.
        routes: of the date.
    """

    day: Day
    facts: pa.Table
    attempts: Attempts
    process: IntArray
    cut: frozenset[int]
    broker: IntArray
    strikes: BoolArray
    first: BoolArray
    of_process: Mapping[int, Process]
    routes: RecordedRoutes
    tolerance_ms: int

    def listed(self, topic: str, broker: int, at: int) -> bool | None:
        """Whether the recorded routes list a broker at an instant of the date; None: none is recorded."""
        held = self.routes.held(topic, at + self.day.midnight_ms)
        return all(route.entry(self.day.brokers[broker]).is_listed() for route in held) if held else None


def looked_at(
    day: Day, facts: pa.Table, a: Attempts, cut: frozenset[int], routes: RecordedRoutes, tolerance_ms: int
) -> Looked:
    """The sample with what does not depend on a candidate."""
    process_of = day.process_of(a)
    broker = a.texts("broker_name").in_order_of(day.brokers)
    has_last = np.asarray(a.table["last_broker_name"].is_valid())
    outcome = a.texts("outcome")
    first = (a.attempt <= 0) & ~has_last & ~a.pinned
    took = np.where(a.end == NEVER, 0, a.end - a.begin)
    texts = {name: a.table[name].cast(pa.string()).to_pylist() for name in ("topic", "thread")}
    queue = a.table["queue_id"].fill_null(0).to_numpy()
    topics, found = a.texts("topic").codes, {}
    for process in np.unique(process_of).tolist():
        rows = np.flatnonzero((process_of == process) & ~a.pinned)
        own = {name: [values[row] for row in rows.tolist()] for name, values in texts.items()}
        retry = ~first[rows]
        series = series_of(rows, a.begin[rows], broker[rows], own["topic"], own["thread"], retry, queue[rows])
        firsts = rows[first[rows]]
        chosen = [
            _chosen(a.begin[of], broker[of], queue[of])
            for of in (firsts[topics[firsts] == topic] for topic in np.unique(topics[firsts]))
        ]
        found[process] = Process(rows, series, uses_of(own["topic"], broker[rows], a.begin[rows]), chosen)
    strikes = ~outcome.are("SUBMITTED", *STATUSES)
    strikes |= took >= STRIKES_MS
    return Looked(day, facts, a, process_of, cut, broker, strikes, first, found, routes, tolerance_ms)


def _chosen(begin: IntArray, broker: IntArray, queue: IntArray) -> Chosen:
    brokers, chosen = np.unique(broker, return_inverse=True)
    queues = np.array([int(queue[chosen == n].max()) + 1 for n in range(len(brokers))])
    listed = np.stack([_is_used_around(begin[chosen == n], begin) for n in range(len(brokers))], axis=1)
    return Chosen(begin, brokers, chosen, queues, listed)


def _is_used_around(uses: IntArray, at: IntArray) -> BoolArray:
    """Whether a broker was used within a route poll around each instant, so that it was listed; ``uses``: in order."""
    after = np.searchsorted(uses, at)
    inside = (after > 0) & (after < len(uses))
    gap = uses[np.minimum(after, len(uses) - 1)] - uses[np.maximum(after - 1, 0)]
    found: BoolArray = np.isin(at, uses) | (inside & (gap < LISTED_MS))
    return found
