"""Columns of Arrow rows in, whole arrays out; and the kinds of numpy arrays that kernels take and give."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def whole(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column as one array."""
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
