"""The kernel that brings what brokers say of queues' ends to the buckets whose groups consume them."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.jobs.drift.drift_cut import columns_of, of_clusters, rounds_of
from hindsight.jobs.drift.drift_routes import RouteFile
from hindsight.jobs.drift.group_split import key_of
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

        def keys(topic: str, cluster: str = cluster) -> list[int]:
            if topic.startswith(DEAD_LETTER_PREFIX):
                return [key_of(task.by.addresses, cluster, topic.removeprefix(DEAD_LETTER_PREFIX))]
            return list(task.wants.get(cluster, {}).get(topic, ()))

        yield from copies(ENDS, own, keys)
