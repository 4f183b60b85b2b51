"""Expectations on Spark: frames in, one result per expectation out; Great Expectations asks Spark itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import great_expectations.expectations as gxe
from pyspark.sql import DataFrame

from hindsight.jobs.engines.expectation_suites import ephemeral_context, key_and_values, results
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
    found = []
    with candidates_named(lake, frames, whole):
        for table, rows in frames.items():
            rules = [
                gxe.UnexpectedRowsExpectation(unexpected_rows_query=r.query, description=r.name, severity=r.severity)
                for r in table.rules
            ]
            found += results(source, table, table.name, rows, [*key_and_values(table), *rules])
    return found
