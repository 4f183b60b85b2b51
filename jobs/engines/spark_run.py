"""A lake that a run on Spark holds: a place in; the lake with its lease, what runs kernels, and the run out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.spark_runner import SparkRunner
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.run_log import progress
from hindsight.jobs.running.spark_session import spark_session


def lake_and_runner(
    spark: SparkSession, settings: Settings, context: RunContext, lake_root: str
) -> tuple[Lake, SparkRunner]:
    """The lake at a place, and what runs kernels beside it."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    return lake, SparkRunner(spark)


@contextmanager
def opened_on_spark(
    lake_root: str, settings: Settings, context: RunContext, *, name: str, master: str | None, wait_s: float = 0
) -> Iterator[tuple[Lake, SparkRunner, RunContext]]:
    """A session of its own, in which the run holds the lake.

    Raises: SparkEnvironmentError: Spark does not start. LakeHeldError: another run holds the lake, and has not ended
    within ``wait_s`` seconds.
    """
    with (
        spark_session(settings, app_name=f"hindsight {name}", master=master) as spark,
        progress(spark.sparkContext),
        held(spark, lake_root, context, wait_s=wait_s) as holding,
    ):
        yield (*lake_and_runner(spark, settings, holding, lake_root), holding)
