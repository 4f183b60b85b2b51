"""Contracts and invariants as Great Expectations suites, what of a result is stored, and how each engine asks them.

On Spark Great Expectations asks Spark itself. On this machine DuckDB scans, and what can break no expectation is left
out before: of the key and the known values only rows with a repeated key or an unknown value go to Great Expectations,
of an invariant only the count of rows that its query selects. So the results are those of all rows, and a large
candidate costs one scan.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
from great_expectations.data_context.types.base import ProgressBarsConfig

from hindsight.jobs.engines.gate import (
    BATCH,
    OBSERVED_CHARS,
    Frames,
    Given,
    as_duckdb,
    candidates_named,
    crash_of,
    gate_database,
    quoted,
    seen,
)
from hindsight.schemas import Table
from hindsight.schemas.table_contract import Invariant

if TYPE_CHECKING:
    from hindsight.jobs.engines.delta_tables import Lake
    from hindsight.jobs.engines.local_lake import LocalLake


def results_here(lake: LocalLake, job: str, frames: Given, whole: Given) -> list[dict[str, Any]]:
    """Check rows against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the rows, and what is stored of other tables.
    An expectation that crashes counts as a critical failure.
    """
    source = _ephemeral_context().data_sources.add_pandas(job)
    found = []
    with gate_database(lake, frames, whole) as database:
        for table, rows in frames.items():
            database.register(BATCH, seen(lake, table, rows))
            found += _of_key_and_values(database, source, table)
            found += [_of_rule(database, source, table, rule) for rule in table.rules]
    return found


def results_on_spark(lake: Lake, job: str, frames: Frames, whole: Frames) -> list[dict[str, Any]]:
    """The same of Spark's frames."""
    source = _ephemeral_context().data_sources.add_spark(job, persist=False)
    found = []
    with candidates_named(lake, frames, whole):
        for table, rows in frames.items():
            rules = [
                gxe.UnexpectedRowsExpectation(unexpected_rows_query=r.query, description=r.name, severity=r.severity)
                for r in table.rules
            ]
            found += _results(source, table, table.name, rows, [*_key_and_values(table), *rules])
    return found


def _ephemeral_context() -> Any:
    """A context that keeps nothing, draws nothing and calls nobody."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.variables.analytics_enabled = False
    return context


def _key_and_values(table: Table) -> list[Any]:
    """The table's key is unique, and its closed columns hold known values.

    Great Expectations takes a single column for no compound; a column of a key is never null.
    """
    if len(table.key) == 1:
        unique = gxe.ExpectColumnValuesToBeUnique(column=table.key[0], severity="critical")
    else:
        key = list(table.key)
        unique = gxe.ExpectCompoundColumnsToBeUnique(column_list=key, ignore_row_if="never", severity="critical")
    known = [
        gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(values), severity="critical")
        for column, values in table.values
    ]
    return [unique, *known]


def _of_key_and_values(database: duckdb.DuckDBPyConnection, source: Any, table: Table) -> list[dict[str, Any]]:
    expected = _key_and_values(table)
    try:
        doubtful = _doubtful(database, table)
    except duckdb.Error as error:
        return [crash_of(table, _told(each.configuration), error) for each in expected]
    return _results(source, table, table.name, doubtful, expected)


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


def _of_rule(database: duckdb.DuckDBPyConnection, source: Any, table: Table, rule: Invariant) -> dict[str, Any]:
    expected = gxe.ExpectTableRowCountToEqual(value=0, description=rule.name, severity=rule.severity)
    try:
        ((count,),) = database.execute(f"SELECT COUNT(*) FROM ({as_duckdb(rule.query)})").fetchall()
    except duckdb.Error as error:
        return crash_of(table, _told(expected.configuration), error)
    broken = pd.DataFrame(index=pd.RangeIndex(count))
    return _results(source, table, f"{table.name} {rule.name}", broken, [expected])[0]


def _results(source: Any, table: Table, name: str, rows: Any, expected: list[Any]) -> list[dict[str, Any]]:
    """What comes of these expectations of a data frame of the source's kind, as rows of ``quality_result``."""
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
    suite = gx.ExpectationSuite(name=name, expectations=expected)
    done = batch.get_batch(batch_parameters={"dataframe": rows}).validate(suite, result_format="SUMMARY")
    return [_outcome(table, result) for result in done.results]


def _outcome(table: Table, result: Any) -> dict[str, Any]:
    config = result.expectation_config
    crashed = _crash(result.exception_info)
    observed = {k: result.result[k] for k in ("observed_value", "unexpected_count") if k in (result.result or {})}
    return {
        "table": table.name,
        "expectation": _told(config),
        "severity": "critical" if crashed else str(getattr(config.severity, "value", config.severity)),
        "success": bool(result.success),
        "observed": (crashed or json.dumps(observed, default=str))[:OBSERVED_CHARS],
    }


def _told(config: Any) -> str:
    """How an expectation is told, by its configuration."""
    shown = {k: v for k, v in config.kwargs.items() if k not in ("batch_id", "unexpected_rows_query", "value_set")}
    return str(config.description or f"{config.type} {json.dumps(shown, sort_keys=True)}")


def _crash(info: dict[str, Any]) -> str | None:
    """The message of an expectation that raised; Great Expectations keys it by metric on some paths."""
    for each in (info, *(value for value in info.values() if isinstance(value, dict))):
        if each.get("raised_exception"):
            return str(each.get("exception_message"))
    return None
