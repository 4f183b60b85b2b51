"""Everything recorded of some producers of a cluster in; their rows date by date out, as long as a window goes on.

The plain driver of the fold, for as many attempts as memory holds: one date after the other, each with what the one
before it closed with. A date without records is folded too while windows last into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import (
    ATTEMPTS,
    attempts_of,
    brokers_before,
    sends_that_lack,
    with_last_brokers,
)
from hindsight.udfs.producer.attempt_updates import told_on_date
from hindsight.udfs.producer.fleet_fold import fleet_of, fleet_rows
from hindsight.udfs.producer.producer_date import (
    Before,
    Date,
    Options,
    Rows,
    Slice,
    Span,
    findings_of_date,
    folded,
)
from hindsight.udfs.producer.producer_findings import findings_of_fleet
from hindsight.udfs.producer.producer_fold import END
from hindsight.udfs.producer.producer_rows import ITEM_STATE, REPLAY, Ends
from hindsight.udfs.producer.send_calls import NO_LOSSES, beside, told_of
from hindsight.udfs.values.columns import DAY_MS

NOTHING_BEFORE = REPLAY.empty_table(), ITEM_STATE.empty_table()
Cut = Callable[[pa.Table, int], Iterable[Slice]]


class History(NamedTuple):
    """What is recorded of one cluster, by date: epoch ms of its midnight.

    Attributes:
        dates: all dates with records, in order; not each has attempts, starts or routes.
        attempts, starts, routes: rows of send_attempt, producer_instance and topic_route of each date; a trace's broker
            is named, and of several sources that tell of a producer the nearest stands alone.
        losses: rows of lost_lines of each date.
    """

    cluster: str
    dates: list[int]
    attempts: Mapping[int, pa.Table]
    starts: Mapping[int, pa.Table]
    routes: Mapping[int, pa.Table]
    losses: Mapping[int, pa.Table] = MappingProxyType({})


class Tables(NamedTuple):
    """Rows of the derived tables of one date."""

    replay: pa.Table
    items: pa.Table
    windows: pa.Table
    verdicts: pa.Table
    calls: pa.Table
    releases: pa.Table
    fleet: pa.Table
    findings: pa.Table


def sliced(table: pa.Table, midnight_ms: int, edges: Sequence[int]) -> Iterator[Slice]:
    """Attempts with an instant on the date, cut at these instants, ms of the date, in order."""
    a = attempts_of(table, midnight_ms)
    counts = a.on_date.copy()
    counts[told_on_date(a, np.flatnonzero(~counts))] = True
    part = np.searchsorted(np.asarray(edges, np.int64), a.first_instant(), side="right")
    for number, until in enumerate([*edges, END]):
        yield table.filter(pa.array(counts & (part == number))), until


def in_one(table: pa.Table, midnight_ms: int) -> Iterable[Slice]:
    """The attempts of a date as one part."""
    return sliced(table, midnight_ms, ())


def fold_dates(history: History, options: Options, cut: Cut = in_one) -> Iterator[Tables]:
    """The rows of each date, of one without records as long as some window lasts into it, and some table is kept.

    ``cut``: the parts in which a date is folded.
    """
    empty = ATTEMPTS.empty_table()

    def date_of(midnight_ms: int, before: Before, ends: Ends) -> Date:
        attempts = _around(history, midnight_ms) if midnight_ms in history.dates else empty
        own, after = (history.losses.get(at, NO_LOSSES) for at in (midnight_ms, midnight_ms + DAY_MS))
        return Date(
            history.cluster,
            midnight_ms,
            partial(cut, attempts, midnight_ms),
            history.starts.get(midnight_ms, _NO_STARTS),
            history.routes.get(midnight_ms, _NO_ROUTES),
            *before,
            ends,
            attempts.filter(pa.array(beside(attempts_of(attempts, midnight_ms)))),
            told_of(own, after, midnight_ms),
        )

    span = Span(history.dates, None, history.dates, history.dates[-1])
    for date, rows in folded(span, NOTHING_BEFORE, date_of, options):
        yield _with_fleet(date, rows, options)


def _with_fleet(date: Date, rows: Rows, options: Options) -> Tables:
    """The rows of a date whose producers are all the cluster has."""
    shares, day, limits = [rows.share], rows.observed.day, options.limits
    minutes = fleet_rows(date.cluster, date.midnight_ms, shares)
    fleet = fleet_of(minutes, shares, date.routes.to_pylist())
    of_producers, _ = findings_of_date(date, rows.observed, rows.chosen, fleet, options)
    found = [of_producers, findings_of_fleet(day, fleet, limits)]
    return Tables(*rows[:6], minutes, pa.concat_tables(found))


def _around(history: History, midnight_ms: int) -> pa.Table:
    """The attempts of a date and its neighbours, retries with their last brokers."""
    days = (history.attempts.get(midnight_ms + step * DAY_MS) for step in (0, -1, 1))
    parts = [part.select(ATTEMPTS.names).cast(ATTEMPTS) for part in days if part is not None]
    if not parts:
        return ATTEMPTS.empty_table()
    every = pa.concat_tables(parts)
    sends = sends_that_lack(every)
    return with_last_brokers(every, brokers_before(parts, sends)) if sends.num_rows else every


_NO_STARTS = pa.table(
    {
        "producer_group": pa.array([], pa.string()),
        "client_id": pa.array([], pa.string()),
        "started_at": pa.array([], pa.timestamp("us", "UTC")),
    }
)
_NO_ROUTES = pa.table({"topic": pa.array([], pa.string()), "captured_at": pa.array([], pa.timestamp("us", "UTC"))})
