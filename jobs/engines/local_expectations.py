"""Great Expectations without a JVM: rows in, one result per expectation out; DuckDB scans, and it judges.

What can break no expectation is left out before: of the key and the known values only rows with a repeated key or an
unknown value go to Great Expectations, of an invariant only the count of rows that its query selects. So the results
are those of all rows, and a large candidate costs one scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import great_expectations.expectations as gxe
import pandas as pd

from hindsight.jobs.engines.counted_results import crash_of
from hindsight.jobs.engines.expectation_suites import ephemeral_context, key_and_values, results, told
from hindsight.jobs.engines.local_gate import BATCH, Given, as_duckdb, gate_database, quoted, seen
from hindsight.schemas import Table
from hindsight.schemas.table_contract import Invariant

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake


def results_of(lake: LocalLake, job: str, frames: Given, whole: Given) -> list[dict[str, Any]]:
    """Check rows against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the rows, and what is stored of other tables.
    An expectation that crashes counts as a critical failure.
    """
    source = ephemeral_context().data_sources.add_pandas(job)
    found = []
    with gate_database(lake, frames, whole) as database:
        for table, rows in frames.items():
            database.register(BATCH, seen(lake, table, rows))
            found += _key_and_values(database, source, table)
            found += [_rule(database, source, table, rule) for rule in table.rules]
    return found


def _key_and_values(database: duckdb.DuckDBPyConnection, source: Any, table: Table) -> list[dict[str, Any]]:
    expected = key_and_values(table)
    try:
        doubtful = _doubtful(database, table)
    except duckdb.Error as error:
        return [crash_of(table, told(each.configuration), error) for each in expected]
    return results(source, table, table.name, doubtful, expected)


def _doubtful(database: duckdb.DuckDBPyConnection, table: Table) -> pd.DataFrame:
    """Rows whose key is there again, or with a value that is none of the known ones."""
    key = ", ".join(map(quoted, table.key))
    same = " AND ".join(f"b.{quoted(name)} IS NOT DISTINCT FROM r.{quoted(name)}" for name in table.key)
    unknown = [f"NOT list_contains(?, b.{quoted(name)})" for name, _ in table.values]
    columns = ", ".join(f"b.{quoted(name)}" for name in dict.fromkeys([*table.key, *dict(table.values)]))
    repeated = f"SELECT {key} FROM {BATCH} GROUP BY ALL HAVING COUNT(*) > 1"
    is_doubtful = " OR ".join([f"EXISTS (SELECT 1 FROM repeated AS r WHERE {same})", *unknown])
    query = f"WITH repeated AS ({repeated}) SELECT {columns} FROM {BATCH} AS b WHERE {is_doubtful}"
    return database.execute(query, [list(values) for _, values in table.values]).df()


def _rule(database: duckdb.DuckDBPyConnection, source: Any, table: Table, rule: Invariant) -> dict[str, Any]:
    expected = gxe.ExpectTableRowCountToEqual(value=0, description=rule.name, severity=rule.severity)
    try:
        ((count,),) = database.execute(f"SELECT COUNT(*) FROM ({as_duckdb(rule.query)})").fetchall()
    except duckdb.Error as error:
        return crash_of(table, told(expected.configuration), error)
    broken = pd.DataFrame(index=pd.RangeIndex(count))
    return results(source, table, f"{table.name} {rule.name}", broken, [expected])[0]
