"""The commands of the jobs: each by its name in kebab case, and ``run-pipeline``, which is all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import run_pipeline
from hindsight.jobs.commands.command_options import (
    EngineName,
    From,
    Json,
    LakeRoot,
    Landing,
    Master,
    Metrics,
    SettingsFile,
    To,
    Wait,
    dates_of,
    show,
)
from hindsight.jobs.engines.opened import Opened, opened
from hindsight.jobs.landing.landing_root import NOTHING_KNOWN
from hindsight.jobs.landing.landing_survey import NOTHING_LANDED, LandingPlace, look_at
from hindsight.jobs.publishing.last_run import folders_at_rest, holds_input, last_run
from hindsight.jobs.running.places import absolute, chosen_engine
from hindsight.jobs.running.run_context import RunContext, Step
from hindsight.jobs.running.run_metrics import write_metrics
from hindsight.schemas import INGESTED_FILE

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _add(job: str) -> None:
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
        engine: EngineName = None,
        master: Master = None,
    ) -> None:
        chosen, dates = chosen_engine(engine, master), dates_of(first, last)
        root, folder = absolute(lake), absolute(landing)
        loaded = load_settings(settings)
        place, reads = LandingPlace(folder, None), every or job in run_pipeline.READ_LANDING
        if reads:
            at_rest = NOTHING_KNOWN if dates.is_given else folders_at_rest(root, folder, chosen, master)
            place = look_at(folder, at_rest)
        landed = place.survey or NOTHING_LANDED
        context = RunContext(folder, dates, landed=landed)
        lake_held = partial(opened, chosen, root, loaded, context, name=name, master=master, wait_s=wait)
        said = []
        if reads:
            has_input = holds_input(root, chosen, master)
            place.require(lake_has_input=has_input)
            place.tell(context.run_id)
            said = place.said()
            if has_input is None and not place.has_files:
                lake_held = partial(_landing_held, lake_held, place)
        if every:
            before = None if dates.is_given else last_run(root, landed, loaded, chosen, master)
            done, shown = run_pipeline.run_or_recall(lake_held, loaded, context, root, before, is_told=not as_lines)
        else:
            with lake_held() as holding:
                done, shown = [run_pipeline.run_job(job, holding, loaded)], []
        if metrics:
            write_metrics(metrics, done)
        show(as_lines, map(context.told, done), _ended(said, shown, done))

    app.command(name)(command)


@contextmanager
def _landing_held(lake_held: Callable[[], AbstractContextManager[Opened]], place: LandingPlace) -> Iterator[Opened]:
    """A lake that only its engine can ask whether it holds input, and with it whether files may be gone."""
    with lake_held() as holding:
        place.require(lake_has_input=bool(len(holding.lake.rows(INGESTED_FILE, ["file"]))))
        yield holding


def _ended(said: list[str], shown: list[str], done: list[Step]) -> Iterator[str]:
    """What is printed at the end: of the landing folder, the summary, and where the page is."""
    if said:
        yield from ("", "Landing folder", *(f"  {line}" for line in said))
    if shown:
        yield from ("", *shown)
    if "page" in done[-1].facts:
        yield from ("", f"Report: {done[-1].facts['page']}")


for _job in ("run_pipeline", *run_pipeline.JOBS):
    _add(_job)
