"""Hook, trace and canonical files in; send_attempt, producer_instance, message_trace out, each fact once."""

from __future__ import annotations

from hindsight.conf.settings import Settings
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.intake.ingestion import Arrived, Intake, take_in
from hindsight.jobs.producers.broker_naming import name_brokers
from hindsight.jobs.running.run_context import IntakeResult, RunContext
from hindsight.schemas import LOST_LINES, PRODUCER_INSTANCE, SEND_ATTEMPT, Table
from hindsight.udfs.landing.landed_rows import Reach
from hindsight.udfs.landing.landing_formats import TRACE, formats_of
from hindsight.udfs.producer.send_calls import REACH_MS


def run_on(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext) -> IntakeResult:
    """Take in new files of the producers' formats. A rerun changes nothing."""

    def settle(arrived: Arrived) -> None:
        if TRACE in arrived.formats:
            name_brokers(lake, runner, arrived.of([SEND_ATTEMPT]))

    return take_in(
        lake, runner, settings, context, Intake("ingest_send_records", formats_of("producer"), _reach, settle)
    )


def _reach(table: Table) -> Reach | None:
    if table is SEND_ATTEMPT:
        return Reach(("end_at",))
    if table is LOST_LINES:
        return Reach(("told_at",), before_s=REACH_MS // 1000)
    return Reach() if table is PRODUCER_INSTANCE else None


if __name__ == "__main__":
    main("ingest-send-records")
