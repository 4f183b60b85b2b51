"""Windows of a date in; the stretches in which isAvailable was false out, and the minutes that they touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hindsight.udfs.producer.attempt_columns import DAY_MS
from hindsight.udfs.producer.minute_counts import MINUTE_MS
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.values.arrays import IntArray

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
            until if until < _FAR else None,
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


_FAR = 1 << 40


def _end(window: Row) -> int:
    cut = window["end_reason"] == "cut_at_midnight" or window["window_end"] is None
    return _FAR if cut else int(window["window_end"])


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
    columns = [
        (
            h.process,
            place[h.broker_name],
            h.since,
            DAY_MS if h.until is None else h.until,
            CERTAINTIES.index(h.certainty),
        )
        for h in stretches
    ]
    process, broker, since, until, certainty = np.array(columns, np.int64).reshape(-1, 5).T
    # Instants are whole ms: the last one of a stretch is the one before its end.
    first, last = since // MINUTE_MS, (until - 1) // MINUTE_MS
    length = last - first + 1
    row = np.repeat(np.arange(len(first)), length)
    minute = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    order = np.lexsort((-certainty[row], minute, broker[row], process[row]))
    row, minute = row[order], minute[order]
    keys = np.stack([process[row], broker[row], minute])
    distinct = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(row)]
    row, minute = row[distinct], minute[distinct]
    return HeldMinutes(process[row], broker[row], minute, certainty[row])
