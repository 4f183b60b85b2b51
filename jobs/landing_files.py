"""Reads bytes: lists landing files and turns them into parsed and judged lines, one Spark task a file.

Spark's own text and JSON sources have no line numbers, die on a truncated gzip and read a whole line at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from jobs.landing_root import LandingRoot, Listing
from jobs.run_log import tell
from schemas import TABLES, Table
from udfs.bounded_lines import Line, Refusal, read_lines
from udfs.canonical_lines import lines_of_rows
from udfs.door import judged
from udfs.door_rules import Severity
from udfs.landing_formats import FORMATS, LandingFormat
from udfs.mqadmin_lines import with_command
from udfs.parsed_line import ERROR_CHARS, LandedFile, ParsedLine

_CHUNK_BYTES = 1 << 20
_BATCH_LINES = 2_000
_BATCH_BYTES = 4 << 20
# Of a Parquet file: one that announces more rows was made to cost. Rows of rounds that repeat take few bytes.
_MOST_ROWS_A_BYTE = 1_000
_ROWS_FREELY = 10_000_000
_CLUSTER_FOLDER = re.compile(r"cluster=([A-Za-z0-9_.\-]{1,255})")
# Refusals that end a file: what followed is not there.
ENDS_FILE = frozenset({"TRUNCATED_GZIP", "CORRUPT_GZIP", "NOT_GZIP", "NOT_PARQUET", "ARCHIVE_BOMB"})
_WITH_DOUBTS = frozenset(table.name for table in TABLES.values() if "doubts" in table.columns.names)
_COMMON = frozenset(
    {"cluster", "event_date", "round_at", "source", "source_file", "source_line", "ingested_at", "run_id"}
)


class LandingFile(NamedTuple):
    """A file to take in; ``file`` is its path relative to the landing root.

    ``size_bytes`` counts the list of commands beside it too: when that changes the file is read again.
    """

    cluster: str
    format: str
    file: str
    size_bytes: int


class ReadOptions(NamedTuple):
    """Plain values that travel to the workers."""

    landing: str
    max_line_bytes: int
    max_raw_text_chars: int
    zones: dict[str, str]
    default_zone: str
    severities: dict[str, Severity]


_FILE_LIST = "position long, file struct<cluster string, format string, file string, size_bytes long>"

LINE_COLUMNS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("format", StringType()),
        StructField("file", StringType()),
        StructField("line_number", LongType()),
        StructField(
            "lines", LongType()
        ),  # lines this row stands for: 1, or a count of ignored ones; 0 for more records
        StructField("ignored", BooleanType()),
        StructField("byte_start", LongType()),
        StructField("byte_end", LongType()),
        StructField("reason_code", StringType()),
        StructField("detail", StringType()),
        StructField("raw_text", StringType()),
    ]
)


def list_landing(landing: str, formats: Iterable[LandingFormat]) -> list[LandingFile]:
    """The files under ``<landing>/<format>/cluster=<name>/``, sorted; an absent folder holds none.

    Hidden files and names that no pattern of the format matches are left alone, and so is what is no file.
    """
    root = LandingRoot(landing)
    found: list[LandingFile] = []
    for landing_format in formats:
        listing = root.list(landing_format.name)
        if listing.left_alone:
            beside = {"paths": len(listing.left_alone), "example": ascii(min(listing.left_alone))}
            tell("leaves alone what is no file", format=landing_format.name, **beside)
        found += files_of(landing_format, listing)
    return sorted(found)


def files_of(landing_format: LandingFormat, listing: Listing) -> Iterator[LandingFile]:
    """The files to take in of what stands in the folder of a format."""
    commands = {_folder(file.path): file.size for file in listing.files if file.name == landing_format.commands}
    for file in listing.files:
        cluster = _CLUSTER_FOLDER.fullmatch(file.path.removeprefix(f"{landing_format.name}/").partition("/")[0])
        if cluster and _is_of(landing_format, file.name):
            size = file.size + commands.get(_folder(file.path), 0)
            yield LandingFile(cluster.group(1), landing_format.name, file.path, size)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_of(landing_format: LandingFormat, name: str) -> bool:
    plain = name.removesuffix(".gz")
    return not name.startswith((".", "_")) and any(fnmatchcase(plain, p) for p in landing_format.patterns)


def record_schema(table: Table) -> StructType:
    """What a parser can set of a table's row: no lineage, instants as epoch milliseconds."""
    return StructType(
        [
            StructField(f.name, LongType() if isinstance(f.dataType, TimestampType) else f.dataType)
            for f in table.columns.fields
            if f.name not in _COMMON or f.name == table.date_of
        ]
    )


