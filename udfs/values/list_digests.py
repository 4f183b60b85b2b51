"""Lists of texts and numbers in, digests of 64 bits out: equal for equal lists, in every run and on every machine.

The digest is XXH64 with seed 42, each value's hash the seed of the next: what Spark's ``xxhash64`` gives, so digests
that were stored before stay comparable. Nulls leave no trace in it and nested lists no border: lists in lists come with
their sizes, what may be null as ''.
"""

from __future__ import annotations

from collections.abc import Iterable

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
