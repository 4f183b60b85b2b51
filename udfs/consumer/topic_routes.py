"""A topic's route in one round: captures and rows in; the queues that could be read, in RocketMQ's order, out.

``mqadmin -b`` names a broker by its address; routes say whose it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.allocation import java_string_key
from hindsight.udfs.consumer.listed_members import Row, nulls_first
from hindsight.udfs.consumer.rows_of_rounds import RowsOfRounds, rows_of_rounds, with_evidence
from hindsight.udfs.limits.door_rules import MOST_QUEUES
from hindsight.udfs.values.columns import DAY_US, BoolArray, IntArray, chosen, differs, microseconds, whole
from hindsight.udfs.values.date_digests import digest
from hindsight.udfs.values.row_hashes import HashArray, mixed, sums, value_hashes

ROUTE = "topicRoute"
_READABLE = 4
Brokers = tuple[tuple[str, int], ...]  # names and how many queues can be read, in RocketMQ's order
BROKER = "broker_name"


class Queues:
    """The readable queues of a topic, in RocketMQ's order."""

    def __init__(self, brokers: Brokers) -> None:
        self.names = [name for name, count in brokers for _ in range(count)]
        self.ids = [queue_id for _, count in brokers for queue_id in range(count)]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def pairs(self) -> tuple[tuple[str, int], ...]:
        """Broker name and queue id of each."""
        return tuple(zip(self.names, self.ids, strict=True))

    @cached_property
    def list_hash(self) -> str:
        """The digest of the list."""
        return digest(len(self), self.pairs)


class TopicRoute(NamedTuple):
    """What a round read of a topic's route.

    Attributes:
        error, error_code: of the last read, where none was answered.
        queues: None if unanswered, and where a route tells of more queues than ``MOST_QUEUES``: it is as good as
            unread. Where name servers tell different routes, only what all of them tell.
        routes_differ: name servers tell different routes.
        name_servers: that told one.
        queue_kind: ``logical`` for a static topic, which has one broker here, the mock one of its logical queues.
        hosts: on which real brokers these lie.
        route_brokers: the real brokers.
        number: equal for routes of a bucket that tell the same.
    """

    error: str | None
    error_code: int | None
    queues: Queues | None
    routes_differ: bool
    name_servers: int
    queue_kind: str | None
    hosts: list[dict[str, Any]] | None
    route_brokers: list[str] | None
    number: int = 0


class _View(NamedTuple):
    """A route as one name server told it."""

    captured_at: Any
    brokers: Brokers
    queue_kind: str
    hosts: list[dict[str, Any]] | None
    route_brokers: list[str] | None


def last_read(captures: Iterable[Row]) -> Row:
    """The read of a topic's route that counts: an answer before a failure, the later before the earlier."""
    return max(captures, key=_order)


def topic_route(captures: Sequence[Row], rows: Iterable[Row]) -> TopicRoute:
    """The route of a topic in a round; ``captures``: the reads of it; ``rows``: of ``topic_route``, as they told it."""
    latest: dict[str, Row] = {}
    for capture in captures:
        place = capture["name_server"] or ""
        if place not in latest or _order(capture) > _order(latest[place]):
            latest[place] = capture
    told: dict[tuple[str, Any], list[Row]] = {}
    for row in rows:
        told.setdefault((row["name_server"] or "", row["captured_at"]), []).append(row)
    views = []
    for place, read in latest.items():
        view = _view(read["captured_at"], told.get((place, read["captured_at"])))
        # Settings may let rows in that the door refuses, and many brokers make many queues: none may fill the memory.
        if read["answered"] and sum(count for _, count in view.brokers) <= MOST_QUEUES:
            views.append(view)
    return _of_views(last_read(latest.values()), views)


def _of_views(read: Row, views: Sequence[_View]) -> TopicRoute:
    if not views:
        return TopicRoute(read["error"], read["error_code"], None, False, 0, None, None, None)
    distinct = list(dict.fromkeys(view.brokers for view in views))
    shared = [broker for broker in dict.fromkeys(distinct[0]) if all(broker in view for view in distinct)]
    last = max(views, key=lambda view: view.captured_at)
    return TopicRoute(
        error=read["error"],
        error_code=read["error_code"],
        queues=Queues(tuple(shared)),
        routes_differ=len(distinct) > 1,
        name_servers=len(views),
        queue_kind=last.queue_kind,
        hosts=last.hosts,
        route_brokers=last.route_brokers,
    )


