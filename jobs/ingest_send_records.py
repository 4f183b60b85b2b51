"""Hook, trace and canonical files in; send_attempt, producer_instance, message_trace out, each fact once."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from conf.settings import Settings
from jobs.broker_naming import name_brokers
from jobs.delta_tables import Lake
from jobs.ingestion import Arrived, Intake, IntakeResult, Reach, take_in
from jobs.run_context import RunContext
from schemas import PRODUCER_INSTANCE, SEND_ATTEMPT, Table
from udfs.landing_formats import HOOK, TRACE, formats_of

_SET_HERE = frozenset(
    {
        "phase",
        "outcome",
        "submit_end_at",
        "submit_file",
        "submit_line",
        "callback_end_at",
        "callback_file",
        "callback_line",
    }
)


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> IntakeResult:
    """Take in new files of the producers' formats; a rerun changes nothing."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)

    def settle(arrived: Arrived) -> None:
        if TRACE in arrived.formats:
            name_brokers(lake, arrived.of([SEND_ATTEMPT]))

    return take_in(
        lake, settings, context, Intake("ingest_send_records", formats_of("producer"), _prepare, _reach, settle)
    )


def _prepare(rows: DataFrame, table: Table) -> DataFrame:
    return rows.transform(pair_halves) if table is SEND_ATTEMPT else rows


def _reach(table: Table) -> Reach | None:
    if table is SEND_ATTEMPT:
        return Reach(("end_at", "submit_end_at", "callback_end_at"))
    return Reach() if table is PRODUCER_INSTANCE else None


def pair_halves(rows: DataFrame) -> DataFrame:
    """Name the source lines of ASYNC halves; of equal lines without a result the second is the callback.

    An ASYNC hook runs twice. When the result was not yet visible to the second run, its line equals the first's:
    equal lines of one message in one file are submit and callback, further ones are copies. Other formats say which
    half a line is.
    """
    same = Window.partitionBy("source_file", *SEND_ATTEMPT.key, "end_at", "phase").orderBy("source_line")
    nth = F.row_number().over(same)
    source = (F.col("source_file"), F.col("source_line"))
    named = rows.withColumn("nth", F.when(F.col("phase") == "submit", nth).otherwise(1)).where("nth <= 2")
    no_result = (F.col("phase") == "submit") & (F.col("nth") == 2) & (F.col("source") == HOOK)
    submit = (F.col("phase") == "submit") & (F.col("nth") == 1)
    callback = (F.col("phase") == "callback") | no_result
    return named.select(
        *(name for name in rows.columns if name not in _SET_HERE),
        F.when(no_result, F.lit("no_result")).otherwise(F.col("phase")).alias("phase"),
        F.when(no_result, F.lit("UNKNOWN")).otherwise(F.col("outcome")).alias("outcome"),
        F.when(submit, F.col("end_at")).alias("submit_end_at"),
        F.when(submit, source[0]).alias("submit_file"),
        F.when(submit, source[1]).alias("submit_line"),
        F.when(callback, F.col("end_at")).alias("callback_end_at"),
        F.when(callback, source[0]).alias("callback_file"),
        F.when(callback, source[1]).alias("callback_line"),
    )


if __name__ == "__main__":
    from jobs.command_line import main

    main("ingest-send-records")
