"""Send attempts in; availability windows, fault items and replay rules of the dates that new input touched, out."""

from __future__ import annotations

from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings, fingerprint
from jobs.broker_naming import names_by_date
from jobs.delta_tables import ClusterDate, Lake, in_dates, rows_of, staged
from jobs.publication import Derivation, PublicationResult, Stretch, publish
from jobs.run_context import RunContext
from jobs.transforms.availability import (
    items_by_date,
    stretches,
    windows_by_date,
    with_carried_items,
    with_doubtful_ends,
    with_removals,
    with_stretches,
)
from jobs.transforms.fault_updates import judged_updates, updates_of
from jobs.transforms.nearest_source import nearest_attempts
from jobs.transforms.producer_replay import daily_activity, lives, replay_rules, with_process
from jobs.transforms.send_verdicts import choices, doubtful, held_routes, judged, records, removals, unknown_verdicts
from schemas import (
    BROKER_AVAILABILITY_WINDOW,
    FAULT_ITEM_STATE,
    PRODUCER_INSTANCE,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    SEND_VERDICT,
    TOPIC_ROUTE,
)
from udfs.landing_formats import FORMATS, distances, formats_of

_FAR = date(9999, 12, 31)
# endless_until: how far a stretch without end is followed; last_date: the last one that the stretch may write.
_SPAN = "cluster string, first_date date, endless_until date, last_date date, last_recorded date"


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> PublicationResult:
    """Rebuild the windows of the dates that new input touched, and forward until a date closes as it did before."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days)
    derivation = Derivation(
        job="rebuild_availability",
        formats=formats_of("producer"),
        beside=tuple(name for name, f in FORMATS.items() if TOPIC_ROUTE.name in f.tables),
        inputs=(SEND_ATTEMPT, PRODUCER_INSTANCE, TOPIC_ROUTE),
        tables=(PRODUCER_REPLAY, FAULT_ITEM_STATE, BROKER_AVAILABILITY_WINDOW, SEND_VERDICT),
        closing=(PRODUCER_REPLAY, FAULT_ITEM_STATE),
        settings_fingerprint=fingerprint(settings.replay),
        compute=lambda stretch: _compute(stretch, settings),
        waiting=(BROKER_AVAILABILITY_WINDOW, "end_reason = 'open'"),
        corrected=names_by_date,
    )
    return publish(lake, context, derivation)


def _compute(stretch: Stretch, settings: Settings) -> dict[str, DataFrame]:
    lake = stretch.lake
    carry_days = settings.replay.carry_days
    spans = lake.spark.createDataFrame(_spans(stretch), _SPAN)
    opening = staged(stretch.opening(PRODUCER_REPLAY))
    starts = staged(lake.read(PRODUCER_INSTANCE).where(in_dates(stretch.dates)))
    recorded = _recorded(stretch)
    lives_of = staged(lives(recorded.where(in_dates(stretch.dates)), starts, opening, carry_days=carry_days))
    attempts = staged(with_process(recorded, lives_of))
    rules = replay_rules(
        daily_activity(attempts.where(in_dates(stretch.dates))),
        starts,
        opening,
        lake.spark.createDataFrame(_days_to_live(stretch, carry_days), "cluster string, event_date date"),
        overrides=[entry.model_dump() for entry in settings.replay.override],
        carry_days=carry_days,
    )
    rules = staged(rules.join(F.broadcast(spans.select("cluster", "first_date")), "cluster"))
    named = attempts.where(F.col("broker_name").isNotNull())
    updates = judged_updates(updates_of(named).where(in_dates(stretch.dates)), rules)
    items = staged(with_carried_items(updates, stretch.opening(FAULT_ITEM_STATE), rules))
    rows = staged(with_stretches(items))
    verdicts = staged(_verdicts(stretch, settings, attempts, rules, rows))
    forgotten = staged(removals(verdicts))
    if rows_of(forgotten.where("surely").limit(1)):
        rows = staged(with_stretches(with_removals(items, forgotten.where("surely"))))
    doubted = forgotten.where("NOT surely")
    windows = staged(with_doubtful_ends(windows_by_date(stretches(rows), spans, rules), doubted))
    held = {ClusterDate(*row) for row in rows_of(windows.select("cluster", "event_date").distinct())}
    # A date without records is there for its windows' sake only.
    replay = rules.where(in_dates({*(d for d in stretch.dates if d in stretch.recorded), *held}))
    lineage = stretch.context.lineage()
    made = {
        PRODUCER_REPLAY: replay,
        FAULT_ITEM_STATE: items_by_date(rows, replay, doubted, tolerance_ms=settings.replay.clock_tolerance_ms),
        BROKER_AVAILABILITY_WINDOW: windows,
        SEND_VERDICT: verdicts,
    }
    return {table.name: frame.select("*", *lineage) for table, frame in made.items()}


def _recorded(stretch: Stretch) -> DataFrame:
    """The attempts of the dates and their neighbours, of each producer those that its nearest source tells of."""
    recorded = stretch.lake.read(SEND_ATTEMPT).where(in_dates(_with_neighbours(stretch.dates)))
    told_by = stretch.formats.intersection(formats_of("producer"))
    return nearest_attempts(recorded, distances()) if len(told_by) > 1 else recorded


def _verdicts(
    stretch: Stretch, settings: Settings, attempts: DataFrame, rules: DataFrame, rows: DataFrame
) -> DataFrame:
    replay = settings.replay
    # A choice is judged by what came before it, failures too: a source that has none cannot be judged.
    whole = attempts.where(F.col("exceptions_observable"))
    made = choices(whole.where(in_dates(stretch.dates)), rules)
    end = max(d.event_date for d in stretch.dates) + timedelta(days=1)
    until = F.lit(end.isoformat()).cast("timestamp")
    suspects = staged(doubtful(made, stretches(rows), until=until, tolerance_ms=replay.clock_tolerance_ms))
    routes = held_routes(
        suspects,
        stretch.lake.read(TOPIC_ROUTE).where(in_dates(stretch.dates)),
        stale_s=replay.route_stale_s,
        valid_s=replay.route_valid_s,
    )
    recorded = records(suspects, made, rows, routes, tolerance_ms=replay.clock_tolerance_ms)
    known = judged(recorded, tolerance_ms=replay.clock_tolerance_ms)
    return known.unionByName(unknown_verdicts(made), allowMissingColumns=True)


def _spans(stretch: Stretch) -> list[tuple[str, date, date, date, date]]:
    """Per cluster, the values of ``_SPAN``; what lies at or after the following known date is left to that date."""
    spans = []
    for cluster in sorted({d.cluster for d in stretch.dates}):
        days = [d.event_date for d in stretch.dates if d.cluster == cluster]
        following = stretch.following.get(cluster)
        last = following - timedelta(days=1) if following else _FAR
        endless_until = last if following else max(days)
        spans.append((cluster, min(days), endless_until, last, stretch.last_recorded.get(cluster, max(days))))
    return spans


def _days_to_live(stretch: Stretch, carry_days: int) -> list[ClusterDate]:
    """The dates on which a process of the stretch may be alive: its dates and those up to ``carry_days`` after each."""
    days = {
        ClusterDate(d.cluster, d.event_date + timedelta(days=step))
        for d in stretch.dates
        for step in range(carry_days + 1)
    }
    return sorted(d for d in days if d.event_date < stretch.following.get(d.cluster, _FAR))


def _with_neighbours(dates: list[ClusterDate]) -> list[ClusterDate]:
    """Dates of attempts that can have updated a table on ``dates``: some began the day before, or a clock stepped."""
    return sorted({ClusterDate(d.cluster, d.event_date + timedelta(days=step)) for d in dates for step in (-1, 0, 1)})


if __name__ == "__main__":
    from jobs.command_line import main

    main("rebuild-availability")
