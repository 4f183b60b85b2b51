"""Rows that a run read, and stored ones with the same keys, in; each key once out, and what became of each line.

Most rows have no rival: neither the run nor the table holds another row of the same key. A hash of the key is enough to
see that, and such rows are stored as they are. All others are taken apart into their source lines and settled together:
the smallest wins, part by part. The result does not depend on the order in which rows come, nor on how they are split:
rows that were merged before can be merged again.

An ASYNC hook runs twice. When the result was not yet visible to the second run, its line equals the first's: equal
lines of one message in one file are submit and callback, further ones are copies. Other formats say which half a line
is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.schemas.table_contract import Part, Table
from hindsight.udfs.values.columns import BoolArray, IntArray, flags
from hindsight.udfs.values.row_hashes import Groups, HashArray, groups_of

_LINE_BITS = 40  # no file has as many lines
SUBMIT_PART = ("submit_end_at", "submit_file", "submit_line")
CALLBACK_PART = ("callback_end_at", "callback_file", "callback_line")
_SOURCE = ("end_at", "source_file", "source_line")


def rival_hashes(read: HashArray, stored: HashArray) -> HashArray:
    """The hashes that come more than once in all that a run has ``read`` and that is ``stored``, sorted.

    ``stored``: each key once; of keys that are only stored nothing is said.
    """
    hashes, counts = np.unique(read, return_counts=True)
    return hashes[(counts > 1) | are_among(hashes, np.sort(stored))]


def are_among(hashes: HashArray, wanted: HashArray) -> BoolArray:
    """Which hashes are among the ``wanted`` ones, which are sorted."""
    if not len(wanted):
        return np.zeros(len(hashes), dtype=np.bool_)
    places = np.searchsorted(wanted, hashes)
    found: BoolArray = wanted[np.minimum(places, len(wanted) - 1)] == hashes
    return found


class LineNumbers(NamedTuple):
    """Numbers for the lines of a run's landing files: ``files`` numbers these from 0."""

    files: Mapping[str, int]

    def of(self, rows: pa.Table, table: Table) -> IntArray:
        """The lines that the rows, or parts of them, are from; each once, sorted. Of other files nothing is said."""
        lines = {part.line for part in table.row_parts} | {("source_file", "source_line")}
        return np.unique(np.concatenate([self._of(rows, line) for line in sorted(lines)]))

    def _of(self, rows: pa.Table, line: tuple[str, str]) -> IntArray:
        names, numbers = rows.select(line).drop_null().combine_chunks().columns
        encoded = names.combine_chunks().dictionary_encode()
        of_name: IntArray = np.array([self.files.get(name, -1) for name in encoded.dictionary.to_pylist()], np.int64)
        file = of_name[encoded.indices.to_numpy()]
        found: IntArray = (file << _LINE_BITS | numbers.to_numpy())[file >= 0]
        return found

    def each(self, file: str, lines: Iterable[int]) -> IntArray:
        """Those of some lines of a file."""
        return np.array([self.files[file] << _LINE_BITS | line for line in lines], np.int64)

    @staticmethod
    def file_of(lines: IntArray) -> IntArray:
        """The number of each one's file."""
        return lines >> _LINE_BITS


class Settled(NamedTuple):
    """What becomes of rows that have rivals.

    Attributes:
        inserted: rows of new keys.
        changed: stored rows as they are now.
        lines: the lines read of which a row or a part of one is stored, sorted.
    """

    inserted: pa.Table
    changed: pa.Table
    lines: IntArray


def settled(rows: pa.Table, stored: pa.Table, table: Table, numbers: LineNumbers, *, hook: str | None) -> Settled:
    """Each key once: of rival lines the smallest wins, part by part.

    Args:
        rows: all of a run that have a key in common, as ``landed_rows`` gives them.
        stored: those of the table that have a key in common with them.
        table: whose they are.
        numbers: of the run's files.
        hook: the source of which equal lines are two halves; None: a row of the table has no halves.
    """
    lines = rows if hook is None else _halves_named(_halves_apart(rows), table.key, hook)
    inserted, changed, kept = _merged(stored, lines, table)
    read, named = numbers.of(rows, table), numbers.of(pa.concat_tables([inserted, changed, kept]), table)
    return Settled(inserted, changed, np.intersect1d(read, named, assume_unique=True))


def without(rows: pa.Table, is_rival: BoolArray) -> tuple[pa.Table, pa.Table]:
    """The rows that are no rivals, and those that are."""
    if not is_rival.any():
        return rows, rows.slice(0, 0)
    flags = pa.array(is_rival)
    return rows.filter(pc.invert(flags)), rows.filter(flags)


def _one_row_per_key(rows: pa.Table, table: Table) -> pa.Table:
    """Of the lines that bring the same part of the same key, the smallest; of equal ones, the first row's."""
    groups = groups_of(rows, table.key)
    is_alone = groups.is_alone
    if is_alone.all():
        return rows
    rivals, picks = _picked(rows, table, groups, ~is_alone)
    return pa.concat_tables([rows.filter(pa.array(is_alone)), _assembled(rivals, table, picks)])


