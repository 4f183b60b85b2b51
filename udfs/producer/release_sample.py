"""Attempts of a date in; those by which the releases of some of its processes can be told, out: a bounded number.

Nothing can be told before the first attempt that was slow, failed or was not stored as asked: until then every release
takes every broker in its turn. So the attempts from that one on count, of each process at most ``MOST`` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import ATTEMPTS, NEVER, Attempts, attempts_of
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.values.arrays import BoolArray, IntArray

MOST = 5_000
_PLAIN = pa.array(["SEND_OK", "SUBMITTED"])
_FAR = 1 << 40


class Sample(NamedTuple):
    """The attempts that count, all that began on the date.

    Attributes:
        table: the rows, of each process in their order.
        process: the place of each row's process.
        cut: processes that made more of them.
    """

    table: pa.Table
    process: IntArray
    cut: frozenset[int]


def sample_of(tables: Callable[[], Iterable[pa.Table]], day: Day, slow_ms: Mapping[int, int]) -> Sample:
    """The attempts that count.

    Args:
        tables: gives the date's attempts part by part, in order; it is asked twice.
        slow_ms: the processes that are asked for, by place, each with the least latency that some candidate holds a
            broker back for.
    """
    limit = np.full(len(day.processes) + 1, _FAR)
    for place, ms in slow_ms.items():
        limit[place] = ms
    first = np.full(len(limit), _FAR)
    for table in tables():
        a, process, own = _own(table, day, limit)
        struck = own & _strikes(a, limit[process])
        np.minimum.at(first, process[struck], a.begin[struck])
    kept, cut = ATTEMPTS.empty_table(), set[int]()
    if (first == _FAR).all():
        return Sample(kept, np.zeros(0, np.int64), frozenset())
    for table in tables():
        a, process, own = _own(table, day, limit)
        counts = own & (a.begin >= first[process])
        if counts.any():
            kept, more = _earliest(pa.concat_tables([kept, table.filter(pa.array(counts)).cast(ATTEMPTS)]), day)
            cut |= more
    return Sample(kept, day.process_of(attempts_of(kept, day.midnight_ms)), frozenset(cut))


def _own(table: pa.Table, day: Day, limit: IntArray) -> tuple[Attempts, IntArray, BoolArray]:
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    named = a.texts("broker_name").codes >= 0
    return a, process, (limit[process] < _FAR) & a.on_date & named & a.flags("exceptions_observable")


def _strikes(a: Attempts, slow_ms: IntArray) -> BoolArray:
    plain = np.asarray(pc.is_in(a.table["outcome"].cast(pa.string()), _PLAIN))
    found: BoolArray = ~plain | ((a.end != NEVER) & (a.end - a.begin >= slow_ms))
    return found


def _earliest(table: pa.Table, day: Day) -> tuple[pa.Table, set[int]]:
    """Of each process the first ``MOST`` rows by begin, thread, message and attempt; and which processes had more."""
    a = attempts_of(table, day.midnight_ms)
    process = day.process_of(a)
    keys = {"process": pa.array(process), "begin": pa.array(a.begin)}
    texts = {name: table[name] for name in ("thread", "msg_id", "attempt")}
    by = [(name, "ascending", "at_start") for name in (*keys, *texts)]
    order = pc.sort_indices(pa.table({**keys, **texts}), sort_keys=by).to_numpy()
    rank = np.arange(len(order)) - np.searchsorted(process[order], process[order], side="left")
    return table.take(pa.array(order[rank < MOST])), set(process[order][rank >= MOST].tolist())
