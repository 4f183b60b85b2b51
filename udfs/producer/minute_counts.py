"""Attempts of parts of a date in; how many began in each minute, by process and by broker, out.

What is counted is few: a process has 1,440 minutes a date, and so has a broker, however many attempts there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import FAR, Attempts, compact, spread
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

MINUTE_MS = 60_000
MINUTES = 1440
# ResponseCode.SYSTEM_BUSY: BrokerFastFailure ("[TIMEOUT_CLEAN_QUEUE]", "[PCBUSY_CLEAN_QUEUE]"), a full thread pool.
SYSTEM_BUSY = 2
# SendStatus of a message that is stored, but not yet flushed or copied; of a trace, any of them.
NOT_STORE_OK = ("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE", "NOT_STORE_OK")


class Tally(NamedTuple):
    """Numbers that occur, in order, and how often each does."""

    numbers: IntArray
    counts: IntArray

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        numbers, place = np.unique(np.concatenate([self.numbers, other.numbers]), return_inverse=True)
        counts = np.zeros(len(numbers), np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Tally(numbers, counts)

    def each(self) -> IntArray:
        """Every number as often as it occurs."""
        return np.repeat(self.numbers, self.counts)


NONE = Tally(np.zeros(0, np.int64), np.zeros(0, np.int64))


class MinuteCounts(NamedTuple):
    """What is counted of a date.

    Attributes:
        sends: first attempts of sends, by ``process * 1440 + minute``.
        chosen: of these, those whose queue the client chose itself, as far as is recorded; by the same.
        traffic: attempts, by ``broker * 1440 + minute``.
        answered: attempts of processes whose switch is known to be off that tell of the broker, by
            ``item * 1440 + minute``; ONEWAY and submits do not.
        slow: of these, those that took ``slow_ms`` or longer.
        busy: of ``traffic``, attempts that the broker refused as too busy; by the same.
        not_store_ok: of ``traffic``, attempts that it stored, but not as safely as it should; by the same.
    """

    sends: Tally = NONE
    chosen: Tally = NONE
    traffic: Tally = NONE
    answered: Tally = NONE
    slow: Tally = NONE
    busy: Tally = NONE
    not_store_ok: Tally = NONE

    def plus(self, other: MinuteCounts) -> MinuteCounts:
        """Both together."""
        return MinuteCounts(*(own.plus(its) for own, its in zip(self, other, strict=True)))


def minute_counts(
    a: Attempts, process: IntArray, broker: IntArray, which: BoolArray, day: Day, *, slow_ms: int
) -> MinuteCounts:
    """The counts of the attempts ``which``, those begun on the date to a broker whose name is known.

    Of an ASYNC send no hook sees another attempt than its first.
    """
    rows = np.flatnonzero(which & a.on_date & (broker >= 0))
    minute = a.begin[rows] // MINUTE_MS
    first = (a.attempt[rows] <= 0) & (process[rows] >= 0)
    by_process, by_broker = process[rows] * MINUTES + minute, broker[rows] * MINUTES + minute
    off = np.flatnonzero(switched_off(day)[process[rows]] & (process[rows] >= 0))
    outcome = a.texts("outcome")
    off = off[~outcome.are("SUBMITTED")[rows[off]]]
    by_item = day.item_of(process[rows[off]], broker[rows[off]]) * MINUTES + minute[off]
    is_busy = a.table["response_code"].fill_null(-1).to_numpy()[rows] == SYSTEM_BUSY
    is_slow = np.asarray(a.table["latency_ms"].take(pa.array(rows[off]))) >= slow_ms
    processes, brokers = len(day.processes), len(day.brokers)
    return MinuteCounts(
        sends=_tally(by_process[first], processes),
        chosen=_tally(by_process[first & ~a.pinned[rows]], processes),
        traffic=_tally(by_broker, brokers),
        answered=_tally(by_item, processes * brokers),
        slow=_tally(by_item[is_slow], processes * brokers),
        busy=_tally(by_broker[is_busy], brokers),
        not_store_ok=_tally(by_broker[outcome.are(*NOT_STORE_OK)[rows]], brokers),
    )


def switched_off(day: Day) -> BoolArray:
    """Which processes are known to go without the switch; last: none of them."""
    switches = [process.rules.settings.latency_fault_enabled for process in day.processes]
    return np.array([*(switch is False for switch in switches), False], dtype=np.bool_)


def _tally(numbers: IntArray, things: int) -> Tally:
    """What occurs of the minutes of so many things."""
    places, found = compact(numbers, things * MINUTES)
    return Tally(found, np.bincount(places, minlength=len(found)))


def standing_of(day: Day) -> list[str]:
    """Of each process replayed, off or unknown: a switch that is not recorded is taken as off, but nobody knows."""
    return [
        "unknown" if p.rules.verdict == "off" and p.rules.settings.latency_fault_enabled is None else p.rules.verdict
        for p in day.processes
    ]


GATED = frozenset(profile.id for profile in PROFILES.values() if profile.reachable_gates_availability)
# Of the four words the later in the alphabet is the weaker.
CERTAINTIES = ("certain", "inferred", "partial", "possible")


class Held(NamedTuple):
    """A stretch of one process and broker; instants in ms of the date.

    Attributes:
        process: its place among the date's.
        until: None: it lasts over midnight, or its end is not known.
        certainty: the weakest of its windows'; ``reasons``: why they are not certain.
    """

    process: int
    broker_name: str
    since: int
    until: int | None
    end_reason: str
    certainty: str
    profile: str
    last_attempt: int
    reasons: tuple[str, ...] = ()


Row = Mapping[str, Any]


def isolates(window: Row) -> bool:
    """The window is one in which isAvailable was false: in 5.1.4 an unreachable broker is not available either."""
    return window["state"] == "unavailable" or window["profile"].partition("|")[0] in GATED


def held_of(windows: Iterable[Row]) -> list[Held]:
    """The stretches of a date; windows that overlap or adjoin are one.

    ``windows``: rows of broker_availability_window of one date, with ``process`` (its place) and ``last_attempt_at``;
    instants in ms of the date.
    """
    by_item: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for window in windows:
        if isolates(window):
            by_item[window["process"], window["broker_name"]].append(window)
    return [held for _, own in sorted(by_item.items(), key=lambda each: each[0]) for held in _merged(own)]


def _merged(windows: list[Row]) -> Iterable[Held]:
    parts: list[list[Row]] = []
    farthest = 0
    for window in sorted(windows, key=lambda window: window["window_start"]):
        if not parts or window["window_start"] > farthest:
            parts.append([])
        parts[-1].append(window)
        farthest = max(farthest, _end(window))
    for part in parts:
        until, reason = max((_end(window), window["end_reason"]) for window in part)
        first = part[0]
        yield Held(
            first["process"],
            first["broker_name"],
            min(window["window_start"] for window in part),
            until if until < FAR else None,
            reason,
            max(window["certainty"] for window in part),
            first["profile"],
            first["last_attempt_at"],
            tuple(dict.fromkeys(reason for window in part for reason in reasons_of(window))),
        )


def reasons_of(window: Row) -> list[str]:
    """Why a window is not certain; empty: it is, or nobody said."""
    reason: str | None = window.get("reason")
    return reason.split(" + ") if reason else []


def _end(window: Row) -> int:
    cut = window["end_reason"] == "cut_at_midnight" or window["window_end"] is None
    return FAR if cut else int(window["window_end"])


class HeldMinutes(NamedTuple):
    """Each minute of the date that a process held a broker in, at some instant; ``certainty``: a place in the words."""

    process: IntArray
    broker: IntArray
    minute: IntArray
    certainty: IntArray


NO_MINUTES = HeldMinutes(*(np.zeros(0, np.int64) for _ in HeldMinutes._fields))


def held_minutes(stretches: Sequence[Held], brokers: Sequence[str]) -> HeldMinutes:
    """The minutes of the stretches, each once; ``brokers``: names by code."""
    place = {name: code for code, name in enumerate(brokers)}
    ends = (DAY_MS if h.until is None else h.until for h in stretches)
    columns = [
        (h.process, place[h.broker_name], h.since, until, CERTAINTIES.index(h.certainty))
        for h, until in zip(stretches, ends, strict=True)
    ]
    process, broker, since, until, certainty = np.array(columns, np.int64).reshape(-1, 5).T
    # Instants are whole ms: the last one of a stretch is the one before its end.
    first, last = since // MINUTE_MS, (until - 1) // MINUTE_MS
    row, nth = spread(last - first + 1)
    minute = first[row] + nth
    order = np.lexsort((-certainty[row], minute, broker[row], process[row]))
    row, minute = row[order], minute[order]
    keys = np.stack([process[row], broker[row], minute])
    distinct = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(row)]
    row, minute = row[distinct], minute[distinct]
    return HeldMinutes(process[row], broker[row], minute, certainty[row])
