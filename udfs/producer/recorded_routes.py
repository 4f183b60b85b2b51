"""Rows of topic_route in, the routes of a topic that a client may have held at an instant out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.clients.client_kinds import ordered_queues
from hindsight.udfs.producer.choice_readings import RouteEntry
from hindsight.udfs.values.columns import IntArray, whole
from hindsight.udfs.values.row_hashes import mixed, sums

_WRITE = 2  # PermName.PERM_WRITE
_SAID = ("broker_name", "write_queue_nums", "perm", "has_master", "order_topic_conf", "place_in_answer")
# What a producer goes by of a route's row, and the instants of all reads that said it.
ENTRY_COLUMNS = ("topic", *_SAID)
READ_AT = "read_at"
Row = Mapping[str, Any]


class Route(NamedTuple):
    """A recorded route of a topic; ``ordered``: queues by broker of its orderTopicConf, None: it has none."""

    entries: Mapping[str, Row]
    ordered: Mapping[str, int] | None

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Route | None:
        """None: its orderTopicConf cannot be read, so that no client goes by the route."""
        entries = {row["broker_name"]: row for row in rows}
        conf = next((row["order_topic_conf"] for row in rows if row["order_topic_conf"]), None)
        if conf is None:
            return cls(entries, None)
        ordered = ordered_queues(conf)
        return None if ordered is None else cls(entries, ordered)

    def brokers(self) -> set[str]:
        """All that it names."""
        return {*self.entries, *(self.ordered or ())}

    def entry(self, name: str) -> RouteEntry:
        """What it says of a broker."""
        row = self.entries.get(name)
        ordered = None if self.ordered is None else self.ordered.get(name, 0)
        if row is None:
            return RouteEntry(None, writable=False, has_master=False, ordered_queues=ordered)
        return RouteEntry(row["write_queue_nums"], bool(row["perm"] & _WRITE), bool(row["has_master"]), ordered)


def entries_of(rows: pa.Table) -> pa.Table:
    """Rows of topic_route, those that say the same to a producer as one (``ENTRY_COLUMNS``), with their instants.

    ``read_at``: the instants of all reads that said it, in no order.
    """
    grouped = rows.group_by(list(ENTRY_COLUMNS)).aggregate([("captured_at", "list")])
    return grouped.select([*ENTRY_COLUMNS, "captured_at_list"]).rename_columns([*ENTRY_COLUMNS, READ_AT])


def routes_of(rows: pa.Table, *, stale_s: int, valid_s: int) -> RecordedRoutes:
    """The routes of topic_route rows, or of what ``entries_of`` makes of them."""
    told = rows if READ_AT in rows.column_names or not rows.num_rows else entries_of(rows)
    return RecordedRoutes(with_read_ms(told), stale_ms=1000 * stale_s, valid_ms=1000 * valid_s)


def with_read_ms(told: pa.Table) -> list[dict[str, Any]]:
    """What ``entries_of`` gives as dicts, with the instants of the reads as ``captured_ms``, epoch ms."""
    if not told.num_rows:
        return []
    read_at = whole(told, READ_AT)
    us = read_at.flatten().cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    ends = np.cumsum(read_at.value_lengths().to_numpy())
    instants = np.split(us // 1000, ends[:-1])
    said = told.select(list(ENTRY_COLUMNS)).to_pylist()
    return [row | {"captured_ms": ms} for row, ms in zip(said, instants, strict=True)]


class _Reads(NamedTuple):
    """The reads of a topic's route in order: their instants, epoch ms, and the number of what each one told."""

    at: IntArray
    told: IntArray
    routes: Sequence[Route]


class RecordedRoutes:
    """The routes recorded on one date, by topic.

    ``rows``: topic_route rows with ``captured_ms``, epoch ms: of one read, or of all that said the same. A client may
    hold a route that was replaced less than ``stale_ms`` ago, and the one before it, unless that was recorded more than
    ``valid_ms`` ago.
    """

    def __init__(self, rows: Iterable[Row], *, stale_ms: int, valid_ms: int) -> None:
        self._stale_ms, self._valid_ms = stale_ms, valid_ms
        of_topics: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            of_topics[row["topic"]].append(row)
        self._reads = {topic: _reads(own) for topic, own in of_topics.items()}

    def held(self, topic: str, now_ms: int) -> list[Route]:
        """Those that a client may have held then, oldest first; empty: none is known."""
        reads = self._reads.get(topic)
        if reads is None:
            return []
        valid, replaced = reads.at.searchsorted([now_ms - self._valid_ms, now_ms - self._stale_ms + 1]).tolist()
        told = reads.told[max(replaced - 1, valid) : reads.at.searchsorted(now_ms, side="right")].tolist()
        return [reads.routes[n] for place, n in enumerate(told) if not place or told[place - 1] != n]

    def coming(self, topic: str, now_ms: int) -> Route | None:
        """The one that is read next, where it is another: a client may have polled it before it was recorded."""
        reads = self._reads.get(topic)
        place = 0 if reads is None else int(reads.at.searchsorted(now_ms, side="right"))
        if reads is None or not 0 < place < len(reads.at) or reads.told[place - 1] == reads.told[place]:
            return None
        return reads.routes[int(reads.told[place])]

    def edges(self, topic: str) -> list[int]:
        """The instants, epoch ms in order, from which on other routes than before may be held.

        A route that is read again while it is valid changes nothing.
        """
        reads = self._reads.get(topic)
        if reads is None or not len(reads.at):
            return []
        is_new = (np.diff(reads.told) != 0) | (np.diff(reads.at) > self._valid_ms)
        first, last = reads.at[np.append(True, is_new)], reads.at[np.append(is_new, True)]
        edges: list[int] = np.unique([first, first + self._stale_ms, last + self._valid_ms + 1]).tolist()
        return edges

    def told_before(self, topic: str, until_ms: int) -> list[tuple[int, list[tuple[Any, ...]]]]:
        """What may be held from each of the ``edges`` before an instant on."""
        edges = (at for at in self.edges(topic) if at < until_ms)
        return [(at, [tuple(map(_content, r.entries.values())) for r in self.held(topic, at)]) for at in edges]


def _reads(rows: list[Row]) -> _Reads:
    """The reads of one topic. One that a client throws on replaces nothing: it keeps the one before."""
    rows = sorted(rows, key=_content)
    instants = [np.unique(row["captured_ms"]) for row in rows]
    at, of = np.concatenate(instants), np.repeat(np.arange(len(rows)), [len(own) for own in instants])
    order = np.lexsort((of, at))
    at, of = at[order], of[order]
    begins = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
    ends = np.append(begins[1:], len(at))
    says = sums(mixed(of.astype(np.uint64) + np.uint64(1)), begins)
    _, first, told = np.unique(says, return_index=True, return_inverse=True)
    numbers: dict[tuple[Any, ...], int] = {}
    routes: list[Route] = []
    of_each: list[int] = []
    for place in first.tolist():
        own = [rows[n] for n in of[begins[place] : ends[place]].tolist()]
        route, content = Route.of(own), tuple(map(_content, own))
        if route is not None and content not in numbers:
            numbers[content] = len(routes)
            routes.append(route)
        of_each.append(-1 if route is None else numbers[content])
    number = np.array(of_each, np.int64)[told]
    return _Reads(at[begins][number >= 0], number[number >= 0], routes)


def _content(row: Row) -> tuple[Any, ...]:
    return tuple((row.get(name) is not None, row.get(name)) for name in _SAID)
