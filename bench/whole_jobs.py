"""Whole jobs: a day of recorded rows in, as a lake stores them; the tables that are derived of it out, committed.

The other benchmarks end before the lake. Here are the ledger, the fleet view and its findings, the gate and the commits
too. Taking rows in is `bench.ingestion`'s.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import producer_tables, windows
from bench.contest import Benchmark, Contestant
from bench.spark import run_on_spark, session
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.run_pipeline import job_of
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    ALLOCATION_DRIFT,
    BROKER_AVAILABILITY_WINDOW,
    DRIFT_INCIDENT,
    INGESTED_FILE,
    QUEUE_OWNERSHIP,
    SEND_ATTEMPT,
    Table,
)
from hindsight.schemas.arrow_types import arrow_schema

REBUILD, FLAG_DRIFT = "rebuild_availability", "flag_allocation_drift"
LOCAL_REBUILD, LOCAL_FLAG_DRIFT = (f"without Spark: {job}" for job in (REBUILD, FLAG_DRIFT))
_DAY = producer_tables.DAY
_LEDGER = arrow_schema(INGESTED_FILE)


def prepare_sends(shape: producer_tables.Shape, data: Path, rows: int) -> None:
    """Write a day's attempts under ``data``, and store them in a lake."""
    lake = windows.store(data, shape)
    lake.append(INGESTED_FILE, pa.Table.from_pylist([_noted(data, "producer_hook", SEND_ATTEMPT)], _LEDGER))


def _noted(data: Path, landing_format: str, table: Table) -> dict[str, Any]:
    lines = sum(pq.read_metadata(file).num_rows for file in (data / table.name).glob("*.parquet"))
    return {
        "cluster": "prod", "format": landing_format, "file": f"{landing_format}/cluster=prod/bench.jsonl",
        "size_bytes": lines, "read": lines, "stored": lines, "duplicate": 0, "ignored": 0, "quarantined": 0,
        "complete": True, "event_dates": [_DAY], "ingested_at": datetime.now(UTC), "run_id": "bench",
    }  # fmt: skip


def queue_rows_of(data: Path) -> dict[str, int]:
    """(queue, round) rows that show an owner."""
    files = (data / QUEUE_OWNERSHIP.name).glob("*.parquet")
    return {"queue rows": sum(pq.read_metadata(file).num_rows for file in files)}


class WholeJob:
    """A job of the pipeline, on a copy of the lake in which nothing is derived yet."""

    def __init__(self, job: str, on_spark: bool, told: Callable[[LocalLake], dict[str, Any]], data: Path) -> None:
        self._job, self._on_spark, self._told = job, on_spark, told
        self._lake = data / "lake"
        self._copy = data.parent / f"{data.name}-{job}-{'on-spark' if on_spark else 'local'}"
        if on_spark:
            session()

    def prepare(self) -> None:
        """Copy the lake anew."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._lake, self._copy)

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """One round."""
        job, settings, context = job_of(self._job), load_settings(None), RunContext(str(self._copy / "landing"))
        tables = LocalLake(str(self._copy), retention_days=settings.delta.retention_days)
        if self._on_spark:
            run_on_spark(job, settings, context, str(self._copy))
        else:
            with LocalRunner(os.cpu_count() or 1) as runner:
                job.run_on(tables, runner, settings, context)
        return lambda: self._told(tables)


def _windows_told(lake: LocalLake) -> dict[str, Any]:
    return {windows.WINDOWS: windows.told_of_windows(lake.rows(BROKER_AVAILABILITY_WINDOW))}


def _drift_told(lake: LocalLake) -> dict[str, Any]:
    return {table.name: lake.rows(table).num_rows for table in (ALLOCATION_DRIFT, DRIFT_INCIDENT)}


CONTESTANTS = {
    REBUILD: partial(WholeJob, REBUILD, True, _windows_told),
    LOCAL_REBUILD: partial(WholeJob, REBUILD, False, _windows_told),
    FLAG_DRIFT: partial(WholeJob, FLAG_DRIFT, True, _drift_told),
    LOCAL_FLAG_DRIFT: partial(WholeJob, FLAG_DRIFT, False, _drift_told),
}
_HERE, _SENDS = "bench.whole_jobs", "bench.windows"
REBUILDS = tuple(Contestant(name, _HERE, covers=(windows.WINDOWS,)) for name in (REBUILD, LOCAL_REBUILD))


def _of_rows(data: Path, rows: int) -> None:
    prepare_sends(producer_tables.Shape(rows, releases=windows.RELEASES), data, rows)


BENCHMARKS = (
    Benchmark(
        name="rebuild",
        title="The job that rebuilds availability, beside those that compute its windows alone",
        rows=3_000_000,
        prepare=_of_rows,
        rows_of=windows.rows_of,
        about=windows.about,
        contestants=(
            Contestant(windows.SCAN, _SENDS),
            *windows.FOLDS,
            *REBUILDS,
            *windows.PEERS,
        ),
        floor=windows.SCAN,
        peers=(windows.DUCKDB, "Polars"),
        targets=(),
    ),
)
