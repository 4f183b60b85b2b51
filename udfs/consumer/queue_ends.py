"""What brokers said of the first and next offsets of queues in; what was true of one at an instant out."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hindsight.udfs.consumer.offset_marks import TopicQueue
from hindsight.udfs.values.columns import DAY_US, NEVER, BoolArray, differs, microseconds, ranks

DEAD_LETTER_PREFIX = "%DLQ%"
END = ("collector", "topic", "broker_name", "queue_id", "captured_at", "min_offset", "max_offset", "last_update_at")
_QUEUE = ("collector", "topic", "broker_name", "queue_id")
# Instants in order, epoch us, and from each on: when the last message was stored, epoch ms, and how many there are.
DeadLetters = tuple[list[int], list[tuple[int, int]]]
_Told = tuple[int, tuple[str, int], int, int]  # when, of which queue, its last message's instant, how many it holds


def _changes(rows: pa.Table, lookback_us: int) -> pa.Table:
    """The rows, sorted, that tell something new of a queue: its first offset, of a dead letter queue its next too.

    The first of each date, with what it looks back on, is new too.
    """
    order = np.lexsort([microseconds(rows, "captured_at"), *(ranks(rows, name) for name in _QUEUE[::-1])])
    rows = rows.take(pa.array(order))
    counts_from = (microseconds(rows, "captured_at") + lookback_us) // DAY_US
    is_new = differs(*(ranks(rows, name) for name in (*_QUEUE, "min_offset")), counts_from)
    return rows.filter(pa.array(is_new | (differs(ranks(rows, "max_offset")) & _are_dead(rows))))


def _are_dead(rows: pa.Table) -> BoolArray:
    topics = rows["topic"].combine_chunks().dictionary_encode()
    named = np.array([*(name.startswith(DEAD_LETTER_PREFIX) for name in topics.dictionary.to_pylist()), False])
    found: BoolArray = named[topics.indices.to_numpy(zero_copy_only=False)]
    return found


class QueueEnds:
    """The ends of queues as brokers told them on a date, or at most ``lookback_s`` before it; instants are epoch us."""

    def __init__(self, rows: pa.Table, lookback_s: int = 600) -> None:
        """``rows``: with the columns ``END``."""
        self._lookback_us = lookback_s * 1_000_000
        self.told = told = _changes(rows, self._lookback_us)
        columns = [told[name].to_pylist() for name in _QUEUE]
        instants = microseconds(told, "captured_at").tolist()
        floors = told["min_offset"].to_pylist()
        self._floors: dict[tuple[Any, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for *queue, at, floor in zip(*columns, instants, floors, strict=True):
            of_queue = self._floors[tuple(queue)]
            of_queue[0].append(at)
            of_queue[1].append(floor)
        self._told_at: dict[str, list[int]] = defaultdict(list)
        for collector, at in sorted(zip(columns[0], instants, strict=True)):
            self._told_at[collector].append(at)
        self._dead = self._dead_letters(told.filter(pa.array(_are_dead(told))))
        self._dead_of_date: dict[tuple[str, str, int], DeadLetters] = {}

    def told_until(self, collector: str, at: int) -> tuple[str, int, int]:
        """Equal for instants between which no first offset that a collector told changed."""
        return collector, at // DAY_US, bisect_right(self._told_at[collector], at)

    def _begin(self, at: int) -> int:
        """From when on what was told counts on the date of an instant."""
        return at // DAY_US * DAY_US - self._lookback_us

    def _dead_letters(self, told: pa.Table) -> Mapping[tuple[str, str], list[_Told]]:
        found: dict[tuple[str, str], list[_Told]] = defaultdict(list)
        stored, at = microseconds(told, "last_update_at").tolist(), microseconds(told, "captured_at").tolist()
        names = (told[name].to_pylist() for name in ("collector", "topic", "broker_name", "queue_id", "max_offset"))
        for collector, topic, broker, queue_id, messages, when, last in zip(*names, at, stored, strict=True):
            group = topic.removeprefix(DEAD_LETTER_PREFIX)
            found[collector, group].append((when, (broker, queue_id), 0 if last == NEVER else last, messages))
        return {key: sorted(of) for key, of in found.items()}

    def first_offset(self, collector: str, queue: TopicQueue, at: int) -> int | None:
        """The first offset that the queue still had when it was last told of, at ``at`` or before on its date."""
        told = self._floors.get((collector, *queue))
        if told is None:
            return None
        place = bisect_right(told[0], at)
        return told[1][place - 1] if place and told[0][place - 1] >= self._begin(at) else None

    def dead_letters(self, collector: str, consumer_group: str, at: int) -> tuple[int, int] | None:
        """When the last message of the group's dead letter queue was stored, epoch ms, and how many it holds.

        None: nobody told by then.
        """
        key = collector, consumer_group, self._begin(at)
        if key not in self._dead_of_date:
            told = self._dead.get(key[:2], ())
            self._dead_of_date[key] = _all_queues(one for one in told if one[0] >= key[2])
        instants, known = self._dead_of_date[key]
        place = bisect_right(instants, at)
        return known[place - 1] if place else None


def _all_queues(told: Iterable[_Told]) -> DeadLetters:
    """Of what was told of one queue after the other what is true of all of them, from each instant on."""
    last: dict[tuple[str, int], tuple[int, int]] = {}
    instants, known = [], []
    for when, queue, stored, messages in told:
        last[queue] = stored, messages
        instants.append(when)
        known.append((max(stored for stored, _ in last.values()) // 1000, sum(n for _, n in last.values())))
    return instants, known
