"""Attempts of a stretch of dates in, what their clients' fault tables held and which choices are in doubt out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.transforms.availability import stretches, with_carried_items, with_stretches, without_stretches
from jobs.transforms.broker_activity import broker_activity, by_process, least_slow_ms
from jobs.transforms.fault_updates import judged_updates, quick_updates
from jobs.transforms.frames import ClusterDate, in_dates, rows_of, staged
from jobs.transforms.held_routes import held_routes
from jobs.transforms.producer_replay import (
    PRODUCER,
    changed_lives,
    daily_activity,
    lives,
    replay_rules,
    with_lives,
    with_process,
)
from jobs.transforms.relevant_attempts import RelevantAttempts
from jobs.transforms.send_verdicts import (
    Recorded,
    choices,
    doubtful,
    judged,
    records,
    unknown_verdicts,
    uses,
)

# What the replay looks at of an attempt; to read more costs more.
REPLAYED = (
    *PRODUCER,
    "event_date",
    "topic",
    "broker_name",
    "queue_id",
    "queue_selected_by",
    "last_broker_name",
    "mode",
    "thread",
    "msg_id",
    "attempt",
    "begin_at",
    "end_at",
    "submit_end_at",
    "callback_end_at",
    "exception",
    "error",
    "client_version",
    "latency_fault_enabled",
    "source",
    "exceptions_observable",
)


class ReplayOptions(NamedTuple):
    """Settings of the replay; see ``conf/default.toml``."""

    carry_days: int
    clock_tolerance_ms: int
    route_stale_s: int
    route_valid_s: int
    override: Sequence[Mapping[str, Any]] = ()


class Pruning(NamedTuple):
    """From how many attempts on, and up to which share of striking ones, most attempts are left out."""

    from_attempts: int
    below_share: float


class Processes(NamedTuple):
    """Who lives on a stretch of dates: what they sent by broker, the instants they began at, their rules by date."""

    activity: DataFrame
    lives_of: DataFrame
    rules: DataFrame
    slow_ms: int


def processes_of(
    recorded: DataFrame,
    starts: DataFrame,
    opening: DataFrame,
    spans: DataFrame,
    *,
    days: Sequence[ClusterDate],
    dates: Sequence[ClusterDate],
    settings: ReplayOptions,
) -> Processes:
    """The processes that sent ``recorded``, started in ``starts`` or are handed over by ``opening`` (producer_replay).

    ``spans``: ``first_date`` per cluster; ``days``: dates for which rules are wanted; ``dates``: those computed.
    """
    carry_days = settings.carry_days
    slow_ms = _least_slow_ms(starts, opening, settings)
    by_producer = staged(broker_activity(recorded, slow_ms=slow_ms))
    lives_of = staged(lives(by_producer.where(in_dates(dates)), starts, opening, carry_days=carry_days))
    activity = staged(by_process(by_producer, recorded, lives_of, slow_ms=slow_ms))
    more = staged(changed_lives(daily_activity(activity.where(in_dates(dates))), opening, settings.override))
    if rows_of(more.limit(1)):
        lives_of = staged(with_lives(lives_of, more))
        activity = staged(by_process(by_producer, recorded, lives_of, slow_ms=slow_ms))
    rules = replay_rules(
        daily_activity(activity.where(in_dates(dates))),
        starts,
        opening,
        recorded.sparkSession.createDataFrame(days, "cluster string, event_date date"),
        overrides=settings.override,
        carry_days=carry_days,
    )
    rules = staged(rules.join(F.broadcast(spans.select("cluster", "first_date")), "cluster"))
    return Processes(activity, lives_of, rules, slow_ms)


def _least_slow_ms(starts: DataFrame, opening: DataFrame, settings: ReplayOptions) -> int:
    """The least latency that any producer of the stretch may count against a broker."""
    names = ("latency_max_ms", "not_available_ms")
    configured = starts.select(*names).unionByName(opening.select("recorded.*").select(*names)).distinct()
    overrides = ((entry["latency_max_ms"], entry["not_available_ms"]) for entry in settings.override)
    return least_slow_ms([*map(tuple, rows_of(configured)), *overrides])


class History(NamedTuple):
    """What follows from attempts: items over time, with the stretches in which they were held, and the choices made.

    ``relevant``: where attempts are that were left out because no stretch follows from them; None: none was.
    """

    items: DataFrame
    rows: DataFrame
    made: DataFrame
    relevant: RelevantAttempts | None = None


class Replay(NamedTuple):
    """The replay of the processes that live on ``dates``.

    ``opening``: fault_item_state rows with which the dates begin; ``routes``: topic_route rows of the dates.
    """

    dates: Sequence[ClusterDate]
    processes: Processes
    opening: DataFrame
    routes: DataFrame
    settings: ReplayOptions

    def of_all(self, recorded: DataFrame, pruning: Pruning) -> History:
        """The history of all attempts; from those that matter where ``pruning`` says that it pays."""
        relevant = self._relevant(recorded, pruning)
        if relevant is None:
            return self._history(recorded)
        lives_of = self.processes.lives_of
        striking = staged(with_process(relevant.striking, lives_of))
        told = staged(self._updates(striking))
        quick = staged(with_process(relevant.quick_for_windows(told, self.opening), lives_of))
        updates = told.unionByName(self._quick_updates(quick))
        return self._history_of(striking.unionByName(quick), updates)._replace(relevant=relevant)

    def verdicts(self, history: History) -> DataFrame:
        """Verdicts on the choices in doubt, with what they made their clients forget; and where they lack something."""
        end = max(d.event_date for d in self.dates) + timedelta(days=1)
        until, tolerance_ms = F.lit(end.isoformat()).cast("timestamp"), self.settings.clock_tolerance_ms
        suspects = staged(doubtful(history.made, stretches(history.rows), until=until, tolerance_ms=tolerance_ms))
        stale_s, valid_s = self.settings.route_stale_s, self.settings.route_valid_s
        held = held_routes(suspects, self.routes, stale_s=stale_s, valid_s=valid_s)
        recorded = self._recorded_around(suspects, history)
        told = judged(records(suspects, recorded, held, tolerance_ms=tolerance_ms), tolerance_ms=tolerance_ms)
        lacking = unknown_verdicts(history.made.where("verdict <> 'unknown'"))
        return told.unionByName(lacking, allowMissingColumns=True)

    def unknown_verdicts(self, attempts: DataFrame) -> DataFrame:
        """Verdicts on these attempts as far as their processes' rules are not known."""
        made = self._choices(with_process(attempts, self.processes.lives_of))
        return unknown_verdicts(made.where("verdict = 'unknown'"))

    def _recorded_around(self, suspects: DataFrame, history: History) -> Recorded:
        """What is recorded that the ``suspects`` may have looked at."""
        relevant, used = history.relevant, uses(history.made)
        if relevant is None:
            return Recorded(history.rows, history.rows, used)
        further = with_process(self._judgeable(relevant.that_used(suspects)), self.processes.lives_of)
        near = staged(self._with_quick(history.rows, relevant.that_updated_near(suspects)))
        items = self._with_quick(near, relevant.that_updated_last(suspects))
        return Recorded(items, near, staged(used.unionByName(uses(further))))

    def _with_quick(self, rows: DataFrame, quick: DataFrame) -> DataFrame:
        further = without_stretches(self._quick_updates(with_process(quick, self.processes.lives_of)))
        return rows.select(*further.columns, "forgotten_at").unionByName(further, allowMissingColumns=True)

    def _relevant(self, recorded: DataFrame, pruning: Pruning) -> RelevantAttempts | None:
        """The way to the attempts that matter; None: there are few of them, or most do."""
        activity = self.processes.activity
        (total,) = rows_of(activity.agg(F.sum("attempts").alias("attempts"), F.sum("striking").alias("striking")))
        attempts = total.attempts or 0
        if attempts < pruning.from_attempts or (total.striking or 0) > pruning.below_share * attempts:
            return None
        tolerance_ms = self.settings.clock_tolerance_ms
        return RelevantAttempts(recorded, activity, slow_ms=self.processes.slow_ms, tolerance_ms=tolerance_ms)

    def _history(self, recorded: DataFrame) -> History:
        attempts = staged(with_process(recorded, self.processes.lives_of))
        return self._history_of(attempts, self._updates(attempts))

    def _history_of(self, attempts: DataFrame, updates: DataFrame) -> History:
        items = with_carried_items(updates, self.opening, self.processes.rules)
        rows = staged(with_stretches(items))
        return History(rows.select(*items.columns), rows, self._choices(attempts))

    def _updates(self, attempts: DataFrame) -> DataFrame:
        processes = self.processes
        return judged_updates(_named(attempts), processes.rules, in_dates(self.dates), slow_ms=processes.slow_ms)

    def _quick_updates(self, attempts: DataFrame) -> DataFrame:
        return quick_updates(_named(attempts), self.processes.rules, in_dates(self.dates))

    def _choices(self, attempts: DataFrame) -> DataFrame:
        return choices(self._judgeable(attempts), self.processes.rules)

    def _judgeable(self, attempts: DataFrame) -> DataFrame:
        # A choice is judged by what came before it, failures too: a source that has none cannot be judged.
        return attempts.where(F.col("exceptions_observable")).where(in_dates(self.dates))


def _named(attempts: DataFrame) -> DataFrame:
    """A trace may not tell the broker."""
    return attempts.where(F.col("broker_name").isNotNull())
