"""Rows in, each key once out: of rival source lines the smallest wins, part by part.

The result does not depend on the order in which rows come, nor on how they are split: rows that were merged before
can be merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.arrays import BoolArray, IntArray
from hindsight.udfs.values.row_hashes import Groups, groups_of


class Term(NamedTuple):
    """What rival rows are ordered by: a column's bytes or number, never null there; or whether it ``is_null``."""

    column: str
    is_null: bool = False


class RowPart(NamedTuple):
    """Columns that one source line brings; of rivals the smallest by ``order`` wins. Without a ``line`` it is absent.

    The columns of an absent part are null.
    """

    columns: tuple[str, ...]
    order: tuple[Term, ...]
    line: str


class Keyed(NamedTuple):
    """How a table's rows are told apart, and the parts that each is made of."""

    key: tuple[str, ...]
    parts: tuple[RowPart, ...]


class Merged(NamedTuple):
    """What rows make of a table that already holds some.

    Attributes:
        inserted: rows of new keys.
        changed: stored rows as they are now.
        kept: stored rows of the same keys that stay as they are.
    """

    inserted: pa.Table
    changed: pa.Table
    kept: pa.Table


def one_row_per_key(rows: pa.Table, keyed: Keyed) -> pa.Table:
    """Of the lines that bring the same part of the same key, the smallest; of equal ones, the first row's."""
    groups = groups_of(rows, keyed.key)
    is_alone = groups.is_alone
    if is_alone.all():
        return rows
    rivals, picks = _picked(rows, keyed, groups, ~is_alone)
    return pa.concat_tables([rows.filter(pa.array(is_alone)), _assembled(rivals, keyed, picks)])


def merged(stored: pa.Table, rows: pa.Table, keyed: Keyed) -> Merged:
    """What ``rows`` change of the rows that are stored under their keys; both have the same columns.

    Args:
        stored: at least those that have a key which ``rows`` have too, each key once.
        rows: to be stored; a key may come often.
    """
    rows = one_row_per_key(rows, keyed)
    both = pa.concat_tables([stored, rows])
    groups = groups_of(both, keyed.key)
    is_new = np.arange(both.num_rows) >= stored.num_rows
    is_alone = groups.is_alone
    inserted = both.filter(pa.array(is_new & is_alone))
    if is_alone.all():
        return Merged(inserted, both.slice(0, 0), both.slice(0, 0))
    rivals, picks = _picked(both, keyed, groups, ~is_alone)
    changes = np.any([is_new[~is_alone][pick] & (pick >= 0) for pick in picks], axis=0)
    changed = _assembled(rivals, keyed, [pick[changes] for pick in picks])
    return Merged(inserted, changed, _assembled(rivals, keyed, [pick[~changes] for pick in picks]))


def _picked(rows: pa.Table, keyed: Keyed, groups: Groups, wanted: BoolArray) -> tuple[pa.Table, list[IntArray]]:
    """The ``wanted`` rows, and for each part and each of their groups the row that brings it, -1: none."""
    rivals = rows.filter(pa.array(wanted)).combine_chunks()
    _, group = np.unique(groups.of_row[wanted], return_inverse=True)
    return rivals, [_pick(rivals, part, group) for part in keyed.parts]


def _pick(rows: pa.Table, part: RowPart, group: IntArray) -> IntArray:
    present = np.flatnonzero(pc.is_valid(rows.column(part.line)).to_numpy())
    ranks = [_rank(rows.column(term.column).combine_chunks(), term)[present] for term in part.order]
    best = present[np.lexsort([*reversed(ranks), group[present]])]
    pick: IntArray = np.full(int(group.max()) + 1, -1, dtype=np.int64)
    of_group = group[best]
    is_first = np.append(True, of_group[1:] != of_group[:-1])[: len(best)]
    pick[of_group[is_first]] = best[is_first]
    return pick


def _rank(values: pa.Array, term: Term) -> IntArray:
    if term.is_null:
        is_null: IntArray = pc.is_null(values).to_numpy(zero_copy_only=False).astype(np.int64)
        return is_null
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank: IntArray = np.append(np.empty_like(order), 0)
    rank[order] = np.arange(len(order))
    found: IntArray = rank[encoded.indices.fill_null(len(order)).to_numpy()]
    return found


def _assembled(rows: pa.Table, keyed: Keyed, picks: Sequence[IntArray]) -> pa.Table:
    """One row a group, of the parts picked; each group has at least one part."""
    anyone = np.max(picks, axis=0)
    taken = {name: rows.column(name).take(pa.array(anyone)) for name in keyed.key}
    for part, pick in zip(keyed.parts, picks, strict=True):
        places = pa.array(pick, mask=pick < 0)
        taken |= {name: rows.column(name).take(places) for name in part.columns}
    return pa.table([taken[name] for name in rows.column_names], schema=rows.schema)
