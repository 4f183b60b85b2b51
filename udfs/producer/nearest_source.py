"""Attempts that several sources tell of in, those of the source nearest to each producer out.

The others stay rows of their tables: they confirm, or contradict, and are not computed with. Rows are never merged:
what came of that would depend on which arrived first.

A producer is known by its client id, or, where a source does not name that (a trace), by the part of the message id
that names the sending process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

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
