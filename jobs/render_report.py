"""Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from conf.settings import Settings
from jobs.delta_tables import Lake
from jobs.report_page import page
from jobs.report_queries import report_data
from jobs.run_context import RunContext
from jobs.sql_views import create_views


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> str:
    """Write the page anew; returns its path. The same tables and dates give the same page."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    create_views(spark, lake)
    path = f"{lake.root}/report.html"
    write_text(spark, path, page(report_data(spark, lake, settings.report, context.dates)))
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
