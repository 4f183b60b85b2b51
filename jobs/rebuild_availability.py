"""Send attempts in; windows, fault items, replay rules and findings of the dates that new input touched, out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hindsight.conf.settings import Settings, as_text, fingerprint
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_columns import arrow_schema
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.producers.broker_naming import names_by_date
from hindsight.jobs.producers.producer_derivation import DERIVED, derive
from hindsight.jobs.publishing.publication import Derivation, PublicationResult, Stretch, publish
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    CLIENT_EVENT,
    FAULT_ITEM_STATE,
    LOST_LINES,
    PRODUCER_INSTANCE,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    SEND_CALL,
    TOPIC_ROUTE,
)
from hindsight.udfs.landing.landing_formats import FORMATS, formats_of
from hindsight.udfs.producer.retry_rules import RECORD_ENDS
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> PublicationResult:
    """Compute the producers' tables for the dates that new input changed, and for later dates that depend on them."""
    from hindsight.jobs.engines.spark_run import lake_and_runner

    return run_on(*lake_and_runner(spark, settings, context, lake_root), settings, context)


def run_on(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext) -> PublicationResult:
    """The same, on either engine."""
    return publish(lake, context, derivation(settings, runner))


def derivation(settings: Settings, runner: Runner, premises: Premises = NOTHING_SUPPOSED) -> Derivation[Any]:
    """How the producers' tables follow from their inputs under these settings and premises."""

    def compute(stretch: Stretch[ArrowLake]) -> dict[str, Any]:
        made = derive(stretch, settings, runner, premises)
        return {table.name: made.rows(table.name, arrow_schema(table)) for table in DERIVED}

    return Derivation(
        job="rebuild_availability",
        formats=formats_of("producer"),
        beside=tuple(name for name, f in FORMATS.items() if {TOPIC_ROUTE.name, CLIENT_EVENT.name} & {*f.tables}),
        inputs=(SEND_ATTEMPT, PRODUCER_INSTANCE, LOST_LINES, TOPIC_ROUTE, CLIENT_EVENT),
        tables=DERIVED,
        closing=(PRODUCER_REPLAY, FAULT_ITEM_STATE),
        settings_fingerprint=fingerprint(settings.replay, settings.producer_findings, settings.confirmation),
        settings=as_text(
            replay=settings.replay,
            producer_findings=settings.producer_findings,
            confirmation=settings.confirmation,
        ),
        compute=compute,
        waiting=(
            (BROKER_AVAILABILITY_WINDOW, Where(values={"end_reason": ["open"]})),
            (SEND_CALL, Where(values={"retry_reason": [RECORD_ENDS]})),
        ),
        corrected=names_by_date,
    )


if __name__ == "__main__":
    main("rebuild-availability")
