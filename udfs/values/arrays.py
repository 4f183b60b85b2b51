"""Columns of Arrow rows in, whole arrays out; and the kinds of numpy arrays that kernels take and give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
_MOST_ROOM = 1 << 62


def whole(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column as one array."""
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, each by itself or as the number of one in a dictionary."""
    return bool(pa.types.is_string(kind) or (pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)))


def chosen(rows: pa.Table, wanted: BoolArray) -> pa.Table:
    """The rows that are wanted; where all are, they are not copied."""
    return rows if wanted.all() else rows.filter(pa.array(wanted))


def with_dictionaries(rows: pa.Table) -> pa.Table:
    """Rows whose texts are numbers of a dictionary, one for each column."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            rows = rows.set_column(place, field.name, whole(rows, field.name).dictionary_encode())
    return rows


def order_of(keys: Sequence[IntArray]) -> IntArray:
    """The places of rows in the order of keys, the first of which counts most; equal ones stay in order."""
    packed, room = np.zeros(len(keys[0]), np.int64), 1
    for key in keys if len(packed) else ():
        # Sorting one number a row is far cheaper than a sort for each key.
        key = key - key.min()
        if int(key.max()) > len(key):
            key = np.unique(key, return_inverse=True)[1]
        span = int(key.max()) + 1
        if room > _MOST_ROOM // span:
            return np.lexsort(keys[::-1])
        packed, room = packed * span + key, room * span
    return np.argsort(packed, kind="stable")
