"""Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from conf.settings import Settings
from jobs.delta_tables import Lake
from jobs.report_page import page
from jobs.report_queries import report_data
from jobs.run_context import NoSuchDatesError, RunContext
from jobs.sql_views import create_views


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> str:
    """Write the page anew; returns its path. The same tables and dates give the same page.

    Raises: NoSuchDatesError: dates were asked for, and nothing is recorded of them.
    """
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    create_views(spark, lake)
    data = report_data(spark, lake, settings.report, context.dates)
    if context.dates.is_given and data["dates"] is None:
        raise NoSuchDatesError(f"{lake.root} has no date from {context.dates}; the page stays as it was.")
    path = f"{lake.root}/report.html"
    write_text(spark, path, page(data))
    return path


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a small file to wherever the lake is, as Spark's Hadoop client knows that place; under a dot name first."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    target = hadoop.Path(path)
    beside = hadoop.Path(target.getParent(), f".{target.getName()}")
    system = target.getFileSystem(spark._jsc.hadoopConfiguration())
    system.setWriteChecksum(False)
    stream = system.create(beside, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    system.delete(target, False)
    if not system.rename(beside, target):
        raise OSError(f"{path} could not be put in place; the new page is at {beside.toString()}.")


if __name__ == "__main__":
    from jobs.command_line import main

    main("render-report")
