"""Two lakes in; which rows of their derived tables appear, vanish, flip or change from the one to the other, out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from datetime import date
from typing import NamedTuple

import pyarrow as pa

from hindsight.conf.failure import DIFFERENCES_FOUND, WRONG_USAGE, ExpectedError
from hindsight.jobs.engines.arrow_columns import arrow_schema
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.jobs.scenarios.difference_causes import Cause, Causes
from hindsight.jobs.scenarios.table_differences import differences
from hindsight.schemas import TABLES, Table

DERIVED = tuple(table for table in TABLES.values() if "computed_at" in table.schema.names)


class LakesDifferError(ExpectedError):
    """Raised where the two lakes do not hold the same."""

    exit_code = DIFFERENCES_FOUND


class NothingComparedError(ExpectedError):
    """Raised where there is no date to compare: that nothing differs would say more than is known."""

    exit_code = WRONG_USAGE


class DateDifferences(NamedTuple):
    """What differs in a table on a date, and why, by cluster; ``found`` has the columns of ``differences``."""

    table: Table
    day: date
    found: pa.Table
    causes: dict[str, list[Cause]]


def compared(
    before: ArrowLake,
    after: ArrowLake,
    causes: Causes,
    asked: DateRange | Set[date] = EVERY_DATE,
    tables: Collection[Table] = DERIVED,
) -> Iterator[DateDifferences]:
    """Each table and date of which rows differ, a date at a time; a table that is not there has no rows.

    A date whose files two versions of one lake share is not read.
    """
    for table in tables:
        for day in sorted(day for day in _dates(before, table) | _dates(after, table) if day in asked):
            if before.root == after.root and _files(before, table, day) == _files(after, table, day):
                continue
            found = differences(table, _rows(before, table, day), _rows(after, table, day))
            if len(found):
                clusters = sorted(set(found["cluster"].to_pylist()))
                of = {cluster: causes.of(table.name, ClusterDate(cluster, day)) for cluster in clusters}
                yield DateDifferences(table, day, found, of)


def days_of(lake: ArrowLake) -> set[date]:
    """The dates of which it holds a derived row."""
    return set().union(*(_dates(lake, table) for table in DERIVED))


def _dates(lake: ArrowLake, table: Table) -> set[date]:
    return set(lake.counted(table, ["event_date"])["event_date"].to_pylist()) if lake.exists(table) else set()


def _files(lake: ArrowLake, table: Table, day: date) -> set[str]:
    return {file.path for file in lake.files(table, [day])} if lake.exists(table) else set()


def _rows(lake: ArrowLake, table: Table, day: date) -> pa.Table:
    if not lake.exists(table):
        return pa.schema([arrow_schema(table).field(name) for name in table.contract_columns]).empty_table()
    return lake.rows(table, table.contract_columns, Where(values={"event_date": [day]}))
