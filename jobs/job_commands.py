"""The commands of the jobs: each by its name in kebab case, and ``run-pipeline``, which is all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import typer
from pyspark.sql import SparkSession

from conf.settings import Settings
from conf.settings_file import load_settings
from jobs import run_pipeline
from jobs.command_options import From, Json, LakeRoot, Landing, Master, Metrics, SettingsFile, To, Wait, dates_of
from jobs.delta_tables import Lake
from jobs.lake_lease import held
from jobs.landing_place import LandingPlace, look_at
from jobs.last_run import holds_input, last_run
from jobs.places import absolute
from jobs.run_context import RunContext, Step
from jobs.run_log import progress
from jobs.run_metrics import write_metrics
from jobs.spark_session import spark_session
from jobs.terminal import write
from schemas.bookkeeping import INGESTED_FILE


def add_jobs(app: typer.Typer) -> None:
    """Give an app a command for each job."""
    for job in ("run_pipeline", *run_pipeline.JOBS):
        _add(app, job)


def _add(app: typer.Typer, job: str) -> None:
    """A command for one job, or for ``run_pipeline``, which is all of them."""
    every, name = job not in run_pipeline.JOBS, job.replace("_", "-")

    def command(
        landing: Landing,
        lake: LakeRoot,
        first: From = None,
        last: To = None,
        settings: SettingsFile = None,
        as_lines: Json = False,
        metrics: Metrics = None,
        wait: Wait = 0,
        master: Master = None,
    ) -> None:
        context = RunContext(absolute(landing), dates_of(first, last))
        if metrics and not metrics.absolute().parent.is_dir():
            raise typer.BadParameter(f"--metrics {str(metrics)!r}: there is no folder {str(metrics.parent)!r}.")
        root, loaded = absolute(lake), load_settings(settings)
        lake_held = partial(_lake_held, name, root, loaded, context, master=master, wait_s=wait)
        said = []
        if every or job in run_pipeline.READ_LANDING:
            place, has_input = look_at(context.landing), holds_input(root, master)
            place.require(lake_has_input=has_input)
            place.tell(context.run_id)
            said = place.said()
            if has_input is None and not place.has_files:
                lake_held = partial(_landing_held, lake_held, place, root, loaded)
        if every:
            before = None if context.dates.is_given else last_run(root, context.landing, loaded, master)
            done, shown = run_pipeline.run_or_recall(lake_held, loaded, context, root, before, is_told=not as_lines)
        else:
            with lake_held() as (spark, holding):
                done, shown = [run_pipeline.run_job(job, spark, loaded, holding, root)], []
        if metrics:
            write_metrics(metrics, done)
        if as_lines:
            write(json.dumps({"run_id": context.run_id, "job": step.job, **step.facts}) for step in done)
        else:
            write(_ended(said, shown, done))

    app.command(name, help=(run_pipeline if every else run_pipeline.JOBS[job]).__doc__)(command)


@contextmanager
def _lake_held(
    name: str, root: str, loaded: Settings, context: RunContext, *, master: str | None, wait_s: float
) -> Iterator[tuple[SparkSession, RunContext]]:
    with (
        spark_session(loaded, app_name=f"hindsight {name}", master=master) as spark,
        progress(spark.sparkContext),
        held(spark, root, context, wait_s=wait_s) as holding,
    ):
        yield spark, holding


@contextmanager
def _landing_held(
    lake_held: Callable[[], AbstractContextManager[tuple[SparkSession, RunContext]]],
    place: LandingPlace,
    root: str,
    loaded: Settings,
) -> Iterator[tuple[SparkSession, RunContext]]:
    """A lake that only Spark can ask whether it holds input, and with it whether files may be gone."""
    with lake_held() as (spark, holding):
        ledger = Lake(spark, root, retention_days=loaded.delta.retention_days).read(INGESTED_FILE)
        place.require(lake_has_input=not ledger.isEmpty())
        yield spark, holding


def _ended(said: list[str], shown: list[str], done: list[Step]) -> Iterator[str]:
    """What is printed at the end: of the landing folder, the summary, and where the page is."""
    if said:
        yield from ("", "Landing folder", *(f"  {line}" for line in said))
    if shown:
        yield from ("", *shown)
    if "page" in done[-1].facts:
        yield from ("", f"Report: {done[-1].facts['page']}")
