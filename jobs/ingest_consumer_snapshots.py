"""What collectors, mqadmin, brokers and logs say of consumers in; rounds, members, ownership, progress, routes out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings
from jobs.broker_naming import name_brokers, trace_dates
from jobs.delta_tables import Lake
from jobs.ingestion import Arrived, Intake, IntakeResult, Reach, take_in
from jobs.run_context import RunContext
from jobs.transforms.frames import ClusterDate, in_dates, rows_of
from jobs.transforms.rounds import CAPTURE, capture_rounds, with_own_words, with_round
from schemas import (
    CLIENT_HEARTBEAT,
    COLLECTION_ROUND,
    CONSUMER_HEARTBEAT,
    MEMBERSHIP_EVENT,
    POP_ASSIGNMENT,
    PRODUCER_CONNECTION,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    SNAPSHOT_CAPTURE,
    SUBSCRIPTION_GROUP,
    TOPIC_CONFIG,
    TOPIC_ROUTE,
    TOPIC_STATUS,
    Table,
)
from udfs.landing_formats import formats_of

_JOB = "ingest_consumer_snapshots"
_OF_CAPTURES = (
    QUEUE_OWNERSHIP,
    POP_ASSIGNMENT,
    QUEUE_PROGRESS,
    TOPIC_ROUTE,
    PRODUCER_CONNECTION,
    TOPIC_STATUS,
    TOPIC_CONFIG,
    SUBSCRIPTION_GROUP,
)
_OF_ROUNDS = (SNAPSHOT_CAPTURE, CONSUMER_HEARTBEAT, *_OF_CAPTURES)


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> IntakeResult:
    """Take in new files of the consumers' formats, of brokers' and clients' logs; a rerun changes nothing."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    rounds = RoundSettling(lake, settings)

    def settle(arrived: Arrived) -> None:
        rounds.settle(arrived.of((COLLECTION_ROUND, *_OF_ROUNDS)))
        routed = {date.cluster for date in arrived.of([TOPIC_ROUTE])}
        if routed:
            name_brokers(lake, trace_dates(lake, routed))

    intake = Intake(_JOB, formats_of("consumer"), rounds.prepare, rounds.reach, settle)
    return take_in(lake, settings, context, intake)


class RoundSettling:
    """Assigns captures to rounds when they are stored, and corrects stored ones that a late marker moves."""

    def __init__(self, lake: Lake, settings: Settings) -> None:
        self.lake = lake
        self.rounds = settings.rounds
        self.lookback_s = max(settings.drift.lookback_s, settings.rounds.max_round_s)

    def reach(self, table: Table) -> Reach | None:
        """A capture or marker changes its own round, the one before, and rounds that look back on it."""
        if table not in (COLLECTION_ROUND, REBALANCE_RESULT, CLIENT_HEARTBEAT, MEMBERSHIP_EVENT, *_OF_ROUNDS):
            return None
        return Reach((table.date_of,), before_s=self.rounds.max_round_s, after_s=self.lookback_s)

    def prepare(self, rows: DataFrame, table: Table) -> DataFrame:
        """Rows to store, with their round; a heartbeat also with its member's own subscriptions."""
        if table not in _OF_ROUNDS:
            return rows
        dates = [row.event_date for row in rows_of(rows.select("event_date").distinct())]
        settled = with_round(rows, self._rounds(rows.select(*CAPTURE), dates))
        return self._completed(settled, table, dates)

    def settle(self, dates: list[ClusterDate]) -> None:
        """Correct the stored rows of ``dates`` whose round, or member's subscriptions, are no longer right."""
        if not dates:
            return
        days = sorted({d.event_date for d in dates})
        rounds = self._rounds(None, days).persist()
        self._replace_gap_rounds(rounds, dates)
        # Each table, also where no capture moves: its new rows were placed among their own captures only. Heartbeats
        # come last, with the subscriptions of captures that are right by then.
        for table in (SNAPSHOT_CAPTURE, *_OF_CAPTURES, CONSUMER_HEARTBEAT):
            self._correct(table, rounds, dates)
        rounds.unpersist()

    def _correct(self, table: Table, rounds: DataFrame, dates: list[ClusterDate]) -> None:
        """Store what has become of the settled columns."""
        columns = ["round_at", *(["subscriptions", "client_kind"] if table is CONSUMER_HEARTBEAT else [])]
        days = sorted({d.event_date for d in dates})
        stored = self.lake.read(table).where(in_dates(dates)).withColumn("before", F.struct(*columns))
        right = self._completed(with_round(stored, rounds), table, days)
        moved = right.where(~F.struct(*columns).eqNullSafe(F.col("before"))).select(*table.key, *columns)
        if not moved.isEmpty():
            self.lake.update(table, moved, columns, days)

    def _rounds(self, fresh: DataFrame | None, dates: Iterable[date]) -> DataFrame:
        near = _with_neighbours(dates)
        stored = self.lake.read(SNAPSHOT_CAPTURE).where(F.col("event_date").isin(near)).select(*CAPTURE)
        markers = self.lake.read(COLLECTION_ROUND).where(F.col("event_date").isin(near) & (F.col("kind") == "marker"))
        captures = stored if fresh is None else stored.unionByName(fresh)
        gaps = {"": self.rounds.gap_s, **self.rounds.collector_gap_s}
        return capture_rounds(captures, markers, max_round_s=self.rounds.max_round_s, gap_s=gaps)

    def _completed(self, rows: DataFrame, table: Table, dates: Iterable[date]) -> DataFrame:
        if table is not CONSUMER_HEARTBEAT:
            return rows
        near = F.col("event_date").isin(_with_neighbours(dates))
        return with_own_words(rows, self.lake.read(SNAPSHOT_CAPTURE).where(near))

    def _replace_gap_rounds(self, rounds: DataFrame, dates: list[ClusterDate]) -> None:
        """Rounds that only a pause began stand in the table too, sourced from their first capture."""
        first = rounds.where((F.col("kind") == "gap") & (F.col("captured_at") == F.col("round_at")))
        line = F.struct("source_file", "source_line")
        source = F.min_by(F.struct("source", "source_file", "source_line", "ingested_at", "run_id"), line)
        sources = self.lake.read(SNAPSHOT_CAPTURE).where(in_dates(dates)).groupBy(*CAPTURE).agg(source.alias("s"))
        gaps = (
            first.join(sources, list(CAPTURE))
            .select("cluster", "collector", "round_at", "kind", "s.*", F.to_date("round_at").alias("event_date"))
            .where(in_dates(dates))
        )
        of_dates = f"kind = 'gap' AND ({in_dates(dates)})"
        if not gaps.isEmpty() or not self.lake.read(COLLECTION_ROUND).where(of_dates).isEmpty():
            self.lake.replace_where(COLLECTION_ROUND, gaps, of_dates)


def _with_neighbours(dates: Iterable[date]) -> list[date]:
    return sorted({date.fromordinal(day.toordinal() + step) for day in dates for step in (-1, 0, 1)})


if __name__ == "__main__":
    from jobs.command_line import main

    main("ingest-consumer-snapshots")
