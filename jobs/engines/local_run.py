"""A lake that a run without Spark holds: a place in; the lake with its lease, what runs kernels, and the run out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.kept_between_runs import kept_between_runs
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner, Workers
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.run_log import shown
from hindsight.schemas import TABLES


@contextmanager
def opened_here(
    lake_root: str, settings: Settings, context: RunContext, *, wait_s: float = 0
) -> Iterator[tuple[LocalLake, LocalRunner, RunContext]]:
    """The lake, which confirms the lease before each write, workers as many as cores, and the context that does so too.

    Raises: NoLocalEngineError: only Spark reaches it, or reads a table of it; nothing was done.
    LakeHeldError: another run holds it, and has not ended within ``wait_s`` seconds.
    """
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
