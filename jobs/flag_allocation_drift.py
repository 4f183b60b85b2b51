"""Rounds of captures in; judged rounds, findings and incidents of the dates that new input touched, out."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from conf.settings import Settings, fingerprint
from jobs.delta_tables import Lake
from jobs.engines.arrow_lake import Where
from jobs.publication import Derivation, PublicationResult, Stretch, publish
from jobs.run_context import RunContext
from jobs.transforms.cut_names import with_whole_names
from jobs.transforms.drift import group_rounds, rows_of_kind, strategy_states, verdicts, walked
from jobs.transforms.expectations import expectations, with_expectation
from jobs.transforms.frames import ClusterDate, in_dates, staged
from jobs.transforms.group_rounds import (
    GROUP_OF_ROUND,
    group_reads,
    group_topics,
    progress_at,
    topic_rounds,
)
from jobs.transforms.member_lists import listed_members
from jobs.transforms.member_rules import member_rules, strategy_events
from jobs.transforms.members import heartbeat_ages, member_events
from jobs.transforms.nearest_source import nearest_captures
from jobs.transforms.round_routes import round_routes
from schemas import (
    ALLOCATION_DRIFT,
    CLIENT_HEARTBEAT,
    CLIENT_STRATEGY_STATE,
    CONSUMER_HEARTBEAT,
    DRIFT_INCIDENT,
    EXPECTED_ALLOCATION,
    GROUP_DRIFT_STATE,
    GROUP_ROUND,
    MEMBERSHIP_CHANGE,
    MEMBERSHIP_EVENT,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
    Table,
)
from udfs.drift_timing import Timing
from udfs.group_walk import CHANGE, DRIFT, INCIDENT, SCOPE, STATE, WalkSettings
from udfs.landing_formats import FORMATS, distances, formats_of

_DAY_S = 86_400


def run(spark: SparkSession, settings: Settings, context: RunContext, lake_root: str) -> PublicationResult:
    """Judge the rounds of the dates that new input touched, and forward until a date closes as it did before."""
    lake = Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=context.confirm)
    derivation = Derivation(
        job="flag_allocation_drift",
        formats=formats_of("consumer"),
        inputs=(
            SNAPSHOT_CAPTURE,
            CONSUMER_HEARTBEAT,
            QUEUE_OWNERSHIP,
            QUEUE_PROGRESS,
            TOPIC_ROUTE,
            REBALANCE_RESULT,
            CLIENT_HEARTBEAT,
            MEMBERSHIP_EVENT,
        ),
        tables=(
            CLIENT_STRATEGY_STATE,
            GROUP_DRIFT_STATE,
            EXPECTED_ALLOCATION,
            ALLOCATION_DRIFT,
            MEMBERSHIP_CHANGE,
            DRIFT_INCIDENT,
            GROUP_ROUND,
        ),
        closing=(CLIENT_STRATEGY_STATE, GROUP_DRIFT_STATE),
        settings_fingerprint=fingerprint(settings.drift, settings.rounds, settings.timing),
        compute=lambda stretch: _compute(stretch, settings),
        # An incident that lasts moves on to the next date, when there is one.
        waiting=((DRIFT_INCIDENT, Where(values={"settled": [False]})),),
    )
    return publish(lake, context, derivation)


def _compute(stretch: Stretch, settings: Settings) -> dict[str, DataFrame]:
    drift = settings.drift
    captures = staged(_captures(stretch, drift.lookback_s))
    heartbeats = _of_rounds(stretch, CONSUMER_HEARTBEAT, drift.lookback_s)
    groups = staged(group_reads(captures).join(listed_members(captures, heartbeats), list(GROUP_OF_ROUND), "left"))
    owned = staged(_latest_ownership(_of_rounds(stretch, QUEUE_OWNERSHIP, drift.lookback_s)))
    events = staged(_strategy_events(stretch))
    listed = groups.where(F.col("connections").isNotNull())
    configured = [entry.model_dump() | {"parameters": entry.parameters or None} for entry in drift.strategy]
    rules = staged(member_rules(listed, events, configured=configured))
    told_routes = _of_rounds(stretch, TOPIC_ROUTE, drift.lookback_s)
    routes = staged(round_routes(captures, told_routes))
    progress = with_whole_names(_of_rounds(stretch, QUEUE_PROGRESS, drift.lookback_s), captures, told_routes)
    readings = staged(progress_at(groups, progress, valid_s=drift.progress_valid_s))
    known = group_topics(groups, owned, readings, lookback_s=drift.lookback_s)
    topics = staged(topic_rounds(groups, known, rules, routes, loose_spread_s=settings.rounds.loose_spread_s))
    expected = staged(expectations(topics))
    judged = staged(with_expectation(topics, expected, lookback_s=drift.lookback_s).where(in_dates(stretch.dates)))
    of_dates = groups.withColumn("event_date", F.to_date("round_at")).where(in_dates(stretch.dates))
    rounds = group_rounds(judged, of_dates, owned, readings, _member_events(stretch, groups, drift.lookback_s))
    opening = stretch.opening(GROUP_DRIFT_STATE)
    walk = staged(walked(rounds, expected, opening, _dates(stretch), _walk_settings(settings)))
    found = rows_of_kind(walk, DRIFT)
    made: dict[Table, DataFrame] = {
        CLIENT_STRATEGY_STATE: strategy_states(events, _dates(stretch), carry_days=drift.strategy_carry_days),
        GROUP_DRIFT_STATE: rows_of_kind(walk, STATE),
        EXPECTED_ALLOCATION: expected.where(in_dates(stretch.dates)),
        ALLOCATION_DRIFT: found,
        MEMBERSHIP_CHANGE: rows_of_kind(walk, CHANGE),
        DRIFT_INCIDENT: rows_of_kind(walk, INCIDENT),
        GROUP_ROUND: verdicts(_with_heartbeats(stretch, settings, judged, groups), found, rows_of_kind(walk, SCOPE)),
    }
    lineage = stretch.context.lineage()
    return {table.name: frame.select("*", *lineage) for table, frame in made.items()}


def _captures(stretch: Stretch, lookback_s: int) -> DataFrame:
    """Captures of the rounds, of each group those of the source nearest to it."""
    captures = _of_rounds(stretch, SNAPSHOT_CAPTURE, lookback_s)
    capturing = {name for name, f in FORMATS.items() if SNAPSHOT_CAPTURE.name in f.tables}
    return nearest_captures(captures, distances()) if len(capturing & stretch.formats) > 1 else captures


def _member_events(stretch: Stretch, groups: DataFrame, lookback_s: int) -> DataFrame | None:
    """What brokers' logs tell of the groups' members; None: no such log was taken in."""
    if not _fed(stretch, MEMBERSHIP_EVENT):
        return None
    return member_events(groups, _of_days(stretch, MEMBERSHIP_EVENT), lookback_s=lookback_s)


def _with_heartbeats(stretch: Stretch, settings: Settings, topics: DataFrame, groups: DataFrame) -> DataFrame:
    """Rounds with the age of each member's heartbeat, where heartbeats were taken in."""
    if not _fed(stretch, CLIENT_HEARTBEAT):
        return topics
    ages = heartbeat_ages(
        groups,
        _of_days(stretch, CLIENT_HEARTBEAT),
        lookback_s=settings.drift.lookback_s,
        expiry_s=settings.drift.heartbeat_expiry_s,
    )
    return topics.join(ages, list(GROUP_OF_ROUND), "left")


