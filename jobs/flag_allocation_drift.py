"""Rounds of captures in; judged rounds, findings and incidents of the dates that new input touched, out."""

from __future__ import annotations

from typing import Any

from hindsight.conf.settings import Settings, as_text, fingerprint
from hindsight.jobs.command_line import main
from hindsight.jobs.drift.drift_derivation import CLOSING, DERIVED, INPUTS, declared_clients, derive
from hindsight.jobs.drift.kept_groups import Walks
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.publishing.publication import Derivation, Stretch, publish
from hindsight.jobs.running.run_context import PublicationResult, RunContext
from hindsight.schemas import ALLOCATION_DRIFT, DRIFT_INCIDENT, GROUP_ROUND
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landing_formats import formats_of
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises


def run_on(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext) -> PublicationResult:
    """Compute the consumers' tables for the dates that new input changed, and for later dates that depend on them."""
    return publish(lake, context, derivation(settings, runner))


def derivation(settings: Settings, runner: Runner, premises: Premises = NOTHING_SUPPOSED) -> Derivation[Any]:
    """How the consumers' tables follow from their inputs under these settings and premises.

    Raises: SettingsError: the settings name a client family that there is not.
    """
    declared_clients(settings)  # refused before anything is read
    walks = Walks(INPUTS, settings.drift.lookback_s, settings.drift.progress_valid_s)
    return Derivation(
        job="flag_allocation_drift",
        formats=formats_of("consumer"),
        inputs=INPUTS,
        tables=DERIVED,
        closing=CLOSING,
        settings_fingerprint=fingerprint(settings.drift, settings.rounds, settings.timing),
        settings=as_text(drift=settings.drift, rounds=settings.rounds, timing=settings.timing),
        compute=lambda stretch: _compute(stretch, settings, runner, premises, walks),
        # An incident that lasts moves on to the next date, when there is one.
        waiting=((DRIFT_INCIDENT, Where(values={"settled": [False]})),),
        walks=walks,
        by_instant={GROUP_ROUND.name: "round_at", ALLOCATION_DRIFT.name: "round_at"},
    )


def _compute(
    stretch: Stretch[Any], settings: Settings, runner: Runner, premises: Premises, walks: Walks
) -> dict[str, Any]:
    is_kept = stretch.lake.spark is None and premises == NOTHING_SUPPOSED
    made = derive(stretch, settings, runner, premises, walks if is_kept else None)
    return {table.name: made.rows(table.name, arrow_schema(table)) for table in DERIVED}


if __name__ == "__main__":
    main("flag-allocation-drift")
