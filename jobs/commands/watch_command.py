"""``hindsight watch``: the collector, and beside it the pipeline every few minutes, in one process."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Annotated, Any

import typer

from hindsight.conf.failure import DONE, INTERRUPTED
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.collect.collector import CollectorThread, Plan
from hindsight.jobs.collect.failures import CollectError
from hindsight.jobs.commands.collect_command import PARTS_OF_PLAN, called, plan_of, with_options_of
from hindsight.jobs.commands.command_options import EngineName, Json, LakeRoot, Master, SettingsFile, SinkNames
from hindsight.jobs.engines.kept_between_runs import KeptBetweenRuns, kept_between_runs
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.interrupts import handled_by, interrupt
from hindsight.jobs.running.places import absolute, chosen_engine
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.telling.sinks import sink_of

FIRST_SWEEPS = 2  # whether an offset moves shows in two
_M_ARENA_MAX = -8  # mallopt(3)
_HEAPS = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def run_pipeline(options: list[str]) -> int:
    """A run as ``hindsight run-pipeline`` with these options makes it; its exit code. A failure is said on stderr."""
    from hindsight.jobs.commands.job_commands import (
        app as jobs,  # brings an engine's modules: the first sweep does not wait for them
    )

    words = ["run-pipeline", *options]
    return _uncut(lambda: jobs(args=words, prog_name="hindsight", standalone_mode=False))


def tell_events(options: list[str]) -> int:
    """What ``hindsight events`` with these options does; its exit code. A failure is said on stderr."""
    from hindsight.jobs.commands.events_command import app as events

    return _uncut(lambda: events(args=options, prog_name="hindsight events", standalone_mode=False))


def _uncut(command: Callable[[], object]) -> int:
    code = exit_code(command)
    if code == INTERRUPTED:
        sys.exit(code)  # it was said
    return code


class PipelineRuns:
    """Runs of the pipeline, one at a time, in the main thread; meanwhile the collector goes on in its own."""

    def __init__(self, run: Callable[[], int], every_s: float, tell_events: Callable[[], int] | None = None) -> None:
        """``tell_events``: what tells others of what a run found, if anybody is to be told."""
        self.last_code = DONE
        self._run = run
        self._tell_events = tell_events
        self._every_s = every_s
        self._due_at = 0.0
        self._is_asked_for = False
        self._asked: SimpleQueue[bool] = SimpleQueue()

    @property
    def is_under_way(self) -> bool:
        """Whether a run goes on, or is about to."""
        return self._is_asked_for

    def swept(self, sweeps: int, close_file: Callable[[], None]) -> None:
        """Ask for a run over all that was collected, if one is due and none goes on."""
        if sweeps >= FIRST_SWEEPS and time.monotonic() >= self._due_at and not self._is_asked_for:
            close_file()
            self._due_at = time.monotonic() + self._every_s
            self._is_asked_for = True
            self._asked.put(True)

    def ended(self) -> None:
        """Nothing more is collected."""
        if self._is_asked_for:
            tell("waiting for the run to end", hint="a second Ctrl-C cuts it; a rerun takes up where it stopped")
        self._asked.put(False)

    def run_when_asked(self) -> None:
        """Make the runs that are asked for, until ``ended``. Raises: KeyboardInterrupt."""
        while self._asked.get():
            self.run()
            self._is_asked_for = False

    def run(self) -> None:
        """Make a run."""
        begun = time.monotonic()
        self.last_code = self._run()
        failed = {} if self.last_code == DONE else {"failed": "collecting goes on, and the next run tries again"}
        tell("run", exit_code=self.last_code, seconds=round(time.monotonic() - begun, 1), **failed)
        if self._tell_events is not None and self.last_code == DONE:
            begun = time.monotonic()
            code = self._tell_events()
            failed = {} if code == DONE else {"failed": "the next run goes on with what was not taken"}
            tell("events", exit_code=code, seconds=round(time.monotonic() - begun, 1), **failed)


def watch(plan: Plan, runs: PipelineRuns) -> None:
    """Collect until it is stopped, or until all is collected: then a last run takes in the rest.

    Raises: CollectError: nothing could be collected, or the last run failed; KeyboardInterrupt: a run was cut.
    """
    collecting = CollectorThread(plan, runs.swept, runs.ended)
    stops = itertools.count(1)

    def stop(number: int, frame: FrameType | None) -> None:
        collecting.stop()
        if next(stops) > 1 and runs.is_under_way:
            interrupt(number, frame)

    with handled_by(stop):
        collecting.start()
        try:
            runs.run_when_asked()
        finally:
            collecting.stop()
            is_stopped = collecting.result()
    if is_stopped:
        return
    if kept := kept_between_runs():
        kept.page_made(0)  # the last page is of all that was collected
    runs.run()
    if runs.last_code != DONE:
        raise CollectError(f"the last run of the pipeline ended with exit code {runs.last_code}; above stands why.")


def _words(
    lake: LakeRoot,
    settings: SettingsFile = None,
    as_lines: Json = False,
    run_metrics: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="OpenMetrics file to write after each run."),
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


def _events_words(
    lake: LakeRoot,
    settings: SettingsFile = None,
    sink: SinkNames = None,
    engine: EngineName = None,
    master: Master = None,
) -> list[str] | None:
    """The options of ``hindsight events`` after each run; None: nobody is to be told."""
    if not sink:
        return None
    for one in sink:
        sink_of(one, load_settings(settings).events.sink, None)  # what is wrong ends the command now
    told = {"--settings": settings, "--engine": engine, "--master": master}
    words = [word for name, value in told.items() if value is not None for word in (name, str(value))]
    return ["--lake", absolute(lake), *words, *(word for one in sink for word in ("--sink", one))]


def _seconds_between(
    run_minutes: Annotated[
        float, typer.Option(min=0, help="Minutes from the begin of one run to the begin of the next.")
    ] = 1.0,
) -> float:
    return 60 * run_minutes


@app.command("watch")
@with_options_of(*PARTS_OF_PLAN, _words, _events_words, _seconds_between, without=("once", "by_hour"))
def watch_command(**options: Any) -> None:
    """Collect, and run the pipeline every minute; each run writes the page again, from the second sweep on."""
    plan = replace(plan_of(options), by_hour=True)  # else each run would list all that was ever collected
    words, of_events, every_s = (called(one, options) for one in (_words, _events_words, _seconds_between))
    words += ["--landing", str(plan.landing)]
    told = None if of_events is None else partial(tell_events, of_events)
    _keep_memory_low()
    with KeptBetweenRuns():
        watch(plan, PipelineRuns(lambda: run_pipeline(words), every_s, told))


def _keep_memory_low() -> None:
    """Memory that nothing uses goes back, instead of staying with its allocators: the process lives for days.

    Arrow's own allocator keeps what the largest table of each run took, and glibc keeps a heap for each of many
    threads. Both grow run by run, though nothing in them is in use (bench/records/2026-11-28-memory-of-watch.md).
    Call it before pyarrow is loaded and threads begin; what the environment says of either is left as it is.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, TypeError, AttributeError):  # where the C library is another, it has no such heaps
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)
