"""The readers of landing files: bytes in, judged rows out, in MB per second and core, without Spark, Arrow or Delta.

What is timed is what a worker does with a file before its rows become Arrow: bytes to lines, lines to rows, rows
judged at the door. Beside it, on the same files: Spark's plain text reader (the floor), and for lines of JSON
``json.loads`` alone and Spark's own JSON reader, which is given the schema. Where a line holds a document as text,
Spark's reader leaves that unread; it is measured once more on lines that hold it unfolded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from bench.contest import Benchmark, Contestant, SpeedTarget, Target
from bench.reader_inputs import INPUTS, LINES, MAX_LINE_BYTES, UNFOLDED, Input, chunks_of, files_of, prepare
from bench.spark import session
from hindsight.schemas import TABLES
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.lines.bounded_lines import read_lines

Run = Callable[[], Callable[[], dict[str, Any]]]
_WITH_DOUBTS = frozenset(name for name, table in TABLES.items() if "doubts" in table.columns.names)
_CLIENT_LOG_MB_PER_S = 20.0
_MAPS = frozenset(
    {"brokerAddrs", "mqPopTable", "mqTable", "offsetTable", "properties", "statusTable", "subscriptionTable"}
)


def rows_of(data: Path) -> dict[str, int]:
    """Lines."""
    return {LINES: sum(chunk.count(b"\n") for path in files_of(data) for chunk in chunks_of(path))}


def megabytes_of(data: Path) -> float:
    """Size of the files, plain."""
    return sum(path.stat().st_size for path in files_of(data)) / 1e6


def _own(given: Input, data: Path) -> Run:
    reader = PARSERS[given.format]

    def run() -> Callable[[], dict[str, Any]]:
        count = 0
        for path in files_of(data):
            lines = read_lines(chunks_of(path), gzipped=False, max_line_bytes=MAX_LINE_BYTES)
            count += sum(1 for _ in judged(reader(lines, UTC, given.about), severities({}), _WITH_DOUBTS))
        return lambda: {LINES: count}

    return run


def _json_loads(data: Path) -> Run:
    def run() -> Callable[[], dict[str, Any]]:
        count = 0
        for path in files_of(data):
            with path.open("rb") as file:
                count += sum(1 for _ in map(json.loads, file))
        return lambda: {LINES: count}

    return run


def _spark_text(data: Path) -> Run:
    return _by_spark(session().read.text(str(data / LINES)))


def _spark_json(data: Path) -> Run:
    read, place = session().read, str(data / LINES)
    return _by_spark(read.schema(read.json(place).schema).json(place))


def _spark_json_unfolded(data: Path) -> Run:
    read, place = session().read, str(data / UNFOLDED)
    return _by_spark(read.schema(_with_maps(read.json(place).schema)).json(place))


def _with_maps(kind: DataType, name: str = "") -> Any:
    """The schema that Spark infers, but for the maps, of which each key would be a column."""
    if isinstance(kind, ArrayType):
        return ArrayType(_with_maps(kind.elementType))
    if not isinstance(kind, StructType):
        return kind
    if name in _MAPS and kind.fields:
        return MapType(StringType(), _with_maps(kind.fields[0].dataType))
    return StructType([StructField(f.name, _with_maps(f.dataType, f.name)) for f in kind.fields])


def _by_spark(frame: DataFrame) -> Run:
    def run() -> Callable[[], dict[str, Any]]:
        frame.write.format("noop").mode("overwrite").save()
        return lambda: {LINES: frame.count()}

    return run


_HERE = "bench.parser_throughput"
_TEXT, _LOADS, _JSON, _UNFOLDED = "Spark text", "json.loads", "Spark JSON", "Spark JSON, unfolded"
CONTESTANTS: dict[str, Callable[[Path], Run]] = {
    _TEXT: _spark_text,
    _LOADS: _json_loads,
    _JSON: _spark_json,
    _UNFOLDED: _spark_json_unfolded,
    **{given.name: partial(_own, given) for given in INPUTS},
}


def _benchmark(given: Input) -> Benchmark:
    json_readers = (_LOADS, _JSON, _UNFOLDED) if given.holds_documents else (_LOADS, _JSON)
    beside = (_TEXT, *(json_readers if given.is_json else ()))
    # Who reads as much: a document that is left as text costs Spark nothing.
    ratio = Target("no more than 3 times the CPU of Spark's own JSON reader", given.name, beside[-1], 3)
    speed = SpeedTarget("client logs at no less than 20 MB/s per core", given.name, _CLIENT_LOG_MB_PER_S)
    return Benchmark(
        name=given.name,
        title=f"Reader of {given.format}: {given.title}",
        rows=given.rows,
        prepare=partial(prepare, given),
        rows_of=rows_of,
        megabytes_of=megabytes_of,
        contestants=[Contestant(name, _HERE, covers=(LINES,)) for name in (given.name, *beside)],
        floor=_TEXT,
        peers=beside[1:],
        targets=(ratio,) if given.is_json else (),
        speeds=(speed,) if given.format == "client_log" else (),
    )


BENCHMARKS = tuple(map(_benchmark, INPUTS))
