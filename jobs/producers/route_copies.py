"""Kernels that bring recorded routes to the workers that fold producers: a topic's to each bucket that sends to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.blobs import Blob, copies
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.lake.cluster_dates import Addresses
from hindsight.schemas import TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.producer.recorded_routes import ENTRY_COLUMNS, entries_of

# What the fold reads of routes: those of a bucket's topics, and of the fleet's date those of all.
ROUTES, DATED_ROUTES = "routes", "routes of a date"
_SAID = ("captured_at", *ENTRY_COLUMNS)
NO_ROUTES = entries_of(arrow_schema(TOPIC_ROUTE).empty_table().select(list(_SAID)))


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
    sent_to: Mapping[str, Mapping[str, Collection[int]]]

    def keys(self, cluster: str, topic: str) -> Collection[int]:
        """Who gets the routes of a topic."""
        return self.sent_to.get(cluster, {}).get(topic, ())


def cut_routes(task: RouteFile) -> Iterator[Blob]:
    """What the file's routes say, each thing once (``entries_of``), by bucket and by date; the place: the midnight."""
    for piece in task.folder.pieces(task.file, ["cluster", *_SAID]):
        for cluster in pc.unique(piece["cluster"]).to_pylist():
            if cluster in task.clusters:
                told = entries_of(piece.filter(pc.equal(piece["cluster"], cluster)))
                yield from copies(ROUTES, told, partial(task.keys, cluster), task.midnight_ms)
                yield Blob(DATED_ROUTES, task.addresses.of_date(cluster, task.midnight_ms), task.midnight_ms, told)
