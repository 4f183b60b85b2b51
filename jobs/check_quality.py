"""Checks published tables against their contracts and invariants, for CI and after a migration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings
from jobs.delta_tables import Lake
from jobs.quality_gate import validated
from jobs.run_context import NoSuchDatesError, RunContext
from schemas import TABLES


class AbsentTableError(ValueError):
    """Raised when a table to check is not in the lake: without rows every rule holds, and that says nothing."""


def run(
    spark: SparkSession, settings: Settings, context: RunContext, lake_root: str, tables: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Results of all expectations of the tables (none named: of all that exist), stored in ``quality_result`` too.

    Where the context names dates, only rows of these are checked, of tables that have dates.
    Raises: AbsentTableError: a named table, or every table, is absent. NoSuchDatesError: none has a row of the dates.
    """
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    there = [table for table in TABLES.values() if lake.version(table) is not None]
    absent = sorted({*tables} - {table.name for table in there})
    if absent or not there:
        raise AbsentTableError(
            f"{lake.root} has no table {', '.join(absent) or 'at all'}: nothing was stored in it yet."
        )
    wanted = [TABLES[name] for name in tables] or there
    rows = {table: lake.read(table) for table in wanted}
    if not context.dates.is_given:
        return validated(lake, context, "check_quality", rows)
    dated = {
        table: frame.where(context.dates.holds(F.col("event_date"))) for table, frame in rows.items() if table.dated
    }
    if all(frame.isEmpty() for frame in dated.values()):
        raise NoSuchDatesError(f"no row of {context.dates} is in {', '.join(table.name for table in wanted)}.")
    return validated(lake, context, "check_quality", rows | dated, rows)


if __name__ == "__main__":
    from jobs.command_line import main

    main("check")
