"""What heartbeats and brokers' logs add to a group's rounds: the age of each member's heartbeat, who came and went."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from hindsight.udfs.consumer.group_rows import to_instant

# Lines of a broker's log by what they are to the group; a channel that closed or expired names no client.
EVENTS = {
    "consumer_connected": "join",
    "consumer_unregistered": "leave",
    "consumer_channel_closed": "leave",
    "consumer_channel_expired": "leave",
}
_MS = 1_000  # microseconds


class Heartbeats:
    """The heartbeats of one group's consumers."""

    def __init__(self, beats: Iterable[tuple[str, int]], *, lookback_s: int, expiry_s: int) -> None:
        """``beats``: client id, and when a broker received it, epoch us."""
        self._by_client: dict[str, list[int]] = {}
        self._group: list[int] = []
        for client_id, at_us in sorted(beats, key=lambda beat: beat[1]):
            self._by_client.setdefault(client_id, []).append(at_us)
            self._group.append(at_us)
        self._lookback_ms, self._expiry_ms = lookback_s * 1000, expiry_s * 1000

    def ages(self, members: Iterable[str], at_us: int) -> list[dict[str, Any]] | None:
        """Each member's last heartbeat by ``at_us``, epoch us, within ``lookback_s``; None: the group had none.

        A member is stale when that is older than ``expiry_s``, or when there is none although heartbeats of the group
        were recorded for longer than that; what cannot be said is null. Instants count by their millisecond.
        """
        at_ms = at_us // _MS
        if self._last(self._group, at_ms) is None:
            return None
        is_missed = self._last(self._group, at_ms - self._expiry_ms, at_ms) is not None
        found = []
        for client_id in sorted(set(members)):
            heard_us = self._last(self._by_client.get(client_id, ()), at_ms)
            age_ms = None if heard_us is None else at_ms - heard_us // _MS
            found.append(
                {
                    "client_id": client_id,
                    "last_heartbeat_at": _instant(heard_us),
                    "age_ms": age_ms,
                    "stale": age_ms > self._expiry_ms if age_ms is not None else is_missed or None,
                }
            )
        return found or None

    def _last(self, instants: Sequence[int], until_ms: int, now_ms: int | None = None) -> int | None:
        """The last one not after ``until_ms`` and not longer than the lookback before ``now_ms``."""
        place = bisect_left(instants, (until_ms + 1) * _MS)
        least_ms = (until_ms if now_ms is None else now_ms) - self._lookback_ms
        return instants[place - 1] if place and instants[place - 1] // _MS >= least_ms else None


def member_events(
    rounds: Sequence[tuple[int, int]], events: Iterable[tuple[int, str, str]], *, lookback_s: int
) -> dict[int, list[dict[str, Any]]]:
    """Per round, who came (``join``) or went (``leave``) since the round before it, or in ``lookback_s``.

    Each broker writes a line of its own: the last one counts.

    Args:
        rounds: instant at which a group was last read in it, and the round's own, epoch us.
        events: instant, epoch us; join or leave; client id, else address.
    """
    in_order = sorted(rounds)
    instants = [at for at, _ in in_order]
    last: dict[tuple[int, str, str], int] = {}
    for at_us, kind, subject in events:
        place = bisect_left(instants, at_us)
        if place == len(instants) or instants[place] // 1_000_000 - at_us // 1_000_000 > lookback_s:
            continue
        key = (in_order[place][1], kind, subject)
        last[key] = max(at_us, last.get(key, at_us))
    found: dict[int, list[dict[str, Any]]] = {}
    for (round_us, kind, subject), at_us in sorted(last.items(), key=lambda entry: (entry[1], *entry[0][1:])):
        found.setdefault(round_us, []).append({"at": _instant(at_us), "kind": kind, "subject": subject})
    return found


def _instant(at_us: int | None) -> datetime | None:
    if at_us is None:
        return None
    instant = to_instant(at_us // _MS)
    assert instant is not None
    return instant.replace(microsecond=at_us % 1_000_000)
