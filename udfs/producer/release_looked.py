"""A sample of attempts in, what every candidate looks at in it, out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import ATTEMPTS, NEVER, Attempts, attempts_of
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.release_turns import LISTED_MS, Series, Uses, series_of, uses_of
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.values.arrays import BoolArray, IntArray

MOST = 5_000
_PLAIN = pa.array(["SEND_OK", "SUBMITTED"])
_FAR = 1 << 40


class Sample(NamedTuple):
    """The attempts that count, all that began on the date.

    Attributes:
        table: the rows, of each process in their order.
        process: the place of each row's process.
        cut: processes that made more of them.
    """

    table: pa.Table
    process: IntArray
    cut: frozenset[int]


def sample_of(tables: Callable[[], Iterable[pa.Table]], day: Day, slow_ms: Mapping[int, int]) -> Sample:
    """The attempts that count.

    Args:
        tables: gives the date's attempts part by part, in order; it is asked twice.
        slow_ms: the processes that are asked for, by place, each with the least latency that some candidate holds a
            broker back for.
    """
    limit = np.full(len(day.processes) + 1, _FAR)
    for place, ms in slow_ms.items():
        limit[place] = ms
    first = np.full(len(limit), _FAR)
    for table in tables():
        a, process, own = _own(table, day, limit)
        struck = own & _strikes(a, limit[process])
        np.minimum.at(first, process[struck], a.begin[struck])
    kept, cut = ATTEMPTS.empty_table(), set[int]()
    if (first == _FAR).all():
        return Sample(kept, np.zeros(0, np.int64), frozenset())
    for table in tables():
        a, process, own = _own(table, day, limit)
        counts = own & (a.begin >= first[process])
        if counts.any():
            kept, more = _earliest(pa.concat_tables([kept, table.filter(pa.array(counts)).cast(ATTEMPTS)]), day)
            cut |= more
    return Sample(kept, day.process_of(attempts_of(kept, day.midnight_ms)), frozenset(cut))


def _own(table: pa.Table, day: Day, limit: IntArray) -> tuple[Attempts, IntArray, BoolArray]:
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    named = a.texts("broker_name").codes >= 0
    return a, process, (limit[process] < _FAR) & a.on_date & named & a.flags("exceptions_observable")


def _strikes(a: Attempts, slow_ms: IntArray) -> BoolArray:
    plain = np.asarray(pc.is_in(a.table["outcome"].cast(pa.string()), _PLAIN))
    found: BoolArray = ~plain | ((a.end != NEVER) & (a.end - a.begin >= slow_ms))
    return found


def _earliest(table: pa.Table, day: Day) -> tuple[pa.Table, set[int]]:
    """Of each process the first ``MOST`` rows by begin, thread, message and attempt; and which processes had more."""
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    keys = {"process": pa.array(process), "begin": pa.array(a.begin)}
    texts = {name: table[name] for name in ("thread", "msg_id", "attempt")}
    by = [(name, "ascending", "at_start") for name in (*keys, *texts)]
    order = pc.sort_indices(pa.table({**keys, **texts}), sort_keys=by).to_numpy()
    rank = np.arange(len(order)) - np.searchsorted(process[order], process[order], side="left")
    return table.take(pa.array(order[rank < MOST])), set(process[order][rank >= MOST].tolist())


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
