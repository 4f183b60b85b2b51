"""Checks candidates with Great Expectations; when a critical expectation fails, nothing is published."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from jobs.delta_tables import Lake
from jobs.run_context import RunContext, seconds_since
from jobs.run_log import tell
from schemas import TABLES, Table
from schemas.bookkeeping import QUALITY_RESULT
from schemas.expectations import INVARIANTS


class GateFailedError(RuntimeError):
    """Raised when a critical expectation failed; nothing of the job was published."""


def check(lake: Lake, context: RunContext, job: str, candidates: Mapping[Table, DataFrame]) -> None:
    """Check what is about to be published, store the results, refuse what fails.

    Raises: GateFailedError: a critical expectation failed, or crashed; nothing may be published.
    """
    failed = failures(validated(lake, context, job, candidates))
    if failed:
        raise GateFailedError(f"{job} publishes nothing, {len(failed)} critical expectation(s) failed: {told(failed)}")


def validated(
    lake: Lake,
    context: RunContext,
    job: str,
    frames: Mapping[Table, DataFrame],
    whole: Mapping[Table, DataFrame] | None = None,
) -> list[dict[str, Any]]:
    """Check frames against the contracts and invariants of their tables; the stored results, one per expectation.

    Invariants see the frames beside each other; where rows of some dates only are checked, ``whole`` has all of them.
    An expectation that crashes counts as a critical failure.
    """
    # Great Expectations takes seconds to import; most commands never check anything.
    from jobs.expectation_suites import results_of

    begun = time.monotonic()
    beside = _beside(lake, frames, whole or frames)
    try:
        for name, frame in beside.items():
            frame.createOrReplaceTempView(name)
        results = results_of(job, frames)
    finally:
        for name in beside:
            lake.spark.catalog.dropTempView(name)
    lake.append(QUALITY_RESULT, _result_rows(lake, context, job, results))
    failed = sum(not result["success"] for result in results)
    tell("checked", tables=len(frames), expectations=len(results), failed=failed, seconds=seconds_since(begun))
    return results


def failures(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The critical expectations that failed."""
    return [r for r in results if r["severity"] == "critical" and not r["success"]]


def told(results: list[dict[str, Any]]) -> str:
    """Results in a sentence."""
    return "; ".join(f"{r['table']}: {r['expectation']} ({r['observed']})" for r in results)


def _beside(lake: Lake, frames: Iterable[Table], whole: Mapping[Table, DataFrame]) -> dict[str, DataFrame]:
    """What invariants look at beside their own table: its candidate, or its rows where none is checked."""
    names = {name for table in frames for rule in INVARIANTS.get(table.name, ()) for name in rule.beside}
    of_name = {table.name: frame for table, frame in whole.items()}
    return {f"candidate_{n}": of_name[n] if n in of_name else lake.read(TABLES[n]) for n in sorted(names)}


def _result_rows(lake: Lake, context: RunContext, job: str, results: list[dict[str, Any]]) -> Any:
    # The table's own version grows with each check; a clock may go back.
    number = (lake.version(QUALITY_RESULT) or 0) + 1
    of_check = {"run_id": context.run_id, "checked_at": datetime.now(UTC), "job": job, "number": number}
    rows = [{**of_check, **result} for result in results]
    return lake.spark.createDataFrame(rows, QUALITY_RESULT.columns)
