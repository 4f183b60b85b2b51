"""Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hindsight.conf.settings import Settings, fingerprint
from hindsight.jobs.asking.asking import spark_asker
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.asker import Asker, query, records
from hindsight.jobs.lake.small_files import PAGE, page_of, store_at
from hindsight.jobs.report.report_page import page
from hindsight.jobs.report.report_parts import FOLDER, parts, write_parts
from hindsight.jobs.report.report_queries import report_data
from hindsight.jobs.running.run_context import NoSuchDatesError, RunContext
from hindsight.schemas import INGESTED_FILE, PUBLICATION, QUALITY_RESULT, QUARANTINE, SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = "render_report"
# Whatever else changes, one of these is written in the same run.
_TELLING = (INGESTED_FILE, QUARANTINE, QUALITY_RESULT, PUBLICATION)


def written(asker: Asker, settings: Settings, context: RunContext) -> str:
    """Write the page anew; returns its path. The same tables and dates give the same page.

    Raises: NoSuchDatesError: dates were asked for, and nothing is recorded of them.
    """
    lake = asker.lake
    shown = _shown(lake, settings, context)
    with lake.plans() as plan_for:
        (taken_in,) = records(asker, query("summary", "taken_in"))
        plan_for(taken_in["lines"])
        data = report_data(asker, settings.report, context.dates)
    if context.dates.is_given and data["dates"] is None:
        raise NoSuchDatesError(f"{lake.root} has no date from {context.dates}; the page stays as it was.")
    beside = parts(asker, data)
    write_parts(store_at(lake.spark, f"{lake.root.rstrip('/')}/{FOLDER}"), beside)
    data["parts"] = [(part.kind, part.cluster, part.name, f"{FOLDER}/{part.file}") for part in beside]
    made = page(data)
    # A run that ends between the two leaves a page without a note, which the next one makes anew.
    lake.note(_SHOWN, None)
    store_at(lake.spark, lake.root).write(PAGE, made)
    lake.note(_SHOWN, shown)
    return page_of(lake.root)


def refreshed(asker: Asker, settings: Settings, context: RunContext) -> str:
    """Write the page anew unless it shows what the tables hold; returns its path."""
    lake = asker.lake
    if lake.noted(_SHOWN) == _shown(lake, settings, context) and PAGE in store_at(lake.spark, lake.root).names():
        return page_of(lake.root)
    return written(asker, settings, context)


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> str:
    """``written`` in a session of Spark's."""
    return written(spark_asker(spark, lake_root, settings, context), settings, context)


def _shown(lake: ArrowLake, settings: Settings, context: RunContext) -> str:
    """What a page of this instant follows from: versions of tables, dates, a section of the settings, the contracts."""
    versions = {table.name: lake.version(table) for table in _TELLING}
    return json.dumps([versions, str(context.dates), fingerprint(settings.report), SCHEMA_VERSION])


if __name__ == "__main__":
    main("render-report")
