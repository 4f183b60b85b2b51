"""Stretches that ended and the attempts of parts of their date in; the sends that each producer made after them out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import attempts_of
from hindsight.udfs.producer.held_stretches import Held
from hindsight.udfs.producer.minute_counts import MINUTE_MS, MINUTES, Tally
from hindsight.udfs.producer.producer_finding import Send, Thresholds
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.return_rules import Watch, shares_of, watches
from hindsight.udfs.values.arrays import IntArray

Queues = Mapping[str, Mapping[str, int | None]]


def worth_watching(held: Sequence[Held], chosen: Tally, queues: Queues, limits: Thresholds) -> list[Watch]:
    """The watches in which enough sends may have been expected: known from the counts per minute, without an attempt.

    ``chosen``: sends whose queue the client chose, by ``process * 1440 + minute``.
    """
    most: dict[str, int] = defaultdict(int)
    for brokers in shares_of(queues).values():
        for name, share in brokers.items():
            most[name] = max(most[name], share)
    every = list(watches(held, limits))
    first = np.array([w.held.process * MINUTES + (w.held.until or 0) // MINUTE_MS for w in every], np.int64)
    last = np.array([w.held.process * MINUTES + (w.most - 1) // MINUTE_MS for w in every], np.int64)
    total = np.concatenate([[0], np.cumsum(chosen.counts)])
    since, until = np.searchsorted(chosen.numbers, first), np.searchsorted(chosen.numbers, last, side="right")
    sends = (total[until] - total[since]).tolist()
    enough = limits.not_returning_expected_sends * 10**9
    return [w for w, n in zip(every, sends, strict=True) if n * (most[w.held.broker_name] + 1) >= enough]


def sends_after(
    watched: Sequence[Watch], parts: Iterable[pa.Table], day: Day, queues: Queues, limits: Thresholds
) -> dict[Held, list[Send]]:
    """Of each watch the sends of its process, by their begin, until it lasted long enough and enough were expected.

    ``parts``: as the date was folded.
    """
    found: dict[Held, list[Send]] = {watch.held: [] for watch in watched}
    if watched:
        shares = _shares(queues, day)
        for table in parts:
            _add_sends(found, watched, table, day, shares, int(limits.not_returning_expected_sends * 10**9))
    return {held: sorted(sends) for held, sends in found.items()}


def _shares(queues: Queues, day: Day) -> dict[str, IntArray]:
    """By broker its share of each topic of the date, as ``shares_of``."""
    of_topics = shares_of(queues)
    own = [of_topics.get(topic, {}) for topic in day.topics]
    return {name: np.array([each.get(name, 0) for each in own], np.int64) for name in day.brokers}


def _add_sends(
    found: dict[Held, list[Send]],
    watched: Sequence[Watch],
    table: pa.Table,
    day: Day,
    shares: Mapping[str, IntArray],
    enough: int,
) -> None:
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    topic, broker = a.texts("topic").in_order_of(day.topics), a.texts("broker_name").in_order_of(day.brokers)
    of = np.zeros(len(day.processes) + 1, np.bool_)
    of[[watch.held.process for watch in watched]] = True
    rows = np.flatnonzero(of[process] & (process >= 0) & a.on_date & (broker >= 0) & (a.attempt <= 0) & ~a.pinned)
    shift = 1 << 28  # more than a date, in ms
    keys = process[rows] * shift + a.begin[rows]
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    for watch in watched:
        low, high = (watch.held.process * shift + at for at in (watch.held.until or 0, watch.most))
        own = rows[slice(*np.searchsorted(keys, [low, high]))]
        expected = np.searchsorted(np.cumsum(shares[watch.held.broker_name][topic[own]]), enough)
        if expected < len(own):
            last = max(int(a.begin[own[expected]]), watch.least)
            own = own[: np.searchsorted(a.begin[own], last, side="right")]
        columns = (each[own].tolist() for each in (a.begin, topic, broker))
        found[watch.held] += [Send(at, day.topics[t], day.brokers[b]) for at, t, b in zip(*columns, strict=True)]
