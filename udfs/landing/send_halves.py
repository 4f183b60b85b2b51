"""Rows of ``send_attempt``, one a source line, in; which half of an ASYNC attempt each brings, or both as one row, out.

An ASYNC hook runs twice. When the result was not yet visible to the second run, its line equals the first's: equal
lines of one message in one file are submit and callback, further ones are copies. Other formats say which half a line
is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.arrays import BoolArray, IntArray
from hindsight.udfs.values.row_hashes import groups_of

SUBMIT_PART = ("submit_end_at", "submit_file", "submit_line")
CALLBACK_PART = ("callback_end_at", "callback_file", "callback_line")
_SOURCE = ("end_at", "source_file", "source_line")


def halves_named(lines: pa.Table, key: tuple[str, ...], hook: str) -> pa.Table:
    """Each line with the half that it brings, named as its source; the third and later of equal lines bring none.

    Args:
        lines: of each file all that have a key in common.
        key: by which an attempt is told from others.
        hook: the ``source`` whose equal lines are two halves.
    """
    is_submit = _flags(pc.equal(lines.column("phase"), "submit"))
    nth = np.ones(lines.num_rows, dtype=np.int64)
    nth[is_submit] = _nth(lines.filter(pa.array(is_submit)), ("source_file", *key, "end_at"))
    is_again = is_submit & (nth == 2) & _flags(pc.equal(lines.column("source"), hook))
    is_callback = _flags(pc.equal(lines.column("phase"), "callback")) | is_again
    named = _with(lines, SUBMIT_PART, is_submit & (nth == 1))
    named = _with(named, CALLBACK_PART, is_callback)
    if is_again.any():
        for name, value in (("phase", "no_result"), ("outcome", "UNKNOWN")):
            named = _set(named, name, pc.if_else(pa.array(is_again), value, named.column(name)))
    return named


def halves_joined(lines: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The lines, a submit and the only callback beside it as one row, the callback's.

    All else is left apart. Right for an attempt of which there are no further lines elsewhere; of others
    ``halves_apart`` gives the lines back.
    """
    phase = lines.column("phase")
    is_submit, is_callback = _flags(pc.equal(phase, "submit")), _flags(pc.equal(phase, "callback"))
    named = _with(_with(lines, SUBMIT_PART, is_submit), CALLBACK_PART, is_callback)
    submit, callback = _pairs(lines, key, is_submit, is_callback)
    if not len(submit):
        return named
    brought = np.where(is_submit, np.arange(lines.num_rows), -1)
    brought[callback] = submit
    for name in SUBMIT_PART:
        named = _set(named, name, named.column(name).take(pa.array(brought, mask=brought < 0)))
    is_kept = np.ones(lines.num_rows, dtype=np.bool_)
    is_kept[submit] = False
    return named.filter(pa.array(is_kept))


def _pairs(
    lines: pa.Table, key: tuple[str, ...], is_submit: BoolArray, is_callback: BoolArray
) -> tuple[IntArray, IntArray]:
    """Where the submits and the callbacks stand that are two of a kind."""
    halves = np.flatnonzero(is_submit | is_callback) if is_submit.any() and is_callback.any() else np.zeros(0, np.int64)
    groups = groups_of(lines.take(pa.array(halves)), key)
    in_order = halves[np.lexsort([is_callback[halves], groups.of_row])]
    ends = np.cumsum(groups.sizes)[groups.sizes == 2]
    submit, callback = in_order[ends - 2], in_order[ends - 1]
    is_pair = is_submit[submit] & is_callback[callback]
    return submit[is_pair], callback[is_pair]


def halves_apart(rows: pa.Table) -> pa.Table:
    """The lines of which ``halves_joined`` made the rows.

    Of a submit that was joined only what tells the half is given back: beside its callback nothing else of it counts.
    """
    is_joined = pc.and_(pc.is_valid(rows.column("submit_line")), pc.is_valid(rows.column("callback_line")))
    submits = rows.filter(is_joined)
    for name, source in zip(SUBMIT_PART, _SOURCE, strict=True):
        submits = _set(submits, source, submits.column(name))
    submits = _set(submits, "phase", pa.repeat("submit", submits.num_rows))
    submits = _set(submits, "callback_outcome", pa.nulls(submits.num_rows, pa.string()))
    return pa.concat_tables([rows, submits])


def _nth(rows: pa.Table, columns: tuple[str, ...]) -> IntArray:
    """Of each row which it is, from 1, of those equal in the columns, by source line."""
    groups = groups_of(rows, columns)
    order = np.lexsort([rows.column("source_line").to_numpy(), groups.of_row])
    begins = np.cumsum(groups.sizes) - groups.sizes
    nth: IntArray = np.empty(rows.num_rows, dtype=np.int64)
    nth[order] = np.arange(rows.num_rows) - begins[groups.of_row[order]] + 1
    return nth


def _with(lines: pa.Table, part: tuple[str, ...], brings: BoolArray) -> pa.Table:
    """The part's columns as the lines that bring it have them, null elsewhere."""
    for name, source in zip(part, _SOURCE, strict=True):
        values = lines.column(source)
        lines = _set(lines, name, pc.if_else(pa.array(brings), values, pa.scalar(None, values.type)))
    return lines


def _set(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = rows.column_names.index(name)
    return rows.set_column(index, rows.schema.field(index), values)


def _flags(condition: pa.ChunkedArray) -> BoolArray:
    found: BoolArray = condition.fill_null(False).to_numpy()
    return found
