"""Bytes of a landing file in, MB per second and core of its reader out: without Spark, Arrow or Delta.

What is timed is what a worker does with a file before its rows become Arrow: bytes to lines, lines to rows, rows
judged at the door. CPU time of this process, the best of several runs, so other work on the machine matters little.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC
from typing import NamedTuple

from schemas import TABLES
from udfs.bounded_lines import read_lines
from udfs.door import judged, severities
from udfs.landing_formats import FORMATS
from udfs.parsed_line import LandedFile

_CHUNK_BYTES = 1 << 20
_MAX_LINE_BYTES = 8 << 20
_WITH_DOUBTS = frozenset(name for name, table in TABLES.items() if "doubts" in table.columns.names)


class Throughput(NamedTuple):
    """What one core reads: ``mb_per_s`` of plain bytes; ``json_mb_per_s``: its own json.loads, None: no JSON."""

    format: str
    megabytes: float
    lines: int
    mb_per_s: float
    json_mb_per_s: float | None


def parser_throughput(name: str, raw: bytes, *, about: LandedFile | None = None, runs: int = 3) -> Throughput:
    """How fast the reader of format ``name`` reads the plain (not gzipped) bytes of one file."""
    chunks = [raw[start : start + _CHUNK_BYTES] for start in range(0, len(raw), _CHUNK_BYTES)]
    file = about or LandedFile()
    lines = sum(1 for _ in read_lines(chunks, gzipped=False, max_line_bytes=_MAX_LINE_BYTES))

    def read() -> Iterable[object]:
        found = read_lines(chunks, gzipped=False, max_line_bytes=_MAX_LINE_BYTES)
        return judged(FORMATS[name].parse(found, UTC, file), severities({}), _WITH_DOUBTS)

    megabytes = len(raw) / 1e6
    is_json = raw.lstrip()[:1] == b"{"
    loads = megabytes / _best_s(lambda: map(json.loads, raw.splitlines()), runs) if is_json else None
    return Throughput(name, megabytes, lines, megabytes / _best_s(read, runs), loads)


def _best_s(work: Callable[[], Iterable[object]], runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        begun = time.process_time()
        deque(work(), maxlen=0)
        best = min(best, time.process_time() - begun)
    return best
