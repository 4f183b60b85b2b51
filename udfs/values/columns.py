"""Arrow's columns in, the arrays and values that kernels take out; instants are epoch us, dates those of UTC."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
NEVER, FAR = -(1 << 62), 1 << 62  # before and after every instant, epoch us
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS, DAY_US = 86_400_000, 86_400_000_000
_MOST_ROOM = 1 << 62


def whole(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column as one array."""
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def flags(condition: pa.Array | pa.ChunkedArray, *, instead: bool = False) -> BoolArray:
    """A condition, ``instead`` where it is null."""
    found: BoolArray = pc.fill_null(condition, instead).to_numpy(zero_copy_only=False)
    return found


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


def microseconds(rows: pa.Table | pa.RecordBatch, name: str) -> IntArray:
    """A column of instants as epoch us, or of whole numbers as they are; NEVER for null."""
    column = whole(rows, name)
    found: IntArray = column.cast(pa.int64()).fill_null(NEVER).to_numpy(zero_copy_only=False)
    return found


def instant(at_us: int) -> datetime:
    """Epoch us as an instant."""
    return EPOCH + timedelta(microseconds=at_us)


def near(dates: Collection[date], steps: Collection[int] = (-1, 0, 1)) -> list[date]:
    """The dates and those beside them."""
    return sorted({day + timedelta(days=step) for day in dates for step in steps})


def ranks(rows: pa.Table | pa.RecordBatch, name: str) -> IntArray:
    """Numbers in the order of a column's values, equal for equal ones; null first."""
    column = whole(rows, name)
    if not is_text(column.type):
        return microseconds(rows, name)
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    rank = np.zeros(len(values) + 1, np.int64)
    rank[sorted(range(len(values)), key=values.__getitem__)] = np.arange(1, len(values) + 1)
    of_each: IntArray = rank[encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)]
    return of_each


def differs(*columns: npt.NDArray[Any]) -> BoolArray:
    """Where one of the columns differs from the row before; the first row does."""
    found: BoolArray = np.ones(len(columns[0]), np.bool_)
    found[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return found


def on_dates(rows: pa.Table, dates: Collection[date]) -> BoolArray:
    """Which rows have one of the dates as ``event_date``."""
    return flags(pc.is_in(rows["event_date"], pa.array(sorted(dates), pa.date32())))


class Values(NamedTuple):
    """A column of many rows, of which few are taken in at a time, often, as Python's values.

    Attributes:
        values: of each row; or, where there are ``codes``, each distinct one once, None last.
        codes: of each row, the place of its value; -1: null.
    """

    values: npt.NDArray[Any]
    codes: IntArray | None = None

    def of(self, rows: slice) -> list[Any]:
        """The values of some rows."""
        if len(self.values) == 1 and self.codes is not None:
            return [None] * (rows.stop - rows.start)
        found: list[Any] = (self.values[rows] if self.codes is None else self.values[self.codes[rows]]).tolist()
        return found


def values_of(rows: pa.Table | pa.RecordBatch, name: str) -> Values:
    """A column; each distinct text is taken in once."""
    column = whole(rows, name)
    if pa.types.is_integer(column.type) and not column.null_count:
        return Values(column.to_numpy())
    encoded = column.dictionary_encode()
    values = np.empty(len(encoded.dictionary) + 1, dtype=object)
    values[:-1] = encoded.dictionary.to_pylist()
    return Values(values, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
