"""Rows of ``topic_route`` in, those that say the same as one with its reads out; and from these rows of rounds again.

Most reads of a route say what the one before said. So an entry travels once, its reads as two lists of instants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.values.arrays import BoolArray, IntArray, whole
from hindsight.udfs.values.value_hashes import value_hashes

# Of a read: when, and in which round. Lists of them in an entry, one place a read in both.
READ = ("captured_at", "round_at")
Rounds = Mapping[str, IntArray]  # by collector their instants, epoch us, sorted


def rounds_of(keys: Iterable[tuple[str, int]]) -> Rounds:
    """Rounds, each named by its collector and instant, epoch us, as often as one likes."""
    found: dict[str, set[int]] = {}
    for collector, at in keys:
        found.setdefault(collector, set()).add(at)
    return {collector: np.array(sorted(own), np.int64) for collector, own in found.items()}


def are_of(rows: pa.Table, rounds: Rounds) -> BoolArray:
    """Which rows are of these rounds."""
    at, found = microseconds(rows, "round_at"), np.zeros(rows.num_rows, np.bool_)
    for collector, own in rounds.items():
        is_own = np.asarray(pc.equal(rows["collector"], collector))
        found[is_own] = np.isin(at[is_own], own)
    return found


def entries_schema(rows: pa.Schema) -> pa.Schema:
    """The columns of entries, by those of rows."""
    return pa.schema([f.with_type(pa.list_(f.type)) if f.name in READ else f for f in rows])


def entries_of(rows: pa.Table) -> pa.Table:
    """Each distinct entry once, with the lists of its reads, in the order of the rows."""
    says = value_hashes(rows, [name for name in rows.column_names if name not in READ])
    _, first, of = np.unique(says, return_index=True, return_inverse=True)
    order = pa.array(np.argsort(of, kind="stable"))
    offsets = pa.array(np.append(0, np.cumsum(np.bincount(of, minlength=len(first)))), pa.int32())
    entries = rows.take(pa.array(first))
    for name in READ:
        lists = pa.ListArray.from_arrays(offsets, whole(rows, name).take(order))
        entries = entries.set_column(entries.schema.get_field_index(name), name, lists)
    return entries.cast(entries_schema(rows.schema))


def rows_of(entries: pa.Table, rounds: Rounds) -> pa.Table:
    """The rows that made the entries, as far as they are of these rounds."""
    lists = {name: whole(entries, name) for name in READ}
    parents = pc.list_parent_indices(lists["round_at"])
    reads = pa.table({name: own.flatten() for name, own in lists.items()})
    reads = reads.append_column("collector", whole(entries, "collector").take(parents))
    wanted = pa.array(np.flatnonzero(are_of(reads, rounds)))
    rows = entries.take(parents.take(wanted))
    for name in READ:
        rows = rows.set_column(rows.schema.get_field_index(name), name, reads[name].take(wanted))
    return rows
