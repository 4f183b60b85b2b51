"""All jobs in order, in one session: landing files in, gated tables, a summary and the report out."""

from __future__ import annotations

import sys

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
from jobs.run_context import RunContext, Step
from jobs.run_summary import summary

_STEPS = (ingest_send_records, ingest_consumer_snapshots, rebuild_availability, flag_allocation_drift)


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> None:
    """Run every job; each step says what went in, what came out and how long it took. A rerun changes nothing."""
    for job in _STEPS:
        with context.step(job.__name__.rpartition(".")[2]) as step:
            report(step, job.run(spark, settings, context, lake_root))
    with context.step("render_report"):
        page = render_report.run(spark, settings, context, lake_root)
    sys.stdout.write("\n" + "\n".join([*summary(spark), "", f"Report: {page}"]) + "\n")


def report(step: Step, result: IntakeResult | PublicationResult) -> None:
    """Put a job's result into the words of the terminal."""
    if isinstance(result, IntakeResult):
        step.rows_in, step.rows_out = result.read, result.stored
        step.note = (
            f"{result.files} new files; {result.duplicate:,} duplicate, {result.ignored:,} ignored, "
            f"{result.quarantined:,} quarantined"
        )
    else:
        step.rows_out = result.rows
        step.note = f"{result.dates} dates computed" if result.dates else "nothing new"


if __name__ == "__main__":
    from jobs.command_line import main

    main("run-pipeline")
