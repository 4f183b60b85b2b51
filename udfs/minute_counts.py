"""Attempts of parts of a date in; how many began in each minute, by process and by broker, out.

What is counted is few: a process has 1,440 minutes a date, and so has a broker, however many attempts there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from udfs.attempt_columns import Attempts
from udfs.not_available_duration import BoolArray, IntArray
from udfs.replayed_day import Day

MINUTE_MS = 60_000
MINUTES = 1440


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


NONE = Tally(np.zeros(0, np.int64), np.zeros(0, np.int64))


class MinuteCounts(NamedTuple):
    """What is counted of a date.

    Attributes:
        sends: first attempts of sends, by ``process * 1440 + minute``.
        traffic: attempts, by ``broker * 1440 + minute``.
    """

    sends: Tally = NONE
    traffic: Tally = NONE

    def plus(self, other: MinuteCounts) -> MinuteCounts:
        """Both together."""
        return MinuteCounts(self.sends.plus(other.sends), self.traffic.plus(other.traffic))


def minute_counts(a: Attempts, process: IntArray, broker: IntArray, which: BoolArray) -> MinuteCounts:
    """The counts of the attempts ``which``, those begun on the date to a broker whose name is known.

    Of an ASYNC send no hook sees another attempt than its first.
    """
    counts = which & a.on_date & (broker >= 0)
    first = counts & (a.attempt <= 0) & (process >= 0)
    minute = a.begin // MINUTE_MS
    return MinuteCounts(
        _tally(process[first] * MINUTES + minute[first]), _tally(broker[counts] * MINUTES + minute[counts])
    )


def _tally(numbers: IntArray) -> Tally:
    return Tally(*np.unique(numbers, return_counts=True))


def standing_of(day: Day) -> list[str]:
    """Of each process replayed, off or unknown: a switch that is not recorded is taken as off, but nobody knows."""
    return [
        "unknown" if p.rules.verdict == "off" and p.rules.settings.latency_fault_enabled is None else p.rules.verdict
        for p in day.processes
    ]
