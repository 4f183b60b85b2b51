"""The rebuild as Spark transforms: what the fold's rows are held against.

Attempts of a stretch in, rows of the producers' derived tables out.
"""

from __future__ import annotations

from datetime import date, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conf.settings import Settings
from jobs.publication import Stretch
from jobs.transforms.availability import stretches, with_removals, with_stretches
from jobs.transforms.dated_windows import items_by_date, windows_by_date, with_doubtful_ends
from jobs.transforms.frames import ClusterDate, in_dates, rows_of, staged
from jobs.transforms.last_brokers import with_last_brokers
from jobs.transforms.nearest_source import nearest_attempts
from jobs.transforms.null_safe_join import null_safe_semi_join
from jobs.transforms.producer_findings import Thresholds, observed, producer_findings
from jobs.transforms.producer_replay import PRODUCER, with_process
from jobs.transforms.replay import REPLAYED, Pruning, Replay, ReplayOptions, processes_of
from jobs.transforms.send_verdicts import removals
from jobs.transforms.window_confirmations import LINE, STATES, window_confirmations
from schemas import (
    BROKER_AVAILABILITY_WINDOW,
    CLIENT_EVENT,
    FAULT_ITEM_STATE,
    FLEET_MINUTE,
    PRODUCER_FINDING,
    PRODUCER_INSTANCE,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    SEND_VERDICT,
    TOPIC_ROUTE,
    WINDOW_CONFIRMATION,
)
from udfs.landing_formats import distances, formats_of

_FAR = date(9999, 12, 31)
# endless_until: how far a stretch without end is followed; last_date: the last one that the stretch may write.
_SPAN = "cluster string, first_date date, endless_until date, last_date date, last_recorded date"


def compute(stretch: Stretch, settings: Settings) -> dict[str, DataFrame]:
    """The rows of every derived table on the stretch's dates, and where a window goes on, on those after it."""
    lake, dates = stretch.lake, stretch.dates
    spans = lake.spark.createDataFrame(_spans(stretch), _SPAN)
    stored = _recorded(stretch)
    recorded = with_last_brokers(stored.select(*REPLAYED))
    routes = lake.read(TOPIC_ROUTE).where(in_dates(dates))
    replay = _replay(stretch, settings, spans, recorded, routes)
    rules, history = replay.processes.rules, replay.of_all(recorded, Pruning(**settings.pruning.model_dump()))
    unknown = null_safe_semi_join(recorded, rules.where("verdict = 'unknown'"), PRODUCER)
    verdicts = staged(replay.verdicts(history).unionByName(replay.unknown_verdicts(unknown), allowMissingColumns=True))
    forgotten = staged(removals(verdicts))
    rows = history.rows
    if _is_any(forgotten.where("surely")):
        rows = staged(with_stretches(with_removals(history.items, forgotten.where("surely"))))
    doubted = forgotten.where("NOT surely")
    windows = staged(with_doubtful_ends(windows_by_date(stretches(rows), spans, rules), doubted))
    held = {ClusterDate(*row) for row in rows_of(windows.select("cluster", "event_date").distinct())}
    # A date without records is there for its windows' sake only.
    alive = rules.where(in_dates({*(d for d in dates if d in stretch.recorded), *held}))
    limits = Thresholds(**settings.producer_findings.model_dump())
    own = with_process(stored.where(in_dates(dates)).where("broker_name IS NOT NULL"), replay.processes.lives_of)
    given = observed(own, windows, rules, verdicts, routes, limits, staged=staged)
    lineage = stretch.context.lineage()
    made = {
        PRODUCER_REPLAY: alive,
        FAULT_ITEM_STATE: items_by_date(rows, alive, doubted, tolerance_ms=settings.replay.clock_tolerance_ms),
        BROKER_AVAILABILITY_WINDOW: windows,
        SEND_VERDICT: verdicts,
        WINDOW_CONFIRMATION: _confirmations(stretch, windows, own, settings.confirmation.within_ms),
        FLEET_MINUTE: given.fleet,
        PRODUCER_FINDING: producer_findings(given, limits, is_any=_is_any),
    }
    return {table.name: frame.select("*", *lineage) for table, frame in made.items()}


def _recorded(stretch: Stretch) -> DataFrame:
    """The attempts of the dates and their neighbours, of each producer those that its nearest source tells of."""
    recorded = stretch.lake.read(SEND_ATTEMPT).where(in_dates(_with_neighbours(stretch.dates)))
    told_by = stretch.formats.intersection(formats_of("producer"))
    return nearest_attempts(recorded, distances()) if len(told_by) > 1 else recorded


def _confirmations(stretch: Stretch, windows: DataFrame, attempts: DataFrame, within_ms: int) -> DataFrame:
    told = stretch.lake.read(CLIENT_EVENT).where(in_dates(stretch.dates)).where(F.col("kind").isin(*STATES))
    lines = staged(told.select(*LINE))
    return window_confirmations(lines, windows, _writers(attempts), within_ms=within_ms) if _is_any(lines) else lines


def _replay(stretch: Stretch, settings: Settings, spans: DataFrame, recorded: DataFrame, routes: DataFrame) -> Replay:
    options = ReplayOptions(**settings.replay.model_dump())
    processes = processes_of(
        recorded,
        staged(stretch.lake.read(PRODUCER_INSTANCE).where(in_dates(stretch.dates))),
        staged(stretch.opening(PRODUCER_REPLAY)),
        spans,
        days=_days_to_live(stretch, settings.replay.carry_days),
        dates=stretch.dates,
        settings=options,
    )
    return Replay(stretch.dates, processes, staged(stretch.opening(FAULT_ITEM_STATE)), routes, options)


def _is_any(frame: DataFrame) -> bool:
    return bool(rows_of(frame.limit(1)))


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


def _writers(attempts: DataFrame) -> DataFrame:
    """Per producer, the threads that may write its lines; an ASYNC producer's callbacks run on the client's own."""
    own = F.when((F.col("mode") == "ASYNC") | F.col("thread").isNull(), F.lit(""))
    threads = F.array_compact(F.array(F.col("thread"), own))
    return attempts.select(*PRODUCER, F.explode(threads).alias("writer")).distinct()
