"""Ingestion: lines of producer hooks in landing files in, stored attempts out; all of one date.

Beside the job on either engine DuckDB reads the same files, keeps each attempt once and writes Parquet.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from bench.contest import Benchmark, Contestant, Target
from bench.daily import hook_lines
from bench.spark import run_on_spark, session
from hindsight.conf.settings_file import load_settings
from hindsight.jobs import ingest_send_records
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import SEND_ATTEMPT

FIRST, MORE = "first lines of a date", "as many lines more of that date"
_LOCAL = "without Spark: "
LOCAL_FIRST, LOCAL_MORE = _LOCAL + FIRST, _LOCAL + MORE
STORED = "attempts of the lines that came"
_AT = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
_FILES = 8


def prepare(data: Path, lines: int) -> None:
    """Land ``lines`` lines, take them in, and let as many others of the same date wait in ``next``."""
    land(data, lines)
    _take_in_locally(data / "landing", data / "lake")


def land(data: Path, lines: int) -> None:
    """Write ``lines`` lines into files of ``landing``, and as many others of the same date into files of ``next``."""
    for seed, name in enumerate(("landing", "next")):
        folder = data / name / "producer_hook" / "cluster=prod"
        folder.mkdir(parents=True)
        for number in range(_FILES):
            rng = np.random.default_rng((seed, number))
            with (folder / f"{name}-{number}.jsonl").open("w", encoding="utf-8") as file:
                told = hook_lines(_AT + seed * 500, rng, sends=lines // _FILES, who=f"{number}.")
                file.writelines(f"{json.dumps(line)}\n" for line in told)


def rows_of(data: Path) -> dict[str, int]:
    """Lines that are taken in."""
    return {STORED: sum(file.read_bytes().count(b"\n") for file in (data / "next").rglob("*.jsonl"))}


class TakenIn:
    """The job itself, on a lake of its own: an empty one, or one that holds as many attempts of the date."""

    def __init__(self, take_in: Callable[[Path, Path], None], onto_earlier: bool, data: Path) -> None:
        self._take_in = take_in
        self._onto_earlier = onto_earlier
        self._data = data
        self._lake = data.parent / f"{data.name}-{take_in.__name__}-{'more' if onto_earlier else 'first'}"
        if take_in is _take_in:
            session()

    def prepare(self) -> None:
        """Make the lake as it was before the round before."""
        shutil.rmtree(self._lake, ignore_errors=True)
        if self._onto_earlier:
            shutil.copytree(self._data / "lake", self._lake)

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """One round."""
        self._take_in(self._data / "next", self._lake)
        return self._told

    def _told(self) -> dict[str, Any]:
        files = LocalLake(str(self._lake), retention_days=7).rows(SEND_ATTEMPT, ["source_file"])
        own = pc.match_substring(files["source_file"], "/next-")
        return {STORED: pc.sum(own).as_py()}


def _take_in(landing: Path, lake: Path) -> None:
    run_on_spark(ingest_send_records, load_settings(None), RunContext(str(landing)), str(lake))


def _take_in_locally(landing: Path, lake: Path) -> None:
    settings, context = load_settings(None), RunContext(str(landing))
    with LocalRunner(os.cpu_count() or 1) as runner:
        tables = LocalLake(str(lake), retention_days=settings.delta.retention_days)
        ingest_send_records.run_on(tables, runner, settings, context)


CONTESTANTS = {
    FIRST: partial(TakenIn, _take_in, False),
    MORE: partial(TakenIn, _take_in, True),
    LOCAL_FIRST: partial(TakenIn, _take_in_locally, False),
    LOCAL_MORE: partial(TakenIn, _take_in_locally, True),
}
_HERE, _DUCKDB = "bench.ingestion", "DuckDB"

BENCHMARKS = (
    Benchmark(
        name="ingestion",
        title="The job that takes in lines of hooks, beside reading them, keeping each once and writing Parquet",
        rows=2_000_000,
        prepare=prepare,
        rows_of=rows_of,
        contestants=(
            *(Contestant(name, _HERE, covers=(STORED,)) for name in CONTESTANTS),
            Contestant(_DUCKDB, "bench.ingestion_peers", peer=True, covers=(STORED,)),
        ),
        floor=_DUCKDB,
        peers=(_DUCKDB,),
        targets=(
            Target("first lines of a date, without Spark: at most 3x DuckDB's time", LOCAL_FIRST, _DUCKDB, 3, "wall_s"),
            Target("onto as many of the date: at most 1.5x the first", LOCAL_MORE, LOCAL_FIRST, 1.5, "wall_s"),
        ),
    ),
)
