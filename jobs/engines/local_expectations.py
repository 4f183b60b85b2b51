"""Expectations without a JVM: rows in, one result per expectation out; DuckDB scans, Great Expectations judges.

What can break no expectation is left out before: of the key and the known values only rows with a repeated key or an
unknown value go to Great Expectations, of an invariant only the count of rows that its query selects. So the results
are those of all rows, and a large candidate costs one scan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import duckdb
import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from hindsight.jobs.engines.arrow_columns import arrow_schema, no_rows
from hindsight.jobs.engines.arrow_lake import Rows, StagedFile
from hindsight.jobs.engines.expectation_suites import crash_of, ephemeral_context, key_and_values, outcome
from hindsight.jobs.engines.scanned import scanned
from hindsight.jobs.lake.lake_place import file_system
from hindsight.schemas import TABLES, Table
from hindsight.schemas.expectations import INVARIANTS, Invariant, beside

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake

_BATCH = "batch"
_ARROW = re.compile(r"\b(\w+) -> ")  # of a function without a name, as Spark writes it


def results_of(
    lake: LocalLake, job: str, frames: Mapping[Table, Rows | ds.Dataset], whole: Mapping[Table, Rows | ds.Dataset]
) -> list[dict[str, Any]]:
    """Check rows against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the rows, and what is stored of other tables.
    An expectation that crashes counts as a critical failure.
    """
    of_name = {table.name: _scanned(lake, table, rows) for table, rows in whole.items()}
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute("CREATE MACRO size(items) AS len(items)")
        for name in beside(frames):
            seen = of_name[name] if name in of_name else scanned(lake, TABLES[name])
            database.register(f"candidate_{name}", seen)
        checks = _Checks(database, job)
        results = []
        for table, rows in frames.items():
            database.register(_BATCH, _scanned(lake, table, rows))
            results += checks.of(table)
    return results


class _Checks:
    """The expectations of one table after the other."""

    def __init__(self, database: duckdb.DuckDBPyConnection, job: str) -> None:
        self._database = database
        self._source = ephemeral_context().data_sources.add_pandas(job)

    def of(self, table: Table) -> list[dict[str, Any]]:
        return self._key_and_values(table) + [self._rule(table, rule) for rule in INVARIANTS.get(table.name, ())]

    def _key_and_values(self, table: Table) -> list[dict[str, Any]]:
        expected = key_and_values(table)
        try:
            doubtful = self._doubtful(table)
        except duckdb.Error as error:
            return [crash_of(table, each, error) for each in expected]
        return self._validated(table, table.name, doubtful, expected)

    def _doubtful(self, table: Table) -> pd.DataFrame:
        """Rows whose key is there again, or with a value that is none of the known ones."""
        key = ", ".join(map(_quoted, table.key))
        same = " AND ".join(f"b.{_quoted(name)} IS NOT DISTINCT FROM r.{_quoted(name)}" for name in table.key)
        unknown = [f"NOT list_contains(?, b.{_quoted(name)})" for name, _ in table.values]
        columns = ", ".join(f"b.{_quoted(name)}" for name in dict.fromkeys([*table.key, *dict(table.values)]))
        repeated = f"SELECT {key} FROM {_BATCH} GROUP BY ALL HAVING COUNT(*) > 1"
        is_doubtful = " OR ".join([f"EXISTS (SELECT 1 FROM repeated AS r WHERE {same})", *unknown])
        query = f"WITH repeated AS ({repeated}) SELECT {columns} FROM {_BATCH} AS b WHERE {is_doubtful}"
        return self._database.execute(query, [list(values) for _, values in table.values]).df()

    def _rule(self, table: Table, rule: Invariant) -> dict[str, Any]:
        expected = gxe.ExpectTableRowCountToEqual(value=0, description=rule.name, severity=rule.severity)
        try:
            query = _ARROW.sub(r"lambda \1: ", rule.query.format(batch=_BATCH))
            ((count,),) = self._database.execute(f"SELECT COUNT(*) FROM ({query})").fetchall()
        except duckdb.Error as error:
            return crash_of(table, expected, error)
        broken = pd.DataFrame(index=pd.RangeIndex(count))
        return self._validated(table, f"{table.name} {rule.name}", broken, [expected])[0]

    def _validated(self, table: Table, name: str, rows: pd.DataFrame, expected: list[Any]) -> list[dict[str, Any]]:
        batch = self._source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
        suite = gx.ExpectationSuite(name=name, expectations=expected)
        done = batch.get_batch(batch_parameters={"dataframe": rows}).validate(suite, result_format="SUMMARY")
        return [outcome(table, result) for result in done.results]


def _scanned(lake: LocalLake, table: Table, rows: Rows | ds.Dataset) -> pa.Table | ds.Dataset:
    """Rows as DuckDB reads them: of staged files the columns that a query names, piece by piece."""
    if isinstance(rows, (pa.Table, ds.Dataset)):
        return rows
    system, folder = file_system(f"{lake.root}/{table.name}")
    paths = [f"{folder}/{piece.path}" for piece in rows if isinstance(piece, StagedFile)]
    if not paths:
        return no_rows(table)
    by_date = ds.partitioning(pa.schema([("event_date", pa.date32())]), flavor="hive") if table.dated else None
    return ds.dataset(
        paths,
        schema=arrow_schema(table),
        format="parquet",
        filesystem=system,
        partitioning=by_date,
        partition_base_dir=folder,
    )


def _quoted(name: str) -> str:
    return f'"{name}"'
