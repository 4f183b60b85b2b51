"""Reads bytes: lists landing files and turns them into parsed lines, one Spark task a file.

The only place that opens landing files, through pyarrow.fs: local paths and object stores alike. Spark's own text
and JSON sources have no line numbers, die on a truncated gzip and read a whole line at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from schemas import TABLES, Table
from udfs.bounded_lines import read_lines
from udfs.landing_formats import FORMATS, LandingFormat
from udfs.parsed_line import ParsedLine

_CHUNK_BYTES = 1 << 20
_BATCH_LINES = 2_000
_BATCH_BYTES = 4 << 20
_CLUSTER_FOLDER = re.compile(r"cluster=([A-Za-z0-9_.\-]{1,255})")
# Refusals that end a file: what followed is not there.
ENDS_FILE = frozenset({"TRUNCATED_GZIP", "CORRUPT_GZIP", "NOT_GZIP"})
_COMMON = frozenset(
    {"cluster", "event_date", "round_at", "source", "source_file", "source_line", "ingested_at", "run_id"}
)


class LandingFile(NamedTuple):
    """A file to take in; ``file`` is its path relative to the landing root."""

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

    Hidden files and names that no pattern of the format matches are left alone.
    """
    system, root = _file_system(landing)
    found = []
    for landing_format in formats:
        folder = fs.FileSelector(f"{root}/{landing_format.name}", recursive=True, allow_not_found=True)
        for info in system.get_file_info(folder):
            relative = info.path.removeprefix(root).lstrip("/")
            cluster = _CLUSTER_FOLDER.fullmatch(relative.split("/")[1])
            if info.type == fs.FileType.File and cluster and _is_of(landing_format, info.base_name):
                found.append(LandingFile(cluster.group(1), landing_format.name, relative, info.size))
    return sorted(found)


def _is_of(landing_format: LandingFormat, name: str) -> bool:
    plain = name.removesuffix(".gz")
    return not name.startswith((".", "_")) and any(fnmatchcase(plain, p) for p in landing_format.patterns)


def _file_system(landing: str) -> tuple[fs.FileSystem, str]:
    if "://" in landing:
        system, path = fs.FileSystem.from_uri(landing)
        return system, path.rstrip("/")
    return fs.LocalFileSystem(), landing.rstrip("/")


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
    system, root = _file_system(options.landing)
    zone = ZoneInfo(options.zones.get(file.cluster, options.default_zone))
    with system.open_input_stream(f"{root}/{file.file}", compression=None) as stream:
        chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
        lines = read_lines(chunks, gzipped=file.file.endswith(".gz"), max_line_bytes=options.max_line_bytes)
        yield from FORMATS[file.format].parse(lines, zone)


def _batches(parsed: Iterable[ParsedLine]) -> Iterator[list[ParsedLine]]:
    """Lines in bounded heaps: neither many lines nor a few huge ones may fill a worker's memory."""
    heap: list[ParsedLine] = []
    weight = 0
    for one in parsed:
        heap.append(one)
        weight += one.line.byte_end - one.line.byte_start
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
        elif records:
            rows += [{**place, "lines": int(i == 0), record.table: record.row} for i, record in enumerate(records)]
        else:
            ignored += 1
    if ignored:
        rows.append({**of_file, "lines": ignored, "ignored": True})
    return rows
