"""The kernel that brings what brokers say of queues' ends to the buckets whose groups consume them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hindsight.jobs.drift.drift_cut import columns_of, of_clusters, rounds_of
from hindsight.jobs.drift.drift_routes import RouteFile
from hindsight.jobs.drift.group_split import Cutting, key_of
from hindsight.jobs.engines.blobs import Blob, copies
from hindsight.schemas import TOPIC_STATUS
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX, END
from hindsight.udfs.values.arrays import chosen

ENDS = TOPIC_STATUS.name
END_SCHEMA = columns_of(TOPIC_STATUS, END)


def cut_ends(task: RouteFile) -> Iterator[Blob]:
    """The rows of a file of ``topic_status`` by bucket; dead letter queues by their group."""
    for cluster, rows in of_clusters(task, ("event_date", "round_at", *END)):
        own = chosen(rows, rounds_of(rows, cluster, task.by)).select(list(END))
        yield from EndCopies(cluster, task.by, task.wants.get(cluster, {}))(own)


@dataclass(frozen=True)
class EndCopies:
    """Brings rows of a cluster's ``topic_status`` to the buckets that want them; ``wants``: by topic."""

    cluster: str
    by: Cutting
    wants: Mapping[str, Collection[int]]

    def __call__(self, rows: pa.Table) -> Iterator[Blob]:
        """The rows by bucket."""
        return copies(ENDS, rows, self._keys)

    def _keys(self, topic: str) -> list[int]:
        if topic.startswith(DEAD_LETTER_PREFIX):
            return [key_of(self.by.addresses, self.cluster, topic.removeprefix(DEAD_LETTER_PREFIX))]
        return list(self.wants.get(topic, ()))
