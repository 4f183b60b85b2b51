"""Kernels that fold buckets of producers into rows of the derived tables: fold, then fleet, then findings.

Kernels around window confirmations: lines of clients' logs by date, who may write them, the rows of their table.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date as day_of_year
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_columns import Lineage
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile
from hindsight.jobs.engines.runner import Blob, Given
from hindsight.jobs.lake.cluster_dates import OPENING, Addresses, ClusterDate, midnight_of
from hindsight.jobs.producers.producer_cut import BESIDE, DATED_ROUTES, NO_ROUTES, ROUTES, slices_of
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    FAULT_ITEM_STATE,
    FLEET_MINUTE,
    PRODUCER_FINDING,
    PRODUCER_RELEASE,
    PRODUCER_REPLAY,
    SEND_CALL,
    SEND_VERDICT,
    WINDOW_CONFIRMATION,
)
from hindsight.udfs.producer.attempt_columns import ATTEMPTS, attempts_of, producers_of
from hindsight.udfs.producer.attempt_facts import FACTS
from hindsight.udfs.producer.fleet_fold import Share, fleet_of, fleet_rows
from hindsight.udfs.producer.kept_fold import CannotGoOnError, Kept
from hindsight.udfs.producer.minute_counts import MINUTE_MS, NO_MINUTES
from hindsight.udfs.producer.producer_date import Before, Date, Options, Rows, Span, findings_of_date, fold_date, folded
from hindsight.udfs.producer.producer_finding import Thresholds
from hindsight.udfs.producer.producer_findings import findings_of_fleet
from hindsight.udfs.producer.producer_fold import END
from hindsight.udfs.producer.producer_rows import ITEM_STATE, REPLAY, Ends
from hindsight.udfs.producer.recorded_routes import ENTRY_COLUMNS
from hindsight.udfs.producer.replayed_day import Day, day_of
from hindsight.udfs.producer.return_rules import NOTHING_KNOWN
from hindsight.udfs.producer.send_calls import NO_LOSSES, told_of
from hindsight.udfs.producer.window_confirmations import (
    LINE,
    NO_WINDOWS,
    OWN_THREAD,
    WRITER,
    tells_of_faults,
    window_confirmations,
    windows_of_writers,
)
from hindsight.udfs.values.columns import DAY_MS

# What the fold reads beside attempts and routes.
STARTS, LOSSES = "starts", "losses"
SHARES = ("active", "by_broker", "queues")
FOLDED = (PRODUCER_REPLAY, FAULT_ITEM_STATE, BROKER_AVAILABILITY_WINDOW, SEND_VERDICT, SEND_CALL, PRODUCER_RELEASE)
OBSERVED, FLEET = "observed", "fleet"
# Of a date that goes on: what was kept of a bucket, of what it sent after stretches, and of the releases of those that
# are told by their whole date; and what is kept this time.
WENT_ON, WATCHED, WEIGHED = "went on", "watched so far", "weighed so far"
KEPT_FOLDS, KEPT_SENDS = "kept folds", "kept sends"
APART, AGAIN = "told by their whole date", "to be folded whole"
_OF_BUCKET = [("cluster", pa.string()), ("event_date", pa.date32()), ("key", pa.int64())]
_STATE = ("state", pa.large_binary())
_INSTANTS = [(name, pa.int64()) for name in ("until_us", "read_until_us", "longest_us")]
FOLDS = pa.schema([*_OF_BUCKET, *_INSTANTS, ("topics", pa.list_(pa.string())), _STATE])
SENDS = pa.schema([*_OF_BUCKET, _STATE])
WHO = pa.schema([(name, pa.string()) for name in ("cluster", "producer_group", "client_id")])
LINES, DATES, WINDOWS, WRITERS = "lines", "dates of lines", "windows of writers", "writers"


class Plan(NamedTuple):
    """What all kernels of a stretch go by.

    Attributes:
        spans: its dates, by cluster.
        keep_at: instants, ms of the date, at which folds are kept.
    """

    addresses: Addresses
    spans: Mapping[str, Span]
    options: Options
    lineage: Lineage
    keep_at: Mapping[ClusterDate, Sequence[int]]


@dataclass(frozen=True)
class Fold:
    """The fold of a bucket: its dates one after the other."""

    plan: Plan
    witnessed: Witnessed

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Of each date (place: its midnight) rows of tables, its share of the fleet, what is observed and witnessed;
        or that the bucket is to be folded whole."""
        yield from _or_again(key, self._folded(key, given))  # only a first date goes on: nothing is told before it

    def _folded(self, key: int, given: Given) -> Iterator[Blob]:
        addresses = self.plan.addresses
        cluster = addresses.cluster_of(key)
        date_of = partial(recorded, cluster, given, self.plan.keep_at, is_apart=key == addresses.keys(cluster)[-1])
        for date, rows in folded(self.plan.spans[cluster], _before(given, OPENING), date_of, self.plan.options):
            yield from _tables(self.plan.lineage, key, date.midnight_ms, rows)
            yield from self.witnessed(key, date, rows.windows)
            for name in SHARES:
                yield Blob(name, addresses.of_date(cluster, date.midnight_ms), key, getattr(rows.share, name))
            # What is read of the date is read anew from the blobs.
            yield Blob(OBSERVED, key, date.midnight_ms, _packed((rows.observed, rows.chosen)))
            windows = pa.table({"midnight_ms": [date.midnight_ms], "windows": [rows.windows.num_rows]})
            yield Blob("lasting", key, date.midnight_ms, windows.append_column("cluster", pa.array([cluster])))
            yield from _kept(key, date, rows)


