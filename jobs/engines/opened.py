"""What a job works with, whichever engine it is: a place and an engine in; the lake, what runs kernels, the run out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.running.places import Engine
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import shown
from hindsight.jobs.running.unseen import pandas_when_asked
from hindsight.schemas import TABLES

if TYPE_CHECKING:  # who finds that there is nothing to do opens none
    from hindsight.jobs.engines.arrow_lake import ArrowLake
    from hindsight.jobs.engines.local_lake import LocalLake
    from hindsight.jobs.engines.local_runner import LocalRunner
    from hindsight.jobs.engines.runner import Runner


class Opened(NamedTuple):
    """A lake that a run holds; ``context`` confirms the lease before each write, as the lake itself does."""

    lake: ArrowLake
    runner: Runner
    context: RunContext


@contextmanager
def opened(
    engine: Engine,
    lake_root: str,
    settings: Settings,
    context: RunContext,
    *,
    name: str,
    master: str | None,
    wait_s: float,
) -> Iterator[Opened]:
    """A lake that the run holds until the end, on one of the engines, of which only this one is loaded.

    ``name`` is that of the command, ``master`` Spark's, ``wait_s`` how many seconds another run is waited for.
    Raises: NoLocalEngineError, LakeHeldError, SparkEnvironmentError: nothing was done.
    """
    holding: AbstractContextManager[tuple[Any, Any, RunContext]]
    if engine == "spark":
        from hindsight.jobs.engines.spark_runner import opened_on_spark

        holding = opened_on_spark(lake_root, settings, context, name=name, master=master, wait_s=wait_s)
    else:
        holding = opened_here(lake_root, settings, context, wait_s=wait_s)
    with holding as held:
        yield Opened(*held)


@contextmanager
def opened_here(
    lake_root: str, settings: Settings, context: RunContext, *, wait_s: float = 0
) -> Iterator[tuple[LocalLake, LocalRunner, RunContext]]:
    """The lake, which confirms the lease before each write, workers as many as cores, and the context that does so too.

    Raises: NoLocalEngineError: only Spark reaches it, or reads a table of it; nothing was done.
    LakeHeldError: another run holds it, and has not ended within ``wait_s`` seconds.
    """
    with pandas_when_asked():
        from hindsight.jobs.engines.kept_between_runs import kept_between_runs
        from hindsight.jobs.engines.local_lake import LocalLake
        from hindsight.jobs.engines.local_runner import LocalRunner, Workers
        from hindsight.jobs.lake.lake_lease import held

    lake = LocalLake(lake_root, retention_days=settings.delta.retention_days)
    workers = Workers(len(os.sched_getaffinity(0)))
    kept = kept_between_runs()
    if kept is not None:
        lake, workers = kept.taken(lake, workers)
    for table in TABLES.values():
        lake.version(table)  # refuses one with a feature that only Spark knows, before anything is done
    with (
        LocalRunner(workers, are_kept=kept is not None) as runner,
        shown(runner.at_work),
        held(None, lake_root, context, wait_s=wait_s) as holding,
    ):
        lake.hold(holding.confirm)
        yield lake, runner, holding
        lake.write_gathered()
    if kept is not None:
        kept.give_back(lake)
