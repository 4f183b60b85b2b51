"""Kernels that bring rows of tables to the workers that fold consumer groups: each group to one bucket.

What is of a cluster, not of a group, goes as copies. A topic's routes, and what brokers say of its queues' ends, go to
each bucket in which a group has that topic; names only where some name was cut. A line of a client's log that names no
group goes to each bucket of whose groups a line of the same log tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import hindsight.schemas as schemas
from hindsight.jobs.drift.group_split import Cutting, Split, key_of, of_cluster
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile
from hindsight.jobs.engines.runner import Blob, copies
from hindsight.jobs.publishing.kept_walks import midnight_us
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.consumer.broker_assignment import NEEDED as MODES
from hindsight.udfs.consumer.listed_members import INFO
from hindsight.udfs.consumer.member_rules import CLIENT_LOG, EVENTS, RUNNING_INFO, SHOWN
from hindsight.udfs.consumer.owned_queues import LAG, OWNER, POPPED
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX, END
from hindsight.udfs.consumer.round_reads import BROKER, NAMED, OF_GROUPS, TOPIC, printed_names, refusals
from hindsight.udfs.consumer.rows_of_rounds import NEEDED_OF_CAPTURES, are_nearest, nearest_of, of_rounds
from hindsight.udfs.consumer.topic_routes import ROUTE, entries_of, entries_schema
from hindsight.udfs.drift.told_beside import CHANGED, LOGGED_KINDS
from hindsight.udfs.lines.parsed_line import NOT_ASKED
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.rebalance_fold import OF_GROUP, OF_LOG
from hindsight.udfs.servers.server_fold import signs_of, signs_of_routes
from hindsight.udfs.values.columns import DAY_US, BoolArray, chosen, instant, microseconds, near, on_dates

SHOWS = "shown"
SEEN = "seen"
SIGNS_OF_SERVERS = "signs of servers"
PRINTED, ASKED_PROXY, CUT_ROUNDS, NEAREST = "printed", "asked proxy", "cut rounds", "nearest"
_OF_ROUND = ("collector", "consumer_group", "round_at")
_READ = (
    "kind", "broker_name", "name_server", "captured_at", "captured_end_at", "client_id", "topic", "answered", "error",
    "error_code", "client_version", "consume_type", "message_model", "consume_from_where", "consume_orderly",
    "client_rebalance", "client_started_at", "client_kind", "member_ids", "subscriptions", "source_file",
    "source_line",
)  # fmt: skip
_SETTING = ("broker_name", "captured_at", "consume_enable", "source_file", "source_line")
_CONNECTED = (
    "broker_name", "client_id", "address", "captured_at", "language", "client_version", "client_kind", "message_model",
)  # fmt: skip
# What lines add to findings (``told_beside``), of both tables of logs.
LOGGED = "logged"
_ADDED = (
    "kind", "logged_at", "topic", "broker_name", "queue_id", "response_code", "exception", "detail", "offset",
    "new_offset", "min_offset", "max_offset", "broker_address", "source_file", "source_line",
)  # fmt: skip
_CHANGED = ("sub_string", "old_sub_string")
_LINE = ("consumer_group", "client_id", "topic", "logged_at", "source_file", "source_line")
_OF_EVENT = "kind broker_name queue_id queues detail exception error offset new_offset"
CLIENT_EVENT_COLUMNS = (*_LINE, *_OF_EVENT.split())
# What goes to the buckets of groups: of tables whose rows are of rounds, and of those that come of logs.
OF_ROUNDS = {
    schemas.SNAPSHOT_CAPTURE: (*_OF_ROUND, *_READ),
    schemas.CONSUMER_HEARTBEAT: (*_OF_ROUND, *_CONNECTED),
    schemas.QUEUE_OWNERSHIP: (*_OF_ROUND, *OWNER, "captured_at", "dropped"),
    schemas.POP_ASSIGNMENT: (*_OF_ROUND, *POPPED, "captured_at", "dropped"),
    schemas.QUEUE_PROGRESS: (*_OF_ROUND, *LAG, "doubts"),
    schemas.MESSAGE_REQUEST_MODE: (*_OF_ROUND, *(name for name in MODES if name != "consumer_group")),
    schemas.SUBSCRIPTION_GROUP: (*_OF_ROUND, *_SETTING),
}
OF_LOGS = {
    schemas.REBALANCE_RESULT: (*_LINE, "strategy", "queue_count", "member_count", "queues"),
    schemas.CLIENT_EVENT: CLIENT_EVENT_COLUMNS,
    schemas.CLIENT_HEARTBEAT: ("role", "client_group", "client_id", "received_at"),
    schemas.MEMBERSHIP_EVENT: ("kind", "client_group", "client_id", "address", "logged_at", "last_update_at"),
}
_COLUMNS = OF_ROUNDS | OF_LOGS
# What is read besides.
_ALSO_READ = {
    schemas.SNAPSHOT_CAPTURE: ("strategy", "source"),
    schemas.CLIENT_EVENT: _ADDED,
    schemas.MEMBERSHIP_EVENT: ("topic", "broker_name", *_CHANGED, "source_file", "source_line"),
}
# Which lines and heartbeats tell of consumers: a column, and its values. (Expressions here would load pandas.)
_TELLING = {
    schemas.CLIENT_EVENT: ("kind", OF_GROUP),
    schemas.CLIENT_HEARTBEAT: ("role", ("consumer",)),
    schemas.MEMBERSHIP_EVENT: ("kind", EVENTS),
}
_NEAREST = pa.schema(
    [("cluster", pa.string()), ("consumer_group", pa.string()), ("day", pa.int64()), ("distance", pa.int64())]
)
SEEN_SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("day", pa.int64()),  # since 1970, of the rounds
        ("collector", pa.string()),
        ("source", pa.string()),
        ("by_address", pa.bool_()),  # a broker is named by its address
        ("topic", pa.string()),  # of which a route was asked for; null: all other captures
        ("first_us", pa.int64()),  # the first round
        ("round_us", pa.int64()),  # the last round
    ]
)
_SLICED = (schemas.QUEUE_OWNERSHIP, schemas.POP_ASSIGNMENT, schemas.QUEUE_PROGRESS)


def cut_schema(name: str) -> pa.Schema:
    """The columns of what ``cut`` gives by the name of a table."""
    table = schemas.TABLES[name]
    return _of_consumers(columns_of(table, _COLUMNS[table]).empty_table()).schema


def _of_consumers(rows: pa.Table) -> pa.Table:
    """Rows whose group is named as in all tables of groups."""
    return rows.rename_columns(["consumer_group" if name == "client_group" else name for name in rows.column_names])


def columns_of(table: Table, columns: Sequence[str]) -> pa.Schema:
    """Columns of a table, any of them null."""
    return pa.schema([arrow_schema(table).field(column).with_nullable(True) for column in columns])


LOGGED_SCHEMA = pa.unify_schemas(
    [
        columns_of(schemas.CLIENT_EVENT, ("consumer_group", *_ADDED)),
        columns_of(schemas.MEMBERSHIP_EVENT, _CHANGED),
    ]
)


class CutFile(NamedTuple):
    """A file of a table, and by what its rows are cut."""

    folder: TableFolder
    file: DataFile
    by: Cutting


def look(task: CutFile) -> Iterator[Blob]:
    """Of a file of captures, the distances of the nearest sources (``NEAREST``)."""
    for cluster, rows in of_clusters(task, NEEDED_OF_CAPTURES):
        own = chosen(rows, rounds_of(rows, cluster, task.by))
        found = nearest_of(own, task.by.distances)
        yield Blob(NEAREST, 0, 0, pa.Table.from_pylist([_near(*item) for item in found.items()], schema=_NEAREST))


def _near(key: tuple[str, str, int], distance: int) -> dict[str, Any]:
    return dict(zip(_NEAREST.names, (*key, distance), strict=True))


def cut(task: CutFile) -> Iterator[Blob]:
    """The rows of a file by bucket, named like their table; of captures also what clients showed (``SHOWS``).

    Beside these, for the driver: which topics a bucket wants routes of (``WANTS``), names in doubt (``PRINTED``), and
    which collectors asked a proxy (``ASKED_PROXY``), and in which rounds they had no time (``CUT_ROUNDS``).
    """
    table = task.folder.table
    for cluster, rows in of_clusters(task, (*_COLUMNS[table], *_ALSO_READ.get(table, ()))):
        split = Split(cluster, task.by)
        if table in OF_LOGS:
            yield from _of_logs(table, _of_consumers(rows), split)
        elif table == schemas.SNAPSHOT_CAPTURE:
            yield from _captures(rows, split)
        else:
            yield from _of_rounds(table, chosen(rows, rounds_of(rows, cluster, task.by)), split)


def _of_rounds(table: Table, rows: pa.Table, split: Split) -> Iterator[Blob]:
    yield from split(table.name, rows, sliced=table in _SLICED)
    if table == schemas.MESSAGE_REQUEST_MODE:  # what holds for all groups goes to every bucket
        yield from split.to_all(table.name, rows.filter(pc.is_null(rows["consumer_group"])))
    elif "topic" in rows.column_names:
        yield from split.wants(rows)
    if table == schemas.QUEUE_PROGRESS:
        printed = [(split.cluster, *name) for name in sorted(printed_names(rows))]
        yield Blob(PRINTED, 0, 0, _texts(("cluster", "column", "name"), printed))


def of_clusters(task: CutFile, columns: Collection[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of a file, those of each cluster by themselves; with these columns, cluster and date."""
    wanted = list(dict.fromkeys(["cluster", "event_date", *columns]))
    for piece in task.folder.pieces(task.file, wanted, since=needed_since(task.folder.table, task.by)):
        for cluster in pc.unique(piece["cluster"]).to_pylist():
            if cluster in task.by.dates:
                yield cluster, of_cluster(piece, cluster)


