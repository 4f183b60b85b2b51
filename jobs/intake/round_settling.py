"""Assigns captures to rounds when they are stored, and corrects stored ones that a late marker or capture moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from functools import partial

import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_columns import arrow_schema, chosen, row_schema
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.heaps import OfHeap, heaps
from hindsight.jobs.engines.runner import Blobs, Kernel, Runner
from hindsight.jobs.intake.intake_course import LandingRead
from hindsight.jobs.intake.round_kernels import (
    CAPTURES,
    GAPS,
    HEARTBEATS,
    INFOS,
    MARKS,
    MOVED,
    MOVED_DATES,
    PROXIES,
    ROUNDS_OF,
    ByMember,
    Misplaced,
    Placed,
    RoundsOf,
    TableFile,
    Words,
    stored_captures,
)
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import (
    CLIENT_HEARTBEAT,
    COLLECTION_ROUND,
    CONSUMER_HEARTBEAT,
    MEMBERSHIP_EVENT,
    MESSAGE_REQUEST_MODE,
    POP_ASSIGNMENT,
    PRODUCER_CONNECTION,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    SCHEDULE_PROGRESS,
    SNAPSHOT_CAPTURE,
    SUBSCRIPTION_GROUP,
    TOPIC_CONFIG,
    TOPIC_ROUTE,
    TOPIC_STATUS,
    Table,
)
from hindsight.udfs.consumer.capture_rounds import PROXY, ROUNDS, RoundLimits
from hindsight.udfs.landing.landed_rows import Reach

_OF_CAPTURES = (
    SNAPSHOT_CAPTURE,
    QUEUE_OWNERSHIP,
    POP_ASSIGNMENT,
    QUEUE_PROGRESS,
    TOPIC_ROUTE,
    PRODUCER_CONNECTION,
    TOPIC_STATUS,
    TOPIC_CONFIG,
    SUBSCRIPTION_GROUP,
    MESSAGE_REQUEST_MODE,
    SCHEDULE_PROGRESS,
)
_OF_ROUNDS = (*_OF_CAPTURES, CONSUMER_HEARTBEAT)
CHANGE_ROUNDS = (COLLECTION_ROUND, *_OF_ROUNDS)
_BUCKET_ROWS = 200_000  # of heartbeats
_GAP = {"kind": ["gap"]}


class RoundSettling:
    """The rounds of one run's lake."""

    def __init__(self, lake: ArrowLake, runner: Runner, settings: Settings) -> None:
        self._lake = lake
        self._runner = runner
        gaps = {"": settings.rounds.gap_s, **settings.rounds.collector_gap_s}
        self._limits = RoundLimits(settings.rounds.max_round_s, gaps)
        self._lookback_s = max(settings.drift.lookback_s, settings.rounds.max_round_s)

    def reach(self, table: Table) -> Reach | None:
        """A capture or marker changes its own round, the one before, and rounds that look back on it."""
        if table not in (REBALANCE_RESULT, CLIENT_HEARTBEAT, MEMBERSHIP_EVENT, *CHANGE_ROUNDS):
            return None
        return Reach((table.date_of,), before_s=self._limits.max_round_s, after_s=self._lookback_s)

    def complete(self, read: LandingRead) -> Placed:
        """What places the captures that were read, among those that are stored near them."""
        days = {day for table in CHANGE_ROUNDS for day in read.dates.get(table, ())}
        rounds, _ = self._rounds(read.blobs, self._near_captures(days))
        return Placed(rounds, frozenset(table.name for table in _OF_ROUNDS))

    def settle(self, dates: Collection[ClusterDate]) -> None:
        """Correct the stored rows of ``dates`` whose round, or member's own words, are no longer right."""
        if not dates:
            return
        days = {at.event_date for at in dates}
        captures = self._near_captures(days)
        rounds, gaps = self._rounds(captures)
        self._replace_gap_rounds(gaps, dates)
        proxies = pa.concat_tables([PROXY.empty_table(), *captures.tables(PROXIES)])
        moved = self._runner.together(
            self._over(Misplaced(rounds, dates), self._files(_OF_CAPTURES, days)),
            self._runner.by_key(Words(rounds, proxies), self._by_member(rounds, dates)),
        )
        of_tables: dict[str, set[date]] = defaultdict(set)
        for table in moved.tables(MOVED_DATES):
            for row in table.to_pylist():
                of_tables[row["table"]].add(row["event_date"])
        self._lake.together(
            partial(self._update, table, moved, of_tables[table.name])
            for table in _OF_ROUNDS
            if table.name in of_tables
        )

    def _update(self, table: Table, moved: Blobs, days: Collection[date]) -> None:
        columns = ["round_at", *(["subscriptions", "client_kind"] if table is CONSUMER_HEARTBEAT else [])]
        schema = arrow_schema(table)
        changed = pa.schema([schema.field(name) for name in [*table.key, *columns]])
        self._lake.update(table, moved.rows(MOVED + table.name, changed), columns, days)

    def _files(self, tables: Iterable[Table], days: Collection[date]) -> list[TableFile]:
        found = [(TableFolder(self._lake.root, t), file) for t in tables for file in self._lake.files(t, days)]
        return [TableFile(number, *one) for number, one in enumerate(found)]

    def _over(self, kernel: Kernel, files: Sequence[TableFile]) -> Blobs:
        return self._runner.each(OfHeap(kernel), heaps(files, lambda task: task.file.size))

    def _near_captures(self, days: Collection[date]) -> Blobs:
        """What is stored of these dates and those beside them."""
        return self._over(stored_captures, self._files((SNAPSHOT_CAPTURE, COLLECTION_ROUND), _with_neighbours(days)))

    def _rounds(self, *told: Blobs) -> tuple[pa.Table, pa.Table]:
        """The round of each capture instant, and the rounds that no marker began."""
        placed = self._runner.by_key(RoundsOf(self._limits), *(blobs.of(CAPTURES, MARKS) for blobs in told))
        rounds = pa.concat_tables([ROUNDS.empty_table(), *placed.tables(ROUNDS_OF)])
        return rounds, pa.concat_tables([row_schema(COLLECTION_ROUND).empty_table(), *placed.tables(GAPS)])

    def _by_member(self, rounds: pa.Table, dates: Collection[ClusterDate]) -> Blobs:
        days = {at.event_date for at in dates}
        heartbeats = self._files([CONSUMER_HEARTBEAT], days)
        buckets = 1 + sum(task.file.rows or 0 for task in heartbeats) // _BUCKET_ROWS
        infos = self._files([SNAPSHOT_CAPTURE], _with_neighbours(days)) if heartbeats else []
        split = self._over(ByMember(rounds, frozenset(dates), buckets), [*heartbeats, *infos])
        return split.of(HEARTBEATS, INFOS)

    def _replace_gap_rounds(self, gaps: pa.Table, dates: Collection[ClusterDate]) -> None:
        of_dates = Where(dates=dates, values=_GAP)
        found = chosen(gaps, Where(dates=dates))
        if len(found) or len(self._lake.rows(COLLECTION_ROUND, ["kind"], of_dates)):
            self._lake.replace(COLLECTION_ROUND, found, of_dates)


def _with_neighbours(dates: Iterable[date]) -> set[date]:
    return {date.fromordinal(day.toordinal() + step) for day in dates for step in (-1, 0, 1)}
