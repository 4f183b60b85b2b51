"""Landing files as frames: their parsed and judged lines, one Spark task a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from jobs.landing_lines import ReadOptions, read_file
from jobs.landing_survey import LandingFile
from schemas import TABLES, Table
from udfs.landing_formats import FORMATS
from udfs.parsed_line import ParsedLine
from udfs.plain_rows import LINE_NUMBER

_BATCH_LINES = 2_000
_BATCH_BYTES = 4 << 20
_WITH_DOUBTS = frozenset(table.name for table in TABLES.values() if "doubts" in table.columns.names)
_COMMON = frozenset(
    {"cluster", "event_date", "round_at", "source", "source_file", "source_line", "ingested_at", "run_id"}
)

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
                for read in read_file(file, options, _WITH_DOUBTS):
                    if read.rows.num_rows:
                        yield _plain_rows(file, read.rows, schema)
                    for parsed in _batches(read.others):
                        rows = _rows(file, parsed, options.max_raw_text_chars)
                        yield pa.RecordBatch.from_pylist(rows, schema=schema)
                    if read.ignored:
                        yield pa.RecordBatch.from_pylist([_ignored(file, read.ignored)], schema=schema)

    return read_files


def _plain_rows(file: LandingFile, rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Rows that were read together, in the columns of ``parsed_lines``; of such lines nobody asks for the bytes."""
    plain = FORMATS[file.format].plain
    assert plain is not None, "no rows are read together otherwise"
    count = rows.num_rows
    fields = list(schema.field(plain.table).type)
    there = rows.column_names
    columns = [rows.column(f.name).combine_chunks() if f.name in there else pa.nulls(count, f.type) for f in fields]
    known = {
        **{name: pa.repeat(value, count) for name, value in file._asdict().items()},
        "line_number": rows.column(LINE_NUMBER).combine_chunks(),
        "lines": pa.repeat(1, count),
        plain.table: pa.StructArray.from_arrays(columns, fields=fields),
    }
    return pa.RecordBatch.from_arrays(
        [known[f.name] if f.name in known else pa.nulls(count, f.type) for f in schema], schema=schema
    )


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
        rows.append(_ignored(file, ignored))
    return rows


def _ignored(file: LandingFile, lines: int) -> dict[str, Any]:
    return {"cluster": file.cluster, "format": file.format, "file": file.file, "lines": lines, "ignored": True}
