"""Two lakes in; which rows of their derived tables appear, vanish, flip or change from the one to the other, out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.conf.failure import DIFFERENCES_FOUND, ExpectedError
from hindsight.jobs.engines.arrow_columns import arrow_schema
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.engines.asker import as_records
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.scenarios.difference_causes import Cause, Causes
from hindsight.jobs.scenarios.table_differences import CHANGES, Change, counts, differences
from hindsight.schemas import TABLES, Table

DERIVED = tuple(table for table in TABLES.values() if "computed_at" in table.schema.names)
_WORDS: dict[Change, str] = {"appears": "appear", "vanishes": "vanish", "flips": "flip", "changes": "change otherwise"}
_SHOWN = 3  # rows of a table and date that people see


class LakesDifferError(ExpectedError):
    """Raised where the two lakes do not hold the same."""

    exit_code = DIFFERENCES_FOUND


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
    is_asked: Callable[[date], bool] = lambda _: True,
    tables: Collection[Table] = DERIVED,
) -> Iterator[DateDifferences]:
    """Each table and date of which rows differ, a date at a time; a table that is not there has no rows.

    A date whose files two versions of one lake share is not read.
    """
    for table in tables:
        for day in sorted(filter(is_asked, _dates(before, table) | _dates(after, table))):
            if before.root == after.root and _files(before, table, day) == _files(after, table, day):
                continue
            found = differences(table, _rows(before, table, day), _rows(after, table, day))
            if len(found):
                clusters = sorted(set(found["cluster"].to_pylist()))
                of = {cluster: causes.of(table.name, ClusterDate(cluster, day)) for cluster in clusters}
                yield DateDifferences(table, day, found, of)


def _dates(lake: ArrowLake, table: Table) -> set[date]:
    return set(lake.counted(table, ["event_date"])["event_date"].to_pylist()) if lake.exists(table) else set()


def _files(lake: ArrowLake, table: Table, day: date) -> set[str]:
    return {file.path for file in lake.files(table, [day])} if lake.exists(table) else set()


def _rows(lake: ArrowLake, table: Table, day: date) -> pa.Table:
    if not lake.exists(table):
        return pa.schema([arrow_schema(table).field(name) for name in table.contract_columns]).empty_table()
    return lake.rows(table, table.contract_columns, Where(values={"event_date": [day]}))


def told(found: Sequence[DateDifferences]) -> Iterator[str]:
    """For people: of each table and date how many rows differ in which way, and a few of them, flipped ones first."""
    if not found:
        yield "The derived tables hold the same."
    for one in found:
        numbers = counts(one.found)
        yield f"{one.table.name}, {one.day}: " + ", ".join(f"{numbers[kind]} {_WORDS[kind]}" for kind in CHANGES)
        yield from _because(one)
        for row in _first(one.found):
            yield f"  {row['change']}: {_named(one.table, row)}{_what(row)}"


def as_json(found: Iterable[DateDifferences]) -> Iterator[str]:
    """For machines: a line for each row that differs."""
    for one in found:
        for row in as_records(one.found):
            causes = [cause._asdict() for cause in one.causes[row["cluster"]]]
            yield json.dumps({"table": one.table.name, **row, "causes": causes}, default=str, ensure_ascii=False)


def _because(one: DateDifferences) -> Iterator[str]:
    """The causes of a date, each once with the clusters that have it."""
    clusters: dict[Cause, list[str]] = {}
    for cluster, causes in one.causes.items():
        for cause in causes:
            clusters.setdefault(cause, []).append(cluster)
    for cause, having in clusters.items():
        yield f"  because of {cause.kind} ({', '.join(having)}): {cause.detail}"


def _first(found: pa.Table) -> list[dict[str, Any]]:
    order = {"flips": 0, "vanishes": 1, "appears": 2, "changes": 3}
    return sorted(as_records(found), key=lambda row: order[row["change"]])[:_SHOWN]


def _named(table: Table, row: dict[str, Any]) -> str:
    key = [name for name in table.key if name != "event_date" and row[name] not in (None, "")]
    return " ".join(f"{name}={row[name]}" for name in key)


def _what(row: dict[str, Any]) -> str:
    changed = [f"{name} {row['before'][name]} -> {row['after'][name]}" for name in row["columns"]]
    return f": {'; '.join(changed)}" if changed else ""