def needed_since(table: Table, by: Cutting) -> tuple[str, datetime] | None:
    """A column and the instant from which rows of a table are needed; None: earlier ones too, of some cluster."""
    is_captures, names = table.name == schemas.SNAPSHOT_CAPTURE.name, table.schema.names
    # What clients show of their strategies counts whichever round it is of, on the date before as well.
    if "round_at" not in names or (is_captures and by.since.keys() < by.dates.keys()):
        return None
    begins = {cluster: midnight_us(min(days)) - by.lookback_s * 1_000_000 for cluster, days in by.dates.items()}
    return "captured_at" if is_captures else "round_at", instant(min((begins | {**by.since}).values()))


def rounds_of(rows: pa.Table, cluster: str, by: Cutting) -> BoolArray:
    """Which rows are of rounds that are judged or looked back on."""
    dates = by.dates[cluster]
    wanted = on_dates(rows, near(dates)) & of_rounds(rows, dates, by.lookback_s)
    return wanted & (microseconds(rows, "round_at") >= by.since[cluster]) if cluster in by.since else wanted


def _captures(rows: pa.Table, split: Split) -> Iterator[Blob]:
    by, cluster = split.by, split.cluster
    told = pc.and_(pc.equal(rows["kind"], INFO), pc.is_valid(rows["strategy"]))
    shown = rows.filter(told).filter(pa.array(on_dates(rows.filter(told), near(by.dates[cluster], (-1, 0)))))
    if cluster in by.since:
        shown = chosen(shown, microseconds(shown, "captured_at") >= by.since[cluster])
    yield from split(SHOWS, _shown(shown, "captured_at", RUNNING_INFO))
    own = near_rounds(rows, cluster, by)
    yield Blob(SEEN, 0, 0, _seen(own, cluster))
    yield from split.to_all(SIGNS_OF_SERVERS, signs_of(own))
    asked = [(cluster, collector, day.isoformat()) for collector, day in sorted(refusals(own))]
    yield Blob(ASKED_PROXY, 0, 0, _texts(("cluster", "collector", "day"), asked))
    left_out = own.filter(pc.equal(own["kind"], NOT_ASKED)).select(["cluster", "collector", "round_at"])
    yield Blob(CUT_ROUNDS, 0, 0, left_out.group_by(left_out.column_names).aggregate([]))
    of_groups = own.filter(pc.is_in(own["kind"], pa.array(OF_GROUPS)))
    yield from split(schemas.SNAPSHOT_CAPTURE.name, of_groups.select(list(OF_ROUNDS[schemas.SNAPSHOT_CAPTURE])))
    yield from split.wants(subscribed(of_groups, ("consumer_group",)))


