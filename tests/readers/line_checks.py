"""What every line reader must keep to, whatever the bytes: used by the readers' own tests."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from hindsight.schemas import TABLES
from hindsight.udfs.lines.bounded_lines import Line, read_lines
from hindsight.udfs.lines.parsed_line import ParsedLine

GOLDEN = Path(__file__).parent.parent / "golden"
MAX_LINE_BYTES = 1 << 20

Parse = Callable[[Iterable[Line]], Iterator[ParsedLine]]


def lines_of(path: Path) -> list[Line]:
    chunks = [path.read_bytes()]
    return list(read_lines(chunks, gzipped=path.suffix == ".gz", max_line_bytes=MAX_LINE_BYTES))


def raw_lines(path: Path) -> list[bytes]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines(keepends=True)


def check(parse: Parse, lines: list[Line], tables: tuple[str, ...]) -> list[ParsedLine]:
    """The parsed lines: each line comes out once and in order, and every row fits its table's columns."""
    parsed = list(parse(lines))
    # Of what holds no line a format may tell that it is empty; that counts as one.
    assert [p.line for p in parsed] == (lines or [Line(1, 0, 0, "", None)] * len(parsed))
    # Of a refused line nothing is stored but that something was asked in vain.
    assert all(r.table == "snapshot_capture" and not r.row["answered"] for p in parsed if p.refusal for r in p.records)
    rows: dict[str, list[dict]] = {}
    for one in parsed:
        for record in one.records:
            rows.setdefault(record.table, []).append(record.row)
    assert rows.keys() <= set(tables)
    for name, of_table in rows.items():
        stored = pa.RecordBatch.from_pylist(of_table, schema=_arrow_schema(name))
        assert set().union(*of_table) <= set(TABLES[name].columns.names), name
        missing = [c for c in _needed(name) if stored.column(c).null_count]
        assert missing == [], (name, missing)
    return parsed


def check_bytes(parse: Parse, raw: bytes, tables: tuple[str, ...]) -> list[ParsedLine]:
    return check(parse, list(read_lines([raw], gzipped=False, max_line_bytes=MAX_LINE_BYTES)), tables)


def counts(parsed: Iterable[ParsedLine]) -> Counter[str]:
    """Rows by table and kind, refused lines by reason."""
    found: Counter[str] = Counter()
    for one in parsed:
        if one.refusal is not None:
            found[one.refusal.code] += 1
        for record in one.records:
            kind = record.row.get("kind")
            found[f"{record.table} {kind}" if kind else record.table] += 1
    return found


def check_each(parse: Parse, files: list[bytes], tables: tuple[str, ...]) -> list[ParsedLine]:
    """As ``check_bytes`` of all together; where that fails, of each, so that the failure shows the shortest input."""
    try:
        return check_bytes(parse, b"".join(files), tables)
    except Exception:
        for file in files:
            check_bytes(parse, file, tables)
        raise


_INSERTED = (b"\\ud800", b"\0", b"null", b"-1", b"[", b"}", b'"', b"\xff", b"\n", b"9" * 11, b"9" * 22)
_NUMBER = re.compile(rb"\d++")
_LENGTHS = (1, 9, 10, 13, 18, 19, 20, 30)  # digits, around the ends of Java's int and long


def damaged(random: Random, real: list[bytes]) -> bytes:
    """A real line with some of its bytes changed, cut off, left out or doubled, or others put in between."""
    line = bytearray(random.choice(real))
    for _ in range(random.randint(1, 3)):
        if not line:
            break
        at = random.randrange(len(line))
        kind = random.choice(("flip", "cut", "drop", "double", "digits", "other"))
        if kind == "flip":
            line[at] ^= 1 << random.randrange(8)
        elif kind == "cut":
            del line[at:]
        elif kind == "drop":
            del line[at : at + random.randint(1, 40)]
        elif kind == "double":
            line[at:at] = line[at : at + random.randint(1, 40)]
        elif kind == "digits":
            number = _NUMBER.search(line, at)
            line[slice(*number.span()) if number else slice(at, at)] = b"9" * random.choice(_LENGTHS)
        else:
            line[at:at] = random.choice(_INSERTED)
    return bytes(line)


@cache
def _arrow_schema(name: str) -> pa.Schema:
    fields = [
        StructField(f.name, LongType() if isinstance(f.dataType, TimestampType) else f.dataType)
        for f in TABLES[name].columns.fields
        if f.name != "event_date"
    ]
    return to_arrow_schema(StructType(fields))


_SET_BY_JOBS = {
    "cluster",
    "event_date",
    "round_at",
    "source",
    "source_file",
    "source_line",
    "ingested_at",
    "run_id",
}


@cache
def _needed(name: str) -> list[str]:
    return [f.name for f in TABLES[name].columns.fields if not f.nullable and f.name not in _SET_BY_JOBS]
