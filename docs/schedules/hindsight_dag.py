"""The jobs of the pipeline as tasks of an Airflow 3 DAG, in the order of `run-pipeline`, then the alert."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, chain

PROJECT = "/opt/hindsight"
LANDING = "/srv/hindsight/landing"
LAKE = "/srv/hindsight/lake"
JOBS = (
    "ingest-send-records",
    "ingest-consumer-snapshots",
    "rebuild-availability",
    "flag-allocation-drift",
    "render-report",
)


def task(name: str, command: str, *, retries: int) -> BashOperator:
    """A command in the project's folder; an exit code other than 0 fails the task."""
    return BashOperator(task_id=name, bash_command=f".venv/bin/hindsight {command}", cwd=PROJECT, retries=retries)


with DAG(
    "hindsight",
    schedule="10 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run takes in whatever has landed: hours that were missed need no runs of their own
    max_active_runs=1,  # one run at a time writes to a lake
):
    jobs = [task(job, f"{job} --landing {LANDING} --lake {LAKE}", retries=1) for job in JOBS]
    alert = task("alert", f"drift --lake {LAKE} --fail-on high", retries=0)
    chain(*jobs, alert)
