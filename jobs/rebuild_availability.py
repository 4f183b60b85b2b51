"""Send attempts in; availability windows, fault items and replay rules of the dates that new input touched, out."""

from __future__ import annotations

from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings, fingerprint
from jobs.delta_tables import ClusterDate, Lake, in_dates, rows_of, staged
from jobs.publication import Derivation, PublicationResult, Stretch, publish
from jobs.run_context import RunContext
from jobs.transforms.availability import (
    items_by_date,
    stretches,
    windows_by_date,
    with_carried_items,
    with_stretches,
)
from jobs.transforms.fault_updates import judged_updates, updates_of
from jobs.transforms.producer_replay import PROCESS, daily_activity, replay_rules, with_process
from schemas import BROKER_AVAILABILITY_WINDOW, FAULT_ITEM_STATE, PRODUCER_INSTANCE, PRODUCER_REPLAY, SEND_ATTEMPT
from udfs.landing_formats import formats_of

_FAR = date(9999, 12, 31)


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> PublicationResult:
    """Rebuild the windows of the dates that new input touched, and forward until a date closes as it did before."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    derivation = Derivation(
        job="rebuild_availability",
        formats=formats_of("producer"),
        inputs=(SEND_ATTEMPT, PRODUCER_INSTANCE),
        tables=(PRODUCER_REPLAY, FAULT_ITEM_STATE, BROKER_AVAILABILITY_WINDOW),
        closing=(PRODUCER_REPLAY, FAULT_ITEM_STATE),
        settings_fingerprint=fingerprint(settings.replay),
        compute=lambda stretch: _compute(stretch, settings),
        waiting=(BROKER_AVAILABILITY_WINDOW, "end_reason = 'open'"),
    )
    return publish(lake, context, derivation)


def _compute(stretch: Stretch, settings: Settings) -> dict[str, DataFrame]:
    lake = stretch.lake
    spans = lake.spark.createDataFrame(
        _spans(stretch), "cluster string, first_date date, last_span_date date, last_date date, last_recorded date"
    )
    opening = staged(stretch.opening(PRODUCER_REPLAY))
    starts = staged(lake.read(PRODUCER_INSTANCE).where(in_dates(stretch.dates)))
    attempts = staged(_attempts(stretch, starts, opening))
    activity = staged(daily_activity(attempts.where(in_dates(stretch.dates))))

    def rules_on(dates: list[ClusterDate]) -> DataFrame:
        return replay_rules(
            activity,
            starts,
            opening,
            lake.spark.createDataFrame(dates, "cluster string, event_date date"),
            overrides=[entry.model_dump() for entry in settings.replay.override],
            carry_days=settings.replay.carry_days,
        )

    rules = staged(rules_on(stretch.dates).join(F.broadcast(spans.select("cluster", "first_date")), "cluster"))
    updates = judged_updates(updates_of(attempts).where(in_dates(stretch.dates)), rules)
    rows = staged(with_stretches(with_carried_items(updates, stretch.opening(FAULT_ITEM_STATE), rules)))
    windows = staged(windows_by_date(stretches(rows), spans, rules))
    spilled = {ClusterDate(*row) for row in rows_of(windows.select("cluster", "event_date").distinct())}
    replay = staged(rules_on(sorted({*stretch.dates, *spilled})))
    lineage = stretch.context.lineage()
    made = {
        PRODUCER_REPLAY: replay,
        FAULT_ITEM_STATE: items_by_date(rows, replay),
        BROKER_AVAILABILITY_WINDOW: windows,
    }
    return {table.name: frame.select("*", *lineage) for table, frame in made.items()}


def _spans(stretch: Stretch) -> list[tuple[str, date, date, date, date]]:
    """Per cluster: first and last date of the stretch, the last date its rows may lie on, the last recorded one."""
    spans = []
    for cluster in sorted({d.cluster for d in stretch.dates}):
        days = [d.event_date for d in stretch.dates if d.cluster == cluster]
        following = stretch.following.get(cluster)
        last = date.fromordinal(following.toordinal() - 1) if following else _FAR
        spans.append((cluster, min(days), max(days), last, stretch.last_recorded.get(cluster, max(days))))
    return spans


def _attempts(stretch: Stretch, starts: DataFrame, opening: DataFrame) -> DataFrame:
    """Attempts that can have updated a table on the stretch's dates: some began the day before, or after a clock
    stepped back."""
    near = sorted(
        {
            ClusterDate(d.cluster, date.fromordinal(d.event_date.toordinal() + step))
            for d in stretch.dates
            for step in (-1, 0, 1)
        }
    )
    processes = starts.select(*PROCESS).unionByName(opening.select(*PROCESS))
    return with_process(stretch.lake.read(SEND_ATTEMPT).where(in_dates(near)), processes)


if __name__ == "__main__":
    from jobs.command_line import main

    main("rebuild-availability")
