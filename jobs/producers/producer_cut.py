"""Kernels that bring rows of tables to the workers that fold producers: each producer to one bucket, in time order.

A file of attempts is read by the task that cuts it, and never goes through the driver.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.blobs import Blob, Given
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.udfs.producer.attempt_columns import ATTEMPTS, DAY_MS, Attempts, attempts_of, encoded, producers_of
from hindsight.udfs.producer.attempt_updates import calls_of
from hindsight.udfs.producer.last_brokers import (
    SEND,
    brokers_before,
    lacks_last_broker,
    sends_that_lack,
    with_last_brokers,
)
from hindsight.udfs.producer.nearest_source import NEEDED, nearest_attempts, nearest_of
from hindsight.udfs.producer.producer_date import Slice
from hindsight.udfs.producer.producer_fold import END
from hindsight.udfs.producer.send_calls import beside
from hindsight.udfs.values.arrays import BoolArray, IntArray

CUT_ROWS = 50_000  # of a blob
SLICE_ROWS = 250_000  # of what is folded at once
SENT_TO = "sent to"
_FIRST = "first_ms"  # of a cut attempt: its first instant, ms of the date
BESIDE = "beside"  # attempts near a date, its midnight their place
_SAMPLED = 1_000
_DAYS = 1 << 20  # more than there are dates


class Addresses(NamedTuple):
    """Who folds what.

    Attributes:
        clusters: their names; the place of one is part of its keys.
        buckets: of each cluster's producers.
        dates: of each cluster, the midnights, epoch ms, whose attempts are wanted.
    """

    clusters: Sequence[str]
    buckets: int
    dates: Mapping[str, Sequence[int]]

    def key(self, cluster: str, bucket: int) -> int:
        """The key of a bucket."""
        return self.clusters.index(cluster) * self.buckets + bucket

    def cluster_of(self, key: int) -> str:
        """The cluster of a bucket's key."""
        return self.clusters[key // self.buckets]

    def keys(self, cluster: str) -> range:
        """The keys of a cluster's buckets."""
        first = self.key(cluster, 0)
        return range(first, first + self.buckets)

    def of_date(self, cluster: str, midnight_ms: int) -> int:
        """The key of a cluster's date."""
        return self.clusters.index(cluster) * _DAYS + midnight_ms // DAY_MS

    def date_of(self, key: int) -> tuple[str, int]:
        """The cluster and midnight of a date's key."""
        return self.clusters[key // _DAYS], key % _DAYS * DAY_MS


class AttemptFile(NamedTuple):
    """A file of send_attempt, and what its rows are cut by.

    Attributes:
        nearest: where several sources tell of producers, what ``nearest_of`` gives of all; else None.
        distances: of the sources.
        finds_brokers: a retry somewhere does not name its last broker: others are told what it may be.
    """

    folder: TableFolder
    file: DataFile
    addresses: Addresses
    nearest: tuple[pa.Table, pa.Table] | None
    distances: Mapping[str, int]
    finds_brokers: bool


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
    for piece in task.folder.pieces(task.file, list(names)):
        rows = nearest_attempts(piece, task.nearest, task.distances) if task.nearest else piece
        for cluster in pc.unique(rows["cluster"]).to_pylist():
            if cluster in task.addresses.dates:
                own = rows.filter(pc.equal(rows["cluster"], cluster)).select(ATTEMPTS.names).cast(ATTEMPTS)
                yield from _of_cluster(own, cluster, task)


def _of_cluster(rows: pa.Table, cluster: str, task: AttemptFile) -> Iterator[Blob]:
    buckets = None
    for midnight_ms in task.addresses.dates[cluster]:
        a = attempts_of(rows, midnight_ms)
        buckets = _buckets(a, task.addresses.buckets) if buckets is None else buckets
        wanted = _told_on_date(a)
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
            own = rows.select([*SEND, "attempt", "broker_name"]).filter(pa.array(buckets == bucket))
            yield Blob("sent", task.addresses.key(cluster, bucket), 0, own)


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
    if len(near):
        calls = calls_of(attempts_of(a.table.take(pa.array(near)), a.midnight_ms))
        counts[near[calls.row[(calls.at >= 0) & (calls.at < DAY_MS)]]] = True
    return counts


def _buckets(a: Attempts, buckets: int) -> IntArray:
    producers = producers_of(a)
    of_each = [bucket_of(group, client, buckets) for group, client in producers.names]
    return np.array(of_each, np.int64)[producers.codes]


def bucket_of(producer_group: str, client_id: str, buckets: int) -> int:
    """The bucket of a producer: the same in every run and on every machine."""
    return zlib.crc32(f"{producer_group}\0{client_id}".encode("utf-8", "surrogatepass")) % buckets


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


def slices_of(given: Given, midnight_ms: int) -> Iterator[Slice]:
    """The attempts of a bucket's date in parts of about ``SLICE_ROWS``, in the order of their first instants."""
    name = attempts_name(midnight_ms)
    edges = _edges(given, name)
    for since, until in zip([-END, *edges], [*edges, END], strict=True):
        yield _between(given, name, since, until), until


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
            key = self.addresses.key(cluster, bucket_of(group, client, self.addresses.buckets))
            places[key, midnight_of(day)].append(place)
        for (key, midnight_ms), own in sorted(places.items()):
            yield Blob(self.name, key, midnight_ms, rows.take(own))


def midnight_of(day: date) -> int:
    """Epoch ms with which a date begins."""
    return (day - date(1970, 1, 1)).days * DAY_MS
