"""Columns of any type in, lists and structs too; one 64-bit hash a row out: equal rows have equal hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.arrays import IntArray, whole
from hindsight.udfs.values.row_hashes import HashArray, mixed, row_hashes

_PLACE = np.uint64(0x9E3779B97F4A7C15)


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
    return sums(mixed(own + places * _PLACE), starts) + mixed(sizes.astype(np.uint64))
