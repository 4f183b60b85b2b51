"""Where the tables of a what-if stand: ``<lake>/what_if/<name>/<table>``, beside a note of each that is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.engine_choice import Engine
from hindsight.jobs.engines.opened import opened
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.lake.removed_folders import remove_folder
from hindsight.jobs.lake.small_files import Store, store_at
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIOS = "what_if"  # their folder in a lake
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST = 40


class ScenarioNameError(ExpectedError):
    """Raised where a what-if cannot have, or has not, this name; nothing was done."""

    exit_code = WRONG_USAGE


class PublishedTouchedError(RuntimeError):
    """Raised where a what-if would write to the published lake: a defect, which stops before the write."""


class OpenedScenario(NamedTuple):
    """The published lake, to read only; the scenario's own, which this run holds; what runs kernels; and the run."""

    published: ArrowLake
    into: ArrowLake
    runner: Runner
    context: RunContext


def checked_name(name: str) -> str:
    """The name of a what-if, which becomes a part of its tables' names in SQL.

    Raises: ScenarioNameError: it has other characters than these need.
    """
    if len(name) <= _LONGEST and _NAME.fullmatch(name):
        return name
    raise ScenarioNameError(
        f"{name!r} cannot name a what-if: its tables' names in SQL are made of it. Use small letters, digits and "
        f"single underscores between them, beginning with a letter, at most {_LONGEST} characters."
    )


def scenario_root(lake_root: str, name: str) -> str:
    """The root of a what-if's own lake."""
    return f"{lake_root.rstrip('/')}/{SCENARIOS}/{checked_name(name)}"


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

    Tables of an earlier what-if of that name are removed. ``remember`` makes it show, once it is whole.
    """
    root = scenario_root(lake_root, name)
    with opened(engine, root, settings, context, name=command, master=master, wait_s=wait_s) as held:
        spark = held.lake.spark
        remembered(spark, lake_root).delete(name)
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


def remembered(spark: SparkSession | None, lake_root: str) -> Store:
    """The notes of the what-ifs that are whole, by name."""
    return store_at(spark, f"{lake_root.rstrip('/')}/{SCENARIOS}/_notes")


def remember(spark: SparkSession | None, lake_root: str, name: str, told: dict[str, Any]) -> None:
    """Note that a what-if is whole, and what it is."""
    remembered(spark, lake_root).write(name, json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False))


def scenarios(spark: SparkSession | None, lake_root: str) -> dict[str, dict[str, Any]]:
    """What is noted of each what-if of a lake that is whole, by name."""
    notes = remembered(spark, lake_root)
    texts = {name: notes.read(name) for name in sorted(notes.names()) if _NAME.fullmatch(name)}
    return {name: json.loads(text) for name, text in texts.items() if text is not None}


def drop(spark: SparkSession | None, lake_root: str, name: str) -> None:
    """Remove a what-if with its tables.

    Raises: ScenarioNameError: there is none of that name.
    """
    there = scenarios(spark, lake_root)
    if name not in there:
        known = f"there is {', '.join(there)}" if there else "there is none"
        raise ScenarioNameError(f"there is no what-if {name!r} in {lake_root}; {known}.")
    remembered(spark, lake_root).delete(name)
    remove_folder(spark, scenario_root(lake_root, name))
