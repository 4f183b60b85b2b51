"""What collectors, mqadmin, brokers and logs say of consumers in; rounds, members, ownership, progress, routes out."""

from __future__ import annotations

from hindsight.conf.settings import Settings
from hindsight.jobs.command_line import main
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.intake.ingestion import Arrived, Intake, take_in
from hindsight.jobs.intake.round_settling import CHANGE_ROUNDS, RoundSettling, told_of_rounds
from hindsight.jobs.producers.broker_naming import name_brokers, trace_dates
from hindsight.jobs.running.run_context import IntakeResult, RunContext
from hindsight.schemas import TOPIC_ROUTE
from hindsight.udfs.landing.landing_formats import formats_of

_JOB = "ingest_consumer_snapshots"


def run_on(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext) -> IntakeResult:
    """Take in new files of the consumers' formats and of logs. A rerun changes nothing."""
    rounds = RoundSettling(lake, runner, settings)

    def settle(arrived: Arrived) -> None:
        rounds.settle(arrived.of(CHANGE_ROUNDS))
        routed = {date.cluster for date in arrived.of([TOPIC_ROUTE])}
        if routed:
            name_brokers(lake, runner, trace_dates(lake, routed))

    intake = Intake(_JOB, formats_of("consumer"), rounds.reach, settle, told_of_rounds, rounds.complete)
    return take_in(lake, runner, settings, context, intake)


if __name__ == "__main__":
    main("ingest-consumer-snapshots")
