"""Run all jobs in order, in one session: landing files in; checked tables, a summary and the report out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from hindsight.conf.settings import Settings
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.kept_between_runs import KeptBetweenRuns, kept_between_runs
from hindsight.jobs.lake.small_files import page_of
from hindsight.jobs.running.run_context import EVERY_DATE, IntakeResult, PublicationResult, RunContext, Step
from hindsight.jobs.running.scratch_folder import remove_dead

if TYPE_CHECKING:
    from hindsight.jobs.engines.arrow_lake import ArrowLake
    from hindsight.jobs.engines.asker import Asker
    from hindsight.jobs.engines.opened import Opened
    from hindsight.jobs.engines.runner import Runner
    from hindsight.jobs.publishing.last_run import LastRun


class Job(Protocol):
    """A job's module."""

    def run_on(
        self, lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext
    ) -> IntakeResult | PublicationResult:
        """Run it on either engine."""


# The jobs in order; what each tells where there is nothing to do.
JOBS: Mapping[str, IntakeResult | PublicationResult] = {
    "ingest_send_records": IntakeResult(),
    "ingest_consumer_snapshots": IntakeResult(),
    "rebuild_availability": PublicationResult(),
    "flag_allocation_drift": PublicationResult(),
}

# To the others the landing folder is only named.
READ_LANDING = ("ingest_send_records", "ingest_consumer_snapshots")


def job_of(name: str) -> Job:
    """The module of one of ``JOBS``; a run that has nothing to do loads none."""
    return cast("Job", import_module(f"hindsight.jobs.{name}"))


def run(opened: Opened, settings: Settings) -> tuple[list[Step], Asker]:
    """Run every job; what each of them did, and what answers questions about it. A rerun changes nothing."""
    from hindsight.jobs.asking.asking import asker_on
    from hindsight.jobs.maintain import keep_up
    from hindsight.jobs.publishing.publication_record import keep_state, show_new_state

    keep_state(opened.lake)
    done = [run_job(job, opened, settings) for job in JOBS]
    show_new_state(opened.lake)
    with opened.context.step("render_report") as step:
        asker = asker_on(opened.lake)
        step.facts["page"] = _page(asker, settings, opened.context)
    keep_up(opened.lake, settings, opened.context)
    return [*done, step], asker


def _page(asker: Asker, settings: Settings, context: RunContext) -> str:
    """The page's path: made anew, of the latest dates, whichever the run computed; unless it is not due yet."""
    from hindsight.jobs import render_report

    kept = kept_between_runs() or KeptBetweenRuns()
    if not kept.page_is_due():
        return page_of(asker.lake.root)
    begun = time.process_time()
    page = render_report.refreshed(asker, settings, replace(context, dates=EVERY_DATE))
    kept.page_made(time.process_time() - begun)
    return page


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
        from hindsight.jobs.asking.run_summary import summary
        from hindsight.jobs.publishing.last_run import note_at_rest

        done, asker = run(opened, settings)
        opened.lake.write_gathered()
        if context.landed is not None:
            note_at_rest(opened.lake, context.landing, context.landed.at_rest)
        told = [*summary(asker)] if is_told else None
        kept = kept_between_runs()
        if last is not None and not (kept and kept.owes_page):
            last.remember(told, confirm=opened.context.confirm)
    return done, told or []


def _nothing_done(context: RunContext, lake_root: str) -> list[Step]:
    remove_dead()  # of a run that was killed when all was written; no engine starts that would
    done = []
    for job, result in JOBS.items():
        with context.step(job) as step:
            step.facts.update(asdict(result))
        done.append(step)
    with context.step("render_report") as step:
        step.facts["page"] = page_of(lake_root)
    return [*done, step]


def run_job(job: str, opened: Opened, settings: Settings) -> Step:
    """Run one of ``JOBS``; what it did."""
    with opened.context.step(job) as step:
        step.facts.update(asdict(job_of(job).run_on(opened.lake, opened.runner, settings, opened.context)))
    return step


if __name__ == "__main__":
    main("run-pipeline")
