"""Checks candidates against their contracts; when a critical expectation fails, nothing is published."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from hindsight.conf.failure import GATE_FAILED, ExpectedError
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.running.run_context import RunContext, seconds_since
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import QUALITY_RESULT, Table
from hindsight.schemas.arrow_types import arrow_schema


class GateFailedError(ExpectedError):
    """Raised when a critical expectation failed; nothing of the job was published."""

    exit_code = GATE_FAILED


def check(lake: ArrowLake, context: RunContext, job: str, candidates: Mapping[Table, Any]) -> None:
    """Check what is about to be published, store the results, refuse what fails.

    Raises: GateFailedError: a critical expectation failed, or crashed; nothing may be published.
    """
    failed = failures(validated(lake, context, job, candidates))
    if failed:
        lake.write_gathered()
        raise GateFailedError(f"{job} publishes nothing, {len(failed)} critical expectation(s) failed: {told(failed)}")


def validated(
    lake: ArrowLake,
    context: RunContext,
    job: str,
    frames: Mapping[Table, Any],
    whole: Mapping[Table, Any] | None = None,
    *,
    by_great_expectations: bool = False,
) -> list[dict[str, Any]]:
    """Check rows against the contracts and invariants of their tables; the stored results, one per expectation.

    Invariants see the rows beside each other; where rows of some dates only are checked, ``whole`` has all of them.
    An expectation that crashes counts as a critical failure. Great Expectations gives the same results, and takes
    seconds to load.
    """
    begun = time.monotonic()
    results = lake.results(job, frames, whole or frames, by_great_expectations=by_great_expectations)
    if job in lake.gathered(QUALITY_RESULT)["job"].to_pylist():
        lake.write_gathered()
    # The table's own version grows before a job is checked again; a clock may go back.
    waiting = lake.gathered(QUALITY_RESULT)["number"].to_pylist()
    number = waiting[0] if waiting else (lake.version(QUALITY_RESULT) or 0) + 1
    of_check = {"run_id": context.run_id, "checked_at": datetime.now(UTC), "job": job, "number": number}
    rows = [of_check | result for result in results]
    lake.gather(QUALITY_RESULT, pa.Table.from_pylist(rows, arrow_schema(QUALITY_RESULT)))
    failed = sum(not result["success"] for result in results)
    tell("checked", tables=len(frames), expectations=len(results), failed=failed, seconds=seconds_since(begun))
    return results


def failures(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The critical expectations that failed."""
    return [r for r in results if r["severity"] == "critical" and not r["success"]]


def told(results: list[dict[str, Any]]) -> str:
    """Results in a sentence."""
    return "; ".join(f"{r['table']}: {r['expectation']} ({r['observed']})" for r in results)


def forget(lake: ArrowLake, before: datetime) -> None:
    """Delete the results of checks of before an instant, but for each job's last ones."""
    last: dict[str, int] = {}
    for row in lake.counted(QUALITY_RESULT, ["job", "number"]).to_pylist():
        last[row["job"]] = max(last.get(row["job"], 0), row["number"] or 0)
    for job, newest in last.items():
        own = Where(values={"job": [job]}, before={"checked_at": before})
        numbers = lake.counted(QUALITY_RESULT, ["number"], own)["number"].to_pylist()
        if gone := sorted({*numbers} - {newest, None}):
            lake.delete(QUALITY_RESULT, replace(own, values={"job": [job], "number": gone}))
