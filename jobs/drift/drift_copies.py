"""Kernel that brings what is of a cluster, not of a group, to the workers that fold its groups, as copies.

A topic's routes, and what brokers say of its queues' ends, go to each bucket in which a group has that topic; names
only where some name was cut. A line of a client's log that names no group goes to each bucket of whose groups a line of
the same log tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.drift_cut import (
    CLIENT_EVENT_COLUMNS,
    LOGGED_SCHEMA,
    SIGNS_OF_SERVERS,
    CutFile,
    columns_of,
    logged_lines,
    near_rounds,
    of_clusters,
    rounds_of,
    subscribed,
)
from hindsight.jobs.drift.group_split import Cutting, Split, key_of
from hindsight.jobs.engines.runner import Blob, copies
from hindsight.schemas import CLIENT_EVENT, SNAPSHOT_CAPTURE, TOPIC_ROUTE, TOPIC_STATUS
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX, END
from hindsight.udfs.consumer.round_reads import BROKER, NAMED, TOPIC
from hindsight.udfs.consumer.rows_of_rounds import near, on_dates
from hindsight.udfs.consumer.topic_routes import ROUTE, entries_of, entries_schema
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.rebalance_fold import OF_LOG
from hindsight.udfs.servers.server_fold import signs_of_routes
from hindsight.udfs.values.row_hashes import chosen

COPIED = (SNAPSHOT_CAPTURE, TOPIC_ROUTE, TOPIC_STATUS, CLIENT_EVENT)
ROUTE_CAPTURES, ROUTE_ENTRIES, NAMES = "reads of routes", "entries of routes", "names"
NAMELESS, LOGGED_NAMELESS = "lines of no group", "logged lines of no group"
ENDS = TOPIC_STATUS.name
_ROUTE_READ = (
    "collector", "round_at", "topic", "kind", "name_server", "captured_at", "answered", "error", "error_code",
    "source_file", "source_line",
)  # fmt: skip
_TOLD = (
    "collector", "round_at", "topic", "name_server", "broker_name", "captured_at", "read_queue_nums", "perm",
    "logical_broker_name", "logical_queue_nums", "logical_queues", "master_address", "slaves",
)  # fmt: skip
ROUTE_SCHEMAS = {
    ROUTE_CAPTURES: columns_of(SNAPSHOT_CAPTURE, _ROUTE_READ),
    ROUTE_ENTRIES: entries_schema(columns_of(TOPIC_ROUTE, _TOLD)),
}
END_SCHEMA = columns_of(TOPIC_STATUS, END)
NAMELESS_SCHEMA = columns_of(CLIENT_EVENT, CLIENT_EVENT_COLUMNS)


def copy(task: CutFile) -> Iterator[Blob]:
    """What a file of the tables ``COPIED`` says of a cluster, by bucket: see there, and ``ROUTE_SCHEMAS``."""
    columns, copied = _OF_TABLE[task.folder.table.name]
    for cluster, rows in of_clusters(task, columns):
        yield from copied(rows, cluster, task.by)


def _reads_of_routes(rows: pa.Table, cluster: str, by: Cutting) -> Iterator[Blob]:
    own = near_rounds(rows, cluster, by)
    if by.printed.get(cluster):
        yield from _names(subscribed(own, ("collector", "round_at")), TOPIC, cluster, by)
    routes = own.filter(pc.equal(own["kind"], ROUTE)).select(list(_ROUTE_READ))
    yield from copies(ROUTE_CAPTURES, routes, _keys(cluster, by))


def _routes(rows: pa.Table, cluster: str, by: Cutting) -> Iterator[Blob]:
    """What routes say of brokers (``SIGNS_OF_SERVERS``) goes to every bucket."""
    own = chosen(rows, rounds_of(rows, cluster, by))
    for column in (TOPIC, BROKER):
        yield from _names(own, column, cluster, by)
    yield from Split(cluster, by).to_all(SIGNS_OF_SERVERS, signs_of_routes(own))
    yield from copies(ROUTE_ENTRIES, entries_of(own.select(list(_TOLD))), _keys(cluster, by))


def _begun(column: str, cluster: str, by: Cutting) -> tuple[str, ...]:
    """The beginnings of a cluster's names that may be cut."""
    return tuple(name for of, name in by.printed.get(cluster, ()) if of == column)


