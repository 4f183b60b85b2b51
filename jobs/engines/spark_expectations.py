"""Expectations on Spark: frames in, one result per expectation out; Great Expectations asks Spark itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import great_expectations as gx
from pyspark.sql import DataFrame

from hindsight.jobs.engines.expectation_suites import BatchDefinition, ephemeral_context, expectations_of, outcome
from hindsight.jobs.engines.spark_gate import candidates_named
from hindsight.schemas import Table

if TYPE_CHECKING:
    from hindsight.jobs.engines.delta_tables import Lake


def results_of(
    lake: Lake, job: str, frames: Mapping[Table, DataFrame], whole: Mapping[Table, DataFrame]
) -> list[dict[str, Any]]:
    """Check frames against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the frames, and what is stored of other tables.
    An expectation that crashes counts as a critical failure.
    """
    source = ephemeral_context().data_sources.add_spark(job, persist=False)
    results = []
    with candidates_named(lake, frames, whole):
        for table, rows in frames.items():
            batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe(table.name)
            results += _check(rows, batch, table)
    return results


def _check(candidate: DataFrame, batch: BatchDefinition, table: Table) -> list[dict[str, Any]]:
    suite = gx.ExpectationSuite(name=table.name, expectations=expectations_of(table))
    done = batch.get_batch(batch_parameters={"dataframe": candidate}).validate(suite, result_format="SUMMARY")
    return [outcome(table, result) for result in done.results]