def day_at(midnight_ms: int) -> day_of_year:
    """The date that begins then."""
    return day_of_year(1970, 1, 1) + timedelta(milliseconds=midnight_ms)


def _or_again(key: int, made: Iterator[Blob]) -> Iterator[Blob]:
    try:
        yield from made
    except CannotGoOnError:
        yield Blob(AGAIN, 0, key, pa.table({"key": [key]}))


def _kept(key: int, date: Date, rows: Rows) -> Iterator[Blob]:
    place = {"cluster": date.cluster, "event_date": day_at(date.midnight_ms), "key": key}
    never = dict.fromkeys(("read_until_us", "longest_us"), 0)
    kept = [
        place | never | {"until_us": (date.midnight_ms + at) * 1000, "topics": rows.observed.day.topics, "state": state}
        for at in (*date.keep_at, *date.weigh_at)
        for state in ((rows.weighed if date.weigh_at else rows.kept).get(at),)
    ]
    yield Blob(KEPT_FOLDS, 0, key, pa.Table.from_pylist(kept, FOLDS))
    apart = [dict(zip(WHO.names, (date.cluster, *producer), strict=True)) for producer in sorted(rows.apart)]
    yield Blob(APART, 0, key, pa.Table.from_pylist(apart, WHO))


def _tables(lineage: Lineage, key: int, midnight_ms: int, rows: Rows) -> Iterator[Blob]:
    of_tables = (rows.replay, rows.items, rows.windows, rows.verdicts, rows.calls, rows.releases)
    for table, own in zip(FOLDED, of_tables, strict=True):
        yield lineage.of(table, key, midnight_ms, own)


def recorded(
    cluster: str,
    given: Given,
    keep_at: Mapping[ClusterDate, Sequence[int]],
    midnight_ms: int,
    before: Before,
    ends: Ends,
    *,
    is_apart: bool = False,
) -> Date:
    """What the blobs of a bucket hold of a date, from where it goes on; ``is_apart``: it is told by the whole date."""
    went_on, weighed = (next(_states(given, name, midnight_ms), None) for name in (WENT_ON, WEIGHED))
    kept = None if went_on is None else Kept.of(went_on)
    own = keep_at.get(ClusterDate(cluster, day_at(midnight_ms)), ())
    return Date(
        cluster,
        midnight_ms,
        partial(slices_of, given, midnight_ms, -END if kept is None else kept.until, () if is_apart else own),
        _of_date(given, STARTS, midnight_ms, _STARTS),
        _of_date(given, ROUTES, midnight_ms, NO_ROUTES),
        *before,
        ends,
        _as(ATTEMPTS, given.tables(BESIDE, midnight_ms, midnight_ms + 1)),
        _losses(given, midnight_ms),
        kept,
        () if is_apart else own,
        weighed,
        own if is_apart else (),
    )


