"""Ownership and progress rows of many groups' rounds in; per round who holds what, and when offsets were read, out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindsight.udfs.consumer.offset_marks import NO_READINGS, Readings
from hindsight.udfs.consumer.queue_ends import QueueEnds
from hindsight.udfs.consumer.round_facts import Owner, OwnersByTopic, Queue
from hindsight.udfs.consumer.rows_of_rounds import RoundKey, RowsOfRounds, rows_of_rounds
from hindsight.udfs.values.columns import (
    FAR,
    NEVER,
    BoolArray,
    IntArray,
    differs,
    flags,
    microseconds,
    ranks,
    values_of,
)
from hindsight.udfs.values.row_hashes import HashArray, mixed, sums, value_hashes

_QUEUE = ("topic", "broker_name", "queue_id")
_INSTANTS = ("last_pull_at", "last_consume_at", "last_lock_at")
OWNER = ("client_id", *_QUEUE, "locked", *_INSTANTS, "cached_messages")
_HELD = OWNER[:5]
_OFFSETS = ("broker_offset", "consumer_offset")
LAG = (*_QUEUE, "captured_at", *_OFFSETS, "broker_asked", "consume_tps")
POPPED = ("client_id", *_QUEUE)


class Owned(NamedTuple):
    """Who holds which queue in a round.

    Attributes:
        shows: equal where two rounds show the same.
        oldest: when the queue pulled from least recently was, and, of those with messages waiting, the one consumed
            least recently; epoch us, None: there is none.
        by_topic: gives the owners of each queue.
        topics: gives the topics of these queues, each once.
    """

    shows: tuple[int, int] = (0, 0)
    oldest: tuple[int | None, int | None] = (None, None)
    by_topic: Callable[[], OwnersByTopic] = dict
    topics: Callable[[], list[str]] = list


class OwnedQueues:
    """Ownership as each client's last running info of a round shows it, queues on their way out left aside."""

    def __init__(self, ownership: pa.Table) -> None:
        """``ownership``: rows of ``queue_ownership``."""
        every = rows_of_rounds(ownership, "consumer_group", ("client_id", "broker_name", "queue_id"))
        at = microseconds(every.rows, "captured_at")
        begins = np.flatnonzero(differs(ranks(every.rows, "client_id"), every.numbers()))  # of each client of a round
        last = np.maximum.reduceat(at, begins) if len(begins) else at
        sizes = np.diff(np.append(begins, len(at)))
        kept = (at == np.repeat(last, sizes)) & ~flags(every.rows["dropped"])
        self._rows = every.rows.filter(pa.array(kept))
        number = every.numbers()[kept]
        self._starts = np.flatnonzero(differs(number))
        key_of = list(every.place_of)
        self._place_of = {key_of[int(n)]: place for place, n in enumerate(number[self._starts])}
        self._ends = np.append(self._starts[1:], len(number))
        self._shows, self._pulled, self._consumed = self._facts()
        self._told = {name: values_of(self._rows, name) for name in OWNER if name not in _INSTANTS}
        self._instants = [microseconds(self._rows, name) for name in _INSTANTS]

    def _facts(self) -> tuple[HashArray, IntArray, IntArray]:
        starts, rows = self._starts, self._rows
        if not len(starts):
            return np.zeros(0, np.uint64), starts, starts
        waiting = rows["cached_messages"].fill_null(0).to_numpy(zero_copy_only=False) > 0
        pulled, consumed = (microseconds(rows, name) for name in ("last_pull_at", "last_consume_at"))
        return (
            sums(mixed(value_hashes(rows, _HELD)), starts),
            np.minimum.reduceat(np.where(pulled == NEVER, FAR, pulled), starts),
            np.minimum.reduceat(np.where((consumed == NEVER) | ~waiting, FAR, consumed), starts),
        )

    def of(self, key: RoundKey) -> Owned:
        """What a round shows."""
        place = self._place_of.get(key)
        if place is None:
            return Owned()
        start, end = int(self._starts[place]), int(self._ends[place])
        pulled, consumed = (None if at[place] == FAR else int(at[place]) for at in (self._pulled, self._consumed))
        shows, rows = (end - start, int(self._shows[place])), slice(start, end)
        return Owned(shows, (pulled, consumed), partial(self._by_topic, rows), partial(self._topics, rows))

    def _topics(self, rows: slice) -> list[str]:
        return list(dict.fromkeys(self._told["topic"].of(rows)))

    def _by_topic(self, rows: slice) -> OwnersByTopic:
        """The owners that some rows show; instants are epoch ms."""
        found: dict[str, dict[Queue, tuple[Owner, ...]]] = {}
        told = [self._told[name].of(rows) for name in OWNER[:5]]
        instants = [_milliseconds(column[rows]) for column in self._instants]
        cached = self._told["cached_messages"].of(rows)
        for client_id, topic, broker_name, queue_id, *said in zip(*told, *instants, cached, strict=True):
            of_topic = found.setdefault(topic, {})
            queue = broker_name, queue_id
            of_topic[queue] = (*of_topic.get(queue, ()), Owner(client_id, *said))
        return found


