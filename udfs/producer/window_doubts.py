"""Stretches of a date and what is not known of its processes in; why each stretch, and each process, is doubted, out.

A stretch is certain where no reading of the record moves one of its edges by more than the tolerance, or takes it away;
a process where none adds a stretch to those that are shown either. Three things are asked: the process's gaps
(``unseen_life``), what the fallback may have forgotten, and the same stretches as they are at most, if the client's own
measure reached the next rung of its ladder. Few processes have any of these, and only they cost anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hindsight.udfs.landing.landing_formats import TRACE
from hindsight.udfs.producer.choice_readings import Other
from hindsight.udfs.producer.fault_fold import Stretches
from hindsight.udfs.producer.producer_lives import Process
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import (
    CLOCK_TOLERANCE,
    FORGOTTEN,
    LADDER_EDGE,
    REASON_OF,
    UNSEEN_FAILURES,
    longest_ms,
)
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

_SHIFT = 1 << 30  # more than a date, and what lasts beyond it, in ms
_FIRM = ("certain", "inferred")


class Doubts(NamedTuple):
    """What is doubted of some stretches and of the date's processes.

    Attributes:
        reasons: of each stretch by its place, beside those of its whole process; absent: there are none.
        of_process: of each process by its place, why something of it on the date is doubted; absent: nothing is.
    """

    reasons: Mapping[int, tuple[str, ...]]
    of_process: Mapping[int, tuple[str, ...]]


def doubts_of(
    day: Day,
    held: Stretches,
    longest: Stretches,
    forgotten: Mapping[int, Sequence[int]],
    others: Mapping[int, Sequence[Other]],
    *,
    tolerance_ms: int,
) -> Doubts:
    """What is doubted.

    Args:
        held: stretches of the date; ``longest``: the first of them as they are at most, or these themselves.
        forgotten: by item, when the fallback may have forgotten it; ``others``: what it may have been otherwise.
    """
    size = max(len(day.brokers), 1)
    found, of_process = _hidden(day, held)
    gone = [n for n, marks in _marked(held, forgotten) if ((marks >= held.since[n]) & (marks < held.until[n])).any()]
    found += [(place, FORGOTTEN) for place in gone]
    of_process += [(int(held.item[place]) // size, FORGOTTEN) for place in gone]
    swapped = {item: [one.at for one in own if one.latency_ms is not None] for item, own in others.items()}
    swapped = {item: own for item, own in swapped.items() if own}
    of_process += [(item // size, CLOCK_TOLERANCE) for item in swapped]
    for place, marks in _marked(held, swapped):
        if (np.abs(marks - [[held.since[place]], [held.until[place]]]) <= tolerance_ms).any():
            found.append((place, CLOCK_TOLERANCE))
    if longest is not held:
        unlike = ~_is_matched(held, longest, tolerance_ms)
        found += [(place, LADDER_EDGE) for place in np.flatnonzero(unlike).tolist()]
        more = longest.item[~_is_matched(longest, held, tolerance_ms)]
        processes = np.unique(np.concatenate([held.item[unlike], more]) // size).tolist()
        of_process += [(process, LADDER_EDGE) for process in processes]
    return Doubts(_by_place(found), _by_place(of_process))


def _by_place(doubts: Iterable[tuple[int, str]]) -> dict[int, tuple[str, ...]]:
    found: dict[int, dict[str, None]] = defaultdict(dict)
    for place, reason in doubts:
        found[place][reason] = None
    return {place: tuple(reasons) for place, reasons in found.items()}


def _marked(held: Stretches, marks: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, IntArray]]:
    """The places of stretches of these items, each with the instants of its item."""
    for place in np.flatnonzero(np.isin(held.item, list(marks))).tolist():
        yield place, np.array(marks[int(held.item[place])])


def _hidden(day: Day, held: Stretches) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The stretches that a gap bears on, and the processes that have one, each with the reason."""
    found, of_process = [], []
    process = held.item // max(len(day.brokers), 1)
    for place, own in enumerate(day.processes):
        rows = np.flatnonzero(process == place).tolist() if own.gaps and day.replayed[place] else []
        for gap in own.gaps if day.replayed[place] else ():
            of_process.append((place, gap.reason))
            for row in rows:
                since, until = (int(each[row]) + day.midnight_ms for each in (held.since, held.until))
                if gap.bears_on(since, until, longest_ms(own.rules.profile)):
                    found.append((row, gap.reason))
    return found, of_process


def _is_matched(stretches: Stretches, others: Stretches, tolerance_ms: int) -> BoolArray:
    """Which stretches are among the others, their edges on the date no farther apart than the tolerance."""
    order = np.lexsort((others.since, others.item))
    keys = (others.item * _SHIFT + others.since)[order]
    place = np.searchsorted(keys, stretches.item * _SHIFT + stretches.since + tolerance_ms, side="right") - 1
    if not len(order):
        return np.zeros(len(stretches.item), np.bool_)
    its = order[np.maximum(place, 0)]
    found: BoolArray = (place >= 0) & (others.item[its] == stretches.item)
    found &= np.abs(others.since[its] - stretches.since) <= tolerance_ms
    found &= np.abs(_on_date(others.until[its]) - _on_date(stretches.until)) <= tolerance_ms
    return found


def _on_date(until: IntArray) -> IntArray:
    return np.minimum(until, DAY_MS)


def base_reasons(process: Process) -> tuple[str, ...]:
    """Why nothing of a process is certain; empty: some of it may be."""
    if process.certainty == "partial" and {*process.sources} == {TRACE}:
        return (UNSEEN_FAILURES,)
    return (REASON_OF[process.certainty],) if process.certainty in REASON_OF else ()


def weakened(certainty: str, reasons: Sequence[str]) -> str:
    """A certainty once these reasons are known."""
    return "possible" if reasons and certainty in _FIRM else certainty


def with_doubts(day: Day, doubts: Doubts) -> Day:
    """The date, its processes as certain as what is doubted of them leaves them."""
    processes = []
    for place, process in enumerate(day.processes):
        reasons = doubts.of_process.get(place, ())
        own = tuple(dict.fromkeys((*base_reasons(process), *reasons))) if day.replayed[place] else ()
        processes.append(process._replace(certainty=weakened(process.certainty, reasons), doubts=own))
    return day._replace(processes=processes)
