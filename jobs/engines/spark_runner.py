"""Kernels in Spark's Python workers; blobs are rows of a staged frame, and meet by a shuffle of their key.

A lake that a run on Spark holds: a place in; the lake with its lease, what runs kernels, and the run out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.runner import (
    Blob,
    Entry,
    Given,
    Kernel,
    KeyKernel,
    RowKernel,
    Spool,
    by_key,
    packed,
    unpacked,
)
from hindsight.jobs.engines.spark_sql import staged
from hindsight.jobs.engines.spark_workers import Batches, PackedRows, by_workers, tasks_frame, tasks_of
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.scratch_folder import ScratchFolder
from hindsight.jobs.running.spark_session import spark_session
from hindsight.jobs.running.terminal import progress

_BLOB = "name string, key long, place long, rows binary"
_SCHEMA = pa.schema([("name", pa.string()), ("key", pa.int64()), ("place", pa.int64()), ("rows", pa.binary())])
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_BATCH_BYTES = 64 << 20


class SparkBlobs:
    """Blobs as rows of a staged frame."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    def of(self, *names: str) -> SparkBlobs:
        """See ``Blobs``."""
        return SparkBlobs(self.frame.where(F.col("name").isin(*names)))

    def tables(self, name: str) -> Iterator[pa.Table]:
        """See ``Blobs``."""
        own = self.frame.where(F.col("name") == name).select("key", "place", "rows").toArrow()
        in_order = np.lexsort((own["place"], own["key"]))  # here: Spark would sample and shuffle for it
        return (unpacked(own["rows"][place].as_buffer()) for place in in_order)

    def rows(self, name: str, schema: pa.Schema) -> PackedRows:
        """See ``Blobs``."""
        return PackedRows(self.frame.where(F.col("name") == name).select("rows"), schema)


class SparkRunner:
    """Runs kernels in Spark's workers."""

    def __init__(self, spark: SparkSession) -> None:
        # A batch is counted in rows otherwise, and a row is a blob here; what is read of one later is bounded too.
        spark.conf.set(_BATCH_BYTES, str(_MOST_BATCH_BYTES))
        self._spark = spark

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> SparkBlobs:
        """See ``Runner``."""
        return _kept(tasks_frame(self._spark, tasks), partial(_of_tasks, kernel))

    def over(self, kernel: RowKernel, rows: DataFrame) -> SparkBlobs:
        """See ``Runner``."""
        return _kept(rows, partial(_of_rows, kernel))

    def together(self, *given: SparkBlobs) -> SparkBlobs:
        """See ``Runner``."""
        return SparkBlobs(reduce(DataFrame.union, (blobs.frame for blobs in given)))

    def by_key(self, kernel: KeyKernel, *given: SparkBlobs) -> SparkBlobs:
        """See ``Runner``."""
        frame = self.together(*given).frame
        return _kept(frame.repartition("key"), partial(_of_keys, kernel))


def _kept(rows: DataFrame, blobs_of: Callable[[Batches], Iterator[Blob]]) -> SparkBlobs:
    return SparkBlobs(staged(by_workers(rows, partial(_packed, blobs_of), _BLOB)))


def _packed(blobs_of: Callable[[Batches], Iterator[Blob]], batches: Batches) -> Batches:
    for blob in blobs_of(batches):
        yield from _as_batches(blob)


def _of_tasks(kernel: Kernel, batches: Batches) -> Iterator[Blob]:
    for task in tasks_of(batches):
        yield from kernel(task)


def _of_rows(kernel: RowKernel, batches: Batches) -> Iterator[Blob]:
    for batch in batches:
        yield from kernel(pa.Table.from_batches([batch]))


def _of_keys(kernel: KeyKernel, batches: Batches) -> Iterator[Blob]:
    with ScratchFolder() as scratch:
        for key, entries in by_key(_spooled(batches, scratch)).items():
            yield from kernel(key, Given(entries))


def _spooled(batches: Batches, scratch: Path) -> list[Entry]:
    spool = Spool(scratch / "blobs.arrow")
    for batch in batches:
        places = zip(*(batch.column(name).to_pylist() for name in ("name", "key", "place")), strict=True)
        for (name, key, place), rows in zip(places, batch.column("rows"), strict=True):
            spool.add((name, key, place), rows.as_buffer())
    spool.close()
    return spool.entries


def _as_batches(blob: Blob) -> Batches:
    for each in packed(blob.rows):
        offsets = np.array([0, len(each)], np.int32)
        rows = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), each])
        columns = [*(pa.array([value]) for value in blob[:3]), rows]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def lake_and_runner(
    spark: SparkSession, settings: Settings, context: RunContext, lake_root: str
) -> tuple[Lake, SparkRunner]:
    """The lake at a place, and what runs kernels beside it."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    return lake, SparkRunner(spark)


@contextmanager
def opened_on_spark(
    lake_root: str, settings: Settings, context: RunContext, *, name: str, master: str | None, wait_s: float = 0
) -> Iterator[tuple[Lake, SparkRunner, RunContext]]:
    """A session of its own, in which the run holds the lake.

    Raises: SparkEnvironmentError: Spark does not start. LakeHeldError: another run holds the lake, and has not ended
    within ``wait_s`` seconds.
    """
    with (
        spark_session(settings, app_name=f"hindsight {name}", master=master) as spark,
        progress(spark.sparkContext),
        held(spark, lake_root, context, wait_s=wait_s) as holding,
    ):
        yield (*lake_and_runner(spark, settings, holding, lake_root), holding)
