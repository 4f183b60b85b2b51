"""Contracts and invariants as Great Expectations suites, and what of a result is stored: the same on both engines."""

from __future__ import annotations

import json
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.data_context.types.base import ProgressBarsConfig

from hindsight.jobs.engines.counted_results import OBSERVED_CHARS
from hindsight.schemas import Table


def ephemeral_context() -> Any:
    """A context that keeps nothing, draws nothing and calls nobody."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.variables.analytics_enabled = False
    return context


def key_and_values(table: Table) -> list[Any]:
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


def results(source: Any, table: Table, name: str, rows: Any, expected: list[Any]) -> list[dict[str, Any]]:
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
        "expectation": told(config),
        "severity": "critical" if crashed else str(getattr(config.severity, "value", config.severity)),
        "success": bool(result.success),
        "observed": (crashed or json.dumps(observed, default=str))[:OBSERVED_CHARS],
    }


def told(config: Any) -> str:
    """How an expectation is told, by its configuration."""
    shown = {k: v for k, v in config.kwargs.items() if k not in ("batch_id", "unexpected_rows_query", "value_set")}
    return str(config.description or f"{config.type} {json.dumps(shown, sort_keys=True)}")


def _crash(info: dict[str, Any]) -> str | None:
    """The message of an expectation that raised; Great Expectations keys it by metric on some paths."""
    for each in (info, *(value for value in info.values() if isinstance(value, dict))):
        if each.get("raised_exception"):
            return str(each.get("exception_message"))
    return None
