"""The gate of both engines: rows that break a contract or an invariant are counted by SQL, one result per expectation.

Each result is the one that Great Expectations gives of the same rows (``hindsight check`` asks it where it is
installed); a run does not wait for it to load. On this machine rows that are looked at stand in a DuckDB of their own,
on Spark they have names for its SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from hindsight.jobs.engines.arrow_columns import no_rows
from hindsight.jobs.engines.data_files import dataset_of, rows_in, scanned
from hindsight.jobs.engines.lake_rows import Rows, StagedFile
from hindsight.schemas import TABLES, Table
from hindsight.schemas.table_contract import beside

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame

    from hindsight.jobs.engines.delta_tables import Lake
    from hindsight.jobs.engines.local_lake import LocalLake

OBSERVED_CHARS = 500
_UNEXPECTED, _SELECTED = "unexpected_count", "observed_value"
BATCH = "batch"  # the name of the rows that are looked at
_VIEW = "hindsight_batch"  # the same for Spark
_FEW_BYTES = 4 << 20  # of staged files, which are read at once and not by each query
_ARROW = re.compile(r"\b(\w+) -> ")  # of a function without a name, as Spark writes it
Given = Mapping[Table, Rows | ds.Dataset]
Frames = Mapping[Table, "DataFrame"]

# Numbers that queries give, in their order. Raises whatever an engine raises of a query.
Ask = Callable[[Sequence[str]], Sequence[int]]


class Expectation(NamedTuple):
    """What is expected of a table's rows, as it is told; the query of how many break it, of ``{batch}``."""

    told: str
    severity: str
    counts: str
    query: str


def expectations(table: Table, quote: Callable[[str], str]) -> Iterator[Expectation]:
    """The table's key is unique, its closed columns hold known values, and its invariants hold.

    ``quote`` writes a column's name as the engine's SQL has it.
    """
    key = ", ".join(map(quote, table.key))
    times = f"SELECT COUNT(*) AS times FROM {{batch}} GROUP BY {key} HAVING COUNT(*) > 1"
    repeated = f"SELECT CAST(COALESCE(SUM(times), 0) AS BIGINT) FROM ({times})"
    yield Expectation(_unique(table.key), "critical", _UNEXPECTED, repeated)
    for column, values in table.values:
        known = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
        query = f"SELECT COUNT(*) FROM {{batch}} WHERE {quote(column)} NOT IN ({known})"
        told = _told("expect_column_values_to_be_in_set", {"column": column})
        yield Expectation(told, "critical", _UNEXPECTED, query)
    for rule in table.rules:
        yield Expectation(rule.name, rule.severity, _SELECTED, f"SELECT COUNT(*) FROM ({rule.query})")


def _unique(key: Sequence[str]) -> str:
    if len(key) == 1:
        return _told("expect_column_values_to_be_unique", {"column": key[0]})
    return _told("expect_compound_columns_to_be_unique", {"column_list": list(key), "ignore_row_if": "never"})


def _told(kind: str, of: dict[str, Any]) -> str:
    return f"{kind} {json.dumps(of, sort_keys=True)}"


def results_of_table(
    table: Table, expected: Sequence[Expectation], ask: Ask, *, has_rows: bool = True
) -> list[dict[str, Any]]:
    """The rows of ``quality_result``; ``ask`` is of this table's rows. What cannot be counted is a critical failure.

    Where it has none, no row repeats a key or has an unknown value: only invariants, which see more, are asked for.
    """
    asked = [each for each in expected if has_rows or each.counts == _SELECTED]
    try:
        counts = dict(zip(asked, ask([each.query for each in asked]) if asked else (), strict=True))
        return [_result(table, each, counts.get(each, 0)) for each in expected]
    except Exception:  # of one count, whatever it is: each by itself, to tell which
        return [_by_itself(table, each, ask) for each in expected]


def _by_itself(table: Table, each: Expectation, ask: Ask) -> dict[str, Any]:
    try:
        return _result(table, each, *ask([each.query]))
    except Exception as error:  # a check that cannot be made has failed, and the gate refuses
        return crash_of(table, each.told, error)


