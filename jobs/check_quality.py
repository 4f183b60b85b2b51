"""Checks published tables against their contracts and invariants, for CI and after a migration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.asker import Asker, records
from hindsight.jobs.publishing.quality_gate import validated
from hindsight.jobs.running.run_context import DateRange, NoSuchDatesError, RunContext
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import TABLES, Table


class AbsentTableError(ExpectedError):
    """Raised when a table to check is not in the lake: without rows every rule holds, and that says nothing."""

    exit_code = WRONG_USAGE


def run(asker: Asker, context: RunContext, tables: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Results of all expectations of the tables (none named: of all that exist), stored in ``quality_result`` too.

    Where the context names dates, only rows of these are checked, of tables that have dates.
    Raises: AbsentTableError: a named table, or every table, is absent. NoSuchDatesError: none has a row of the dates.
    """
    lake = asker.lake
    there = [table for table in TABLES.values() if lake.version(table) is not None]
    absent = sorted({*tables} - {table.name for table in there})
    if absent or not there:
        raise AbsentTableError(
            f"{lake.root} has no table {', '.join(absent) or 'at all'}: nothing was stored in it yet."
        )
    wanted = [TABLES[name] for name in tables] or there
    rows = {table: asker.stored(table) for table in wanted}
    if not context.dates.is_given:
        return _validated(lake, context, rows)
    dated = {table: asker.stored(table, context.dates) for table in wanted if table.dated}
    if not any(_has_rows(asker, table, context.dates) for table in dated):
        raise NoSuchDatesError(f"no row of {context.dates} is in {', '.join(table.name for table in wanted)}.")
    return _validated(lake, context, rows | dated, rows)


def _validated(lake: ArrowLake, context: RunContext, *rows: Mapping[Table, Any]) -> list[dict[str, Any]]:
    """By Great Expectations where it is installed: what runs counted themselves, seen by another."""
    results = validated(lake, context, "check_quality", *rows, by_great_expectations=_is_installed())
    lake.write_gathered()
    return results


def _is_installed() -> bool:
    if find_spec("great_expectations") is not None:
        return True
    tell("hindsight counts by itself, as its runs do: Great Expectations is not installed (rocketmq-hindsight[gates])")
    return False


def _has_rows(asker: Asker, table: Table, dates: DateRange) -> bool:
    days = records(asker, f"SELECT DISTINCT event_date AS day FROM {table.name}")
    return any(row["day"] in dates for row in days)


if __name__ == "__main__":
    main("check")
