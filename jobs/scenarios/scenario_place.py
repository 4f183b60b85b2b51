"""Opens a what-if's own lake for a run that makes it, and the published one beside it, which cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.engine_choice import Engine
from hindsight.jobs.engines.opened import opened
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.lake.removed_folders import remove_folder
from hindsight.jobs.lake.what_ifs import notes_of, what_if_root
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PublishedTouchedError(RuntimeError):
    """Raised where a what-if would write to the published lake: a defect, which stops before the write."""


class OpenedScenario(NamedTuple):
    """The published lake, to read only; the scenario's own, which this run holds; what runs kernels; and the run."""

    published: ArrowLake
    into: ArrowLake
    runner: Runner
    context: RunContext


@contextmanager
def opened_scenario(
    engine: Engine,
    lake_root: str,
    name: str,
    settings: Settings,
    context: RunContext,
    *,
    command: str,
    master: str | None,
    wait_s: float = 0,
) -> Iterator[OpenedScenario]:
    """A what-if's lake without any table, and the published one, into which nothing can be written.

    Tables of an earlier what-if of that name are removed. ``what_ifs.remember`` makes it show, once it is whole.
    """
    root = what_if_root(lake_root, name)
    with opened(engine, root, settings, context, name=command, master=master, wait_s=wait_s) as held:
        spark = held.lake.spark
        notes_of(spark, lake_root).delete(name)
        for table in TABLES:
            remove_folder(spark, f"{root}/{table}")
        published = lake_at(spark, lake_root, settings)
        yield OpenedScenario(published, lake_at(spark, root, settings, held.context), held.runner, held.context)


def lake_at(spark: SparkSession | None, root: str, settings: Settings, context: RunContext | None = None) -> ArrowLake:
    """The lake at a place on the engine that runs; without the context of a run that holds it, to read only."""
    confirm = context.confirm if context else _refuse
    if spark is None:
        from hindsight.jobs.engines.local_lake import LocalLake

        return LocalLake(root, retention_days=settings.delta.retention_days, confirm=confirm)
    from hindsight.jobs.engines.delta_tables import Lake

    return Lake(spark, root, retention_days=settings.delta.retention_days, confirm=confirm)


def _refuse() -> None:
    raise PublishedTouchedError("a what-if writes nothing to the published tables.")
