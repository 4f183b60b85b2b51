"""Exceptions that clients logged and went on after in, the rebalance to which each belongs out.

Source: RebalanceImpl#doRebalance and #rebalanceByTopic, MQClientInstance#findConsumerIdList: all catch and log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from hindsight.udfs.rebalances.client_lines import Line
from hindsight.udfs.rebalances.rebalance_event import Swallowed
from hindsight.udfs.rebalances.rebalance_triggers import FORGOTTEN_MS


class MetExceptions:
    """Those of a date that no rebalance has yet. ``clients_of``: the clients that may have written a line."""

    def __init__(self, clients_of: Callable[[Line], Sequence[str]]) -> None:
        self._clients_of = clients_of
        self._met: dict[str, list[Line]] = defaultdict(list)  # by log

    def add(self, line: Line) -> None:
        """Take an exception."""
        self._met[line.folder].append(line)

    def of(self, client_id: str, folder: str, since: int, until: int) -> tuple[Swallowed, ...]:
        """Those that a client met since the rebalance before; of several that may have met one each has it."""
        found: list[Line] = []
        left: list[Line] = []
        for one in self._met[folder]:
            clients = self._clients_of(one)
            is_own = client_id in clients and since <= one.at <= until
            if is_own:
                found.append(one)
            if not is_own or len(clients) > 1:
                left.append(one)
        # What several may have met is not waited for.
        self._met[folder] = [o for o in left if len(self._clients_of(o)) < 2 or o.at >= until - FORGOTTEN_MS]
        return tuple(self.swallowed(one) for one in found)

    def swallowed(self, line: Line) -> Swallowed:
        """An exception as a row has it."""
        certain = line.names_group and len(self._clients_of(line)) == 1
        return Swallowed(line.at, line.kind, line.exception, line.error, certain)

    def left(self) -> Iterator[tuple[str, list[Line]]]:
        """Those that are certainly a client's and that no rebalance has, by client; nothing is left then."""
        found: dict[str, list[Line]] = defaultdict(list)
        for one in (one for met in self._met.values() for one in met):
            clients = self._clients_of(one)
            if one.names_group and len(clients) == 1:
                found[clients[0]].append(one)
        self._met.clear()
        yield from sorted(found.items())
