"""The rows that a gate looks at, in a DuckDB of their own: how many of them break which expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from hindsight.jobs.engines.arrow_columns import no_rows
from hindsight.jobs.engines.counted_results import expectations, results_of_table
from hindsight.jobs.engines.data_files import dataset_of, rows_in, scanned
from hindsight.jobs.engines.lake_rows import Rows, StagedFile
from hindsight.schemas import TABLES, Table
from hindsight.schemas.table_contract import beside

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake

BATCH = "batch"  # the name of the rows that are looked at
_FEW_BYTES = 4 << 20  # of staged files, which are read at once and not by each query
_ARROW = re.compile(r"\b(\w+) -> ")  # of a function without a name, as Spark writes it
Given = Mapping[Table, Rows | ds.Dataset]


def counted_results(lake: LocalLake, frames: Given, whole: Given) -> list[dict[str, Any]]:
    """Check rows against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the rows, and what is stored of other tables.
    """
    results = []
    with gate_database(lake, frames, whole) as database:
        for table, rows in frames.items():
            there = seen(lake, table, rows)
            database.register(BATCH, there)
            has_rows, ask = isinstance(there, ds.Dataset) or len(there) > 0, partial(_counted, database)
            results += results_of_table(table, list(expectations(table, quoted)), ask, has_rows=has_rows)
    return results


@cache
def _empty_database() -> duckdb.DuckDBPyConnection:
    """One for all gates of a process, as to start one takes longer than to count; what a cursor names is its own."""
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


def _counted(database: duckdb.DuckDBPyConnection, queries: Sequence[str]) -> Sequence[int]:
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
