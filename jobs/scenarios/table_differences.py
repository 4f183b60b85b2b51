"""Two versions of a table in; the rows that differ out, and what of that is told to people or programs.

Rows appear, vanish, flip their verdict or change otherwise; of verdicts is told how they flip, and why. Rows are met by
the key of the table's contract and compared in its contract columns: those about the run that wrote them (``lineage``)
are outside. DuckDB does it, in columns, and on disk where they do not fit into memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import closing
from datetime import date
from typing import Any, Literal, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hindsight.conf.failure import DIFFERENCES_FOUND, WRONG_USAGE, ExpectedError
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.asker import Record, as_records
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.jobs.running.scratch_folder import own_scratch
from hindsight.jobs.scenarios.difference_causes import Cause, Causes
from hindsight.schemas import TABLES, Table
from hindsight.schemas.arrow_types import arrow_schema

Change = Literal["appears", "vanishes", "flips", "changes"]
CHANGES: tuple[Change, ...] = ("appears", "vanishes", "flips", "changes")
Rows: TypeAlias = "pa.Table | ds.Dataset"
# In the order in which people want to see them.
_WORDS: dict[Change, tuple[str, str]] = {
    "flips": ("flips its verdict", "flip their verdict"),
    "vanishes": ("vanishes", "vanish"),
    "appears": ("appears", "appear"),
    "changes": ("changes otherwise", "change otherwise"),
}
_SHOWN = 3  # rows of a table and date that people see
_LONGEST = 80  # of a value that people see


def differences(table: Table, before: Rows, after: Rows) -> pa.Table:
    """One row for each row that is not the same in both versions; without one, nothing differs.

    Both versions have at least the columns of the contract, in its types. Columns of the result: ``change``; the
    columns of the key; ``columns``, the names of those that differ (none where a row appears or vanishes); ``before``
    and ``after``, structs of the contract's columns outside the key, null where there is no such row.

    ``flips``: a column of ``table.verdicts`` differs. ``changes``: only others do. Rows come in the order of the key.
    Null equals null. Should several rows have one key, against the contract, then equal ones are met first and the
    others in order.
    """
    with closing(duckdb.connect(config={"temp_directory": f"{own_scratch()}/duckdb"})) as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("before", before)
        database.register("after", after)
        database.execute(_only_in_one(table))
        return database.sql(_met(table)).to_arrow_table()


def counts(changes: pa.Array | pa.ChunkedArray) -> dict[Change, int]:
    """How many of these there are of each kind."""
    by_kind = {each["values"]: each["counts"] for each in changes.value_counts().to_pylist()}
    return {kind: by_kind.get(kind, 0) for kind in CHANGES}


def _only_in_one(table: Table) -> str:
    """The rows that the other version has not or has less often; ``#``: a row's number among those of its key."""
    columns, key = (_list(map(_quoted, names)) for names in (table.contract_columns, table.key))
    numbered = f"row_number() OVER (PARTITION BY sign(surplus), {key} ORDER BY {columns})"
    return f"""
        CREATE TEMP TABLE odd AS
        SELECT {columns}, surplus > 0 AS gone, {numbered} AS "#"
        FROM (
          SELECT {columns}, surplus, unnest(range(abs(surplus))) FROM (
            SELECT {columns}, CAST(sum(side) AS BIGINT) AS surplus
            FROM (SELECT {columns}, 1 AS side FROM before UNION ALL SELECT {columns}, -1 FROM after)
            GROUP BY {columns} HAVING surplus <> 0))"""


def _met(table: Table) -> str:
    """The rows of both versions side by side."""
    key = [_quoted(name) for name in table.key]
    rest = [name for name in table.contract_columns if name not in table.key]
    differs = {name: f"b.{_quoted(name)} IS DISTINCT FROM a.{_quoted(name)}" for name in rest}
    flips = " OR ".join(differs[name] for name in table.verdicts) or "FALSE"
    names = _list(f"CASE WHEN {test} THEN {_text(name)} END" for name, test in differs.items())
    return f"""
        SELECT
          CASE WHEN b."#" IS NULL THEN 'appears' WHEN a."#" IS NULL THEN 'vanishes'
            WHEN {flips} THEN 'flips' ELSE 'changes' END AS change,
          {_list(f'CASE WHEN b."#" IS NULL THEN a.{k} ELSE b.{k} END AS {k}' for k in key)},
          CASE WHEN b."#" = a."#" THEN [name FOR name IN [{names}]::VARCHAR[] IF name IS NOT NULL] ELSE [] END
            AS columns,
          CASE WHEN b."#" IS NOT NULL THEN {_struct("b", rest)} END AS before,
          CASE WHEN a."#" IS NOT NULL THEN {_struct("a", rest)} END AS after
        FROM (FROM odd WHERE gone) AS b FULL JOIN (FROM odd WHERE NOT gone) AS a
          ON b."#" = a."#" AND {" AND ".join(f"b.{k} IS NOT DISTINCT FROM a.{k}" for k in key)}
        ORDER BY {_list(key)}, before, after"""


