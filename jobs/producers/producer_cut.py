"""Kernels that bring rows of tables to the workers that fold producers: each producer to one bucket, in time order.

A file of attempts is read by the task that cuts it, and never goes through the driver.

Kernels that bring recorded routes to the workers that fold producers: a topic's to each bucket that sends to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile
from hindsight.jobs.engines.runner import Blob, Given, copies
from hindsight.jobs.lake.cluster_dates import Addresses, midnight_of
from hindsight.schemas import TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.producer.attempt_columns import (
    ATTEMPTS,
    CODED,
    SEND,
    Attempts,
    attempts_of,
    brokers_before,
    encoded,
    lacks_last_broker,
    producers_of,
    sends_that_lack,
    with_last_brokers,
)
from hindsight.udfs.producer.attempt_facts import NEEDED, nearest_attempts, nearest_of
from hindsight.udfs.producer.attempt_updates import told_on_date
from hindsight.udfs.producer.producer_date import Slice
from hindsight.udfs.producer.producer_fold import END
from hindsight.udfs.producer.recorded_routes import ENTRY_COLUMNS, entries_of
from hindsight.udfs.producer.send_calls import beside
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

CUT_ROWS = 50_000  # of a blob
SLICE_ROWS = 250_000  # of what is folded at once
SENT_TO = "sent to"
LASTS = "last attempts"
LAST = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster", "producer_group", "client_id")),
        *((name, pa.int64()) for name in ("midnight_ms", "first_ms", "last_ms")),
    ]
)
_SENT = pa.schema([ATTEMPTS.field(name) for name in (*SEND, "attempt", "broker_name")])
_FIRST = "first_ms"  # of a cut attempt: its first instant, ms of the date
BESIDE = "beside"  # attempts near a date, its midnight their place
_SAMPLED = 1_000
# What the fold reads of routes: those of a bucket's topics, and of the fleet's date those of all.
ROUTES, DATED_ROUTES = "routes", "routes of a date"
_SAID = ("captured_at", *ENTRY_COLUMNS)
NO_ROUTES = entries_of(arrow_schema(TOPIC_ROUTE).empty_table().select(list(_SAID)))


class AttemptFile(NamedTuple):
    """A file of send_attempt, and what its rows are cut by.

    Attributes:
        nearest: where several sources tell of producers, what ``nearest_of`` gives of all; else None.
        distances: of the sources.
        finds_brokers: a retry somewhere does not name its last broker: others are told what it may be.
        since: by key, the midnight, epoch ms, of a date of which only what comes later is wanted, and from when on, ms
            of the date.
        begun_since: no attempt that began before it is wanted of any key; None: some may be.
    """

    folder: TableFolder
    file: DataFile
    addresses: Addresses
    nearest: tuple[pa.Table, pa.Table] | None
    distances: Mapping[str, int]
    finds_brokers: bool
    since: Mapping[int, tuple[int, int]]
    begun_since: datetime | None = None

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Its rows in pieces: many runs' rows may stand in one file, of which only the last ones are wanted."""
        since = None if self.begun_since is None else ("begin_at", self.begun_since)
        for rows in self.folder.pieces(self.file, columns, since=since, as_codes=() if self.nearest else CODED):
            yield rows if since is None else rows.filter(pc.greater_equal(rows["begin_at"], self.begun_since))

    def lowest(self, cluster: str, midnight_ms: int) -> IntArray:
        """By bucket, the first instant of attempts of the date that are wanted."""
        of_keys = (self.since.get(key, (0, -END)) for key in self.addresses.keys(cluster))
        return np.array([first if at == midnight_ms else -END for at, first in of_keys], np.int64)


def look(task: AttemptFile) -> Iterator[Blob]:
    """What must be known of all files before one is cut: see ``AttemptFile``."""
    columns = ["attempt", "last_broker_name", *(NEEDED if task.distances else ())]
    lacks = False
    for rows in task.folder.pieces(task.file, columns):
        lacks |= lacks_last_broker(rows)
        if task.distances:
            by_client, by_process = nearest_of(rows, task.distances)
            yield Blob("by_client", 0, 0, by_client)
            yield Blob("by_process", 0, 0, by_process)
    yield Blob("lacks", 0, 0, pa.table({"lacks": [lacks]}))


