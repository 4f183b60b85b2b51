"""Rows of ``message_request_mode`` in; by which mode each broker of a topic hands out its queues to a group, out.

An answer of a broker holds until its next one, at most for so long as rounds look back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hindsight.udfs.consumer.handed_out import RequestMode, request_mode

_SET, _OWN = "messageRequestModes", "brokerConfig"
# What is needed of a row of the table.
NEEDED = (
    "topic", "consumer_group", "broker_name", "told_by", "captured_at", "mode", "pop_share_queue_num",
    "server_load_balancer",
)  # fmt: skip
Place = tuple[str, str | None]  # collector, broker


class Asked(NamedTuple):
    """How a topic's brokers hand out its queues, by name; ``silent``: those of which it is not known."""

    modes: tuple[tuple[str, RequestMode], ...]
    silent: tuple[str, ...]


class RequestModes:
    """What brokers told, instant by instant, epoch us."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), lookback_s: int = 0) -> None:
        """``rows``: with ``collector`` and ``NEEDED``."""
        self._lookback_us = lookback_s * 1_000_000
        self._set: dict[Place, dict[int, dict[tuple[str, str], tuple[str, int]]]] = defaultdict(dict)
        self._own: dict[Place, dict[int, RequestMode]] = defaultdict(dict)
        for row in rows:
            self._take(row, (row["collector"], row["broker_name"]), row["captured_at"])
        told: tuple[Mapping[Place, Mapping[int, Any]], ...] = (self._set, self._own)
        self._instants = [{place: sorted(answers) for place, answers in of.items()} for of in told]

    def _take(self, row: Mapping[str, Any], place: Place, at: int) -> None:
        mode, share = row["mode"], row["pop_share_queue_num"]
        if row["told_by"] == _OWN:
            if mode is not None:
                balances = row["server_load_balancer"] is not False
                self._own[place][at] = RequestMode(mode, -1 if share is None else share, balances)
            return
        answer = self._set[place].setdefault(at, {})
        if row["topic"] is not None and mode is not None:
            answer[row["topic"], row["consumer_group"]] = mode, 0 if share is None else share

    def of(self, topic: str, consumer_group: str, collector: str, brokers: Iterable[str], until_us: int) -> Asked:
        """The modes of brokers as they last told by an instant."""
        modes, silent = [], []
        for broker_name in sorted(set(brokers)):
            place = collector, broker_name
            set_at, own_at = (self._last(instants.get(place, ()), until_us) for instants in self._instants)
            if set_at is None or own_at is None:
                silent.append(broker_name)
                continue
            set_mode = self._set[place][set_at].get((topic, consumer_group))
            modes.append((broker_name, request_mode(topic, set_mode, self._own[place][own_at])))
        return Asked(tuple(modes), tuple(silent))

    def _last(self, instants: Any, until_us: int) -> int | None:
        found = bisect_right(instants, until_us)
        if not found or until_us - instants[found - 1] > self._lookback_us:
            return None
        return int(instants[found - 1])
