"""Attempts of parts of a date in; how many began in each minute, by process and by broker, out.

What is counted is few: a process has 1,440 minutes a date, and so has a broker, however many attempts there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import Attempts
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.values.arrays import BoolArray, IntArray

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
    is_slow = np.asarray(a.table["latency_ms"].take(pa.array(rows[off]))) >= slow_ms
    return MinuteCounts(
        sends=_tally(by_process[first]),
        chosen=_tally(by_process[first & ~a.pinned[rows]]),
        traffic=_tally(by_broker),
        answered=_tally(by_item),
        slow=_tally(by_item[is_slow]),
        busy=_tally(by_broker[_codes(a)[rows] == SYSTEM_BUSY]),
        not_store_ok=_tally(by_broker[outcome.are(*NOT_STORE_OK)[rows]]),
    )


def switched_off(day: Day) -> BoolArray:
    """Which processes are known to go without the switch; last: none of them."""
    switches = [process.rules.settings.latency_fault_enabled for process in day.processes]
    return np.array([*(switch is False for switch in switches), False], dtype=np.bool_)


def _codes(a: Attempts) -> IntArray:
    codes: IntArray = a.table["response_code"].fill_null(-1).to_numpy()
    return codes


def _tally(numbers: IntArray) -> Tally:
    return Tally(*np.unique(numbers, return_counts=True))


def standing_of(day: Day) -> list[str]:
    """Of each process replayed, off or unknown: a switch that is not recorded is taken as off, but nobody knows."""
    return [
        "unknown" if p.rules.verdict == "off" and p.rules.settings.latency_fault_enabled is None else p.rules.verdict
        for p in day.processes
    ]