def _keys(cluster: str, by: Cutting) -> Callable[[str], Collection[int]]:
    """Who wants a topic; one whose name may have been cut may be wanted by anybody."""
    begun, wants, every = _begun(TOPIC, cluster, by), by.wants.get(cluster, {}), by.addresses.keys(cluster)
    return lambda topic: every if begun and topic.startswith(begun) else wants.get(topic, ())


def _names(rows: pa.Table, column: str, cluster: str, by: Cutting) -> Iterator[Blob]:
    """Names that begin as one does that may be cut, for every bucket."""
    begun, of = _begun(column, cluster, by), ["collector", "round_at", column]
    if not begun:
        return
    each = rows.select(of).group_by(of).aggregate([])
    kept = each.filter(pa.array([str(name).startswith(begun) for name in each[column].to_pylist()], pa.bool_()))
    columns = {"collector": kept["collector"], "round_at": kept["round_at"]}
    columns |= {"column": pa.repeat(pa.scalar(column), len(kept)), "name": kept[column]}
    for key in by.addresses.keys(cluster):
        yield Blob(NAMES, key, 0, pa.table(columns).cast(NAMED))


def _ends(rows: pa.Table, cluster: str, by: Cutting) -> Iterator[Blob]:
    return copy_ends(cluster, by, chosen(rows, rounds_of(rows, cluster, by)).select(list(END)))


def copy_ends(cluster: str, by: Cutting, rows: pa.Table) -> Iterator[Blob]:
    """Rows of a cluster's ``topic_status`` by bucket; dead letter queues by their group."""
    wants = by.wants.get(cluster, {})

    def keys(topic: str) -> Collection[int]:
        if topic.startswith(DEAD_LETTER_PREFIX):
            return [key_of(by.addresses, cluster, topic.removeprefix(DEAD_LETTER_PREFIX))]
        return wants.get(topic, ())

    return copies(ENDS, rows, keys)


def _nameless_lines(rows: pa.Table, cluster: str, by: Cutting) -> Iterator[Blob]:
    wants, days = by.logs.get(cluster, {}), by.dates[cluster]
    nameless = rows.filter(pc.field("consumer_group").is_null())
    lines = logged_lines(nameless, near(days, (-1, 0)))
    of_logs = [wants.get(log_of(file), ()) for file in lines["source_file"].to_pylist()]
    for key in sorted({next(iter(of)) for of in of_logs if len(of) == 1}):  # whose it is, no other bucket doubts
        yield Blob(LOGGED_NAMELESS, key, 0, lines.filter(pa.array([[*of] == [key] for of in of_logs], pa.bool_())))
    own = nameless.filter(pc.field("kind").isin(list(OF_LOG)))
    own = own.filter(pa.array(on_dates(own, days))).select(list(CLIENT_EVENT_COLUMNS))
    keys = [wants.get(log_of(file), ()) for file in own["source_file"].to_pylist()]
    for key in sorted({key for of in keys for key in of}):
        yield Blob(NAMELESS, key, 0, own.filter(pa.array([key in of for of in keys], pa.bool_())))


# The columns of each table that are read, and what is made of them.
_OF_TABLE = {
    SNAPSHOT_CAPTURE.name: ((*_ROUTE_READ, "consumer_group", "subscriptions", "source"), _reads_of_routes),
    TOPIC_ROUTE.name: ((*_TOLD, "source_file", "source_line"), _routes),
    TOPIC_STATUS.name: (("round_at", *END), _ends),
    CLIENT_EVENT.name: ((*CLIENT_EVENT_COLUMNS, *LOGGED_SCHEMA.names[:-2]), _nameless_lines),
}
