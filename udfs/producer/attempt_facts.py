"""Attempts of one date in, what must be known of the whole date before its first attempt is replayed, out.

A few rows: per producer, topic, broker and release that lines name, how much was sent, when first and last, and what
the lines say of the switch. Facts of parts of a date are merged; those of 400 parts are those of the whole.

A process is not known yet: that takes the facts. But the instants at which one may begin are (``Cuts``: the date's
midnight, and every recorded start), so facts are told by the segment of time between two of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import (
    NEVER,
    Attempts,
    Producers,
    compact,
    producers_of,
)
from hindsight.udfs.producer.attempt_updates import told_on_date
from hindsight.udfs.values.columns import BoolArray, IntArray

# Per producer, the instants at which a process may begin: ms of the date, in order; its midnight, 0, is always one.
Cuts = Mapping[tuple[str, str], Sequence[int]]
MIDNIGHT_ALONE = (0,)
_NO_CALLBACK_MS = 30_000

_KEYS = ("producer_group", "client_id", "segment", "topic", "broker_name", "source", "client_version")
# How each fact of several rows becomes one.
_MERGED = {
    "attempts": "sum",  # that began on the date
    "last_begin": "max",  # of these
    "last_at": "max",  # the last instant of these
    "partly_seen": "max",  # a hook does not see the retries of an ASYNC send, a trace no exception
    "unseen_since": "min",  # begin of the first of these whose own retries no hook sees
    "unseen_until": "max",  # when the last of them was over
    "said_on": "max",  # begin of the last line that says that the switch is on
    "said_off": "max",
    "last_use": "max",  # of these, begun by a source that would show a failure
    "updated": "max",  # one told the fault table on the date
    "top_queue": "max",  # highest queue id of those that began on the date
}
FACTS = pa.schema(
    [
        *((name, pa.int64() if name == "segment" else pa.string()) for name in _KEYS),
        *((name, pa.bool_() if name in ("partly_seen", "updated") else pa.int64()) for name in _MERGED),
    ]
)


def facts_of(a: Attempts, cuts: Cuts) -> pa.Table:
    """The facts (``FACTS``) of some attempts, begun on the date or told to a fault table on it."""
    producers = producers_of(a)
    segments, starts_at = segments_of(producers, a.begin, cuts)
    texts = {name: a.texts(name) for name in _KEYS[3:]}
    columns = [segments, *(each.codes.astype(np.int64) + 1 for each in texts.values())]
    place, distinct = _combined(columns, [int(starts_at[-1]), *(len(each.values) + 1 for each in texts.values())])
    merged = _aggregated(a, place)
    rows = merged["place"].to_numpy()
    whose = np.searchsorted(starts_at, distinct[0][rows], side="right") - 1
    names = [producers.names[p] for p in whose.tolist()]
    own = zip(texts, distinct[1:], strict=True)
    made: dict[str, Any] = {
        "producer_group": [group for group, _ in names],
        "client_id": [client for _, client in names],
        "segment": distinct[0][rows] - starts_at[whose],
        **{name: pa.array([None, *texts[name].values], pa.string()).take(pa.array(codes[rows])) for name, codes in own},
        **{name: merged[f"{name}_{how}"] for name, how in _MERGED.items()},
    }
    return pa.table(made).cast(FACTS)


def merged_facts(parts: Sequence[pa.Table], keys: Sequence[str] = _KEYS) -> pa.Table:
    """The facts of several parts of a date as those of the whole; ``keys``: told by these alone."""
    grouped = pa.concat_tables(parts).group_by(list(keys)).aggregate(list(_MERGED.items()))
    names = [*keys, *_MERGED]
    return grouped.rename_columns(names).cast(pa.schema([FACTS.field(name) for name in names]))


def segments_of(producers: Producers, begin: IntArray, cuts: Cuts) -> tuple[IntArray, IntArray]:
    """In which segment of its producer's time each attempt began: a number of its own for each producer and segment.

    Returns also, per producer, the number of its first segment, which is before all of its cuts, and last the number of
    all segments.
    """
    own = [cuts.get(name, MIDNIGHT_ALONE) for name in producers.names]
    first = np.cumsum([0, *(1 + len(each) for each in own)])
    lift, low, high = 1 << 32, -(1 << 31) + 1, (1 << 31) - 1
    edges = [number * lift + np.clip([low, *each], low, high) for number, each in enumerate(own)]
    keys = np.concatenate(edges) if edges else np.zeros(0, np.int64)
    return np.searchsorted(keys, producers.codes * lift + np.clip(begin, low, high), side="right") - 1, first


def _combined(columns: list[IntArray], sizes: list[int]) -> tuple[IntArray, list[IntArray]]:
    """Rows of codes as places of the distinct ones, and these, column by column."""
    place, distinct = compact(columns[0], sizes[0])
    found = [distinct]
    for codes, size in zip(columns[1:], sizes[1:], strict=True):
        place, pairs = compact(place * size + codes, len(found[0]) * size)
        found = [*(each[pairs // size] for each in found), pairs % size]
    return place, found


def _aggregated(a: Attempts, place: IntArray) -> pa.Table:
    observable = a.flags("exceptions_observable")
    says = a.table["latency_fault_enabled"]
    on = a.flags("latency_fault_enabled")
    off = ~on & np.asarray(says.is_valid())
    uses = a.on_date & observable & (a.texts("broker_name").codes >= 0)
    rows = {
        "place": pa.array(place),
        "attempts": pa.array(a.on_date.astype(np.int64)),
        "last_begin": _where(a.begin, a.on_date),
        "last_at": _where(a.last_instant(), a.on_date),
        "partly_seen": pa.array(a.on_date & (a.is_async | ~observable)),
        "unseen_since": _where(a.begin, a.on_date & a.is_async),
        "unseen_until": _where(_over(a), a.on_date & a.is_async),
        "said_on": _where(a.begin, a.on_date & on),
        "said_off": _where(a.begin, a.on_date & off),
        "last_use": _where(a.begin, uses),
        "updated": pa.array(_updated(a, uses)),
        "top_queue": pc.if_else(pa.array(a.on_date), a.table["queue_id"].cast(pa.int64()), pa.scalar(None, pa.int64())),
    }
    return pa.table(rows).group_by("place").aggregate(list(_MERGED.items()))


def _over(a: Attempts) -> IntArray:
    """When an ASYNC attempt surely was over: with its callback, or as long after its begin as no time-out lasts."""
    over: IntArray = np.where(a.callback_end == NEVER, a.begin + _NO_CALLBACK_MS, a.last_instant())
    return over


def _where(values: IntArray, there: BoolArray) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~there)


def _updated(a: Attempts, uses: BoolArray) -> BoolArray:
    """Which attempts told the fault table on the date, of those that are no uses of their broker on it."""
    told = np.zeros(len(a.begin), np.bool_)
    told[told_on_date(a, np.flatnonzero(~uses))] = True
    return told


# What tells the messages of one process apart, hex digits at a message id's end: time and counter.
_ID_TAIL = 12
_BY = (["cluster", "event_date", "producer_group", "client_id"], ["cluster", "event_date", "producer_group", "process"])
NEEDED = ["cluster", "event_date", "producer_group", "client_id", "msg_id", "source"]


def nearest_of(attempts: pa.Table, distances: Mapping[str, int]) -> tuple[pa.Table, pa.Table]:
    """By client id, and by sending process, the distance of the nearest source in some attempts.

    ``attempts``: with the columns ``NEEDED``; ``distances`` by source.
    """
    told = _with_distance(attempts.select(NEEDED), distances)
    by_client, by_process = (_least(told.select([*keys, "distance"]), keys) for keys in _BY)
    return by_client, by_process


def merged_nearest(parts: Sequence[pa.Table]) -> pa.Table:
    """What several parts of the attempts give, as the whole gives it; all by client id, or all by process."""
    every = pa.concat_tables(parts)
    return _least(every, [name for name in every.column_names if name != "distance"])


def nearest_attempts(attempts: pa.Table, nearest: tuple[pa.Table, pa.Table], distances: Mapping[str, int]) -> pa.Table:
    """The attempts of the nearest source; ``nearest``: of all attempts of their dates."""
    told = _with_distance(attempts.select(NEEDED), distances)
    told = told.append_column("place", pa.array(range(len(told)), pa.int64()))
    for number, (keys, least) in enumerate(zip(_BY, nearest, strict=True)):
        told = told.join(least.rename_columns([*keys, f"nearest_{number}"]), keys, join_type="inner")
    kept = told.filter(pc.less_equal(told["distance"], pc.min_element_wise(told["nearest_0"], told["nearest_1"])))
    return attempts.take(kept["place"].combine_chunks().sort())


def _with_distance(told: pa.Table, distances: Mapping[str, int]) -> pa.Table:
    plain = told.set_column(told.schema.get_field_index("msg_id"), "msg_id", told["msg_id"].cast(pa.string()))
    process = pc.utf8_slice_codeunits(plain["msg_id"], 0, -_ID_TAIL)
    known = pa.table({"source": list(distances), "distance": pa.array(distances.values(), pa.int64())})
    places = pc.index_in(plain["source"].cast(pa.string()), known["source"].combine_chunks())
    keys = pa.schema([(name, pa.date32() if name == "event_date" else pa.string()) for name in _BY[0]])
    return (
        plain.select(_BY[0])
        .cast(keys)
        .append_column("process", process)
        .append_column("distance", known["distance"].take(places))
    )


def _least(told: pa.Table, keys: list[str]) -> pa.Table:
    return told.group_by(keys).aggregate([("distance", "min")]).rename_columns([*keys, "distance"])
