"""``hindsight watch``: the collector, and beside it the pipeline every few minutes, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from hindsight.conf.failure import DONE
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.collect.collector import OnSweep, run_collector
from hindsight.jobs.collect.command import plan_of, with_options_of
from hindsight.jobs.collect.failures import CollectError
from hindsight.jobs.commands.command_options import EngineName, Json, LakeRoot, Master, SettingsFile
from hindsight.jobs.engines.engine_choice import chosen_engine
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.places import absolute
from hindsight.jobs.running.run_log import tell

FIRST_SWEEPS = 2  # whether an offset moves shows in two

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def run_pipeline(options: list[str]) -> int:
    """A run as ``hindsight run-pipeline`` with these options makes it; its exit code. A failure is said on stderr."""
    from hindsight.jobs.commands.job_commands import (
        app as jobs,  # brings an engine's modules: the first sweep does not wait for them
    )

    return exit_code(lambda: jobs(args=["run-pipeline", *options], prog_name="hindsight", standalone_mode=False))


class PipelineRuns:
    """Runs of the pipeline, one at a time and each in a thread of its own: the collector goes on meanwhile."""

    def __init__(self, run: Callable[[], int], every_s: float) -> None:
        self.last_code = DONE
        self._run = run
        self._every_s = every_s
        self._due_at = 0.0
        self._thread: Thread | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a run goes on."""
        return self._thread is not None and self._thread.is_alive()

    def swept(self, sweeps: int, close_file: Callable[[], None]) -> None:
        """Begin a run over all that was collected, if one is due and none goes on."""
        if sweeps >= FIRST_SWEEPS and time.monotonic() >= self._due_at and not self.is_under_way:
            close_file()
            self.begin()

    def begin(self) -> None:
        """Begin a run; a process that ends does not wait for it."""
        self._due_at = time.monotonic() + self._every_s
        self._thread = Thread(target=self._run_and_tell, name="pipeline", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until no run goes on. Raises: KeyboardInterrupt."""
        if self._thread is not None:
            self._thread.join()

    def _run_and_tell(self) -> None:
        begun = time.monotonic()
        self.last_code = self._run()
        failed = {} if self.last_code == DONE else {"failed": "collecting goes on, and the next run tries again"}
        tell("run", exit_code=self.last_code, seconds=round(time.monotonic() - begun, 1), **failed)


def watch(collect: Callable[[OnSweep], bool], runs: PipelineRuns) -> None:
    """Collect until it is stopped, or until all is collected: then a last run takes in the rest.

    Raises: CollectError: nothing could be collected, or the last run failed; KeyboardInterrupt: a run was cut.
    """
    try:
        is_stopped = collect(runs.swept)
    finally:
        if runs.is_under_way:
            tell("waiting for the run to end", hint="a second Ctrl-C cuts it; a rerun takes up where it stopped")
        runs.wait()
    if is_stopped:
        return
    runs.begin()
    runs.wait()
    if runs.last_code != DONE:
        raise CollectError(f"the last run of the pipeline ended with exit code {runs.last_code}; above stands why.")


def _words(
    lake: LakeRoot,
    settings: SettingsFile = None,
    as_lines: Json = False,
    run_metrics: Annotated[
        Path | None, typer.Option(dir_okay=False, help="OpenMetrics file to write after each run.")
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for another run that writes to the lake.")
    ] = 3600.0,
    engine: EngineName = None,
    master: Master = None,
) -> list[str]:
    """The options of each run; the parameters are the options of ``watch``."""
    # What is wrong in these ends the command now, not each run.
    load_settings(settings)
    chosen_engine(engine, master)
    told = {"--lake": absolute(lake), "--settings": settings, "--metrics": run_metrics}
    told |= {"--engine": engine, "--master": master}
    words = [word for name, value in told.items() if value is not None for word in (name, str(value))]
    return [*words, "--wait", str(wait), *(["--json"] if as_lines else [])]


def _seconds_between(
    run_minutes: Annotated[
        float, typer.Option(min=0, help="Minutes from the begin of one run to the begin of the next.")
    ] = 5.0,
) -> float:
    return 60 * run_minutes


@app.command("watch")
@with_options_of(plan_of, _words, _seconds_between, without=("once",))
def watch_command(**options: Any) -> None:
    """Collect, and run the pipeline every few minutes; each run writes the page again, from the second sweep on."""
    plan, words, every_s = (_called(one, options) for one in (plan_of, _words, _seconds_between))
    words += ["--landing", str(plan.landing)]
    watch(lambda on_sweep: run_collector(plan, on_sweep), PipelineRuns(lambda: run_pipeline(words), every_s))


def _called(one: Callable[..., Any], options: dict[str, Any]) -> Any:
    return one(**{name: options[name] for name in signature(one).parameters if name in options})
