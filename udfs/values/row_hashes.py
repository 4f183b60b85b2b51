"""Columns in, one 64-bit hash a row, and which rows are equal, out.

Equal rows have equal hashes, on every machine and in every run. Unequal rows seldom have, so a hash that is met once
says for certain that its row is alone; rows that share one are compared whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.columns import BoolArray, IntArray, is_text, whole

HashArray = npt.NDArray[np.uint64]
_AT_ONCE, _BYTES_AT_ONCE = 4_096, 1 << 18  # of texts: few enough that what is made of them stays near the processor
_EVENLY = np.uint64(0x9E3779B97F4A7C15)
_NULL = _EVENLY  # any number will do
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def row_hashes(rows: pa.Table, columns: Sequence[str]) -> HashArray:
    """A hash of each row's values in the columns: texts, whole numbers, instants and nulls."""
    found: HashArray = np.zeros(rows.num_rows, dtype=np.uint64)
    for name in columns:
        found = mixed(found + _EVENLY ^ _column(whole(rows, name)))
    return found


class Groups(NamedTuple):
    """Which of n rows are equal: ``of_row`` numbers the groups from 0, ``sizes`` counts the rows of each."""

    of_row: IntArray
    sizes: IntArray

    @property
    def is_alone(self) -> BoolArray:
        """Of each row, whether no other equals it."""
        found: BoolArray = self.sizes[self.of_row] == 1
        return found


def groups_of(rows: pa.Table, columns: Sequence[str]) -> Groups:
    """The rows that are equal in the columns; null equals null."""
    _, of_row = np.unique(row_hashes(rows, columns), return_inverse=True)
    sizes = np.bincount(of_row)
    shared = np.flatnonzero(sizes[of_row] > 1) if len(of_row) else of_row
    if len(shared):
        of_row = _told_apart(rows.take(pa.array(shared)), columns, of_row, shared)
        sizes = np.bincount(of_row)
    return Groups(of_row, sizes)


def _told_apart(some: pa.Table, columns: Sequence[str], of_row: IntArray, shared: IntArray) -> IntArray:
    """The groups of all rows, those split whose rows share no more than the hash; ``some`` are the rows ``shared``."""
    encoded = (whole(some, name).dictionary_encode(null_encoding="encode") for name in columns)
    codes: list[IntArray] = [each.indices.to_numpy().astype(np.int64) for each in encoded]
    group = of_row[shared]
    order = np.argsort(group, kind="stable")
    is_next = group[order][1:] == group[order][:-1]
    if not any((is_next & (code[order][1:] != code[order][:-1])).any() for code in codes):
        return of_row
    _, exact = np.unique(np.column_stack([group, *codes]), axis=0, return_inverse=True)
    split = of_row.copy()
    split[shared] = len(of_row) + exact
    return np.unique(split, return_inverse=True)[1]


def _column(values: pa.Array) -> HashArray:
    """A hash of each value; what is said often is hashed once."""
    if not values.null_count and not is_text(values.type):
        return mixed(_numbers(values))
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary
    hashes = _texts(distinct) if pa.types.is_string(distinct.type) else mixed(_numbers(distinct))
    indices = encoded.indices.fill_null(len(hashes)).to_numpy()
    found: HashArray = np.append(hashes, _NULL)[indices]
    return found


def _numbers(values: pa.Array) -> HashArray:
    width = pa.int32() if values.type in (pa.int32(), pa.date32()) else pa.int64()
    found: HashArray = values.view(width).to_numpy().astype(np.int64).view(np.uint64)
    return found


def _texts(values: pa.Array) -> HashArray:
    """Of each text the sum over its bytes of the byte's own number times the place's own."""
    found: HashArray = np.zeros(len(values), dtype=np.uint64)
    if not len(values):
        return found
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    raw = np.frombuffer(data or b"", np.uint8)
    sizes = np.diff(bounds)
    weights = mixed(np.arange(1, int(sizes.max()) + 1, dtype=np.uint64) * _EVENLY) | np.uint64(1)
    worth = mixed(np.arange(257, 513, dtype=np.uint64) * _EVENLY)
    begin = 0
    while begin < len(values):
        fitting = int(np.searchsorted(bounds, bounds[begin] + _BYTES_AT_ONCE, side="right")) - 1
        end = min(max(fitting, begin + 1), begin + _AT_ONCE, len(values))
        edges = bounds[begin : end + 1]
        place = np.arange(edges[0], edges[-1]) - np.repeat(edges[:-1], sizes[begin:end])
        products = worth[raw[edges[0] : edges[-1]]] * weights[place]
        sums = np.append(np.uint64(0), np.cumsum(products, dtype=np.uint64))[edges - edges[0]]
        found[begin:end] = np.diff(sums)
        begin = end
    return mixed(found ^ sizes.astype(np.uint64))


def mixed(numbers: HashArray) -> HashArray:
    """Each bit of each number spread over all bits (SplitMix64's last steps)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    return numbers ^ (numbers >> np.uint64(31))


def value_hashes(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> HashArray:
    """A hash of each row's values in the columns; the order of a list's values counts."""
    return row_hashes(pa.table({name: _plain(whole(rows, name)) for name in columns}), columns)


def sums(values: HashArray, starts: IntArray) -> HashArray:
    """The sums of the values from each start to before the next, the last to the end; ``starts`` ascend."""
    total = np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))
    return total[np.append(starts[1:], len(values))] - total[starts] if len(starts) else values[:0]


def _plain(values: pa.Array) -> pa.Array:
    """Values of a type that is hashed as it is: of lists and structs their own hashes, null where they are."""
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int32())
    if pa.types.is_list(values.type):
        return _hashed(_lists(values), values)
    if pa.types.is_struct(values.type):
        fields = {field.name: _plain(pc.struct_field(values, field.name)) for field in values.type}
        return _hashed(row_hashes(pa.table(fields), list(fields)), values)
    return values


def _hashed(hashes: HashArray, values: pa.Array) -> pa.Array:
    return pa.array(hashes.view(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))


def _lists(values: pa.Array) -> HashArray:
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    inner = values.flatten()
    own = row_hashes(pa.table({"value": _plain(inner)}), ["value"])
    starts = np.cumsum(sizes) - sizes
    places = (np.arange(len(own)) - np.repeat(starts, sizes)).astype(np.uint64)
    return sums(mixed(own + places * _EVENLY), starts) + mixed(sizes.astype(np.uint64))


def places_of_keys(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> IntArray:
    """For each of ``rows`` the place of a row of ``others`` with the same key, -1: there is none; null equals null.

    Of several with that key, the last.
    """
    both = pa.concat_tables([rows.select(list(key)), others.select(list(key))], promote_options="default")
    group = groups_of(both, key).of_row
    of_group: IntArray = np.full(int(group.max()) + 1 if len(group) else 0, -1, dtype=np.int64)
    of_group[group[len(rows) :]] = np.arange(len(others))
    found: IntArray = of_group[group[: len(rows)]]
    return found


def have_keys_of(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> BoolArray:
    """For each of ``rows``, whether one of ``others`` has the same key."""
    found: BoolArray = places_of_keys(rows, others, key) >= 0
    return found
