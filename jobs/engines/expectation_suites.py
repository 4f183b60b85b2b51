"""Contracts and invariants as Great Expectations suites, and what of a result is stored: the same on both engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import ProgressBarsConfig

from hindsight.jobs.engines.counted_results import OBSERVED_CHARS
from hindsight.schemas import Table

__all__ = ["BatchDefinition", "crash_of", "ephemeral_context", "expectations_of", "key_and_values", "outcome"]


def ephemeral_context() -> Any:
    """A context that keeps nothing, draws nothing and calls nobody."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.variables.analytics_enabled = False
    return context


def expectations_of(table: Table) -> list[Any]:
    """The table's key is unique, its closed columns hold known values, and its invariants hold."""
    invariants = [
        gxe.UnexpectedRowsExpectation(unexpected_rows_query=rule.query, description=rule.name, severity=rule.severity)
        for rule in table.rules
    ]
    return [*key_and_values(table), *invariants]


def key_and_values(table: Table) -> list[Any]:
    """The table's key is unique, and its closed columns hold known values."""
    known = [
        gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(values), severity="critical")
        for column, values in table.values
    ]
    return [_unique(table.key), *known]


def _unique(key: Sequence[str]) -> Any:
    """Great Expectations takes a single column for no compound; a column of a key is never null."""
    if len(key) == 1:
        return gxe.ExpectColumnValuesToBeUnique(column=key[0], severity="critical")
    return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(key), ignore_row_if="never", severity="critical")


def outcome(table: Table, result: Any) -> dict[str, Any]:
    """The row of ``quality_result`` that a result makes."""
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


def crash_of(table: Table, expectation: Any, error: Exception) -> dict[str, Any]:
    """The same of an expectation whose rows could not be looked for: a critical failure."""
    told = {"severity": "critical", "success": False, "observed": str(error)[:OBSERVED_CHARS]}
    return {"table": table.name, "expectation": _told(expectation.configuration), **told}


def _told(config: Any) -> str:
    shown = {k: v for k, v in config.kwargs.items() if k not in ("batch_id", "unexpected_rows_query", "value_set")}
    return str(config.description or f"{config.type} {json.dumps(shown, sort_keys=True)}")


def _crash(info: dict[str, Any]) -> str | None:
    """The message of an expectation that raised; Great Expectations keys it by metric on some paths."""
    for each in (info, *(value for value in info.values() if isinstance(value, dict))):
        if each.get("raised_exception"):
            return str(each.get("exception_message"))
    return None
