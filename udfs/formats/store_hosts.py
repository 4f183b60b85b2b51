"""Routes over time in, the broker behind an address at an instant out: what a trace's ``storeHost`` needs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

VIP_OFFSET = 2  # a VIP channel's port is the broker's minus this (BrokerController, MixAll#brokerVIPChannel)


class KnownAddress(NamedTuple):
    """A route showed at ``seen_at`` (epoch ms) that ``broker_name`` has this address, ``host:port``."""

    seen_at: int
    address: str
    broker_name: str


class StoreHosts:
    """Who had which address when. Addresses change hands only by redeployment: the nearest sighting decides."""

    def __init__(self, known: Iterable[KnownAddress]) -> None:
        self._seen: dict[str, list[tuple[int, str]]] = {}
        for seen_at, address, broker_name in sorted(set(known)):
            seen = self._seen.setdefault(address, [])
            if not seen or seen[-1][1] != broker_name:  # what was shown before says as much
                seen.append((seen_at, broker_name))

    def broker_of(self, address: str, at: int) -> str | None:
        """The broker with this address by the latest route at or before ``at``, else by the first after it.

        An address that no route shows is tried as a VIP channel's: port + 2. Of two names in one instant the greater
        wins, so that the answer does not depend on the order of arrival. None: unknown.
        """
        for candidate in (address, _behind_vip(address)):
            seen = self._seen.get(candidate) if candidate else None
            if seen:
                return seen[max(0, bisect_right(seen, (at, "\U0010ffff")) - 1)][1]
        return None


def _behind_vip(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    is_port = host and port.isascii() and port.isdigit() and len(port) <= 5
    return f"{host}:{int(port) + VIP_OFFSET}" if is_port else None