def _result(table: Table, each: Expectation, count: int) -> dict[str, Any]:
    told = {"severity": each.severity, "success": count == 0, "observed": json.dumps({each.counts: count})}
    return {"table": table.name, "expectation": each.told, **told}


def crash_of(table: Table, expectation: str, error: Exception) -> dict[str, Any]:
    """The row of an expectation whose rows could not be looked for: a critical failure."""
    told = {"severity": "critical", "success": False, "observed": str(error)[:OBSERVED_CHARS]}
    return {"table": table.name, "expectation": expectation, **told}


def counted_here(lake: LocalLake, frames: Given, whole: Given) -> list[dict[str, Any]]:
    """Check rows against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the rows, and what is stored of other tables.
    """
    results = []
    with gate_database(lake, frames, whole) as database:
        for table, rows in frames.items():
            there = seen(lake, table, rows)
            database.register(BATCH, there)
            has_rows, ask = isinstance(there, ds.Dataset) or len(there) > 0, partial(_by_duckdb, database)
            results += results_of_table(table, list(expectations(table, quoted)), ask, has_rows=has_rows)
    return results


@cache
def _empty_database() -> duckdb.DuckDBPyConnection:
    """One for all gates of a process, as to start one takes longer than to count; what a cursor names is its own."""
    import duckdb  # which is not for those who check nothing

    database = duckdb.connect()
    database.execute("CREATE MACRO size(items) AS len(items)")
    return database


@contextmanager
def gate_database(lake: LocalLake, frames: Given, whole: Given) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the candidates that invariants of the frames' tables look at."""
    of_name = {table.name: (table, rows) for table, rows in whole.items()}
    with _empty_database().cursor() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name in beside(frames):
            there = seen(lake, *of_name[name]) if name in of_name else scanned(lake, TABLES[name])
            database.register(f"candidate_{name}", there)
        yield database


def as_duckdb(query: str) -> str:
    """A query of the contracts, of the rows that are looked at, in DuckDB's words."""
    return _ARROW.sub(r"lambda \1: ", query.format(batch=BATCH))


def quoted(name: str) -> str:
    """A column's name in DuckDB's SQL."""
    return f'"{name}"'


def _by_duckdb(database: duckdb.DuckDBPyConnection, queries: Sequence[str]) -> Sequence[int]:
    (row,) = database.execute(f"SELECT {', '.join(f'({as_duckdb(query)})' for query in queries)}").fetchall()
    return row


def seen(lake: LocalLake, table: Table, rows: Rows | ds.Dataset) -> pa.Table | ds.Dataset:
    """Rows as DuckDB reads them: of large staged files the columns that a query names, piece by piece."""
    if isinstance(rows, (pa.Table, ds.Dataset)):
        return rows
    staged = [piece for piece in rows if isinstance(piece, StagedFile)]
    if not staged:
        return no_rows(table)
    if sum(piece.size for piece in staged) < _FEW_BYTES:
        return rows_in(lake.folder(table), staged)
    return dataset_of(lake.folder(table), staged)


def counted_on_spark(lake: Lake, frames: Frames, whole: Frames) -> list[dict[str, Any]]:
    """The same of Spark's frames."""
    results = []
    with candidates_named(lake, frames, whole):
        for table, rows in frames.items():
            rows.createOrReplaceTempView(_VIEW)
            results += results_of_table(table, list(expectations(table, "`{}`".format)), partial(_by_spark, lake))
        lake.spark.catalog.dropTempView(_VIEW)
    return results


@contextmanager
def candidates_named(lake: Lake, frames: Frames, whole: Frames) -> Iterator[None]:
    """The candidates that invariants of the frames' tables look at, by their names."""
    of_name = {table.name: rows for table, rows in whole.items()}
    looked_at = {name: of_name[name] if name in of_name else lake.read(TABLES[name]) for name in beside(frames)}
    try:
        for name, frame in looked_at.items():
            frame.createOrReplaceTempView(f"candidate_{name}")
        yield
    finally:
        for name in looked_at:
            lake.spark.catalog.dropTempView(f"candidate_{name}")


def _by_spark(lake: Lake, queries: Sequence[str]) -> Sequence[int]:
    (row,) = lake.spark.sql(f"SELECT {', '.join(f'({query.format(batch=_VIEW)})' for query in queries)}").collect()
    return row
