"""Rows of topic_route in, the routes of a topic that a client may have held at an instant out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hindsight.udfs.clients.order_topic_conf import ordered_queues
from hindsight.udfs.producer.choice_readings import RouteEntry

_WRITE = 2  # PermName.PERM_WRITE
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


class RecordedRoutes:
    """The routes recorded on one date, by topic.

    ``rows``: topic_route rows with ``captured_ms``, epoch ms. A client may hold a route that was replaced less than
    ``stale_ms`` ago, and the one before it, unless that was recorded more than ``valid_ms`` ago.
    """

    def __init__(self, rows: Iterable[Row], *, stale_ms: int, valid_ms: int) -> None:
        self._stale_ms, self._valid_ms = stale_ms, valid_ms
        captures: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            captures[row["topic"]][row["captured_ms"]].append(row)
        self._captures = {topic: list(_readable(each)) for topic, each in captures.items()}

    def held(self, topic: str, now_ms: int) -> list[Route]:
        """Those that a client may have held then, oldest first; empty: none is known."""
        valid = [c for c in self._captures.get(topic, ()) if now_ms - self._valid_ms <= c[0] <= now_ms]
        replaced = sum(at <= now_ms - self._stale_ms for at, _ in valid)
        return [route for _, route in valid[max(replaced - 1, 0) :]]

    def edges(self, topic: str) -> list[int]:
        """The instants, epoch ms in order, from which on other routes than before may be held."""
        captured = [at for at, _ in self._captures.get(topic, ())]
        return sorted(
            {*captured, *(at + self._stale_ms for at in captured), *(at + self._valid_ms + 1 for at in captured)}
        )


def _readable(captures: Mapping[int, Sequence[Row]]) -> Iterable[tuple[int, Route]]:
    """The routes in order of their instants. One that a client throws on replaces nothing: it keeps the one before."""
    for at, rows in sorted(captures.items()):
        if route := Route.of(sorted(rows, key=lambda row: row["broker_name"])):
            yield at, route