def cut(task: AttemptFile) -> Iterator[Blob]:
    """The attempts of a file by bucket and date, in the order of their first instants (``attempts_name``)."""
    names = dict.fromkeys([*ATTEMPTS.names, "cluster", *(NEEDED if task.nearest else ())])
    for piece in task.pieces(list(names)):
        rows = nearest_attempts(piece, task.nearest, task.distances) if task.nearest else piece
        clusters = pc.unique(rows["cluster"]).to_pylist()
        for cluster in clusters:
            if cluster in task.addresses.dates:
                own = rows if len(clusters) == 1 else rows.filter(pc.equal(rows["cluster"], cluster))
                yield from _of_cluster(encoded(own.select(ATTEMPTS.names)), cluster, task)


def _of_cluster(rows: pa.Table, cluster: str, task: AttemptFile) -> Iterator[Blob]:
    buckets = None
    for midnight_ms in task.addresses.dates[cluster]:
        a = attempts_of(rows, midnight_ms)
        buckets = _buckets(a, task.addresses, cluster) if buckets is None else buckets
        wanted = _told_on_date(a) & (a.first_instant() >= task.lowest(cluster, midnight_ms)[buckets])
        yield _lasts(a, wanted, cluster)
        for bucket, part, first in _in_order(a, buckets, wanted):
            key = task.addresses.key(cluster, bucket)
            timed = part.append_column(_FIRST, pa.array(first))
            yield Blob(attempts_name(midnight_ms), key, int(first[0]), _compact(timed))
        for bucket, part, _ in _in_order(a, buckets, beside(a)):
            yield Blob(BESIDE, task.addresses.key(cluster, bucket), midnight_ms, _compact(part))
    if buckets is not None:
        yield _topics(rows["topic"], buckets + task.addresses.key(cluster, 0))
    if task.finds_brokers and buckets is not None:
        for bucket in np.unique(buckets).tolist():
            own = rows.select(_SENT.names).filter(pa.array(buckets == bucket)).cast(_SENT)
            yield Blob("sent", task.addresses.key(cluster, bucket), 0, own)


def _lasts(a: Attempts, wanted: BoolArray, cluster: str) -> Blob:
    """To the driver: of each producer the first instant, ms of the date, of its first and of its last attempt."""
    whose = producers_of(a)
    first, last = (np.full(len(whose.names), at) for at in (END, -END))
    for found, into in ((first, np.minimum), (last, np.maximum)):
        into.at(found, whose.codes[wanted], a.first_instant()[wanted])
    of_each = zip(whose.names, first.tolist(), last.tolist(), strict=True)
    told = [(cluster, *name, a.midnight_ms, *ends) for name, *ends in of_each if ends[1] >= 0]
    rows = [dict(zip(LAST.names, row, strict=True)) for row in told]
    return Blob(LASTS, 0, 0, pa.Table.from_pylist(rows, LAST))


def _topics(topics: pa.ChunkedArray, keys: IntArray) -> Blob:
    """To the driver: to which topics the producers of each bucket send (``SENT_TO``)."""
    pairs = pa.table({"key": keys, "topic": topics.cast(pa.string())})
    return Blob(SENT_TO, 0, 0, pairs.group_by(["key", "topic"]).aggregate([]))


def attempts_name(midnight_ms: int) -> str:
    """What the attempts of a date are called."""
    return f"attempts of {midnight_ms}"


def _told_on_date(a: Attempts) -> BoolArray:
    """Which attempts have an instant on the date at which they begin, or tell the fault table."""
    counts = a.on_date.copy()
    near = np.flatnonzero(~counts & (a.last_instant() >= 0) & (a.first_instant() < DAY_MS))
    counts[told_on_date(a, near)] = True
    return counts


def _buckets(a: Attempts, addresses: Addresses, cluster: str) -> IntArray:
    producers = producers_of(a)
    of_each = [addresses.bucket_of(cluster, name) for name in producers.names]
    return np.array(of_each, np.int64)[producers.codes]


def _in_order(a: Attempts, buckets: IntArray, wanted: BoolArray) -> Iterator[tuple[int, pa.Table, IntArray]]:
    rows = np.flatnonzero(wanted)
    first = a.first_instant()[rows]
    order = np.lexsort((first, buckets[rows]))
    rows, first = rows[order], first[order]
    own = buckets[rows]
    edges = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(rows)] if len(rows) else [0]
    for since, until in pairwise(edges):
        for start in range(since, until, CUT_ROWS):
            part = slice(start, min(start + CUT_ROWS, until))
            yield int(own[start]), a.table.take(pa.array(rows[part])), first[part]


