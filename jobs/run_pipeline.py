"""All jobs in order, in one session: landing files in, gated tables, a summary and the report out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
from jobs.last_run import LastRun
from jobs.publication import PublicationResult
from jobs.run_context import EVERY_DATE, RunContext, Step
from jobs.run_summary import summary

Run = Callable[[SparkSession, Settings, RunContext, str], IntakeResult | PublicationResult]


JOBS: Mapping[str, Run] = {
    "ingest_send_records": ingest_send_records.run,
    "ingest_consumer_snapshots": ingest_consumer_snapshots.run,
    "rebuild_availability": rebuild_availability.run,
    "flag_allocation_drift": flag_allocation_drift.run,
}


# To the others the landing folder is only named.
READ_LANDING = ("ingest_send_records", "ingest_consumer_snapshots")

# What each tells where there is nothing to do.
_NOTHING: Mapping[str, IntakeResult | PublicationResult] = {
    "ingest_send_records": IntakeResult(),
    "ingest_consumer_snapshots": IntakeResult(),
    "rebuild_availability": PublicationResult(),
    "flag_allocation_drift": PublicationResult(),
}


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> list[Step]:
    """Run every job; what each of them did. A rerun changes nothing."""
    done = [run_job(job, spark, settings, context, lake_root) for job in JOBS]
    with context.step("render_report") as step:
        # A page of the latest dates, whichever were done anew.
        step.facts["page"] = render_report.refresh(spark, settings, replace(context, dates=EVERY_DATE), lake_root)
    return [*done, step]


def run_or_recall(
    lake_held: Callable[[], AbstractContextManager[tuple[SparkSession, RunContext]]],
    settings: Settings,
    context: RunContext,
    lake_root: str,
    last: LastRun | None,
    *,
    is_told: bool,
) -> tuple[list[Step], list[str]]:
    """What every job did and, if it ``is_told``, the summary: without Spark where the last run left nothing to do.

    ``lake_held`` starts Spark and holds the lake; ``last`` is None where nothing is known of the last run.
    """
    if last is not None and last.left_nothing_to_do() and (last.summary is not None or not is_told):
        return _nothing_done(context, lake_root), last.summary or []
    with lake_held() as (spark, holding):
        done = run(spark, settings, holding, lake_root)
        told = [*summary(spark)] if is_told else None
        if last is not None:
            last.remember(told, confirm=holding.confirm)
    return done, told or []


def _nothing_done(context: RunContext, lake_root: str) -> list[Step]:
    done = []
    for job, result in _NOTHING.items():
        with context.step(job) as step:
            step.facts.update(asdict(result))
        done.append(step)
    with context.step("render_report") as step:
        step.facts["page"] = render_report.page_of(lake_root)
    return [*done, step]


def run_job(job: str, spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> Step:
    """Run one job of ``JOBS``; what it did."""
    with context.step(job) as step:
        step.facts.update(asdict(JOBS[job](spark, settings, context, lake_root)))
    return step


if __name__ == "__main__":
    from jobs.command_line import main

    main("run-pipeline")