def _milliseconds(instants: IntArray) -> list[int | None]:
    return [None if at == NEVER else at // 1000 for at in instants.tolist()]


class PoppedQueues:
    """What each client's last running info of a round shows that it pops, queues on their way out left aside."""

    def __init__(self, popped: pa.Table) -> None:
        """``popped``: rows of ``pop_assignment``."""
        self._rows = rows_of_rounds(popped, "consumer_group", ("client_id",))

    def of(self, key: RoundKey) -> list[dict[str, Any]]:
        """The rows of a round (``POPPED``), sorted."""
        rows = self._rows.of(key).to_pylist()
        last: dict[str, int] = {}
        for row in rows:
            last[row["client_id"]] = max(row["captured_at"], last.get(row["client_id"], 0))
        now = [row for row in rows if row["captured_at"] == last[row["client_id"]] and not row["dropped"]]
        return sorted(({name: row[name] for name in POPPED} for row in now), key=lambda row: tuple(row.values()))


NOTHING_POPPED = PoppedQueues(
    pa.schema(
        [(name, pa.string()) for name in ("consumer_group", "collector", "client_id")]
        + [("round_at", pa.timestamp("us", "UTC"))]
    ).empty_table()
)


class Lags:
    """Readings of offsets, by round; those that tell of the same queues as the one before share their lists."""

    def __init__(self, progress: pa.Table, ends: QueueEnds) -> None:
        """``progress``: rows of ``queue_progress``; ``ends``: first offsets, each as far as it was told by then."""
        self._rounds, self._ends = rows_of_rounds(progress, "consumer_group"), ends
        columns = {name: values_of(self._rounds.rows, name) for name in LAG if name != "captured_at"}
        self._queues, self._offsets = ([columns[name] for name in names] for names in (_QUEUE, _OFFSETS))
        self._tps, self._asked = columns["consume_tps"], columns["broker_asked"]
        self._read_at = microseconds(self._rounds.rows, "captured_at")
        self._read_at_ms = self._read_at // 1000
        numbers = [values.values if values.codes is None else values.codes for values in columns.values()]
        place_of = dict(zip(columns, numbers, strict=True))
        self._same_queues, self._same_offsets = (
            _as_before(self._rounds, [place_of[name] for name in names]) for names in (_QUEUE, _OFFSETS)
        )
        self._last = -1, NO_READINGS
        self._told: set[tuple[str, int, int]] = set()

    def of(self, key: RoundKey) -> Readings:
        """The reading of a round."""
        place, rows = self._rounds.place_of.get(key), self._rounds.span(key)
        if place is None:
            return NO_READINGS
        before, last = self._last
        follows = before == place - 1
        at, queues = self._read_at[rows].tolist(), last.queues
        told = {self._ends.told_until(key[1], own) for own in (min(at), max(at))}
        is_same = follows and bool(self._same_queues[place])
        if not is_same:
            queues = list(zip(*(values.of(rows) for values in self._queues), strict=True))
        ends, committed = last.broker_offset, last.consumer_offset
        if not (follows and self._same_offsets[place]):
            ends, committed = (values.of(rows) for values in self._offsets)
        floors = last.min_offset
        if not (is_same and len(told) == 1 and told == self._told):
            floors = [self._ends.first_offset(key[1], queue, own) for queue, own in zip(queues, at, strict=True)]
        self._told = told
        of_queues = ends, committed, self._tps.of(rows), floors, self._asked.of(rows)
        self._last = place, Readings(queues, self._read_at_ms[rows].tolist(), *of_queues)
        return self._last[1]


def _as_before(rounds: RowsOfRounds, columns: Sequence[npt.NDArray[Any]]) -> BoolArray:
    """Which rounds have the same in columns, row by row, as the round that stands before."""
    sizes = np.diff(np.append(rounds.starts, rounds.rows.num_rows))
    same = ~differs(sizes)
    before = np.arange(rounds.rows.num_rows) - np.repeat(np.where(same, sizes, 0), sizes)
    for column in columns if len(sizes) else ():
        same &= np.logical_and.reduceat(column == column[before], rounds.starts)
    return same


def reading_instants(progress: pa.Table) -> list[tuple[RoundKey, int]]:
    """Of each round with readings of offsets: when the last was taken, epoch us. Rows of ``queue_progress``."""
    of_rounds = rows_of_rounds(progress, "consumer_group")
    if not len(of_rounds.starts):
        return []
    at = np.maximum.reduceat(microseconds(of_rounds.rows, "captured_at"), of_rounds.starts)
    return list(zip(of_rounds.place_of, at.tolist(), strict=True))
