"""Send attempts in; windows, fault items, replay rules and findings of the dates that new input touched, out."""

from __future__ import annotations

from typing import Any

from hindsight.conf.settings import Settings, as_text, fingerprint
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.producers.broker_naming import names_by_date
from hindsight.jobs.producers.kept_producers import ProducerWalks
from hindsight.jobs.producers.producer_buckets import watched_ms
from hindsight.jobs.producers.producer_derivation import DERIVED, derive
from hindsight.jobs.publishing.publication import Derivation, Stretch, publish
from hindsight.jobs.running.run_context import PublicationResult, RunContext
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
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landing_formats import FORMATS, formats_of
from hindsight.udfs.producer.producer_finding import Thresholds
from hindsight.udfs.producer.retry_rules import RECORD_ENDS
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises


def run_on(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext) -> PublicationResult:
    """Compute the producers' tables for the dates that new input changed, and for later dates that depend on them."""
    return publish(lake, context, derivation(settings, runner))


def derivation(settings: Settings, runner: Runner, premises: Premises = NOTHING_SUPPOSED) -> Derivation[Any]:
    """How the producers' tables follow from their inputs under these settings and premises."""

    walks = ProducerWalks(watched_ms(Thresholds(**settings.producer_findings.model_dump())))

    def compute(stretch: Stretch[Any]) -> dict[str, Any]:
        is_kept = stretch.lake.spark is None and premises == NOTHING_SUPPOSED
        made = derive(stretch, settings, runner, premises, walks if is_kept else None)
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
        walks=walks,
        waiting=(
            (BROKER_AVAILABILITY_WINDOW, Where(values={"end_reason": ["open"]})),
            (SEND_CALL, Where(values={"retry_reason": [RECORD_ENDS]})),
        ),
        corrected=names_by_date,
    )


if __name__ == "__main__":
    main("rebuild-availability")
