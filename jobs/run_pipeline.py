"""Run all jobs in order, in one session: landing files in; checked tables, a summary and the report out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Any, Protocol

from hindsight.conf.settings import Settings
from hindsight.jobs import (
    flag_allocation_drift,
    ingest_consumer_snapshots,
    ingest_send_records,
    rebuild_availability,
    render_report,
)
from hindsight.jobs.asking.asking import asker_on
from hindsight.jobs.asking.run_summary import summary
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.asker import Asker
from hindsight.jobs.engines.opened import Opened
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.intake.ingestion import IntakeResult
from hindsight.jobs.publishing.last_run import LastRun
from hindsight.jobs.publishing.publication import PublicationResult
from hindsight.jobs.publishing.state_before import keep_state, show_new_state
from hindsight.jobs.publishing.upkeep_of_runs import keep_up
from hindsight.jobs.running.run_context import EVERY_DATE, RunContext, Step


class Job(Protocol):
    """A job's module."""

    def run(
        self, spark: Any, settings: Settings, context: RunContext, lake_root: str
    ) -> IntakeResult | PublicationResult:
        """Run it in a session of Spark's."""

    def run_on(
        self, lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext
    ) -> IntakeResult | PublicationResult:
        """Run it on either engine."""


JOBS: Mapping[str, Job] = {
    "ingest_send_records": ingest_send_records,
    "ingest_consumer_snapshots": ingest_consumer_snapshots,
    "rebuild_availability": rebuild_availability,
    "flag_allocation_drift": flag_allocation_drift,
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


def run(opened: Opened, settings: Settings) -> tuple[list[Step], Asker]:
    """Run every job; what each of them did, and what answers questions about it. A rerun changes nothing."""
    keep_state(opened.lake)
    done = [run_job(job, opened, settings) for job in JOBS]
    show_new_state(opened.lake)
    with opened.context.step("render_report") as step:
        asker = asker_on(opened.lake)
        # A page of the latest dates, whichever were done anew.
        step.facts["page"] = render_report.refreshed(asker, settings, replace(opened.context, dates=EVERY_DATE))
    keep_up(opened.lake, settings, opened.context)
    return [*done, step], asker


def run_or_recall(
    lake_held: Callable[[], AbstractContextManager[Opened]],
    settings: Settings,
    context: RunContext,
    lake_root: str,
    last: LastRun | None,
    *,
    is_told: bool,
) -> tuple[list[Step], list[str]]:
    """What every job did and, if it ``is_told``, the summary: without an engine if the last run left nothing to do.

    ``lake_held`` starts the engine and holds the lake; ``last`` is None where nothing is known of the last run.
    """
    if last is not None and last.left_nothing_to_do() and (last.summary is not None or not is_told):
        return _nothing_done(context, lake_root), last.summary or []
    with lake_held() as opened:
        done, asker = run(opened, settings)
        told = [*summary(asker)] if is_told else None
        if last is not None:
            last.remember(told, confirm=opened.context.confirm)
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


def run_job(job: str, opened: Opened, settings: Settings) -> Step:
    """Run one job of ``JOBS``; what it did."""
    with opened.context.step(job) as step:
        step.facts.update(asdict(JOBS[job].run_on(opened.lake, opened.runner, settings, opened.context)))
    return step


if __name__ == "__main__":
    main("run-pipeline")