def _seen(captures: pa.Table, cluster: str) -> pa.Table:
    """What captures show of each date of rounds, once (``SEEN_SCHEMA``)."""
    rounds = microseconds(captures, "round_at")
    columns = {"cluster": pa.repeat(pa.scalar(cluster), len(captures)), "day": pa.array(rounds // DAY_US)}
    columns |= {"collector": captures["collector"], "source": captures["source"]}
    columns["by_address"] = pc.fill_null(pc.match_substring(captures["broker_name"], ":"), False)
    is_route = pc.equal(captures["kind"], ROUTE)
    columns["topic"] = pc.if_else(is_route, captures["topic"], pa.scalar(None, pa.string()))
    columns["round_us"] = pa.array(rounds)
    names = [name for name in columns if name != "round_us"]
    ends = pa.table(columns).group_by(names).aggregate([("round_us", "min"), ("round_us", "max")])
    ends = ends.rename_columns({"round_us_min": "first_us", "round_us_max": "round_us"})
    return ends.select(SEEN_SCHEMA.names).cast(SEEN_SCHEMA)


def near_rounds(rows: pa.Table, cluster: str, by: Cutting) -> pa.Table:
    """Captures of the rounds, of each group those of the source nearest to it."""
    own = chosen(rows, rounds_of(rows, cluster, by))
    return own if by.nearest is None else chosen(own, are_nearest(own, by.nearest, by.distances))


def subscribed(captures: pa.Table, beside: Sequence[str]) -> pa.Table:
    """A row for each topic that a capture names, with other columns of it."""
    subscriptions = captures["subscriptions"].combine_chunks()
    parents = pc.list_parent_indices(subscriptions)
    topics = pc.struct_field(subscriptions.flatten(), "topic")
    return captures.select(list(beside)).take(parents).append_column("topic", topics)


def _shown(rows: pa.Table, at: str, source: str) -> pa.Table:
    columns = {name: rows[name] for name in ("consumer_group", "client_id", "strategy")}
    columns |= {"at": rows[at], "source": pa.repeat(pa.scalar(source), len(rows))}
    return pa.table({name: columns[name] for name in SHOWN.names}).cast(SHOWN)


def _of_logs(table: Table, rows: pa.Table, split: Split) -> Iterator[Blob]:
    dates = split.by.dates[split.cluster]
    lately, is_of_clients = near(dates, (-1, 0)), table in (schemas.REBALANCE_RESULT, schemas.CLIENT_EVENT)
    if table == schemas.REBALANCE_RESULT:
        # Go's clients do not write theirs.
        own = chosen(rows, on_dates(rows, lately)).filter(pc.field("strategy") != "")
        yield from split(SHOWS, _shown(own, "logged_at", CLIENT_LOG))
    if table in _ALSO_READ:
        yield from split(LOGGED, logged_lines(rows, lately))
    own = chosen(rows, on_dates(rows, dates if is_of_clients else near(dates))).select(cut_schema(table.name).names)
    if table in _TELLING:
        column, values = _TELLING[table]
        own = own.filter(pc.field(column).isin(list(values)))
    yield from split(table.name, own)
    if is_of_clients:
        yield from split.logs(own)


def logged_lines(rows: pa.Table, days: Collection[date]) -> pa.Table:
    """The lines that add something to findings (``LOGGED_SCHEMA``)."""
    if "sub_string" in rows.column_names:
        rows = rows.filter((pc.field("kind") == CHANGED) & (pc.field("sub_string") != pc.field("old_sub_string")))
    rows = rows.filter(pc.field("kind").isin([*LOGGED_KINDS, CHANGED]))
    own = chosen(rows, on_dates(rows, days))
    held = set(own.column_names)
    columns = [own[f.name] if f.name in held else pa.nulls(len(own), f.type) for f in LOGGED_SCHEMA]
    return pa.table(columns, schema=LOGGED_SCHEMA)


def _texts(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> pa.Table:
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)})