def _struct(side: str, names: list[str]) -> str:
    return "{" + _list(f"{_text(name)}: {side}.{_quoted(name)}" for name in names) + "}"


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _text(name: str) -> str:
    return f"'{name}'"


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
            rows_before, rows_after = _rows(before, table, day), _rows(after, table, day)
            if rows_before.equals(rows_after):  # as most are that were derived again; else each is asked of DuckDB
                continue
            found = differences(table, rows_before, rows_after)
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


class Answer(NamedTuple):
    """What differs between two sides, which are named."""

    before: str
    after: str
    found: list[DateDifferences]

    @property
    def rows(self) -> int:
        """Of rows that differ."""
        return sum(len(one.found) for one in self.found)


def told(answer: Answer) -> Iterator[str]:
    """For people: what differs in all, and of each table and date how many rows do, why, and a few of them.

    Tables of verdicts come first, then those of facts and states.
    """
    if not answer.found:
        yield "The derived tables hold the same."
        return
    yield f"before: {answer.before}"
    yield f"after:  {answer.after}"
    yield _counted(pa.concat_arrays([chunk for one in answer.found for chunk in one.found["change"].chunks]))
    for one in sorted(answer.found, key=lambda one: not one.table.verdicts):
        yield ""
        yield f"{one.table.name}, {one.day}: {_counted(one.found['change'])}"
        yield from _because(one)
        yield from _flipped(one)
        for row in _first(one.found):
            yield f"  {row['change']}: {_named(one.table, row)}{_what(row)}"


def as_values(answer: Answer) -> Iterator[Record]:
    """For programs: each row that differs."""
    for one in answer.found:
        for row in as_records(one.found):
            causes = [cause._asdict() for cause in one.causes[row["cluster"]]]
            yield {"table": one.table.name, **row, "causes": causes}


def _counted(changes: pa.Array | pa.ChunkedArray) -> str:
    """How many rows differ in which way."""
    by_kind = counts(changes)
    return ", ".join(f"{by_kind[kind]} {words[by_kind[kind] > 1]}" for kind, words in _WORDS.items() if by_kind[kind])


def _because(one: DateDifferences) -> Iterator[str]:
    """The causes of a date, each once with the clusters that have it."""
    clusters: dict[Cause, list[str]] = {}
    for cluster, causes in one.causes.items():
        for cause in causes:
            clusters.setdefault(cause, []).append(cluster)
    for cause, having in clusters.items():
        yield f"  because of {cause.kind} ({', '.join(having)}): {cause.detail}"


def _flipped(one: DateDifferences) -> Iterator[str]:
    """Each verdict that flips, from what to what, in how many rows."""
    rows = one.found.filter(pc.equal(one.found["change"], "flips"))
    for name in one.table.verdicts:
        sides = {side: pc.struct_field(rows[side], name) for side in ("before", "after")}
        for pair in pa.table(sides).group_by(["before", "after"]).aggregate([([], "count_all")]).to_pylist():
            if pair["before"] != pair["after"]:
                number = pair["count_all"]
                yield f"  {name} {_pair(pair)}: {number} row{'s' * (number > 1)}"


def _first(found: pa.Table) -> list[dict[str, Any]]:
    by_kind = [found.filter(pc.equal(found["change"], kind))[:_SHOWN] for kind in _WORDS]
    return as_records(pa.concat_tables(by_kind)[:_SHOWN])


def _named(table: Table, row: dict[str, Any]) -> str:
    key = [name for name in table.key if name != "event_date" and row[name] not in (None, "")]
    return " ".join(f"{name}={row[name]}" for name in key)


def _what(row: dict[str, Any]) -> str:
    """The columns that differ, with both values where these are short."""
    sides = {name: {side: row[side][name] for side in ("before", "after")} for name in row["columns"]}
    short = {name: pair for name, pair in sides.items() if all(len(str(value)) <= _LONGEST for value in pair.values())}
    told = [f"{name} {_pair(pair)}" for name, pair in short.items()] + [
        f"{name} differs" for name in sides if name not in short
    ]
    return f": {'; '.join(told)}" if told else ""


def _pair(sides: dict[str, Any]) -> str:
    before, after = ("null" if value is None else value for value in (sides["before"], sides["after"]))
    return f"{before} -> {after}"
