"""What a job works with, whichever engine it is: a place and an engine in; the lake, what runs kernels, the run out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.engine_choice import Engine
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.unseen import pandas_when_asked

if TYPE_CHECKING:  # who finds that there is nothing to do opens none
    from hindsight.jobs.engines.arrow_lake import ArrowLake
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
        with pandas_when_asked():
            from hindsight.jobs.engines.local_run import opened_here

        holding = opened_here(lake_root, settings, context, wait_s=wait_s)
    with holding as (lake, runner, held):
        yield Opened(lake, runner, held)
