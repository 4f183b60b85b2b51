"""Stretches of a date and what is not known of its processes in; why each stretch, and each process, is doubted, out.

A stretch is certain where no reading of the record moves one of its edges by more than the tolerance, or takes it away;
a process where none adds a stretch to those that are shown either. Three things are asked: the process's gaps
(``unseen_life``), what the fallback may have forgotten, and the same stretches as they are at most, if the client's own
measure reached the next rung of its ladder. Few processes have any of these, and only they cost anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hindsight.udfs.landing.landing_formats import TRACE
from hindsight.udfs.producer.attempt_columns import DAY_MS
from hindsight.udfs.producer.choice_readings import Other
from hindsight.udfs.producer.fault_fold import Stretches
from hindsight.udfs.producer.producer_lives import Process
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import (
    CLOCK_TOLERANCE,
    DETECTOR,
    FORGOTTEN,
    INFERRED,
    LADDER_EDGE,
    UNSEEN_FAILURES,
    UNSEEN_RETRIES,
    longest_ms,
)
from hindsight.udfs.values.row_hashes import BoolArray, IntArray

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
    found: dict[int, list[str]] = defaultdict(list)
    of_process: dict[int, list[str]] = defaultdict(list)
    size = max(len(day.brokers), 1)
    for place, reason in _hidden(day, held, of_process):
        found[place].append(reason)
    for place in np.flatnonzero(np.isin(held.item, list(forgotten))).tolist():
        marks = np.array(forgotten[int(held.item[place])])
        if ((marks >= held.since[place]) & (marks < held.until[place])).any():
            found[place].append(FORGOTTEN)
            of_process[int(held.item[place]) // size].append(FORGOTTEN)
    swapped = {item: [one.at for one in own if one.latency_ms is not None] for item, own in others.items()}
    swapped = {item: own for item, own in swapped.items() if own}
    for item in swapped:
        of_process[item // size].append(CLOCK_TOLERANCE)
    for place in np.flatnonzero(np.isin(held.item, list(swapped))).tolist():
        marks = np.array(swapped[int(held.item[place])])
        edges = (held.since[place], held.until[place])
        if any((np.abs(marks - edge) <= tolerance_ms).any() for edge in edges):
            found[place].append(CLOCK_TOLERANCE)
    if longest is not held:
        unlike = ~_is_matched(held, longest, tolerance_ms)
        for place in np.flatnonzero(unlike).tolist():
            found[place].append(LADDER_EDGE)
        more = longest.item[~_is_matched(longest, held, tolerance_ms)]
        for process in np.unique(np.concatenate([held.item[unlike], more]) // size).tolist():
            of_process[process].append(LADDER_EDGE)
    return Doubts(
        {place: tuple(dict.fromkeys(reasons)) for place, reasons in found.items()},
        {place: tuple(dict.fromkeys(reasons)) for place, reasons in of_process.items()},
    )


def _hidden(day: Day, held: Stretches, of_process: dict[int, list[str]]) -> list[tuple[int, str]]:
    """The stretches that a gap bears on, each with the reason."""
    found = []
    process = held.item // max(len(day.brokers), 1)
    for place, own in enumerate(day.processes):
        if not own.gaps or not day.replayed[place]:
            continue
        rows = np.flatnonzero(process == place)
        for gap in own.gaps:
            of_process[place].append(gap.reason)
            for row in rows.tolist():
                since, until = (int(each[row]) + day.midnight_ms for each in (held.since, held.until))
                if gap.bears_on(since, until, longest_ms(own.rules.profile)):
                    found.append((row, gap.reason))
    return found


def _is_matched(stretches: Stretches, others: Stretches, tolerance_ms: int) -> BoolArray:
    """Which stretches are among the others, their edges on the date no farther apart than the tolerance."""
    order = np.lexsort((others.since, others.item))
    keys = (others.item * _SHIFT + others.since)[order]
    place = np.searchsorted(keys, stretches.item * _SHIFT + stretches.since + tolerance_ms, side="right") - 1
    its = order[np.maximum(place, 0)] if len(order) else np.zeros(len(place), np.int64)
    if not len(order):
        return np.zeros(len(stretches.item), np.bool_)
    found: BoolArray = (place >= 0) & (others.item[its] == stretches.item)
    found &= np.abs(others.since[its] - stretches.since) <= tolerance_ms
    found &= np.abs(_on_date(others.until[its]) - _on_date(stretches.until)) <= tolerance_ms
    return found


def _on_date(until: IntArray) -> IntArray:
    return np.minimum(until, DAY_MS)


def base_reasons(process: Process) -> tuple[str, ...]:
    """Why nothing of a process is certain; empty: some of it may be."""
    if process.certainty == "partial":
        return (UNSEEN_FAILURES,) if {*process.sources} == {TRACE} else (UNSEEN_RETRIES,)
    return {"possible": (DETECTOR,), "inferred": (INFERRED,)}.get(process.certainty, ())


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
