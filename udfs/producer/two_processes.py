"""Attempts of a date in; when two processes sent under one producer group and client id, out.

Each process has a fault table of its own, so attempts of two must not be replayed as one. Two things show them, where
ids of containers on bridged networks are alike (before 4.9.0: ``172.17.0.2@1``):

- message ids. What stands before their last 12 digits (host, pid and class loader: MessageClientIDSetter, 4.0.0 to
  5.5.0) is one process's own. Two such heads that take turns are two processes; one that ends before the other begins
  is a process that was started anew;
- a start in the middle, where ids do not say so: threads that send shortly before it and shortly after it go on, and
  no process starts so soon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import Attempts, attempts_of, compact, producers_of, texts
from hindsight.udfs.producer.attempt_facts import Cuts
from hindsight.udfs.producer.producer_lives import Producer
from hindsight.udfs.producer.unseen_life import TWO_PROCESSES, Gap

_CLIENT_S_OWN = "[0-9A-F]{12}$"
_TAIL = 12  # hexadecimal digits of a message id that tell the messages of one process apart
_MOST_HEADS = 8  # more are no processes: ids that somebody else made
_TOO_MANY = "*"  # in place of so many
_GOES_ON_MS = 5_000  # sooner no process sends after the last send of the one before it
_WHO = ("producer_group", "client_id")
TRACES = pa.schema(
    [
        *((name, pa.string()) for name in _WHO),
        ("head", pa.string()),
        ("thread", pa.string()),
        *((name, pa.int64()) for name in ("after", "attempts", "first", "last")),
    ]
)
_MERGED = {"attempts": "sum", "first": "min", "last": "max"}
_KEYS = [name for name in TRACES.names if name not in _MERGED]


def traces_of(table: pa.Table, midnight_ms: int, cuts: Cuts) -> pa.Table:
    """Which heads of ids, and near a start which threads, sent between when and when (``TRACES``).

    ``after``: the start, ms of the date, that the attempts follow, of producers with one; else of no meaning.
    """
    a = attempts_of(table, midnight_ms)
    parts = [_of_heads_sent(a), _near_starts(a, cuts)]
    return pa.concat_tables([TRACES.empty_table(), *(part for part in parts if part is not None)])


def _of_heads_sent(a: Attempts) -> pa.Table | None:
    """The heads of each producer; what is said of an attempt goes by its own id, so any cut of a date says the same."""
    rows = np.flatnonzero(a.on_date)
    if not len(rows):
        return None
    whose, ids = producers_of(a), a.table["msg_id"].take(pa.array(rows)).cast(pa.string())
    # A head tells something only before what a client itself made.
    is_own = pc.fill_null(pc.match_substring_regex(ids, _CLIENT_S_OWN), False)
    named = pc.if_else(is_own, pc.utf8_slice_codeunits(ids, 0, -_TAIL), pa.scalar(None, pa.string()))
    heads = texts(named.dictionary_encode().unify_dictionaries())
    size = len(heads.values) + 1
    place, distinct = compact(whose.codes[rows] * size + heads.codes + 1, len(whose.names) * size)
    counted = pa.table({"place": place, "at": a.begin[rows]}).group_by("place")
    told = counted.aggregate([("at", "count"), ("at", "min"), ("at", "max")])
    found = distinct[told["place"].to_numpy()]
    of, head = found // size, pa.array([None, *heads.values], pa.string()).take(pa.array(found % size))
    many = np.bincount(of[found % size > 0], minlength=len(whose.names))[of] > _MOST_HEADS
    names = [whose.names[code] for code in of.tolist()]
    made = pa.table(
        [
            [group for group, _ in names],
            [client for _, client in names],
            pc.if_else(pa.array(many), _TOO_MANY, head),
            pa.nulls(len(found), pa.string()),
            np.zeros(len(found), np.int64),
            *(told[f"at_{how}"] for how in ("count", "min", "max")),
        ],
        names=TRACES.names,
    ).cast(TRACES)
    return merged_traces([made])


def _near_starts(a: Attempts, cuts: Cuts) -> pa.Table | None:
    """The attempts so near to a start that their threads say whether the process before it went on."""
    whose = producers_of(a)
    parts = []
    for code, name in enumerate(whose.names):
        for start in (at for at in cuts.get(name, ()) if at):
            rows = np.flatnonzero((whose.codes == code) & (np.abs(a.begin - start) <= _GOES_ON_MS))
            if len(rows):
                own = a.table.take(pa.array(rows))
                parts.append(
                    pa.table(
                        {
                            **{each: own[each].cast(pa.string()) for each in _WHO},
                            "head": pa.nulls(len(rows), pa.string()),
                            "thread": own["thread"].cast(pa.string()),
                            "after": np.full(len(rows), start),
                            "attempts": np.ones(len(rows), np.int64),
                            "first": a.begin[rows],
                            "last": a.begin[rows],
                        }
                    ).cast(TRACES)
                )
    return merged_traces(parts) if parts else None


def merged_traces(parts: Sequence[pa.Table]) -> pa.Table:
    """Traces of several parts of a date as those of the whole."""
    grouped = pa.concat_tables(parts).group_by(_KEYS).aggregate(list(_MERGED.items()))
    return grouped.rename_columns([*_KEYS, *_MERGED]).select(TRACES.names).cast(TRACES)


def overlaps_of(traces: pa.Table, midnight_ms: int) -> dict[Producer, list[Gap]]:
    """When two processes sent under one id, by producer."""
    heads: dict[Producer, list[Mapping[str, Any]]] = defaultdict(list)
    threads: dict[Producer, list[Mapping[str, Any]]] = defaultdict(list)
    for row in traces.filter(_is_telling(traces)).to_pylist():
        who = row["producer_group"], row["client_id"]
        (heads if row["thread"] is None else threads)[who].append(row)
    found = {who: _of_heads(rows) for who, rows in heads.items()}
    for who, rows in threads.items():
        found[who] = [*found.get(who, ()), *_of_threads(rows, heads.get(who, ()))]
    return {
        who: [Gap(since + midnight_ms, until + midnight_ms, TWO_PROCESSES) for since, until in stretches]
        for who, stretches in found.items()
        if stretches
    }


def _is_telling(traces: pa.Table) -> pa.ChunkedArray:
    """Rows of producers with more than one head, or with a start."""
    counts = traces.group_by(list(_WHO)).aggregate([("attempts", "count")])
    several = counts.filter(pc.greater(counts["attempts_count"], 1))
    key, wanted = (pc.binary_join_element_wise(*(t[name] for name in _WHO), "\0") for t in (traces, several))
    return pc.is_in(key, wanted)


def _of_heads(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Stretches in which two heads took turns; of each more than one attempt."""
    heads = {row["head"] for row in rows if row["head"]}
    if _TOO_MANY in heads or len(heads) > _MOST_HEADS:
        return []
    own = sorted((row["first"], row["last"]) for row in rows if row["head"] and row["attempts"] > 1)
    return [
        (max(one[0], other[0]), min(one[1], other[1]))
        for place, one in enumerate(own)
        for other in own[place + 1 :]
        if other[0] < one[1]
    ]


def _of_threads(rows: Sequence[Mapping[str, Any]], heads: Sequence[Mapping[str, Any]]) -> Iterable[tuple[int, int]]:
    """Stretches from a start on that threads went on over, up to the producer's last attempt."""
    last = max((row["last"] for row in heads), default=0)
    for start in sorted({row["after"] for row in rows}):
        own = [row for row in rows if row["after"] == start]
        if _goes_on(own, start) and not _is_told_by_heads(heads, start):
            yield start, max(last, start)


def _goes_on(rows: Sequence[Mapping[str, Any]], start: int) -> bool:
    return any(row["first"] < start <= row["last"] for row in rows if row["thread"])


def _is_told_by_heads(heads: Collection[Mapping[str, Any]], start: int) -> bool:
    """Whether the ids show that one process ended before the start, and another began with it."""
    known = [row for row in heads if row["head"] and len(row["head"]) > _TAIL // 2]
    return bool(known) and not any(row["first"] < start <= row["last"] for row in known)
