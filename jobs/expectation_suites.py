"""Contracts and invariants as Great Expectations suites: frames in, one result per expectation out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import ProgressBarsConfig
from pyspark.sql import DataFrame

from schemas import Table
from schemas.expectations import INVARIANTS

_OBSERVED_CHARS = 500


def results_of(job: str, frames: Mapping[Table, DataFrame]) -> list[dict[str, Any]]:
    """Check frames against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    An expectation that crashes counts as a critical failure.
    """
    suites = gx.get_context(mode="ephemeral")
    suites.variables.progress_bars = ProgressBarsConfig(globally=False)
    suites.variables.analytics_enabled = False
    source = suites.data_sources.add_spark(job, persist=False)
    results = []
    for table, frame in frames.items():
        batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe(table.name)
        results += _check(frame, batch, table)
    return results


def expectations_of(table: Table) -> list[Any]:
    """The table's key is unique, its closed columns hold known values, and its invariants hold."""
    unique = gxe.ExpectCompoundColumnsToBeUnique(
        column_list=list(table.key), ignore_row_if="never", severity="critical"
    )
    known = [
        gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(values), severity="critical")
        for column, values in table.values
    ]
    invariants = [
        gxe.UnexpectedRowsExpectation(unexpected_rows_query=rule.query, description=rule.name, severity=rule.severity)
        for rule in INVARIANTS.get(table.name, ())
    ]
    return [unique, *known, *invariants]


def _check(candidate: DataFrame, batch: BatchDefinition, table: Table) -> list[dict[str, Any]]:
    suite = gx.ExpectationSuite(name=table.name, expectations=expectations_of(table))
    done = batch.get_batch(batch_parameters={"dataframe": candidate}).validate(suite, result_format="SUMMARY")
    return [_outcome(table, result) for result in done.results]


def _outcome(table: Table, result: Any) -> dict[str, Any]:
    config = result.expectation_config
    crashed = _crash(result.exception_info)
    shown = {k: v for k, v in config.kwargs.items() if k not in ("batch_id", "unexpected_rows_query", "value_set")}
    observed = {k: result.result[k] for k in ("observed_value", "unexpected_count") if k in (result.result or {})}
    return {
        "table": table.name,
        "expectation": config.description or f"{config.type} {json.dumps(shown, sort_keys=True)}",
        "severity": "critical" if crashed else str(getattr(config.severity, "value", config.severity)),
        "success": bool(result.success),
        "observed": (crashed or json.dumps(observed, default=str))[:_OBSERVED_CHARS],
    }


def _crash(info: dict[str, Any]) -> str | None:
    """The message of an expectation that raised; Great Expectations keys it by metric on some paths."""
    for each in (info, *(value for value in info.values() if isinstance(value, dict))):
        if each.get("raised_exception"):
            return str(each.get("exception_message"))
    return None