def _compact(rows: pa.Table) -> pa.Table:
    """A dictionary that has more texts than there are rows costs more than it saves."""
    for place, field in enumerate(rows.schema):
        column = rows.column(place)
        if pa.types.is_dictionary(field.type) and any(len(c.dictionary) > len(rows) for c in column.chunks):
            rows = rows.set_column(place, field.name, column.cast(pa.string()))
    return rows


def slices_of(given: Given, midnight_ms: int, since: int = -END, cuts: Sequence[int] = ()) -> Iterator[Slice]:
    """The attempts of a bucket's date in parts of about ``SLICE_ROWS``, in the order of their first instants.

    ``since``: of the first ones; ``cuts``: where parts end besides.
    """
    name = attempts_name(midnight_ms)
    edges = sorted({at for at in (*_edges(given, name), *cuts) if at > since})
    for begin, until in zip([since, *edges], [*edges, END], strict=True):
        yield _between(given, name, begin, until), until


def _edges(given: Given, name: str) -> list[int]:
    """Instants between which about ``SLICE_ROWS`` attempts begin."""
    sampled = [table[_FIRST].to_numpy()[::_SAMPLED] for table in given.tables(name)]
    every = np.sort(np.concatenate([np.zeros(0, np.int64), *sampled]))
    edges: list[int] = np.unique(every[:: SLICE_ROWS // _SAMPLED][1:]).tolist()
    return edges


def _between(given: Given, name: str, since: int, until: int) -> pa.Table:
    parts = [encoded(ATTEMPTS.empty_table())]
    for table in given.tables(name, last=until):
        first = table[_FIRST].to_numpy()
        start, end = np.searchsorted(first, [since, until]).tolist()
        if end > start:
            parts.append(encoded(table.slice(start, end - start).select(ATTEMPTS.names)))
    every = pa.concat_tables(parts).unify_dictionaries()
    sends = sends_that_lack(every)
    if not sends.num_rows:
        return every
    return with_last_brokers(every, brokers_before([*given.tables("sent")], sends))


@dataclass(frozen=True)
class Split:
    """How rows of a table are brought to their producers' buckets."""

    name: str
    addresses: Addresses

    def __call__(self, rows: pa.Table) -> Iterator[Blob]:
        """The rows by bucket and date: their place is the midnight, epoch ms."""
        places: dict[tuple[int, int], list[int]] = defaultdict(list)
        columns = ("cluster", "event_date", "producer_group", "client_id")
        for place, (cluster, day, group, client) in enumerate(
            zip(*(rows[name].to_pylist() for name in columns), strict=True)
        ):
            key = self.addresses.key(cluster, self.addresses.bucket_of(cluster, (group, client)))
            places[key, midnight_of(day)].append(place)
        for (key, midnight_ms), own in sorted(places.items()):
            yield Blob(self.name, key, midnight_ms, rows.take(own))


class RouteFile(NamedTuple):
    """A file of topic_route.

    Attributes:
        midnight_ms: of its date.
        clusters: whose routes of the date are wanted.
        sent_to: by cluster and topic, the keys of the buckets whose producers send to it.
    """

    folder: TableFolder
    file: DataFile
    addresses: Addresses
    midnight_ms: int
    clusters: Collection[str]
    sent_to: Mapping[tuple[str, str], Collection[int]]

    def keys(self, cluster: str, topic: str) -> Collection[int]:
        """Who gets the routes of a topic."""
        return self.sent_to.get((cluster, topic), ())


def cut_routes(task: RouteFile) -> Iterator[Blob]:
    """What the file's routes say, each thing once (``entries_of``), by bucket and by date; the place: the midnight."""
    for piece in task.folder.pieces(task.file, ["cluster", *_SAID]):
        for cluster in pc.unique(piece["cluster"]).to_pylist():
            if cluster in task.clusters:
                told = entries_of(piece.filter(pc.equal(piece["cluster"], cluster)))
                yield from copies(ROUTES, told, partial(task.keys, cluster), task.midnight_ms)
                yield Blob(DATED_ROUTES, task.addresses.of_date(cluster, task.midnight_ms), task.midnight_ms, told)
