"""The unit in which derived tables are computed and replaced, and who folds which part of it."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import NamedTuple

DAY_MS = 86_400_000
OPENING = "opening "  # before a table's name: its rows with which a stretch begins
_DAYS = 1 << 20  # more than there are dates


class ClusterDate(NamedTuple):
    """A UTC date of one cluster: the unit in which derived tables are replaced."""

    cluster: str
    event_date: date


class Addresses(NamedTuple):
    """Who folds what.

    Attributes:
        clusters: their names; the place of one is part of its keys.
        buckets: of each cluster's producers.
        dates: of each cluster, the midnights, epoch ms, whose attempts are wanted.
        apart: of each cluster, the producers in its last bucket, where no other is; None: there is no such bucket.
    """

    clusters: Sequence[str]
    buckets: int
    dates: Mapping[str, Sequence[int]]
    apart: Mapping[str, Collection[tuple[str, str]]] | None = None

    def key(self, cluster: str, bucket: int) -> int:
        """The key of a bucket."""
        return self.clusters.index(cluster) * self.buckets + bucket

    def bucket_of(self, cluster: str, producer: tuple[str, str]) -> int:
        """The bucket of a producer: the same in every run and on every machine."""
        if self.apart is not None and producer in self.apart.get(cluster, ()):
            return self.buckets - 1
        number = zlib.crc32("\0".join(producer).encode("utf-8", "surrogatepass"))
        return number % (self.buckets if self.apart is None else self.buckets - 1)

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


def midnight_of(day: date) -> int:
    """Epoch ms with which a date begins."""
    return (day - date(1970, 1, 1)).days * DAY_MS
