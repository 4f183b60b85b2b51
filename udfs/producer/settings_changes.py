"""Impossible choices of a date and what was sent after the first of them in; whose settings changed meanwhile, out.

Switch and ladders can be set while a producer runs, and no line says so. A client that stopped to go by its table takes
brokers that it should avoid as often as the others: so often that of the sends that had another choice at least half as
many went to avoided brokers as the shares of brokers would bring them. A client that goes by it takes none, and a few
choices that somebody else made for it are far fewer: they stay impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import DAY_MS, attempts_of
from hindsight.udfs.producer.fault_fold import Stretches, taken
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import SETTINGS_CHANGED, Gap, merged_gaps
from hindsight.udfs.values.arrays import BoolArray, IntArray

_SEVERAL = 5  # fewer choices show nothing
_MIN_SHARE = 0.5


class Tally(NamedTuple):
    """Of sends that had another choice: those that went to avoided brokers, and how many their shares would bring."""

    against: float
    expected: float


def changed_settings(
    day: Day, impossible: Sequence[Mapping[str, Any]], held: Stretches, parts: Iterable[pa.Table]
) -> dict[int, int]:
    """The processes whose settings must have changed, by place, with the first choice that shows it, ms of the date.

    Args:
        impossible: rows of send_verdict with the place of their ``process``, ``begin_at`` in ms of the date.
        held: the stretches of the date in which isAvailable was false.
        parts: the attempts of the date.
    """
    counts = Counter(row["process"] for row in impossible if day.replayed[row["process"]])
    asked = {place for place, count in counts.items() if count >= _SEVERAL}
    if not asked:
        return {}
    first = {place: min(row["begin_at"] for row in impossible if row["process"] == place) for place in sorted(asked)}
    tallies = dict.fromkeys(first, Tally(0.0, 0.0))
    for table in parts:
        for place, own in _of_part(day, table, first, held):
            tallies[place] = Tally(*(a + b for a, b in zip(tallies[place], own, strict=True)))
    return {p: first[p] for p, t in tallies.items() if t.expected and t.against >= _MIN_SHARE * t.expected}


def _of_part(day: Day, table: pa.Table, first: Mapping[int, int], held: Stretches) -> Iterable[tuple[int, Tally]]:
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    broker, topic = a.texts("broker_name").in_order_of(day.brokers), a.texts("topic").in_order_of(day.topics)
    size = max(len(day.brokers), 1)
    for place, since in first.items():
        own = (process == place) & a.on_date & (a.begin >= since) & (a.attempt <= 0) & ~a.pinned & (broker >= 0)
        rows = np.flatnonzero(own)
        for code in np.unique(topic[rows]).tolist():
            sent = rows[topic[rows] == code]
            brokers = _brokers_of(day, place, code)
            avoided = np.stack([_is_held(held, place * size + b, a.begin[sent]) for b in brokers], axis=1)
            has_choice = avoided.any(axis=1) & ~avoided.all(axis=1)
            taken_one = avoided[np.arange(len(sent)), np.searchsorted(brokers, broker[sent])]
            yield place, Tally(float(taken_one[has_choice].sum()), float(avoided[has_choice].mean(axis=1).sum()))


def _brokers_of(day: Day, process: int, topic: int) -> IntArray:
    """Codes of the brokers that a process used for a topic on the date, in order."""
    size = len(day.brokers)
    lowest = (process * len(day.topics) + topic) * size
    since, until = np.searchsorted(day.uses, [lowest, lowest + size])
    codes: IntArray = day.uses[since:until] - lowest
    return codes


def _is_held(held: Stretches, item: int, at: IntArray) -> BoolArray:
    own = taken(held, held.item == item)
    order = np.argsort(own.since)
    since, until = own.since[order], np.maximum.accumulate(np.minimum(own.until[order], DAY_MS))
    place = np.searchsorted(since, at) - 1
    found: BoolArray = (place >= 0) & (at < until[np.maximum(place, 0)]) if len(since) else np.zeros(len(at), np.bool_)
    return found


def with_changes(day: Day, changes: Mapping[int, int]) -> Day:
    """The date, nothing of these processes certain any more."""
    processes = list(day.processes)
    for place in changes:
        process = processes[place]
        gap = Gap(None, process.last_attempt_ms, SETTINGS_CHANGED)
        processes[place] = process._replace(gaps=merged_gaps((*process.gaps, gap)))
    return day._replace(processes=processes) if changes else day


def explained(verdicts: pa.Table, rows: Sequence[Mapping[str, Any]], changes: Mapping[int, int]) -> pa.Table:
    """The verdicts, those of these processes possible that were impossible; ``rows``: the impossible ones, in order."""
    if not changes:
        return verdicts
    impossible = pc.equal(verdicts["verdict"], "impossible")
    told = np.zeros(len(verdicts), np.bool_)
    told[np.flatnonzero(np.asarray(impossible))] = [row["process"] in changes for row in rows]
    which = pa.array(told)
    for name, value in (("verdict", "possible"), ("reason", SETTINGS_CHANGED)):
        place = verdicts.schema.get_field_index(name)
        column = pc.if_else(which, pa.scalar(value), verdicts[name])
        verdicts = verdicts.set_column(place, verdicts.schema.field(name), column)
    return verdicts
