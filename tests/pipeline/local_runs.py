"""Jobs on this machine's engine: a landing folder and a lake in, what each job did out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.run_pipeline import JOBS, job_of
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange, IntakeResult, PublicationResult, RunContext

Result = IntakeResult | PublicationResult
OF_PRODUCERS = ("ingest_send_records", "rebuild_availability")
OF_CONSUMERS = ("ingest_consumer_snapshots", "flag_allocation_drift")


def run_here(
    settings: Settings,
    landing: Path | str,
    lake: Path | str,
    jobs: Iterable[str] = tuple(JOBS),
    dates: DateRange = EVERY_DATE,
) -> list[Result]:
    """Run jobs by their names, each as a run of its own."""
    stored = LocalLake(str(lake), retention_days=settings.delta.retention_days)
    done = []
    with LocalRunner(1) as runner:
        for job in jobs:
            done.append(job_of(job).run_on(stored, runner, settings, RunContext(str(landing), dates)))
            stored.write_gathered()  # as a run does at its end
    return done