COPIED = (schemas.SNAPSHOT_CAPTURE, schemas.TOPIC_ROUTE, schemas.TOPIC_STATUS, schemas.CLIENT_EVENT)
ROUTE_CAPTURES, ROUTE_ENTRIES, NAMES = "reads of routes", "entries of routes", "names"
NAMELESS, LOGGED_NAMELESS = "lines of no group", "logged lines of no group"
ENDS = schemas.TOPIC_STATUS.name
_ROUTE_READ = (
    "collector", "round_at", "topic", "kind", "name_server", "captured_at", "answered", "error", "error_code",
    "source_file", "source_line",
)  # fmt: skip
_TOLD = (
    "collector", "round_at", "topic", "name_server", "broker_name", "captured_at", "read_queue_nums", "perm",
    "logical_broker_name", "logical_queue_nums", "logical_queues", "master_address", "slaves",
)  # fmt: skip
ROUTE_SCHEMAS = {
    ROUTE_CAPTURES: columns_of(schemas.SNAPSHOT_CAPTURE, _ROUTE_READ),
    ROUTE_ENTRIES: entries_schema(columns_of(schemas.TOPIC_ROUTE, _TOLD)),
}
END_SCHEMA = columns_of(schemas.TOPIC_STATUS, END)
NAMELESS_SCHEMA = columns_of(schemas.CLIENT_EVENT, CLIENT_EVENT_COLUMNS)


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
    schemas.SNAPSHOT_CAPTURE.name: ((*_ROUTE_READ, "consumer_group", "subscriptions", "source"), _reads_of_routes),
    schemas.TOPIC_ROUTE.name: ((*_TOLD, "source_file", "source_line"), _routes),
    schemas.TOPIC_STATUS.name: (("round_at", *END), _ends),
    schemas.CLIENT_EVENT.name: ((*CLIENT_EVENT_COLUMNS, *LOGGED_SCHEMA.names[:-2]), _nameless_lines),
}