def _states(given: Given, name: str, midnight_ms: int) -> Iterator[bytes]:
    """What is given of a date by this name, at most once."""
    return (table["state"][0].as_py() for table in given.tables(name, midnight_ms, midnight_ms + 1))


def _packed(state: object) -> pa.Table:
    return pa.table({"state": pa.array([pickle.dumps(state)], pa.large_binary())})


def _unpacked(given: Given, name: str, midnight_ms: int) -> Any:
    return pickle.loads(next(_states(given, name, midnight_ms)))


def _losses(given: Given, midnight_ms: int) -> pa.Table:
    """Reports of lost lines of the date, and those told so soon after it that the lines may be the date's."""
    own, after = (_of_date(given, LOSSES, at, NO_LOSSES) for at in (midnight_ms, midnight_ms + DAY_MS))
    return told_of(own, after, midnight_ms)


def _before(given: Given, prefix: str, *place: int) -> Before:
    replay, items = (given.tables(prefix + table.name, *place) for table in (PRODUCER_REPLAY, FAULT_ITEM_STATE))
    return _as(REPLAY, replay), _as(ITEM_STATE, items)


def _as(schema: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)])


def _of_date(given: Given, name: str, midnight_ms: int, empty: pa.Table) -> pa.Table:
    own = list(given.tables(name, midnight_ms, midnight_ms + 1))
    return pa.concat_tables(own) if own else empty


@dataclass(frozen=True)
class FleetOfDates:
    """The fleet of a cluster's date, of the shares of all its buckets."""

    plan: Plan

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows of fleet_minute, findings about all, and for each bucket what its findings look up."""
        cluster, midnight_ms = self.plan.addresses.date_of(key)
        if not given.places(SHARES[0]):
            return  # routes of a date on which nobody sent
        active, by_broker, queues = (pa.concat_tables(given.tables(name)) for name in SHARES)
        shares = [Share(active, by_broker, queues, NO_MINUTES)]
        minutes = fleet_rows(cluster, midnight_ms, shares)
        yield self.plan.lineage.of(FLEET_MINUTE, key, midnight_ms, minutes)
        routes = _of_date(given, DATED_ROUTES, midnight_ms, NO_ROUTES)
        fleet = fleet_of(minutes, shares, routes.select(ENTRY_COLUMNS).to_pylist())
        found = findings_of_fleet(_nobody(cluster, midnight_ms), fleet, self.plan.options.limits)
        yield self.plan.lineage.of(PRODUCER_FINDING, key, midnight_ms, found)
        packed = _packed(fleet)
        for bucket in self.plan.addresses.keys(cluster):
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

    plan: Plan
    kept: Mapping[str, Collection[int]]

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Findings by date; rows of dates that only other buckets' windows last into. Or that the bucket is to be
        folded whole."""
        yield from _or_again(key, self._found(key, given))

    def _found(self, key: int, given: Given) -> Iterator[Blob]:
        cluster = self.plan.addresses.cluster_of(key)
        before, span = _before(given, OPENING), self.plan.spans[cluster]
        observed = set(given.places(OBSERVED))
        for midnight_ms in sorted({*self.kept[cluster], *observed}):
            date = recorded(cluster, given, {}, midnight_ms, before, span.ends(midnight_ms))
            if midnight_ms in observed:
                seen, chosen = _unpacked(given, OBSERVED, midnight_ms)
                before = _before(given, "", midnight_ms, midnight_ms + 1)
                fleet, known = _unpacked(given, FLEET, midnight_ms), NOTHING_KNOWN
                if date.kept is not None:
                    known = _unpacked(given, WATCHED, midnight_ms)._replace(until=date.kept.until)
                    known = known._replace(since=date.kept.until - watched_ms(self.plan.options.limits))
                    date = date._replace(slices=partial(slices_of, given, midnight_ms))
                found, sends = findings_of_date(date, seen, chosen, fleet, self.plan.options, known)
                yield self.plan.lineage.of(PRODUCER_FINDING, key, midnight_ms, found)
                at = ClusterDate(cluster, day_at(midnight_ms))
                if at in self.plan.keep_at:
                    kept = {"cluster": cluster, "event_date": at.event_date, "key": key, "state": pickle.dumps(sends)}
                    yield Blob(KEPT_SENDS, 0, key, pa.Table.from_pylist([kept], SENDS))
            else:
                rows = fold_date(date, self.plan.options)
                yield from _tables(self.plan.lineage, key, midnight_ms, rows)
                before = rows.replay, rows.items


