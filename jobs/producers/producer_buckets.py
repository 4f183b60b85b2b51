"""Kernels that fold buckets of producers into rows of the derived tables: fold, then fleet, then findings."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from hindsight.jobs.engines.blobs import Blob, Given
from hindsight.jobs.producers.confirmed_windows import Witnessed
from hindsight.jobs.producers.producer_cut import BESIDE, Addresses, slices_of
from hindsight.jobs.producers.route_copies import DATED_ROUTES, NO_ROUTES, ROUTES
from hindsight.jobs.publishing.row_lineage import Lineage
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    FAULT_ITEM_STATE,
    FLEET_MINUTE,
    PRODUCER_FINDING,
    PRODUCER_RELEASE,
    PRODUCER_REPLAY,
    SEND_CALL,
    SEND_VERDICT,
)
from hindsight.udfs.producer.attempt_columns import ATTEMPTS, DAY_MS
from hindsight.udfs.producer.attempt_facts import FACTS
from hindsight.udfs.producer.fleet_fold import Share, fleet_of, fleet_rows
from hindsight.udfs.producer.held_stretches import NO_MINUTES
from hindsight.udfs.producer.producer_date import Date, Options, Rows, findings_of_date, fold_date
from hindsight.udfs.producer.producer_findings import findings_of_fleet
from hindsight.udfs.producer.producer_rows import Ends
from hindsight.udfs.producer.producer_span import Before, Span, folded
from hindsight.udfs.producer.producer_tables import ITEM_STATE, REPLAY
from hindsight.udfs.producer.recorded_inputs import NO_LOSSES, told_of
from hindsight.udfs.producer.recorded_routes import ENTRY_COLUMNS
from hindsight.udfs.producer.replayed_day import Day, day_of

# What the fold reads beside attempts and routes.
OPENING, STARTS, LOSSES = "opening ", "starts", "losses"
SHARES = ("active", "by_broker", "queues")
FOLDED = (PRODUCER_REPLAY, FAULT_ITEM_STATE, BROKER_AVAILABILITY_WINDOW, SEND_VERDICT, SEND_CALL, PRODUCER_RELEASE)
OBSERVED, FLEET = "observed", "fleet"


@dataclass(frozen=True)
class Fold:
    """The fold of a bucket: its dates one after the other.

    Attributes:
        spans: by cluster.
    """

    addresses: Addresses
    spans: Mapping[str, Span]
    options: Options
    lineage: Lineage
    witnessed: Witnessed

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Of each date (place: its midnight) rows of tables, its share of the fleet, what is observed and witnessed."""
        cluster = self.addresses.cluster_of(key)
        date_of = partial(recorded, cluster, given)
        for date, rows in folded(self.spans[cluster], _opening(given), date_of, self.options):
            yield from _tables(self.lineage, key, date.midnight_ms, rows)
            yield from self.witnessed(key, date, rows.windows)
            for name in SHARES:
                yield Blob(name, self.addresses.of_date(cluster, date.midnight_ms), key, getattr(rows.share, name))
            # What is read of the date is read anew from the blobs.
            seen = pickle.dumps((rows.observed, rows.chosen))
            yield Blob(OBSERVED, key, date.midnight_ms, pa.table({OBSERVED: pa.array([seen], pa.large_binary())}))
            windows = pa.table({"midnight_ms": [date.midnight_ms], "windows": [rows.windows.num_rows]})
            yield Blob("lasting", key, date.midnight_ms, windows.append_column("cluster", pa.array([cluster])))


def _tables(lineage: Lineage, key: int, midnight_ms: int, rows: Rows) -> Iterator[Blob]:
    of_tables = (rows.replay, rows.items, rows.windows, rows.verdicts, rows.calls, rows.releases)
    for table, own in zip(FOLDED, of_tables, strict=True):
        yield lineage.of(table, key, midnight_ms, own)


def recorded(cluster: str, given: Given, midnight_ms: int, before: Before, ends: Ends) -> Date:
    """What the blobs of a bucket hold of a date."""
    return Date(
        cluster,
        midnight_ms,
        partial(slices_of, given, midnight_ms),
        _of_date(given, STARTS, midnight_ms, _STARTS),
        _of_date(given, ROUTES, midnight_ms, NO_ROUTES),
        *before,
        ends,
        _beside(given, midnight_ms),
        _losses(given, midnight_ms),
    )


def _losses(given: Given, midnight_ms: int) -> pa.Table:
    """Reports of lost lines of the date, and those told so soon after it that the lines may be the date's."""
    own, after = (_of_date(given, LOSSES, at, NO_LOSSES) for at in (midnight_ms, midnight_ms + DAY_MS))
    return told_of(own, after, midnight_ms)


