"""Columns of numbers and texts in, a table of the canonical contract as Parquet out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from hindsight.schemas import Table


def write(path: Path, table: Table, columns: Mapping[str, Any]) -> None:
    """Write one file. Instants and dates are epoch milliseconds; (values, mask) marks nulls; what is absent is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = to_arrow_schema(table.columns, timezone="UTC")
    count = len(columns["cluster"])
    arrays = []
    for field in schema:
        given = columns.get(field.name)
        if given is None and not field.nullable and count:
            raise ValueError(f"{table.name}.{field.name} may not be null, and no value was drawn; give it one.")
        arrays.append(pa.nulls(count, field.type) if given is None else _array(given, field.type))
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, row_group_size=250_000)


def same(value: Any, count: int) -> pa.Array:
    """One value, repeated."""
    return pa.repeat(value, count)


def texts(values: Sequence[str], places: Any) -> pa.Array:
    """The texts at these places of ``values``."""
    return pa.DictionaryArray.from_arrays(
        pa.array(places, pa.int32()), pa.array(values, pa.string())
    ).dictionary_decode()


def _array(given: Any, kind: pa.DataType) -> pa.Array:
    values, mask = given if isinstance(given, tuple) else (given, None)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(np.asarray(values, dtype=np.int64) * 1000, mask=mask).cast(kind)
    if pa.types.is_date(kind):
        return pa.array((np.asarray(values, dtype=np.int64) // 86_400_000).astype(np.int32), pa.int32()).cast(kind)
    return pa.array(values, kind, mask=mask)
