"""Send attempts in; windows, fault items, replay rules and findings of the dates that new input touched, out."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings, fingerprint
from jobs.broker_naming import names_by_date
from jobs.delta_tables import Lake
from jobs.engines.arrow_columns import arrow_schema
from jobs.engines.arrow_lake import Where
from jobs.engines.spark_runner import SparkRunner
from jobs.producer_buckets import WRITER, WRITERS
from jobs.producer_derivation import DERIVED, derive
from jobs.publication import Derivation, PublicationResult, Stretch, publish
from jobs.run_context import RunContext
from jobs.transforms.frames import ClusterDate, in_dates, rows_of, staged
from jobs.transforms.window_confirmations import LINE, STATES, window_confirmations
from schemas import (
    BROKER_AVAILABILITY_WINDOW,
    CLIENT_EVENT,
    FAULT_ITEM_STATE,
    FLEET_MINUTE,
    PRODUCER_FINDING,
    PRODUCER_INSTANCE,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    SEND_CALL,
    SEND_VERDICT,
    TOPIC_ROUTE,
    WINDOW_CONFIRMATION,
)
from udfs.landing_formats import FORMATS, formats_of
from udfs.retry_rules import RECORD_ENDS


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> PublicationResult:
    """Rebuild the windows of the dates that new input touched, and forward until a date closes as it did before."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    derivation = Derivation(
        job="rebuild_availability",
        formats=formats_of("producer"),
        beside=tuple(name for name, f in FORMATS.items() if {TOPIC_ROUTE.name, CLIENT_EVENT.name} & {*f.tables}),
        inputs=(SEND_ATTEMPT, PRODUCER_INSTANCE, TOPIC_ROUTE, CLIENT_EVENT),
        tables=(
            PRODUCER_REPLAY,
            FAULT_ITEM_STATE,
            BROKER_AVAILABILITY_WINDOW,
            SEND_VERDICT,
            SEND_CALL,
            WINDOW_CONFIRMATION,
            FLEET_MINUTE,
            PRODUCER_FINDING,
        ),
        closing=(PRODUCER_REPLAY, FAULT_ITEM_STATE),
        settings_fingerprint=fingerprint(settings.replay, settings.producer_findings, settings.confirmation),
        compute=lambda stretch: compute(stretch, settings),
        waiting=(
            (BROKER_AVAILABILITY_WINDOW, Where(values={"end_reason": ["open"]})),
            (SEND_CALL, Where(values={"retry_reason": [RECORD_ENDS]})),
        ),
        corrected=names_by_date,
    )
    return publish(lake, context, derivation)


def compute(stretch: Stretch, settings: Settings) -> dict[str, DataFrame]:
    """The rows of every derived table on the stretch's dates, and where a window goes on, on those after it."""
    told = stretch.lake.read(CLIENT_EVENT).where(in_dates(stretch.dates)).where(F.col("kind").isin(*STATES))
    lines = staged(told.select(*LINE))
    dates = [ClusterDate(*row) for row in rows_of(lines.select("cluster", "event_date").distinct())]
    made = derive(stretch, settings, SparkRunner(stretch.lake.spark), dates)
    rows = {table.name: made.rows(table.name, arrow_schema(table)) for table in DERIVED}
    confirmed = lines
    if dates:
        windows, writers = rows[BROKER_AVAILABILITY_WINDOW.name], made.rows(WRITERS, WRITER)
        confirmed = window_confirmations(lines, windows, writers, within_ms=settings.confirmation.within_ms)
    return {**rows, WINDOW_CONFIRMATION.name: confirmed.select("*", *stretch.context.lineage())}


if __name__ == "__main__":
    from jobs.command_line import main

    main("rebuild-availability")
