"""Stretches that ended and the attempts of parts of their date in; what each producer sent after them out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import attempts_of
from hindsight.udfs.producer.fault_fold import joined, taken
from hindsight.udfs.producer.held_stretches import Held
from hindsight.udfs.producer.minute_counts import MINUTE_MS, MINUTES, Tally
from hindsight.udfs.producer.producer_finding import Sends, Thresholds
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.return_rules import Sent, Watch, counted, shares_of, watches
from hindsight.udfs.values.arrays import BoolArray, IntArray

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
    watched: Sequence[Watch],
    parts: Iterable[pa.Table],
    day: Day,
    queues: Queues,
    routes: RecordedRoutes,
    limits: Thresholds,
) -> dict[Held, Sends]:
    """Of each watch what the sends of its process say, until it lasted long enough and enough were expected.

    A send counts where the routes of that time list the broker for its topic, or none is recorded.

    Args:
        parts: as the date was folded.
    """
    found: dict[Watch, list[Sent]] = {watch: [] for watch in watched}
    if watched:
        shares = _shares(queues, day)
        for table in parts:
            _add_sends(found, table, day, shares, routes, int(limits.not_returning_expected_sends * 10**9))
    return {watch.held: counted(watch, joined(*sent), limits) for watch, sent in found.items() if sent}


def _shares(queues: Queues, day: Day) -> dict[str, IntArray]:
    """By broker its share of each topic of the date, as ``shares_of``; -1: it has none that is known."""
    of_topics = shares_of(queues)
    own = [of_topics.get(topic, {}) for topic in day.topics]
    return {name: np.array([each.get(name, -1) for each in own], np.int64) for name in day.brokers}


def _is_listed(routes: RecordedRoutes, day: Day, broker: str, topic: IntArray, begin: IntArray) -> BoolArray:
    """Whether every route that a client may have held when each send began lists the broker for its topic."""
    listed = np.ones(len(topic), np.bool_)
    for code in np.unique(topic).tolist():
        own = np.flatnonzero(topic == code)
        edges = np.array(routes.edges(day.topics[code]), np.int64) - day.midnight_ms
        place, of = np.unique(np.searchsorted(edges, begin[own], side="right"), return_inverse=True)
        first = [int(begin[own[of == n]].min()) for n in range(len(place))]
        held = [routes.held(day.topics[code], at + day.midnight_ms) for at in first]
        listed[own] = np.array([all(r.entry(broker).is_listed() for r in each) for each in held], np.bool_)[of]
    return listed


def _add_sends(
    found: Mapping[Watch, list[Sent]],
    table: pa.Table,
    day: Day,
    shares: Mapping[str, IntArray],
    routes: RecordedRoutes,
    enough: int,
) -> None:
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    topic, broker = a.texts("topic").in_order_of(day.topics), a.texts("broker_name").in_order_of(day.brokers)
    of = np.zeros(len(day.processes) + 1, np.bool_)
    of[[watch.held.process for watch in found]] = True
    rows = np.flatnonzero(of[process] & (process >= 0) & a.on_date & (broker >= 0) & (a.attempt <= 0) & ~a.pinned)
    shift = 1 << 28  # more than a date, in ms
    keys = process[rows] * shift + a.begin[rows]
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    begin, topic, broker = a.begin[rows], topic[rows], broker[rows]
    codes = {name: code for code, name in enumerate(day.brokers)}
    for watch, sent in found.items():
        low, high = (watch.held.process * shift + at for at in (watch.held.until or 0, watch.most))
        own, name = slice(*np.searchsorted(keys, [low, high])), watch.held.broker_name
        nano = shares[name][topic[own]]
        counts = (nano >= 0) & _is_listed(routes, day, name, topic[own], begin[own])
        sends = taken(Sent(begin[own], nano, broker[own] == codes[name]), counts)
        expected = np.searchsorted(np.cumsum(sends.nano), enough)
        if expected < len(sends.begin):
            last = max(int(sends.begin[expected]), watch.least)
            sends = taken(sends, slice(np.searchsorted(sends.begin, last, side="right")))
        if len(sends.begin):
            sent.append(sends)
