"""Rows in, per cluster and date their number and an order-free digest of some of their columns out.

Digests of pieces add up to that of the whole, so rows may be looked at wherever they lie and in any split.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.row_hashes import row_hashes

SUMMED = pa.schema(
    [("cluster", pa.string()), ("event_date", pa.date32()), ("rows", pa.int64()), ("digest", pa.int64())]
)
_DATE = ["cluster", "event_date"]


class DateDigest(NamedTuple):
    """The number of a date's rows, and the sum of their hashes modulo 2^64; nested values count as their JSON."""

    rows: int
    digest: int


def by_date(rows: pa.Table, columns: Sequence[str] = ()) -> pa.Table:
    """Per cluster and date (``SUMMED``) the rows, and a digest of ``columns``; of none it is 0."""
    hashes = row_hashes(_plain(rows, columns), columns).view(np.int64) if columns else np.zeros(len(rows), np.int64)
    dated = rows.select(_DATE).append_column("rows", pa.array(np.ones(len(rows), np.int64)))
    return _added(dated.append_column("digest", pa.array(hashes)))


def digests_of(pieces: pa.Table) -> list[tuple[str, date, DateDigest]]:
    """What the pieces (``SUMMED``) add up to: cluster, date and digest, in order."""
    added = _added(pieces).sort_by([(name, "ascending") for name in _DATE])
    values = (added.column(name).to_pylist() for name in SUMMED.names)
    return [(c, day, DateDigest(n, h % 2**64)) for c, day, n, h in zip(*values, strict=True)]


def dates_in(rows: pa.Table) -> list[tuple[str, date]]:
    """The clusters and dates that rows are of."""
    found = rows.group_by(_DATE).aggregate([])
    return list(zip(*(found.column(name).to_pylist() for name in _DATE), strict=True))


def _added(pieces: pa.Table) -> pa.Table:
    """Sums by cluster and date; Arrow's wrap around, as sums modulo 2^64 must."""
    summed = pieces.group_by(_DATE).aggregate([("rows", "sum"), ("digest", "sum")])
    return summed.rename_columns({"rows_sum": "rows", "digest_sum": "digest"}).select(SUMMED.names).cast(SUMMED)


def _plain(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The columns as texts, whole numbers and instants."""
    return pa.table({name: _column(rows.column(name)) for name in columns})


def _column(values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    kind = values.type
    if pa.types.is_nested(kind):
        texts = (None if value is None else orjson.dumps(value).decode() for value in values.to_pylist())
        return pa.array(list(texts), pa.string())
    if pa.types.is_boolean(kind):
        return values.cast(pa.int32())
    if pa.types.is_floating(kind):
        return pc.fill_null(values, 0.0).combine_chunks().view(pa.int64())
    return values