def _merged(stored: pa.Table, rows: pa.Table, table: Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Rows of new keys, stored ones as they are now, and stored ones of the same keys that stay as they are.

    ``stored``: at least those that have a key which ``rows`` have too, each key once; a key of ``rows`` may come often.
    """
    rows = _one_row_per_key(rows, table)
    both = pa.concat_tables([stored, rows])
    groups = groups_of(both, table.key)
    is_new = np.arange(both.num_rows) >= stored.num_rows
    is_alone = groups.is_alone
    inserted = both.filter(pa.array(is_new & is_alone))
    if is_alone.all():
        return inserted, both.slice(0, 0), both.slice(0, 0)
    rivals, picks = _picked(both, table, groups, ~is_alone)
    changes = np.any([is_new[~is_alone][pick] & (pick >= 0) for pick in picks], axis=0)
    changed, kept = (_assembled(rivals, table, [pick[of] for pick in picks]) for of in (changes, ~changes))
    return inserted, changed, kept


def _picked(rows: pa.Table, table: Table, groups: Groups, wanted: BoolArray) -> tuple[pa.Table, list[IntArray]]:
    """The ``wanted`` rows, and for each part and each of their groups the row that brings it, -1: none."""
    rivals = rows.filter(pa.array(wanted)).combine_chunks()
    _, group = np.unique(groups.of_row[wanted], return_inverse=True)
    return rivals, [_pick(rivals, part, group) for part in table.row_parts]


def _pick(rows: pa.Table, part: Part, group: IntArray) -> IntArray:
    present = np.flatnonzero(pc.is_valid(rows.column(part.line[1])).to_numpy())
    ranks = [_rank(rows, term)[present] for term in part.order]
    best = present[np.lexsort([*reversed(ranks), group[present]])]
    pick: IntArray = np.full(int(group.max()) + 1, -1, dtype=np.int64)
    of_group = group[best]
    is_first = np.append(True, of_group[1:] != of_group[:-1])[: len(best)]
    pick[of_group[is_first]] = best[is_first]
    return pick


def _rank(rows: pa.Table, term: str) -> IntArray:
    column, _, is_null = term.partition(" ")
    values = rows.column(column).combine_chunks()
    if is_null:
        nulls: IntArray = pc.is_null(values).to_numpy(zero_copy_only=False).astype(np.int64)
        return nulls
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank: IntArray = np.append(np.empty_like(order), 0)
    rank[order] = np.arange(len(order))
    found: IntArray = rank[encoded.indices.fill_null(len(order)).to_numpy()]
    return found


def _assembled(rows: pa.Table, table: Table, picks: Sequence[IntArray]) -> pa.Table:
    """One row a group, of the parts picked; each group has at least one part."""
    anyone = np.max(picks, axis=0)
    taken = {name: rows.column(name).take(pa.array(anyone)) for name in table.key}
    for part, pick in zip(table.row_parts, picks, strict=True):
        places = pa.array(pick, mask=pick < 0)
        taken |= {name: rows.column(name).take(places) for name in part.columns}
    return pa.table([taken[name] for name in rows.column_names], schema=rows.schema)


def _halves_named(lines: pa.Table, key: tuple[str, ...], hook: str) -> pa.Table:
    """Each line with the half that it brings, named as its source; the third and later of equal lines bring none.

    Args:
        lines: of each file all that have a key in common.
        key: by which an attempt is told from others.
        hook: the ``source`` whose equal lines are two halves.
    """
    is_submit = flags(pc.equal(lines.column("phase"), "submit"))
    nth = np.ones(lines.num_rows, dtype=np.int64)
    nth[is_submit] = _nth(lines.filter(pa.array(is_submit)), ("source_file", *key, "end_at"))
    is_again = is_submit & (nth == 2) & flags(pc.equal(lines.column("source"), hook))
    is_callback = flags(pc.equal(lines.column("phase"), "callback")) | is_again
    named = _with(lines, SUBMIT_PART, is_submit & (nth == 1))
    named = _with(named, CALLBACK_PART, is_callback)
    if is_again.any():
        for name, value in (("phase", "no_result"), ("outcome", "UNKNOWN")):
            named = _set(named, name, pc.if_else(pa.array(is_again), value, named.column(name)))
    return named


def halves_joined(lines: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The lines, a submit and the only callback beside it as one row, the callback's.

    All else is left apart. Right for an attempt of which there are no further lines elsewhere; of others
    ``_halves_apart`` gives the lines back.
    """
    phase = lines.column("phase")
    is_submit, is_callback = flags(pc.equal(phase, "submit")), flags(pc.equal(phase, "callback"))
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


def _halves_apart(rows: pa.Table) -> pa.Table:
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
