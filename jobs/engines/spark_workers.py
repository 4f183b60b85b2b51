"""Work in Spark's Python workers: tasks of the driver, and rows that become files of a table, which the JVM never sees.

A worker gets to the store by what Spark's own client goes by, which asks its options first.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hindsight.jobs.engines.data_files import STAGED, TableFolder, files_of_tables, table_of_files
from hindsight.jobs.engines.lake_rows import StagedFile
from hindsight.jobs.engines.runner import heaps, unpacked
from hindsight.jobs.lake.lake_place import environment_of

_TASK, _ANSWER = "number long, task binary", "answer binary"

Batches = Iterator[pa.RecordBatch]
Tables = Callable[[Batches], Iterator[pa.Table]]


def store_of(spark: SparkSession) -> dict[str, str]:
    """The environment by which others get to the store as Spark does: of spark-submit or a core-site.xml."""
    return environment_of(spark._jsc.hadoopConfiguration().get)


def tasks_frame(spark: SparkSession, tasks: Sequence[Any]) -> DataFrame:
    """Tasks as rows, each in a partition of its own."""
    listed = [(number, pickle.dumps(task)) for number, task in enumerate(tasks)]
    rows = spark.createDataFrame(listed, _TASK)
    return rows.repartitionByRange(len(tasks), "number") if len(tasks) > 1 else rows.coalesce(1)


def tasks_of(batches: Batches) -> Iterator[Any]:
    """The tasks that a worker is given."""
    for batch in batches:
        yield from map(pickle.loads, batch.column("task").to_pylist())


def by_workers(rows: DataFrame, run: Callable[[Batches], Batches], schema: pa.Schema | str) -> DataFrame:
    """What a function makes of rows in the workers, which get to the store."""
    store = store_of(rows.sparkSession)

    def with_store(batches: Batches) -> Batches:
        os.environ.update(store)
        yield from run(batches)

    return rows.mapInArrow(with_store, schema if isinstance(schema, str) else from_arrow_schema(schema))


def answers(
    spark: SparkSession, call: Callable[[Any], Any], tasks: Sequence[Any], size_of: Callable[[Any], int]
) -> list[Any]:
    """What a function gives for each task, brought to the driver: for small things only; ``size_of``: see ``heaps``."""
    if not tasks:
        return []
    found = by_workers(tasks_frame(spark, heaps(tasks, size_of)), partial(_answered, call), _ANSWER).toArrow()
    return [answer for each in found["answer"].to_pylist() for answer in pickle.loads(each)]


def _answered(call: Callable[[Any], Any], batches: Batches) -> Batches:
    for heap in tasks_of(batches):
        answer = pa.array([pickle.dumps([call(task) for task in heap])], pa.binary())
        yield pa.RecordBatch.from_arrays([answer], ["answer"])


@dataclass(frozen=True)
class PackedRows:
    """Rows that kernels gave, as ``rows`` of a frame hold them packed; ``schema``: of each of them."""

    packed: DataFrame
    schema: pa.Schema


def opened(rows: PackedRows) -> DataFrame:
    """The rows as a frame."""
    return by_workers(rows.packed, partial(_batches, partial(_unpacked, rows.schema)), rows.schema)


def staged_files(folder: TableFolder, rows: PackedRows | DataFrame) -> list[StagedFile]:
    """Rows as files of their table's folder, which workers write where the rows lie."""
    frame, tables_of = (
        (rows.packed, partial(_unpacked, rows.schema)) if isinstance(rows, PackedRows) else (rows, _tables)
    )
    return [*files_of_tables([by_workers(frame, partial(_staged, folder, tables_of), STAGED).toArrow()])]


def _staged(folder: TableFolder, tables_of: Tables, batches: Batches) -> Batches:
    yield from table_of_files(folder.stage(tables_of(batches))).to_batches()


def _batches(tables_of: Tables, batches: Batches) -> Batches:
    for rows in tables_of(batches):
        yield from rows.to_batches()


def _unpacked(schema: pa.Schema, batches: Batches) -> Iterator[pa.Table]:
    for rows in (rows for batch in batches for rows in batch.column("rows")):
        yield unpacked(rows.as_buffer()).select(schema.names).cast(schema)


def _tables(batches: Batches) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in batches)
