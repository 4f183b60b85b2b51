"""Maintain the lake: compact small files, delete old quarantine rows, remove files that no kept version needs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake, Footprint
from hindsight.jobs.engines.asker import Record
from hindsight.jobs.publishing.publication_record import renew
from hindsight.jobs.publishing.upkeep_of_runs import clear_away
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import PUBLICATION, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEADER = ("table", "rows", "files", "bytes", "bytes with history", "time travel reaches")


class Maintained(NamedTuple):
    """A table by name, and what there was of it before and after."""

    table: str
    before: Footprint
    after: Footprint


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> list[Maintained]:
    """The same on Spark, on the lake at a place."""
    from hindsight.jobs.engines.spark_runner import lake_and_runner

    return run_on(lake_and_runner(spark, settings, context, lake_root)[0], settings, context)


def run_on(lake: ArrowLake, settings: Settings, context: RunContext) -> list[Maintained]:
    """Maintain every table that stands in the lake, and clear away candidates that an old run left behind.

    The rows of all tables stay the same but for what has expired (``clear_away``): refused lines, which the ledger goes
    on counting, as it tells of what was read, and records of old runs. What ``delta.retention_days`` keeps for time
    travel stays readable.
    The newest publication of a job is published anew where only the files of its tables moved since.
    """
    there = [table for table in TABLES.values() if lake.exists(table)]
    with lake.silenced():
        found = lake.together(partial(_maintained, lake, table, settings, context) for table in there)
    if lake.exists(PUBLICATION):
        renew(lake, context.run_id)
    for table in TABLES.values():
        lake.drop_old_candidates(table)
    return found


def _maintained(lake: ArrowLake, table: Table, settings: Settings, context: RunContext) -> Maintained:
    before = lake.footprint(table)
    lake.compact(table)
    clear_away(lake, table, settings, context.started_at)
    return Maintained(table.name, before, lake.footprint(table))


def told(found: list[Maintained]) -> Iterator[str]:
    """Lines for a person: a table of what there was and is; a figure that stayed stands once."""
    if not found:
        yield "the lake has no table yet"
        return
    lines = [_HEADER, *(_cells(each) for each in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        aligned = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        yield "  ".join([line[0].ljust(widths[0]), *aligned])


def _cells(each: Maintained) -> tuple[str, ...]:
    pairs = zip(each.before.sizes, each.after.sizes, strict=True)
    sizes = [f"{now:,}" if was == now else f"{was:,} -> {now:,}" for was, now in pairs]
    reached = f"version {each.after.oldest_version}, {each.after.oldest_at:%Y-%m-%d %H:%M:%S}"
    return each.table, *sizes, reached


def as_values(found: list[Maintained]) -> Iterator[Record]:
    """A row a table."""
    for each in found:
        row: Record = {"table": each.table}
        for when, footprint in (("before", each.before), ("after", each.after)):
            row[when] = footprint._asdict() | {"oldest_at": footprint.oldest_at.isoformat()}
        yield row


if __name__ == "__main__":
    main("maintain")
