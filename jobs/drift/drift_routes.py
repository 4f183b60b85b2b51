"""Kernels that bring what is of a cluster, not of a group, to the workers that fold its groups, as copies.

A topic's routes go to each bucket in which a group has that topic; names only where some name was cut.

The kernel that brings what brokers say of queues' ends to the buckets whose groups consume them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.drift_cut import SIGNS_OF_SERVERS, columns_of, near_rounds, of_clusters, rounds_of, subscribed
from hindsight.jobs.drift.group_split import Cutting, Split, key_of
from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.runner import Blob, copies
from hindsight.schemas import SNAPSHOT_CAPTURE, TOPIC_ROUTE, TOPIC_STATUS, Table
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX, END
from hindsight.udfs.consumer.round_reads import BROKER, NAMED, TOPIC
from hindsight.udfs.consumer.topic_routes import ROUTE, entries_of, entries_schema
from hindsight.udfs.servers.server_fold import signs_of_routes
from hindsight.udfs.values.row_hashes import chosen

ROUTE_CAPTURES, ROUTE_ENTRIES, NAMES = "reads of routes", "entries of routes", "names"
_ROUTE_READ = (
    "cluster", "event_date", "collector", "round_at", "topic", "kind", "name_server", "captured_at", "answered",
    "error", "error_code", "source_file", "source_line",
)  # fmt: skip
_TOLD = (
    "cluster", "event_date", "collector", "round_at", "topic", "name_server", "broker_name", "captured_at",
    "read_queue_nums", "perm", "logical_broker_name", "logical_queue_nums", "logical_queues",
    "master_address", "slaves",
)  # fmt: skip
_OF_CLUSTER = ("cluster", "event_date")
ENDS = TOPIC_STATUS.name
END_SCHEMA = columns_of(TOPIC_STATUS, END)


def _of(table: Table, columns: Sequence[str]) -> pa.Schema:
    return columns_of(table, [column for column in columns if column not in _OF_CLUSTER])


ROUTE_SCHEMAS = {
    ROUTE_CAPTURES: _of(SNAPSHOT_CAPTURE, _ROUTE_READ),
    ROUTE_ENTRIES: entries_schema(_of(TOPIC_ROUTE, _TOLD)),
}


class RouteFile(NamedTuple):
    """A file with routes, or the reads of some, and which buckets get copies.

    Attributes:
        wants: by topic of a cluster, the keys that get its routes.
        printed: by cluster, the kinds and beginnings of names that may be cut.
    """

    folder: TableFolder
    file: DataFile
    by: Cutting
    wants: Mapping[str, Mapping[str, Collection[int]]]
    printed: Mapping[str, Collection[tuple[str, str]]]


def cut_routes(task: RouteFile) -> Iterator[Blob]:
    """What routes say (``ROUTE_ENTRIES``), or their reads (``ROUTE_CAPTURES``), by bucket; and names (``NAMES``).

    What routes say of brokers (``SIGNS_OF_SERVERS``) goes to every bucket.
    """
    is_reads = task.folder.table.name == SNAPSHOT_CAPTURE.name
    more = ("consumer_group", "subscriptions", "source") if is_reads else ("source_file", "source_line")
    for cluster, rows in of_clusters(task, (*(_ROUTE_READ if is_reads else _TOLD), *more)):
        own = near_rounds(rows, cluster, task.by) if is_reads else chosen(rows, rounds_of(rows, cluster, task.by))
        yield from _names(own, cluster, task)
        if not is_reads:
            yield from Split(cluster, task.by).to_all(SIGNS_OF_SERVERS, signs_of_routes(own))
        routes = own.filter(pc.equal(own["kind"], ROUTE)) if is_reads else own
        routes = routes.select([c for c in (_ROUTE_READ if is_reads else _TOLD) if c not in _OF_CLUSTER])
        if is_reads:
            yield from copies(ROUTE_CAPTURES, routes, _keys(cluster, task))
        else:
            yield from copies(ROUTE_ENTRIES, entries_of(routes), _keys(cluster, task))


def _keys(cluster: str, task: RouteFile) -> Callable[[str], Collection[int]]:
    wants = task.wants.get(cluster, {})
    begun = tuple(name for of, name in task.printed.get(cluster, ()) if of == TOPIC)

    def keys(topic: str) -> Collection[int]:
        # A topic whose name may have been cut may be wanted by anybody.
        return task.by.addresses.keys(cluster) if topic.startswith(begun) and begun else wants.get(topic, ())

    return keys


def _names(rows: pa.Table, cluster: str, task: RouteFile) -> Iterator[Blob]:
    printed = task.printed.get(cluster, ())
    if not printed:
        return
    if task.folder.table.name == TOPIC_ROUTE.name:
        told = [(rows, TOPIC), (rows, BROKER)]
    else:
        told = [(subscribed(rows, ("collector", "round_at")), TOPIC)]
    for named, column in told:
        begun = tuple(name for of, name in printed if of == column)
        each = named.select(["collector", "round_at", column]).group_by(["collector", "round_at", column]).aggregate([])
        kept = each.filter(pa.array([str(name).startswith(begun) for name in each[column].to_pylist()], pa.bool_()))
        columns = {"collector": kept["collector"], "round_at": kept["round_at"]}
        columns |= {"column": pa.repeat(pa.scalar(column), len(kept)), "name": kept[column]}
        for key in task.by.addresses.keys(cluster):
            yield Blob(NAMES, key, 0, pa.table(columns).cast(NAMED))


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
