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
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from hindsight.udfs.producer.attempt_columns import SYNC, Attempts
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.arrays import BoolArray, IntArray

MISREAD = 0.1
_LEVEL = 1e-4
_MANY = 1_000
# A route lacks a broker for one poll of 30 s at least: one that was used twice within this time was listed all along.
LISTED_MS = 25_000
_AFTER_MS = 50  # sends that were chosen as the reason ended are left out


class Count(NamedTuple):
    """Chances that a candidate had, and those that went against it."""

    against: int
    chances: int

    def plus(self, other: Count) -> Count:
        """Both together."""
        return Count(self.against + other.against, self.chances + other.chances)

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


class AfterCode(NamedTuple):
    """How SYNC sends of a process went on after a code: rows of attempts that were retried, and that ended theirs."""

    retried: tuple[int, ...]
    ended: tuple[int, ...]


def after_codes(a: Attempts, rows: IntArray) -> dict[int, AfterCode]:
    """By code; ``rows``: those of one process."""
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
    found: dict[int, AfterCode] = {}
    for msg_id, attempts in sends.items():
        for number, row in sorted(attempts.items()):
            if int(code[row]) not in _NOT_RETRIED_BY_ALL or msg_id not in begun:
                continue
            known = found.get(int(code[row]), AfterCode((), ()))
            if number + 1 in attempts:
                known = known._replace(retried=(*known.retried, row))
            elif number < most and int(a.end[row]) - begun[msg_id] < spent:
                known = known._replace(ended=(*known.ended, row))
            found[int(code[row])] = known
    return found


def count_of(family: FaultProfile, after: Mapping[int, AfterCode]) -> tuple[Count, int | None]:
    """What tells against a family, of all sends that could; and the first such attempt."""
    count = NONE
    wrong: list[int] = []
    for code, told in after.items():
        if code in family.retry_response_codes:
            against = told.ended
        elif not family.retry_codes_configurable:
            against = told.retried
        else:
            continue
        count = count.plus(Count(len(against), len(told.retried) + len(told.ended)))
        wrong += against
    return count, min(wrong, default=None)


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


class Turns(NamedTuple):
    """Laps in which a broker had to come and did not, of how many; ``row``: the first attempt of the first of them."""

    laps: Count
    row: int | None


# By topic and broker, when the process sent to it, in order.
Uses = Mapping[tuple[str, int], IntArray]
# Whether a topic's recorded routes list a broker at an instant, ms of the date; None: none is recorded.
Listed = Callable[[str, int, int], bool | None]


def turns_of(series: Sequence[Series], uses: Uses, reasons: Iterable[Reason], listed: Listed) -> Turns:
    """How the brokers of these reasons came back."""
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
    return Turns(Count(against, chances), first)


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
    begin: IntArray,
    broker: IntArray,
    topic: Sequence[str],
    thread: Sequence[str | None],
    retry: BoolArray,
    queue: IntArray,
) -> list[Series]:
    """The series of one process, whose attempts are given in order; those without a thread or a queue are left out."""
    by_thread: dict[tuple[str, str], list[int]] = {}
    queues: dict[tuple[str, int], int] = {}
    for row, (of, name) in enumerate(zip(topic, thread, strict=True)):
        key = of, int(broker[row])
        queues[key] = max(queues.get(key, 0), int(queue[row]) + 1)
        if name is not None:
            by_thread.setdefault((of, name), []).append(row)
    laps: dict[str, int] = {}
    for (of, _), count in queues.items():
        laps[of] = laps.get(of, 0) + 2 * count
    found = []
    for (of, _), rows in sorted(by_thread.items()):
        place = np.array(rows)
        again = retry[place]
        run = np.where(again, -1, np.cumsum(again))
        found.append(Series(of, place, begin[place], broker[place], run, laps[of]))
    return found
