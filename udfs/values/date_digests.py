"""Rows in, per cluster and date their number and an order-free digest of some of their columns out.

Digests of pieces add up to that of the whole, so rows may be looked at wherever they lie and in any split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    plain = pa.table({name: _plain(rows.column(name)) for name in columns})
    hashes = row_hashes(plain, columns).view(np.int64) if columns else np.zeros(len(rows), np.int64)
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


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column as texts, whole numbers or instants."""
    kind = values.type
    if pa.types.is_nested(kind):
        texts = (None if value is None else orjson.dumps(value).decode() for value in values.to_pylist())
        return pa.array(list(texts), pa.string())
    if pa.types.is_boolean(kind):
        return values.cast(pa.int32())
    if pa.types.is_floating(kind):
        return pc.fill_null(values, 0.0).combine_chunks().view(pa.int64())
    return values


_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ALL = (1 << 64) - 1
_SEED = 42


def digest(*values: object) -> str:
    """16 hex digits; values: texts, whole numbers of 32 bits, None, and lists and tuples of such."""
    return f"{_chained(values, _SEED):016x}"


def list_digest(values: list[str] | tuple[str, ...]) -> str:
    """The digest of a list."""
    return digest(len(values), values)


def _chained(values: Iterable[object], seed: int) -> int:
    for value in values:
        if isinstance(value, str):
            seed = _xxh64(value.encode("utf-8", "surrogatepass"), seed)
        elif isinstance(value, int):
            seed = _xxh64((value & 0xFFFFFFFF).to_bytes(4, "little"), seed)
        elif isinstance(value, (list, tuple)):
            seed = _chained(value, seed)
    return seed


def _xxh64(data: bytes, seed: int) -> int:
    size, place = len(data), 0
    if size >= 32:
        found, place = _lanes(data, seed)
    else:
        found = (seed + _P5) & _ALL
    found = (found + size) & _ALL
    while place + 8 <= size:
        found = _turned(found ^ _round(0, data[place : place + 8]), 27) * _P1 + _P4 & _ALL
        place += 8
    if place + 4 <= size:
        found ^= int.from_bytes(data[place : place + 4], "little") * _P1 & _ALL
        found = _turned(found, 23) * _P2 + _P3 & _ALL
        place += 4
    for byte in data[place:]:
        found = _turned(found ^ byte * _P5 & _ALL, 11) * _P1 & _ALL
    found = (found ^ found >> 33) * _P2 & _ALL
    found = (found ^ found >> 29) * _P3 & _ALL
    return found ^ found >> 32


def _lanes(data: bytes, seed: int) -> tuple[int, int]:
    """The hash of all whole blocks of 32 bytes, and where they end."""
    lanes = [(seed + _P1 + _P2) & _ALL, (seed + _P2) & _ALL, seed, (seed - _P1) & _ALL]
    end = len(data) // 32 * 32
    for block in range(0, end, 32):
        lanes = [_round(lane, data[block + 8 * i : block + 8 * i + 8]) for i, lane in enumerate(lanes)]
    found = sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
    for lane in lanes:
        found = ((found ^ _turned(lane * _P2 & _ALL, 31) * _P1 & _ALL) * _P1 + _P4) & _ALL
    return found, end


def _round(lane: int, eight: bytes) -> int:
    return _turned(lane + int.from_bytes(eight, "little") * _P2 & _ALL, 31) * _P1 & _ALL


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _ALL
