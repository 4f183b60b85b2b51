"""Rows of consumer groups in, those of each bucket out: each group goes to one bucket.

Names travel as dictionaries: a name is written once a blob, and its rows as numbers, which are cheaper to sort, to hash
and to write.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.runner import Blob
from hindsight.jobs.lake.cluster_dates import Addresses
from hindsight.udfs.consumer.rows_of_rounds import Nearest
from hindsight.udfs.servers.server_fold import SERVERS
from hindsight.udfs.values.columns import IntArray, chosen, microseconds, order_of, with_dictionaries
from hindsight.udfs.values.message_queues import lite_parent

WANTS, LOGS = "wants", "logs"
HOUR_US = 3_600_000_000


class Cutting(NamedTuple):
    """By what rows are cut.

    Attributes:
        dates: of each cluster, those that are judged.
        nearest: where several sources tell of groups, what ``nearest_of`` gives of all captures; else None.
        distances: of the sources.
        since: of a cluster whose first date's walk goes on where it was cut, the instant from which rows are needed,
            epoch us.
        wants, logs: by cluster and topic, and by cluster and log, the keys of the buckets that get copies of what is
            told of it (``WANTS``, ``LOGS``).
        printed: by cluster, the kinds and beginnings of names that may be cut.
    """

    addresses: Addresses
    dates: Mapping[str, Sequence[date]]
    lookback_s: int
    nearest: Nearest | None
    distances: Mapping[str, int]
    since: Mapping[str, int] = {}
    wants: Mapping[str, Mapping[str, Collection[int]]] = {}
    logs: Mapping[str, Mapping[str, Collection[int]]] = {}
    printed: Mapping[str, Collection[tuple[str, str]]] = {}


@dataclass(frozen=True)
class Split:
    """Cuts rows of a cluster's groups by bucket."""

    cluster: str
    by: Cutting

    def __call__(self, name: str, rows: pa.Table, *, sliced: bool = False) -> Iterator[Blob]:
        """The rows of groups by bucket; ``sliced``: by the hour of their round too, which is their place."""
        rows = rows.filter(pc.is_valid(rows["consumer_group"])) if rows["consumer_group"].null_count else rows
        keys = self._keys(rows)
        hours = microseconds(rows, "round_at") // HOUR_US if sliced else np.zeros(len(keys), np.int64)
        order = order_of([keys, hours])
        kept = rows.drop_columns([c for c in ("cluster", "event_date") if c in rows.column_names])
        kept, keys, hours = kept.take(pa.array(order)), keys[order], hours[order]
        changes = np.flatnonzero(np.diff(keys) | np.diff(hours)) + 1
        edges = [0, *changes.tolist(), len(order)] if len(order) else [0]
        for start, end in pairwise(edges):
            own = kept.slice(start, end - start)
            yield Blob(name, int(keys[start]), int(hours[start]), with_dictionaries(own) if sliced else own)

    def to_all(self, name: str, rows: pa.Table) -> Iterator[Blob]:
        """The rows as copies for each bucket."""
        for key in self.by.addresses.keys(self.cluster) if rows.num_rows else ():
            yield Blob(
                name, key, 0, rows.drop_columns([c for c in ("cluster", "event_date") if c in rows.column_names])
            )

    def _keys(self, rows: pa.Table) -> IntArray:
        groups = rows["consumer_group"].combine_chunks().dictionary_encode()
        buckets = [self.key(group) for group in groups.dictionary.to_pylist()]
        found: IntArray = np.array([*buckets, 0], np.int64)[groups.indices.to_numpy(zero_copy_only=False)]
        return found

    def key(self, consumer_group: str) -> int:
        """The key of a group's bucket."""
        return key_of(self.by.addresses, self.cluster, consumer_group)

    def wants(self, rows: pa.Table) -> Iterator[Blob]:
        """Which buckets need which topics: those of these rows, for a Lite topic its parent."""
        lite = {topic: parent for topic in pc.unique(rows["topic"]).to_pylist() if (parent := lite_parent(topic or ""))}
        if lite:
            topics = pa.array([lite.get(topic, topic) for topic in rows["topic"].to_pylist()], pa.string())
            rows = rows.set_column(rows.column_names.index("topic"), "topic", topics)
        yield self._needed(WANTS, rows, "topic")

    def logs(self, rows: pa.Table) -> Iterator[Blob]:
        """Which buckets need what the files of logs say of no group."""
        yield self._needed(LOGS, rows, "source_file")

    def _needed(self, name: str, rows: pa.Table, column: str) -> Blob:
        pairs = rows.select(["consumer_group", column]).group_by(["consumer_group", column]).aggregate([])
        named = zip(pairs["consumer_group"].to_pylist(), pairs[column].to_pylist(), strict=True)
        found = sorted({(self.key(group), of) for group, of in named if group is not None and of is not None})
        keys, values = zip(*found, strict=True) if found else ((), ())
        columns = {"key": pa.array(keys, pa.int64()), column: pa.array(values, pa.string())}
        return Blob(name, 0, 0, pa.table(columns))


def key_of(addresses: Addresses, cluster: str, consumer_group: str) -> int:
    """The key of a group's bucket: the same in every run and on every machine."""
    return addresses.key(cluster, zlib.crc32(consumer_group.encode("utf-8", "surrogatepass")) % addresses.buckets)


def split_opening(name: str, by: Cutting, rows: pa.Table) -> Iterator[Blob]:
    """The rows of a closing table, brought to their groups' buckets; what is of servers, to every bucket."""
    for cluster in pc.unique(rows["cluster"]).to_pylist():
        if cluster in by.dates:
            split, own = Split(cluster, by), of_cluster(rows, cluster)
            of_servers = pc.equal(own["consumer_group"], SERVERS)
            yield from split.to_all(name, own.filter(of_servers))
            yield from split(name, own.filter(pc.invert(of_servers)))


def of_cluster(rows: pa.Table, cluster: str) -> pa.Table:
    """The rows of a cluster."""
    return chosen(rows, pc.equal(rows["cluster"], cluster).to_numpy())