def _view(captured_at: Any, rows: Sequence[Row] | None) -> _View:
    """The brokers of a route's queues: physical ones, or of its logical ones."""
    if rows is None:
        return _View(captured_at, (), "physical", None, None)
    readable = [row for row in rows if row["perm"] & _READABLE and row["read_queue_nums"] > 0]
    # The clients take the largest count of logical queues that a broker tells of a scope.
    mock: dict[str, int] = {}
    for row in rows:
        scope, count = row["logical_broker_name"], row["logical_queue_nums"] or 0
        if scope is not None and count > 0:
            mock[scope] = max(count, mock.get(scope, 0))
    real = [(row["broker_name"], row["read_queue_nums"]) for row in readable]
    brokers = sorted(mock.items() if mock else real, key=lambda broker: (java_string_key(broker[0]), broker[1]))
    hosts = [
        {name: row[name] for name in ("broker_name", "logical_broker_name", "logical_queues")}
        for row in sorted(rows, key=lambda row: row["broker_name"])
        if row["logical_broker_name"] is not None
    ]
    kind = "logical" if mock else "physical"
    return _View(captured_at, tuple(brokers), kind, hosts, sorted(row["broker_name"] for row in readable))


def _order(read: Row) -> list[tuple[bool, Any]]:
    return [nulls_first(read[name]) for name in ("answered", "captured_at", "error", "error_code", "evidence")]


# Of a read: when, and in which round. Lists of them in an entry, one place a read in both.
READ = ("captured_at", "round_at")
Rounds = Mapping[str, IntArray]  # by collector their instants, epoch us, sorted


def rounds_of(keys: Iterable[tuple[str, int]]) -> Rounds:
    """Rounds, each named by its collector and instant, epoch us, as often as one likes."""
    found: dict[str, set[int]] = {}
    for collector, at in keys:
        found.setdefault(collector, set()).add(at)
    return {collector: np.array(sorted(own), np.int64) for collector, own in found.items()}


def are_of(rows: pa.Table, rounds: Rounds) -> BoolArray:
    """Which rows are of these rounds."""
    at, found = microseconds(rows, "round_at"), np.zeros(rows.num_rows, np.bool_)
    for collector, own in rounds.items():
        is_own = np.asarray(pc.equal(rows["collector"], collector))
        found[is_own] = np.isin(at[is_own], own)
    return found


def entries_schema(rows: pa.Schema) -> pa.Schema:
    """The columns of entries, by those of rows."""
    return pa.schema([f.with_type(pa.list_(f.type)) if f.name in READ else f for f in rows])


def entries_of(rows: pa.Table) -> pa.Table:
    """Each distinct entry once, with the lists of its reads, in the order of the rows."""
    says = value_hashes(rows, [name for name in rows.column_names if name not in READ])
    _, first, of = np.unique(says, return_index=True, return_inverse=True)
    order = pa.array(np.argsort(of, kind="stable"))
    offsets = pa.array(np.append(0, np.cumsum(np.bincount(of, minlength=len(first)))), pa.int32())
    entries = rows.take(pa.array(first))
    for name in READ:
        lists = pa.ListArray.from_arrays(offsets, whole(rows, name).take(order))
        entries = entries.set_column(entries.schema.get_field_index(name), name, lists)
    return entries.cast(entries_schema(rows.schema))


def rows_of(entries: pa.Table, rounds: Rounds) -> pa.Table:
    """The rows that made the entries, as far as they are of these rounds."""
    lists = {name: whole(entries, name) for name in READ}
    parents = pc.list_parent_indices(lists["round_at"])
    reads = pa.table({name: own.flatten() for name, own in lists.items()})
    reads = reads.append_column("collector", whole(entries, "collector").take(parents))
    wanted = pa.array(np.flatnonzero(are_of(reads, rounds)))
    # Without the lists: each row would be given those of all reads of its entry.
    rows, reads = entries.drop_columns(list(READ)).take(parents.take(wanted)), reads.take(wanted)
    return pa.table({name: (reads if name in READ else rows)[name] for name in entries.column_names})


_READ = ("name_server", "answered", "error", "error_code")
_TOLD = (
    "name_server", "broker_name", "read_queue_nums", "perm", "logical_broker_name", "logical_queue_nums",
    "logical_queues",
)  # fmt: skip


