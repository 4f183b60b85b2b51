"""Whole jobs: a day of recorded rows in, as a lake stores them; the tables that are derived of it out, committed.

The other benchmarks begin behind the lake and end before it. Here are the ledger, the fleet view and its findings, the
gate and the commits too. Taking rows in is `bench.ingestion`'s.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from bench import producer_tables, windows
from bench.contest import Benchmark, Contestant
from bench.spark import session
from conf.settings_file import load_settings
from jobs import flag_allocation_drift
from jobs.delta_tables import Lake
from jobs.engines.local_lake import LocalLake
from jobs.engines.local_runner import LocalRunner
from jobs.run_context import RunContext
from jobs.run_pipeline import JOBS
from schemas import (
    ALLOCATION_DRIFT,
    BROKER_AVAILABILITY_WINDOW,
    DRIFT_INCIDENT,
    INGESTED_FILE,
    PRODUCER_INSTANCE,
    QUEUE_OWNERSHIP,
    SEND_ATTEMPT,
    Table,
)

REBUILD, FLAG_DRIFT = "rebuild_availability", "flag_allocation_drift"
FLAG_DRIFT_HERE = "flag_allocation_drift without Spark, one process"
_DAY = producer_tables.DAY


def prepare_sends(shape: producer_tables.Shape, data: Path, rows: int) -> None:
    """Write a day's attempts under ``data``, and store them in a lake."""
    producer_tables.write_tables(data, shape)
    _store(data, "producer_hook", (SEND_ATTEMPT, PRODUCER_INSTANCE))


def _store(data: Path, landing_format: str, tables: Sequence[Table]) -> None:
    """Store rows and note one landing file of them, as ingestion does."""
    spark, now = session(), datetime.now(UTC)
    lake = Lake(spark, str(data / "lake"), retention_days=load_settings(None).delta.retention_days)
    for table in tables:
        lake.append(table, spark.read.parquet(str(data / table.name)))
    lines = pq.read_table(data / tables[0].name, columns=["cluster"]).num_rows
    noted = {
        "cluster": "prod", "format": landing_format, "file": f"{landing_format}/cluster=prod/bench.jsonl",
        "size_bytes": lines, "read": lines, "stored": lines, "duplicate": 0, "ignored": 0, "quarantined": 0,
        "complete": True, "event_dates": [_DAY], "ingested_at": now, "run_id": "bench",
    }  # fmt: skip
    lake.append(INGESTED_FILE, spark.createDataFrame([noted], INGESTED_FILE.columns))


def queue_rows_of(data: Path) -> dict[str, int]:
    """(queue, round) rows that show an owner."""
    files = (data / QUEUE_OWNERSHIP.name).glob("*.parquet")
    return {"queue rows": sum(pq.read_metadata(file).num_rows for file in files)}


class WholeJob:
    """A job of the pipeline, on a copy of the lake in which nothing is derived yet."""

    def __init__(self, job: str, told: Callable[[Lake], dict[str, Any]], data: Path) -> None:
        self._job = job
        self._told = told
        self._lake = data / "lake"
        self._copy = data.parent / f"{data.name}-{job}"
        session()

    def prepare(self) -> None:
        """Copy the lake anew."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._lake, self._copy)

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """One round."""
        JOBS[self._job].run(session(), load_settings(None), RunContext(str(self._copy / "landing")), str(self._copy))
        return lambda: self._told(Lake(session(), str(self._copy), retention_days=0))


class FlagDriftHere:
    """The same of ``flag_allocation_drift``, in this process."""

    def __init__(self, data: Path) -> None:
        self._lake, self._copy = data / "lake", data.parent / f"{data.name}-here"

    def prepare(self) -> None:
        """Copy the lake anew."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._lake, self._copy)

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """One round."""
        lake = LocalLake(str(self._copy), retention_days=7)
        with LocalRunner(1) as runner:
            flag_allocation_drift.run_on(lake, runner, load_settings(None), RunContext(str(self._copy / "landing")))
        return lambda: {
            table.name: sum(file.rows or 0 for file in lake.files(table))
            for table in (ALLOCATION_DRIFT, DRIFT_INCIDENT)
        }


def _windows_told(lake: Lake) -> dict[str, Any]:
    """How many windows, for how long, and of how many updates; one that midnight cuts is one."""
    length = F.unix_millis("window_end") - F.unix_millis("window_start")
    (row,) = (
        lake.read(BROKER_AVAILABILITY_WINDOW)
        .where("state = 'unavailable'")
        .agg(
            F.count_if(~F.col("continues_previous")).alias("n"), F.sum(length).alias("ms"), F.sum("attempts").alias("u")
        )
        .collect()
    )
    return {windows.WINDOWS: [row.n, row.ms, row.u]}


def _drift_told(lake: Lake) -> dict[str, Any]:
    return {table.name: lake.read(table).count() for table in (ALLOCATION_DRIFT, DRIFT_INCIDENT)}


CONTESTANTS = {
    REBUILD: partial(WholeJob, REBUILD, _windows_told),
    FLAG_DRIFT: partial(WholeJob, FLAG_DRIFT, _drift_told),
    FLAG_DRIFT_HERE: FlagDriftHere,
}
_HERE, _SENDS, _PEERS = "bench.whole_jobs", "bench.windows", "bench.windows_peers"


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
            Contestant("scan", _SENDS),
            Contestant("own windows and verdicts", _SENDS, covers=(windows.WINDOWS,)),
            Contestant(REBUILD, _HERE, covers=(windows.WINDOWS,)),
            Contestant("DuckDB", _PEERS, peer=True, covers=(windows.WINDOWS,)),
            Contestant("Polars", _PEERS, peer=True, covers=(windows.WINDOWS,)),
        ),
        floor="scan",
        peers=("DuckDB", "Polars"),
        targets=(),
    ),
)
