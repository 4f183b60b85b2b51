"""All jobs in order, in one session: landing files in, gated tables, a summary and the report out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from pyspark.sql import SparkSession

from conf.settings import Settings
from jobs import (
    flag_allocation_drift,
    ingest_consumer_snapshots,
    ingest_send_records,
    rebuild_availability,
    render_report,
)
from jobs.ingestion import IntakeResult
from jobs.publication import PublicationResult
from jobs.run_context import EVERY_DATE, RunContext, Step

Run = Callable[[SparkSession, Settings, RunContext, str], IntakeResult | PublicationResult]


JOBS: Mapping[str, Run] = {
    "ingest_send_records": ingest_send_records.run,
    "ingest_consumer_snapshots": ingest_consumer_snapshots.run,
    "rebuild_availability": rebuild_availability.run,
    "flag_allocation_drift": flag_allocation_drift.run,
}


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> list[Step]:
    """Run every job; what each of them did. A rerun changes nothing."""
    done = [run_job(job, spark, settings, context, lake_root) for job in JOBS]
    with context.step("render_report") as step:
        # A page of the latest dates, whichever were done anew.
        step.facts["page"] = render_report.refresh(spark, settings, replace(context, dates=EVERY_DATE), lake_root)
    return [*done, step]


def run_job(job: str, spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> Step:
    """Run one job of ``JOBS``; what it did."""
    with context.step(job) as step:
        step.facts.update(asdict(JOBS[job](spark, settings, context, lake_root)))
    return step


if __name__ == "__main__":
    from jobs.command_line import main

    main("run-pipeline")
