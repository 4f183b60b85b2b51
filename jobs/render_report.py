"""Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings, fingerprint
from jobs.delta_tables import Lake
from jobs.report_page import page
from jobs.report_queries import report_data
from jobs.run_context import NoSuchDatesError, RunContext
from jobs.small_files import store_at
from jobs.spark_plans import interpreted_plans
from jobs.sql_views import create_views
from jobs.transforms.frames import rows_of
from schemas import SCHEMA_VERSION
from schemas.bookkeeping import INGESTED_FILE, PUBLICATION, QUALITY_RESULT, QUARANTINE

_PAGE = "report.html"
_SHOWN = "render_report"
# Whatever else changes, one of these is written in the same run.
_TELLING = (INGESTED_FILE, QUARANTINE, QUALITY_RESULT, PUBLICATION)


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> str:
    """Write the page anew; returns its path. The same tables and dates give the same page.

    Raises: NoSuchDatesError: dates were asked for, and nothing is recorded of them.
    """
    lake = _lake(spark, settings, context, lake_root)
    return _written(lake, settings, context, _shown(lake, settings, context))


def page_of(lake_root: str) -> str:
    """Where the page of a lake stands."""
    return f"{lake_root.rstrip('/')}/{_PAGE}"


def refresh(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> str:
    """Write the page anew unless it shows what the tables hold; returns its path."""
    lake = _lake(spark, settings, context, lake_root)
    shown = _shown(lake, settings, context)
    if lake.noted(_SHOWN) == shown and _PAGE in store_at(spark, lake.root).names():
        return page_of(lake.root)
    return _written(lake, settings, context, shown)


def _lake(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> Lake:
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    create_views(spark, lake)
    return lake


def _shown(lake: Lake, settings: Settings, context: RunContext) -> str:
    """What a page of this instant follows from: versions of tables, dates, a section of the settings, the contracts."""
    versions = {table.name: lake.version(table) for table in _TELLING}
    return json.dumps([versions, str(context.dates), fingerprint(settings.report), SCHEMA_VERSION])


def _written(lake: Lake, settings: Settings, context: RunContext, shown: str) -> str:
    with interpreted_plans(lake.spark) as plan_for:
        (ledger,) = rows_of(lake.read(INGESTED_FILE).agg(F.sum("read").alias("lines")))
        plan_for(ledger.lines or 0)
        data = report_data(lake.spark, lake, settings.report, context.dates)
    if context.dates.is_given and data["dates"] is None:
        raise NoSuchDatesError(f"{lake.root} has no date from {context.dates}; the page stays as it was.")
    made = page(data)
    # A run that ends between the two leaves a page without a note, which the next one makes anew.
    lake.note(_SHOWN, None)
    store_at(lake.spark, lake.root).write(_PAGE, made)
    lake.note(_SHOWN, shown)
    return page_of(lake.root)


if __name__ == "__main__":
    from jobs.command_line import main

    main("render-report")
