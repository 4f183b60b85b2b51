"""Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."""

from __future__ import annotations

from pyspark.sql import SparkSession

from conf.settings import Settings
from jobs.delta_tables import Lake
from jobs.report_page import page
from jobs.report_queries import report_data
from jobs.run_context import NoSuchDatesError, RunContext
from jobs.small_files import store_at
from jobs.sql_views import create_views

_PAGE = "report.html"


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> str:
    """Write the page anew; returns its path. The same tables and dates give the same page.

    Raises: NoSuchDatesError: dates were asked for, and nothing is recorded of them.
    """
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    create_views(spark, lake)
    data = report_data(spark, lake, settings.report, context.dates)
    if context.dates.is_given and data["dates"] is None:
        raise NoSuchDatesError(f"{lake.root} has no date from {context.dates}; the page stays as it was.")
    store_at(spark, lake.root).write(_PAGE, page(data))
    return f"{lake.root}/{_PAGE}"


if __name__ == "__main__":
    from jobs.command_line import main

    main("render-report")
