"""What collectors, mqadmin, brokers and logs say of consumers in; rounds, members, ownership, progress, routes out."""

from __future__ import annotations

from pyspark.sql import SparkSession

from conf.settings import Settings
from jobs.broker_naming import name_brokers, trace_dates
from jobs.delta_tables import Lake
from jobs.engines.arrow_lake import ArrowLake
from jobs.engines.runner import Runner
from jobs.engines.spark_runner import SparkRunner
from jobs.ingestion import Arrived, Intake, IntakeResult, take_in
from jobs.round_kernels import told_of_rounds
from jobs.round_settling import CHANGE_ROUNDS, RoundSettling
from jobs.run_context import RunContext
from schemas import TOPIC_ROUTE
from udfs.landing_formats import formats_of

_JOB = "ingest_consumer_snapshots"


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> IntakeResult:
    """Take in new files of the consumers' formats, of brokers' and clients' logs; a rerun changes nothing."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    return run_on(lake, SparkRunner(spark), settings, context)


def run_on(lake: ArrowLake, runner: Runner, settings: Settings, context: RunContext) -> IntakeResult:
    """The same on either engine."""
    rounds = RoundSettling(lake, runner, settings)

    def settle(arrived: Arrived) -> None:
        rounds.settle(arrived.of(CHANGE_ROUNDS))
        routed = {date.cluster for date in arrived.of([TOPIC_ROUTE])}
        if routed:
            name_brokers(lake, runner, trace_dates(lake, routed))

    intake = Intake(_JOB, formats_of("consumer"), rounds.reach, settle, told_of_rounds, rounds.complete)
    return take_in(lake, runner, settings, context, intake)


if __name__ == "__main__":
    from jobs.command_line import main

    main("ingest-consumer-snapshots")
