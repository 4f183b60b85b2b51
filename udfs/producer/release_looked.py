"""A sample of attempts in, what every candidate looks at in it, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import NEVER, Attempts
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.release_sample import Sample
from hindsight.udfs.producer.release_turns import LISTED_MS, Series, Uses, series_of, uses_of
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.values.arrays import BoolArray, IntArray

STRIKES_MS = 550  # with the switch off: an attempt that every family's own ladder holds against its broker


class Chosen(NamedTuple):
    """The n first attempts of a process to one topic, which has m brokers.

    Attributes:
        begin: ms of the date.
        brokers: the codes of the m brokers, in order.
        chosen: of each attempt, the place of its broker among them.
        queues: how many queues each of the m has.
        listed: n x m; which of them the route had.
    """

    begin: IntArray
    brokers: IntArray
    chosen: IntArray
    queues: IntArray
    listed: BoolArray


class Process(NamedTuple):
    """The rows of one process in the sample, in order, as the counts need them.

    Attributes:
        rows: their places in the sample.
        series: of its threads and topics.
        uses: when it sent to each broker for each topic, in order.
        chosen: its first attempts, topic by topic.
    """

    rows: IntArray
    series: Sequence[Series]
    uses: Uses
    chosen: Sequence[Chosen]


class Looked(NamedTuple):
    """A sample as all candidates look at it.

    Attributes:
        routes: of the date.
    """

    day: Day
    facts: pa.Table
    sample: Sample
    attempts: Attempts
    broker: IntArray
    strikes: BoolArray
    first: BoolArray
    of_process: Mapping[int, Process]
    routes: RecordedRoutes
    tolerance_ms: int

    def listed(self, topic: str, broker: int, at: int) -> bool | None:
        """Whether the recorded routes list a broker at an instant of the date; None: none is recorded."""
        held = self.routes.held(topic, at + self.day.midnight_ms)
        return all(route.entry(self.day.brokers[broker]).is_listed() for route in held) if held else None


def looked_at(
    day: Day, facts: pa.Table, sample: Sample, a: Attempts, routes: RecordedRoutes, tolerance_ms: int
) -> Looked:
    """The sample with what does not depend on a candidate."""
    broker = a.texts("broker_name").in_order_of(day.brokers)
    has_last = np.asarray(a.table["last_broker_name"].is_valid())
    outcome = a.texts("outcome")
    first = (a.attempt <= 0) & ~has_last & ~a.pinned
    took = np.where(a.end == NEVER, 0, a.end - a.begin)
    texts = {name: a.table[name].cast(pa.string()).to_pylist() for name in ("topic", "thread")}
    queue = a.table["queue_id"].fill_null(0).to_numpy()
    topics, found = a.texts("topic").codes, {}
    for process in np.unique(sample.process).tolist():
        rows = np.flatnonzero((sample.process == process) & ~a.pinned)
        own = {name: [values[row] for row in rows.tolist()] for name, values in texts.items()}
        series = series_of(a.begin[rows], broker[rows], own["topic"], own["thread"], ~first[rows], queue[rows])
        firsts = rows[first[rows]]
        chosen = [
            _chosen(a.begin[of], broker[of], queue[of])
            for of in (firsts[topics[firsts] == topic] for topic in np.unique(topics[firsts]))
        ]
        found[process] = Process(rows, series, uses_of(own["topic"], broker[rows], a.begin[rows]), chosen)
    strikes = ~outcome.are("SEND_OK", "SUBMITTED", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
    return Looked(day, facts, sample, a, broker, strikes | (took >= STRIKES_MS), first, found, routes, tolerance_ms)


def _chosen(begin: IntArray, broker: IntArray, queue: IntArray) -> Chosen:
    brokers, chosen = np.unique(broker, return_inverse=True)
    queues = np.array([int(queue[chosen == n].max()) + 1 for n in range(len(brokers))])
    listed = np.stack([_is_used_around(begin[chosen == n], begin) for n in range(len(brokers))], axis=1)
    return Chosen(begin, brokers, chosen, queues, listed)


def _is_used_around(uses: IntArray, at: IntArray) -> BoolArray:
    """Whether a broker was used within a route poll around each instant, so that it was listed; ``uses``: in order."""
    after = np.searchsorted(uses, at)
    inside = (after > 0) & (after < len(uses))
    gap = uses[np.minimum(after, len(uses) - 1)] - uses[np.maximum(after - 1, 0)]
    found: BoolArray = np.isin(at, uses) | (inside & (gap < LISTED_MS))
    return found