class RoutedTopics:
    """The routes of topics, by round."""

    def __init__(
        self, captures: pa.Table, routes: pa.Table, rounds: Rounds, collected: Iterable[tuple[str, str, int]] = ()
    ) -> None:
        """``captures``: of kind topicRoute; ``routes``: rows of ``topic_route``; ``rounds``: which may be asked for.

        ``collected``: topics, collectors and days since 1970 of rounds that are not among them.
        """
        self._collected = _collected(captures) | set(collected)
        captures, routes = (chosen(rows, are_of(rows, rounds)) for rows in (captures, routes))
        self._captures = rows_of_rounds(with_evidence(captures), "topic", ("captured_at", "name_server"))
        self._routes = rows_of_rounds(routes, "topic", ("captured_at", "name_server", "broker_name"))
        self._shows = _ordered(self._captures, _READ)
        self._told = _ordered(self._routes, _TOLD)
        self._by_hash: dict[tuple[int, int], TopicRoute] = {}
        self._numbers: dict[str, int] = {}

    def is_collected(self, topic: str, collector: str, round_us: int) -> bool:
        """Whether a collector asked for the topic's route on the date of a round."""
        return (topic, collector, round_us // DAY_US) in self._collected

    def of(self, topic: str, collector: str, round_us: int) -> TopicRoute | None:
        """The route of a topic in a round, epoch us; None: it was not asked for."""
        key = (topic, collector, round_us)
        place = self._captures.place_of.get(key)
        if place is None:
            return None
        told = self._routes.place_of.get(key)
        shows = int(self._shows[place]), 0 if told is None else int(self._told[told])
        if shows not in self._by_hash:
            read = topic_route(self._captures.of(key).to_pylist(), self._routes.of(key).to_pylist())
            content = repr((read._replace(queues=None), read.queues and read.queues.list_hash))
            self._by_hash[shows] = read._replace(number=self._numbers.setdefault(content, len(self._numbers)))
        return self._by_hash[shows]

    def evidence(self, topic: str, collector: str, round_us: int) -> str | None:
        """The line of the read that counts; None: nobody asked."""
        reads = self._captures.of((topic, collector, round_us))
        if not len(reads):
            return None
        line: str = reads["evidence"][0].as_py() if len(reads) == 1 else last_read(reads.to_pylist())["evidence"]
        return line


def _collected(captures: pa.Table) -> set[tuple[str, str, int]]:
    days = pa.array(microseconds(captures, "round_at") // DAY_US)
    each = captures.select(["topic", "collector"]).append_column("day", days)
    each = each.group_by(["topic", "collector", "day"]).aggregate([])
    return set(zip(*(each[name].to_pylist() for name in ("topic", "collector", "day")), strict=True))


def _ordered(of: RowsOfRounds, columns: tuple[str, ...]) -> HashArray:
    """A hash of each round's rows, with the order of the instants at which they were read."""
    if not len(of.starts):
        return np.zeros(0, np.uint64)
    at, number = microseconds(of.rows, "captured_at"), of.numbers()
    step: IntArray = np.cumsum(differs(at) & ~differs(number))
    place = (step - step[of.starts][number]).astype(np.uint64)
    return sums(mixed(value_hashes(of.rows, columns) + mixed(place)), of.starts)


def with_names_of_brokers(rows: pa.Table, routes: pa.Table) -> pa.Table:
    """The rows, each ``broker_name`` that is an address of one broker of the routes replaced by this broker's name.

    Args:
        rows: with ``broker_name``, whatever else; others than those that name an address stay as they are.
        routes: of ``topic_route``; an address that they tell of two brokers is nobody's.
    """
    asked = [name for name in pc.unique(rows[BROKER]).to_pylist() if name is not None and ":" in name]
    if not asked:
        return rows
    owners = _owners(routes)
    names = {address: next(iter(owners[address])) for address in asked if len(owners.get(address, ())) == 1}
    told = pa.array([names.get(name, name) for name in rows[BROKER].to_pylist()], pa.string())
    place = rows.column_names.index(BROKER)
    return rows.set_column(place, BROKER, told.cast(rows.schema.field(BROKER).type))


def _owners(routes: pa.Table) -> dict[str, set[str]]:
    """By address the brokers that have it, as master or as slave."""
    owners: dict[str, set[str]] = defaultdict(set)
    columns = [BROKER, "master_address"]
    masters = routes.select(columns).group_by(columns).aggregate([])
    for name, address in zip(*(column.to_pylist() for column in masters.columns), strict=True):
        owners[address].add(name)
    slaves = routes["slaves"].combine_chunks()
    names = routes[BROKER].combine_chunks().take(pc.list_parent_indices(slaves))
    addresses = pc.struct_field(slaves.flatten(), "address")
    for name, address in set(zip(names.to_pylist(), addresses.to_pylist(), strict=True)):
        owners[address].add(name)
    return owners