def parsed_lines(spark: SparkSession, files: list[LandingFile], options: ReadOptions) -> DataFrame:
    """One row per record or refused line of ``files``, and one per batch of ignored lines.

    Columns: ``LINE_COLUMNS`` and, for each table the formats feed, a struct that is null in rows for other tables.
    """
    fed = sorted({name for file in files for name in FORMATS[file.format].tables})
    schema = StructType([*LINE_COLUMNS.fields, *(StructField(n, record_schema(TABLES[n])) for n in fed)])
    listed = spark.createDataFrame(list(enumerate(files)), _FILE_LIST)
    one_task_a_file = listed.repartitionByRange(max(1, len(files)), "position")
    return one_task_a_file.mapInArrow(_reader(options, to_arrow_schema(schema)), schema)


def _reader(options: ReadOptions, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.column("file").to_pylist():
                file = LandingFile(**row)
                for parsed in _batches(_parse_file(file, options)):
                    rows = _rows(file, parsed, options.max_raw_text_chars)
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return read_files


def _parse_file(file: LandingFile, options: ReadOptions) -> Iterator[ParsedLine]:
    landing_format = FORMATS[file.format]
    zone = ZoneInfo(options.zones.get(file.cluster, options.default_zone))
    about = LandedFile(file.file.split("/", 2)[2])
    if landing_format.commands is not None:
        commands = f"{_folder(file.file)}/{landing_format.commands}"
        about = with_command(about, _lines(commands, options) if LandingRoot(options.landing).exists(commands) else ())
    read = _parquet_lines if file.file.endswith(".parquet") else _lines
    parsed = landing_format.parse(read(file.file, options), zone, about)
    yield from judged(parsed, options.severities, _WITH_DOUBTS)


def _lines(file: str, options: ReadOptions) -> Iterator[Line]:
    with LandingRoot(options.landing).opened(file) as stream:
        chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
        yield from read_lines(chunks, gzipped=file.endswith(".gz"), max_line_bytes=options.max_line_bytes)


def _parquet_lines(file: str, options: ReadOptions) -> Iterator[Line]:
    """The rows of a Parquet file as lines; one that is damaged ends with a refused line."""
    number = 0
    try:
        with LandingRoot(options.landing).opened(file, seekable=True) as source:
            size, rows = source.seek(0, os.SEEK_END), parquet.ParquetFile(source)
            if rows.metadata.num_rows > _ROWS_FREELY + _MOST_ROWS_A_BYTE * size:
                detail = f"{rows.metadata.num_rows} rows in {size} bytes, more than {_MOST_ROWS_A_BYTE} a byte"
                yield Line(1, 0, 0, "", Refusal("ARCHIVE_BOMB", detail))
                return
            batches = rows.iter_batches(batch_size=_BATCH_LINES)
            read = (row for batch in batches for row in batch.to_pylist())
            for line in lines_of_rows(read, max_line_bytes=options.max_line_bytes):
                number = line.number
                yield line
    except (pa.ArrowException, ValueError, OverflowError, OSError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file could not be read, which says nothing of what it holds
        yield Line(number + 1, 0, 0, "", Refusal("NOT_PARQUET", f"{type(error).__name__}: {error}"[:ERROR_CHARS]))


def _batches(parsed: Iterable[ParsedLine]) -> Iterator[list[ParsedLine]]:
    """Lines in bounded heaps: neither many lines nor a few huge ones may fill a worker's memory."""
    heap: list[ParsedLine] = []
    weight = 0
    for one in parsed:
        heap.append(one)
        weight += max(one.line.byte_end - one.line.byte_start, len(one.line.text))
        if len(heap) >= _BATCH_LINES or weight >= _BATCH_BYTES:
            yield heap
            heap, weight = [], 0
    if heap:
        yield heap


def _rows(file: LandingFile, parsed: Iterable[ParsedLine], max_raw_text_chars: int) -> list[dict[str, Any]]:
    of_file = {"cluster": file.cluster, "format": file.format, "file": file.file}
    rows: list[dict[str, Any]] = []
    ignored = 0
    for line, records, refusal in parsed:
        place = {**of_file, "line_number": line.number, "byte_start": line.byte_start, "byte_end": line.byte_end}
        if refusal is not None:
            said = {"reason_code": refusal.code, "detail": refusal.detail, "raw_text": line.text[:max_raw_text_chars]}
            rows.append({**place, "lines": 1, **said})
            rows += [{**place, "lines": 0, record.table: record.row} for record in records]
        elif records:
            rows += [{**place, "lines": int(i == 0), record.table: record.row} for i, record in enumerate(records)]
        else:
            ignored += 1
    if ignored:
        rows.append({**of_file, "lines": ignored, "ignored": True})
    return rows