def _beside(given: Given, midnight_ms: int) -> pa.Table:
    own = given.tables(BESIDE, midnight_ms, midnight_ms + 1)
    return pa.concat_tables([ATTEMPTS.empty_table(), *(part.cast(ATTEMPTS) for part in own)])


def _opening(given: Given) -> Before:
    replay, items = (list(given.tables(OPENING + table.name)) for table in (PRODUCER_REPLAY, FAULT_ITEM_STATE))
    return _as(REPLAY, replay), _as(ITEM_STATE, items)


def _as(schema: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)])


def _of_date(given: Given, name: str, midnight_ms: int, empty: pa.Table) -> pa.Table:
    own = list(given.tables(name, midnight_ms, midnight_ms + 1))
    return pa.concat_tables(own) if own else empty


@dataclass(frozen=True)
class FleetOfDates:
    """The fleet of a cluster's date, of the shares of all its buckets."""

    addresses: Addresses
    options: Options
    lineage: Lineage

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows of fleet_minute, findings about all, and for each bucket what its findings look up."""
        cluster, midnight_ms = self.addresses.date_of(key)
        if not given.places(SHARES[0]):
            return  # routes of a date on which nobody sent
        active, by_broker, queues = (pa.concat_tables(given.tables(name)) for name in SHARES)
        shares = [Share(active, by_broker, queues, NO_MINUTES)]
        minutes = fleet_rows(cluster, midnight_ms, shares)
        yield self.lineage.of(FLEET_MINUTE, key, midnight_ms, minutes)
        routes = _of_date(given, DATED_ROUTES, midnight_ms, NO_ROUTES)
        fleet = fleet_of(minutes, shares, routes.select(ENTRY_COLUMNS).to_pylist())
        found = findings_of_fleet(_nobody(cluster, midnight_ms), fleet, self.options.limits)
        yield self.lineage.of(PRODUCER_FINDING, key, midnight_ms, found)
        packed = pa.table({FLEET: pa.array([pickle.dumps(fleet)], pa.large_binary())})
        for bucket in self.addresses.keys(cluster):
            yield Blob(FLEET, bucket, midnight_ms, packed)


def _nobody(cluster: str, midnight_ms: int) -> Day:
    """A date without producers."""
    return day_of(FACTS.empty_table(), [], {}, cluster=cluster, midnight_ms=midnight_ms, cuts={}, more_brokers=())


@dataclass(frozen=True)
class Findings:
    """What is found of a bucket's producers once the fleet is known, and what else waited for the other buckets.

    Attributes:
        kept: by cluster, the dates with rows: on one without records some window of some producer lasts.
    """

    addresses: Addresses
    spans: Mapping[str, Span]
    options: Options
    lineage: Lineage
    kept: Mapping[str, Collection[int]]

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Findings by date; rows of dates that only other buckets' windows last into."""
        cluster = self.addresses.cluster_of(key)
        before, span = _opening(given), self.spans[cluster]
        observed = set(given.places(OBSERVED))
        for midnight_ms in sorted({*self.kept[cluster], *observed}):
            date = recorded(cluster, given, midnight_ms, before, span.ends(midnight_ms))
            if midnight_ms in observed:
                seen, chosen = _unpickled(given, OBSERVED, midnight_ms)
                before = _rows_of(given, midnight_ms)
                fleet = _unpickled(given, FLEET, midnight_ms)
                found = findings_of_date(date, seen, chosen, fleet, self.options)
                yield self.lineage.of(PRODUCER_FINDING, key, midnight_ms, found)
            else:
                rows = fold_date(date, self.options)
                yield from _tables(self.lineage, key, midnight_ms, rows)
                before = rows.replay, rows.items


def _rows_of(given: Given, midnight_ms: int) -> Before:
    replay, items = (given.tables(t.name, midnight_ms, midnight_ms + 1) for t in (PRODUCER_REPLAY, FAULT_ITEM_STATE))
    return _as(REPLAY, replay), _as(ITEM_STATE, items)


def _unpickled(given: Given, name: str, midnight_ms: int) -> Any:
    (table,) = given.tables(name, midnight_ms, midnight_ms + 1)
    return pickle.loads(table[name][0].as_py())


_STARTS = pa.table(
    {
        "producer_group": pa.array([], pa.string()),
        "client_id": pa.array([], pa.string()),
        "started_at": pa.array([], pa.timestamp("us", "UTC")),
    }
)
