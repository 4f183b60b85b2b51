"""Checks published tables against their contracts and invariants, for CI and after a migration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from conf.settings import Settings
from jobs.delta_tables import Lake
from jobs.quality_gate import validated
from jobs.run_context import RunContext
from schemas import TABLES


def run(
    spark: SparkSession, settings: Settings, context: RunContext, lake_root: str, tables: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Results of all expectations of the tables (none named: of all that exist), stored in ``quality_result`` too."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    wanted = [TABLES[name] for name in tables] or [t for t in TABLES.values() if lake.version(t) is not None]
    return validated(lake, context, "check_quality", {table: lake.read(table) for table in wanted})


if __name__ == "__main__":
    from jobs.command_line import main

    main("check")
