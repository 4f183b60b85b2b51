"""Maintain the lake: compact small files, delete old quarantine rows, remove files that no kept version needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake, Footprint
from hindsight.jobs.engines.asker import Record
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.publishing import publication_record, quality_gate
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import PUBLICATION, QUALITY_RESULT, QUARANTINE, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = "upkeep"
_TABLES_A_RUN = 2
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
        publication_record.renew(lake, context.run_id)
    for table in TABLES.values():
        lake.drop_old_candidates(table)
    return found


def _maintained(lake: ArrowLake, table: Table, settings: Settings, context: RunContext) -> Maintained:
    before = lake.footprint(table)
    lake.compact(table)
    clear_away(lake, table, settings, context.started_at)
    return Maintained(table.name, before, lake.footprint(table))


def keep_up(lake: ArrowLake, settings: Settings, context: RunContext) -> None:
    """Clear away what has expired of a few tables that were not looked at on this date. All rows that count stay.

    So no run pays for all, and nothing beside the runs is to be scheduled.
    """
    today = context.started_at.date().isoformat()
    there = [table for table in TABLES.values() if lake.exists(table)]
    noted = lake.noted(_NOTE)
    # A table that is new, as all of a new lake, has nothing that is old.
    seen = {table.name: today for table in there} | json.loads(noted or "{}")
    due = [table for table in there if seen[table.name] != today][:_TABLES_A_RUN]
    with lake.silenced():
        for table in due:
            clear_away(lake, table, settings, context.started_at)
    text = json.dumps(seen | dict.fromkeys((table.name for table in due), today), sort_keys=True)
    if text != noted:
        lake.note(_NOTE, text)


def clear_away(lake: ArrowLake, table: Table, settings: Settings, now: datetime) -> None:
    """Remove what has expired: refused lines; publications and checks of versions that nobody can ask for any more, and
    the files of these."""
    expired = now - timedelta(days=settings.delta.retention_days)
    if table is QUARANTINE:
        lake.delete(table, Where(before={"ingested_at": now - timedelta(days=settings.quarantine.keep_days)}))
    elif table is PUBLICATION:
        publication_record.forget(lake, expired)
    elif table is QUALITY_RESULT:
        quality_gate.forget(lake, expired)
    lake.vacuum(table)


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
