"""Ownership and progress rows of many groups' rounds in; per round who holds what, and when offsets were read, out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from udfs.not_available_duration import IntArray
from udfs.row_hashes import HashArray, mixed
from udfs.rows_of_rounds import NEVER, RoundKey, RowsOfRounds, is_true, microseconds, ranks, rows_of_rounds
from udfs.value_hashes import sums, value_hashes

_OWNER = ("client_id", "topic", "broker_name", "queue_id", "locked", "last_pull_at", "last_consume_at", "last_lock_at")
OWNER = (*_OWNER, "cached_messages")
_HELD = _OWNER[:5]
POPPED = ("client_id", "topic", "broker_name", "queue_id")
LAG = ("topic", "broker_name", "queue_id", "broker_offset", "consumer_offset", "captured_at", "broker_asked")
_FAR = 1 << 62


class Owned(NamedTuple):
    """Who holds which queue in a round.

    Attributes:
        shows: equal where two rounds show the same.
        oldest: when the queue pulled from least recently was, and, of those with messages waiting, the one consumed
            least recently; epoch us, None: there is none.
    """

    shows: tuple[int, int] = (0, 0)
    oldest: tuple[int | None, int | None] = (None, None)
    rows: pa.RecordBatch | None = None

    def topics(self) -> list[str]:
        """The topics of these queues, each once."""
        return [] if self.rows is None else self.rows["topic"].unique().to_pylist()

    def owners(self) -> list[dict[str, Any]]:
        """A row for each queue."""
        return [] if self.rows is None else self.rows.select(list(OWNER)).to_pylist()


class OwnedQueues:
    """Ownership as each client's last running info of a round shows it, queues on their way out left aside."""

    def __init__(self, ownership: pa.Table) -> None:
        """``ownership``: rows of ``queue_ownership``."""
        every = rows_of_rounds(ownership, "consumer_group", ("client_id",))
        at, begins = microseconds(every.rows, "captured_at"), _clients(every)
        last = np.maximum.reduceat(at, begins) if len(begins) else at
        sizes = np.diff(np.append(begins, len(at)))
        kept = (at == np.repeat(last, sizes)) & ~is_true(every.rows, "dropped")
        self._rows = every.rows.filter(pa.array(kept))
        number = every.numbers()[kept]
        self._starts = np.flatnonzero(np.append(True, number[1:] != number[:-1])) if len(number) else number
        key_of = list(every.place_of)
        self._place_of = {key_of[int(n)]: place for place, n in enumerate(number[self._starts])}
        self._ends = np.append(self._starts[1:], len(number))
        self._shows, self._pulled, self._consumed = self._facts()

    def _facts(self) -> tuple[HashArray, IntArray, IntArray]:
        starts, rows = self._starts, self._rows
        if not len(starts):
            return np.zeros(0, np.uint64), starts, starts
        waiting = rows["cached_messages"].fill_null(0).to_numpy(zero_copy_only=False) > 0
        pulled, consumed = (microseconds(rows, name) for name in ("last_pull_at", "last_consume_at"))
        return (
            sums(mixed(value_hashes(rows, _HELD)), starts),
            np.minimum.reduceat(np.where(pulled == NEVER, _FAR, pulled), starts),
            np.minimum.reduceat(np.where((consumed == NEVER) | ~waiting, _FAR, consumed), starts),
        )

    def of(self, key: RoundKey) -> Owned:
        """What a round shows."""
        place = self._place_of.get(key)
        if place is None:
            return Owned()
        start, size = int(self._starts[place]), int(self._ends[place] - self._starts[place])
        oldest = tuple(None if at == _FAR else int(at) for at in (self._pulled[place], self._consumed[place]))
        return Owned((size, int(self._shows[place])), (oldest[0], oldest[1]), self._rows.slice(start, size))


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


def _clients(every: RowsOfRounds) -> IntArray:
    """Where the rows of each client of a round begin."""
    if not every.rows.num_rows:
        return np.zeros(0, np.int64)
    client, number = ranks(every.rows, "client_id"), every.numbers()
    return np.flatnonzero(np.append(True, (client[1:] != client[:-1]) | (number[1:] != number[:-1])))


def reading_instants(progress: pa.Table) -> list[tuple[RoundKey, int]]:
    """Of each round with readings of offsets: when the last was taken, epoch us. Rows of ``queue_progress``."""
    of_rounds = rows_of_rounds(progress, "consumer_group")
    if not len(of_rounds.starts):
        return []
    at = np.maximum.reduceat(microseconds(of_rounds.rows, "captured_at"), of_rounds.starts)
    return list(zip(of_rounds.place_of, at.tolist(), strict=True))