def _fed(stretch: Stretch, table: Table) -> bool:
    return any(table.name in FORMATS[name].tables for name in stretch.formats)


def _walk_settings(settings: Settings) -> WalkSettings:
    values = settings.timing.model_dump() | {"progress_valid_s": settings.drift.progress_valid_s}
    return WalkSettings(Timing.of(values), settings.timing.carry_days, values["maintenance"])


def _dates(stretch: Stretch) -> DataFrame:
    """The stretch's dates, and whether a later one is known of the cluster."""
    rows = [(*d, d.event_date >= stretch.last_recorded.get(d.cluster, d.event_date)) for d in stretch.dates]
    return stretch.lake.spark.createDataFrame(rows, "cluster string, event_date date, is_last boolean")


def _of_rounds(stretch: Stretch, table: Table, lookback_s: int) -> DataFrame:
    """Rows of the rounds of the stretch's dates, and of the rounds up to ``lookback_s`` before them."""
    # Steps of a day at most: with a longer one a round might pass over its date.
    steps = [*range(0, lookback_s, _DAY_S), lookback_s]
    wanted = (in_dates(stretch.dates, f"to_date(timestampadd(SECOND, {step}, round_at))") for step in steps)
    return _of_days(stretch, table).where(" OR ".join(wanted))


def _of_days(stretch: Stretch, table: Table) -> DataFrame:
    """Rows of the stretch's dates and of those beside them."""
    near = {ClusterDate(d.cluster, d.event_date + timedelta(days=step)) for d in stretch.dates for step in (-1, 0, 1)}
    return stretch.lake.read(table).where(in_dates(sorted(near)))


def _latest_ownership(rows: DataFrame) -> DataFrame:
    """Ownership as each client's last running info of the round shows it, queues on their way out left aside."""
    of_client = Window.partitionBy(*GROUP_OF_ROUND, "client_id")
    last = rows.withColumn("last_at", F.max("captured_at").over(of_client))
    return last.where((F.col("captured_at") == F.col("last_at")) & ~F.col("dropped"))


def _strategy_events(stretch: Stretch) -> DataFrame:
    """What clients showed on the stretch's dates, the day before them (for the rounds looked back on), and earlier."""
    before = {ClusterDate(d.cluster, d.event_date - timedelta(days=1)) for d in stretch.dates}
    of_dates = in_dates({*before, *stretch.dates})
    rebalances = stretch.lake.read(REBALANCE_RESULT).where(of_dates)
    captures = stretch.lake.read(SNAPSHOT_CAPTURE).where(of_dates)
    return strategy_events(rebalances, captures, stretch.opening(CLIENT_STRATEGY_STATE))


if __name__ == "__main__":
    from jobs.command_line import main

    main("flag-allocation-drift")
