"""The frames that a gate looks at, by name for Spark's SQL: how many of their rows break which expectation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from hindsight.jobs.engines.counted_results import expectations, results_of_table
from hindsight.schemas import TABLES, Table
from hindsight.schemas.table_contract import beside

if TYPE_CHECKING:
    from hindsight.jobs.engines.delta_tables import Lake

_BATCH = "hindsight_batch"


def counted_results(
    lake: Lake, frames: Mapping[Table, DataFrame], whole: Mapping[Table, DataFrame]
) -> list[dict[str, Any]]:
    """Check frames against the contracts and invariants of their tables; columns of ``quality_result`` by name.

    Invariants see ``whole`` beside the frames, and what is stored of other tables.
    """
    results = []
    with candidates_named(lake, frames, whole):
        for table, rows in frames.items():
            rows.createOrReplaceTempView(_BATCH)
            results += results_of_table(table, list(expectations(table, "`{}`".format)), partial(_counted, lake))
        lake.spark.catalog.dropTempView(_BATCH)
    return results


@contextmanager
def candidates_named(lake: Lake, frames: Mapping[Table, DataFrame], whole: Mapping[Table, DataFrame]) -> Iterator[None]:
    """The candidates that invariants of the frames' tables look at, by their names."""
    of_name = {table.name: rows for table, rows in whole.items()}
    seen = {name: of_name[name] if name in of_name else lake.read(TABLES[name]) for name in beside(frames)}
    try:
        for name, frame in seen.items():
            frame.createOrReplaceTempView(f"candidate_{name}")
        yield
    finally:
        for name in seen:
            lake.spark.catalog.dropTempView(f"candidate_{name}")


def _counted(lake: Lake, queries: Sequence[str]) -> Sequence[int]:
    (row,) = lake.spark.sql(f"SELECT {', '.join(f'({query.format(batch=_BATCH)})' for query in queries)}").collect()
    return row