def watched_ms(limits: Thresholds) -> int:
    """How far before the instant at which a date goes on its attempts are read again: as long as brokers are watched
    after they came free, and the minutes in which that begins and ends."""
    return int(1000 * limits.not_returning_within_s) + 2 * MINUTE_MS


_STARTS = pa.schema(
    {"producer_group": pa.string(), "client_id": pa.string(), "started_at": pa.timestamp("us", "UTC")}
).empty_table()


class EventFile(NamedTuple):
    """A file of client_event, of which the rows of these dates are wanted; ``dates``: by cluster."""

    folder: TableFolder
    file: DataFile
    addresses: Addresses
    dates: Mapping[str, Collection[day_of_year]]


def lines_of(task: EventFile) -> Iterator[Blob]:
    """The lines of a file that tell of a fault table, each with its cluster's date; and of which dates there are."""
    for piece in task.folder.pieces(task.file, LINE):
        lines = tells_of_faults(piece)
        for cluster, days in task.dates.items():
            of_cluster = lines.filter(pc.equal(lines["cluster"], cluster))
            for day in sorted(set(pc.unique(of_cluster["event_date"]).to_pylist()) & {*days}):
                midnight_ms = midnight_of(day)
                own = of_cluster.filter(pc.equal(of_cluster["event_date"], day))
                yield Blob(LINES, task.addresses.of_date(cluster, midnight_ms), midnight_ms, own)
                yield Blob(DATES, 0, 0, pa.table({"cluster": [cluster], "midnight_ms": [midnight_ms]}))


@dataclass(frozen=True)
class Witnessed:
    """What lines are held against, for each date that has some, and for the dates beside it: instants differ a little.

    Attributes:
        dates: by cluster, the midnights of dates on which clients' logs tell of their own tables.
    """

    addresses: Addresses
    dates: Mapping[str, Collection[int]]

    def __call__(self, key: int, date: Date, windows: pa.Table) -> Iterator[Blob]:
        """The windows and writers of a bucket's date, for every date whose lines may be of them."""
        near = [date.midnight_ms + step for step in (-DAY_MS, 0, DAY_MS)]
        wanted = [midnight_ms for midnight_ms in near if midnight_ms in self.dates.get(date.cluster, ())]
        if wanted:
            own, writers = windows_of_writers(windows), writers_of(date)
            for midnight_ms in wanted:
                to = self.addresses.of_date(date.cluster, midnight_ms)
                yield Blob(WINDOWS, to, key, own)
                yield Blob(WRITERS, to, key, writers)


@dataclass(frozen=True)
class Confirm:
    """The rows of window_confirmation of a cluster's date."""

    plan: Plan
    within_ms: int

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Of the date's lines, and of what may have written them."""
        _, midnight_ms = self.plan.addresses.date_of(key)
        lines = list(given.tables(LINES))
        if lines:
            rows = window_confirmations(
                pa.concat_tables(lines),
                pa.concat_tables([NO_WINDOWS, *given.tables(WINDOWS)]),
                pa.concat_tables([WRITER.empty_table(), *given.tables(WRITERS)]),
                within_ms=self.within_ms,
            )
            yield self.plan.lineage.of(WINDOW_CONFIRMATION, key, midnight_ms, rows)


def writers_of(date: Date) -> pa.Table:
    """Per producer, the threads that may write its lines: those that send, and the client's own ('') for callbacks."""
    found: set[tuple[str, str, str]] = set()
    for table in date.parts():
        a = attempts_of(table, date.midnight_ms)
        producers, thread = producers_of(a), a.texts("thread")
        own = a.on_date & (a.texts("broker_name").codes >= 0)
        rows = zip(producers.codes[own].tolist(), thread.codes[own].tolist(), a.is_async[own].tolist(), strict=True)
        for producer, code, is_async in set(rows):
            if code >= 0:
                found.add((*producers.names[producer], thread.values[code]))
            if is_async or code < 0:
                found.add((*producers.names[producer], OWN_THREAD))
    return pa.Table.from_pylist([dict(zip(WRITER.names, each, strict=True)) for each in sorted(found)], WRITER)
