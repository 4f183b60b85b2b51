"""What brokers said of the first and next offsets of queues in; what was true of one at an instant out."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hindsight.udfs.consumer.rows_of_rounds import NEVER, microseconds, ranks
from hindsight.udfs.values.arrays import BoolArray

DEAD_LETTER_PREFIX = "%DLQ%"
END = ("collector", "topic", "broker_name", "queue_id", "captured_at", "min_offset", "max_offset", "last_update_at")
_QUEUE = ("collector", "topic", "broker_name", "queue_id")
# Instants in order, epoch us, and from each on: when the last message was stored, epoch ms, and how many there are.
DeadLetters = tuple[list[int], list[tuple[int, int]]]


def _changes(rows: pa.Table) -> pa.Table:
    """The rows, sorted, that tell something new of a queue: its first offset, of a dead letter queue its next too."""
    order = np.lexsort([microseconds(rows, "captured_at"), *(ranks(rows, name) for name in _QUEUE[::-1])])
    rows = rows.take(pa.array(order))
    same = np.ones(len(order), np.bool_)
    for name in (*_QUEUE, "min_offset"):
        same &= _as_before(ranks(rows, name))
    same &= _as_before(ranks(rows, "max_offset")) | ~_are_dead(rows)
    return rows.filter(pa.array(~same))


def _as_before(values: Any) -> BoolArray:
    found: BoolArray = np.append(False, values[1:] == values[:-1])[: len(values)]
    return found


def _are_dead(rows: pa.Table) -> BoolArray:
    topics = rows["topic"].combine_chunks().dictionary_encode()
    named = np.array([*(name.startswith(DEAD_LETTER_PREFIX) for name in topics.dictionary.to_pylist()), False])
    found: BoolArray = named[topics.indices.to_numpy(zero_copy_only=False)]
    return found


class QueueEnds:
    """The ends of queues as brokers told them; instants are epoch us."""

    def __init__(self, rows: pa.Table) -> None:
        """``rows``: with the columns ``END``."""
        told = _changes(rows)
        columns = [told[name].to_pylist() for name in _QUEUE]
        instants = microseconds(told, "captured_at").tolist()
        floors = told["min_offset"].to_pylist()
        self._floors: dict[tuple[Any, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for *queue, at, floor in zip(*columns, instants, floors, strict=True):
            of_queue = self._floors[tuple(queue)]
            of_queue[0].append(at)
            of_queue[1].append(floor)
        self._dead = self._dead_letters(told.filter(pa.array(_are_dead(told))))

    @property
    def are_told(self) -> bool:
        """Brokers were asked for the ends of any queue."""
        return bool(self._floors)

    def _dead_letters(self, told: pa.Table) -> Mapping[tuple[str, str], DeadLetters]:
        found: dict[tuple[str, str], list[tuple[int, tuple[str, int], int, int]]] = defaultdict(list)
        stored, at = microseconds(told, "last_update_at").tolist(), microseconds(told, "captured_at").tolist()
        names = (told[name].to_pylist() for name in ("collector", "topic", "broker_name", "queue_id", "max_offset"))
        for collector, topic, broker, queue_id, messages, when, last in zip(*names, at, stored, strict=True):
            group = topic.removeprefix(DEAD_LETTER_PREFIX)
            found[collector, group].append((when, (broker, queue_id), 0 if last == NEVER else last, messages))
        return {key: _all_queues(sorted(of)) for key, of in found.items()}

    def first_offset(self, collector: str, topic: str, broker_name: str, queue_id: int, at: int) -> int | None:
        """The first offset that the queue still had when it was last told of, at ``at`` or before."""
        told = self._floors.get((collector, topic, broker_name, queue_id))
        if told is None:
            return None
        place = bisect_right(told[0], at)
        return told[1][place - 1] if place else None

    def dead_letters(self, collector: str, consumer_group: str, at: int) -> tuple[int, int] | None:
        """When the last message of the group's dead letter queue was stored, epoch ms, and how many it holds.

        None: nobody told by then.
        """
        told = self._dead.get((collector, consumer_group))
        place = bisect_right(told[0], at) if told else 0
        return told[1][place - 1] if told and place else None


def _all_queues(told: Iterable[tuple[int, tuple[str, int], int, int]]) -> DeadLetters:
    """Of what was told of one queue after the other what is true of all of them, from each instant on."""
    last: dict[tuple[str, int], tuple[int, int]] = {}
    instants, known = [], []
    for when, queue, stored, messages in told:
        last[queue] = stored, messages
        instants.append(when)
        known.append((max(stored for stored, _ in last.values()) // 1000, sum(n for _, n in last.values())))
    return instants, known
