"""Assigns captures to rounds when they are stored, and corrects stored ones that a late marker or capture moves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import hindsight.schemas as schemas
from hindsight.conf.settings import Settings, fingerprint
from hindsight.jobs.engines.arrow_columns import chosen
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.runner import Blobs, Kernel, OfHeap, Runner, heaps
from hindsight.jobs.intake.intake_course import LandingRead
from hindsight.jobs.intake.intake_kernels import TableFile
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
    Words,
    stored_captures,
)
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.running.own_release import own_build
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema, row_schema
from hindsight.udfs.consumer.capture_rounds import PROXY, ROUNDS, RoundLimits
from hindsight.udfs.landing.landed_rows import Reach

_OF_CAPTURES = (
    schemas.SNAPSHOT_CAPTURE,
    schemas.QUEUE_OWNERSHIP,
    schemas.POP_ASSIGNMENT,
    schemas.QUEUE_PROGRESS,
    schemas.TOPIC_ROUTE,
    schemas.PRODUCER_CONNECTION,
    schemas.TOPIC_STATUS,
    schemas.TOPIC_CONFIG,
    schemas.SUBSCRIPTION_GROUP,
    schemas.MESSAGE_REQUEST_MODE,
    schemas.SCHEDULE_PROGRESS,
    schemas.BROKER_STATUS,
)
_OF_ROUNDS = (*_OF_CAPTURES, schemas.CONSUMER_HEARTBEAT)
CHANGE_ROUNDS = (schemas.COLLECTION_ROUND, *_OF_ROUNDS)
_BUCKET_ROWS = 200_000  # of heartbeats
_GAP = {"kind": ["gap"]}
_NOTE = "rounds"
_NOTED_DATES = 8  # what comes of earlier ones is looked through whole


class _Near(NamedTuple):
    """What is known of rounds near some captures: ``since`` None: of whole dates."""

    rounds: pa.Table
    gaps: pa.Table
    proxies: pa.Table
    since: datetime | None


class RoundSettling:
    """The rounds of one run's lake.

    A capture's round follows from what came before it, so rows that come change nothing of captures before the first of
    them, and what came long enough before it need not be read. That holds of dates whose stored rounds are right
    already, which are noted with the settings and the build under which they are.
    """

    def __init__(self, lake: ArrowLake, runner: Runner, settings: Settings) -> None:
        self._lake = lake
        self._runner = runner
        gaps = {"": settings.rounds.gap_s, **settings.rounds.collector_gap_s}
        self._limits = RoundLimits(settings.rounds.max_round_s, gaps)
        self._lookback_s = max(settings.drift.lookback_s, settings.rounds.max_round_s)
        self._longest, self._pause = timedelta(seconds=self._limits.max_round_s), timedelta(seconds=max(gaps.values()))
        self._first: datetime | None = None  # instant of the rows that come
        self._new: set[date] = set()  # dates of which nothing was stored before them
        self._rests_on = f"{own_build()} {fingerprint(settings.rounds)}"

    def reach(self, table: Table) -> Reach | None:
        """A capture or marker changes its own round, the one before, and rounds that look back on it."""
        if table not in (
            schemas.REBALANCE_RESULT,
            schemas.CLIENT_EVENT,
            schemas.CLIENT_HEARTBEAT,
            schemas.MEMBERSHIP_EVENT,
            *CHANGE_ROUNDS,
        ):
            return None
        return Reach((table.date_of,), before_s=self._limits.max_round_s, after_s=self._lookback_s)

    def complete(self, read: LandingRead) -> Placed:
        """What places the captures that were read, among those that are stored near them."""
        days = {day for table in CHANGE_ROUNDS for day in read.dates.get(table, ())}
        self._first = min((read.first[table] for table in CHANGE_ROUNDS if table in read.first), default=None)
        self._new = self._without_rows(days - known) if (known := {at.event_date for at in self._settled()}) else set()
        return Placed(self._near(days, self._first, read.blobs).rounds, frozenset(table.name for table in _OF_ROUNDS))

    def settle(self, dates: Collection[ClusterDate]) -> None:
        """Correct the stored rows of ``dates`` whose round, or member's own words, are no longer right, once the rows
        that came (``complete``) are stored."""
        if not dates:
            return
        days, settled = {at.event_date for at in dates}, self._settled()
        known = [at for at in dates if at in settled]
        suffices = all(at in settled or self._holds_only_later(at) for at in dates)
        near = self._near(days, self._first if suffices else None)
        shown = _by_date(near.proxies, dates)
        if near.since is not None and not all(shown[at] <= settled[at] for at in known):
            near = self._near(days, None)
            shown = _by_date(near.proxies, dates)
        if near.since is not None:
            shown |= {at: settled[at] for at in known}
        self._correct(near, dates, shown)
        self._note({**settled, **shown})

    def _correct(self, near: _Near, dates: Collection[ClusterDate], shown: Mapping[ClusterDate, set[str]]) -> None:
        self._replace_gap_rounds(near.gaps, Where(dates=dates, values=_GAP, since=_since("round_at", near.since)))
        days = {at.event_date for at in dates}
        of_captures = Where(dates=dates, since=_since("captured_at", near.since))
        asked = [
            {"cluster": at.cluster, "collector": collector, "event_date": at.event_date}
            for at, collectors in shown.items()
            for collector in sorted(collectors)
        ]
        # Of a round, whatever is moved into it or out of it, no capture is earlier than this.
        begun = None if near.since is None else near.since - self._longest
        words = Words(near.rounds, pa.Table.from_pylist(asked, PROXY), Where(since=_since("round_at", begun)))
        moved = self._runner.together(
            self._over(Misplaced(near.rounds, of_captures), self._files(_OF_CAPTURES, days, near.since)),
            self._runner.by_key(words, self._by_member(near.rounds, dates, begun)),
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

    def _settled(self) -> dict[ClusterDate, set[str]]:
        """The dates of clusters whose stored rounds are right, with the collectors that asked a proxy on each."""
        noted = json.loads(self._lake.noted(_NOTE) or "{}")
        rows = noted["dates"] if noted.get("rests_on") == self._rests_on else []
        return {ClusterDate(cluster, date.fromisoformat(day)): set(proxies) for cluster, day, proxies in rows}

    def _without_rows(self, days: set[date]) -> set[date]:
        return days - {task.file.event_date for task in self._files(CHANGE_ROUNDS, days)} if days else days

    def _holds_only_later(self, at: ClusterDate) -> bool:
        """Whether nothing is stored of the date that is earlier than the rows that came."""
        return self._first is not None and (at.event_date in self._new or at.event_date > self._first.date())

    def _note(self, settled: Mapping[ClusterDate, set[str]]) -> None:
        last = sorted({at.event_date for at in settled})[-_NOTED_DATES:]
        rows = [
            [at.cluster, at.event_date.isoformat(), sorted(proxies)]
            for at, proxies in sorted(settled.items())
            if at.event_date in last
        ]
        text = json.dumps({"rests_on": self._rests_on, "dates": rows})
        if text != self._lake.noted(_NOTE):
            self._lake.note(_NOTE, text)

    def _update(self, table: Table, moved: Blobs, days: Collection[date]) -> None:
        columns = ["round_at", *(["subscriptions", "client_kind"] if table is schemas.CONSUMER_HEARTBEAT else [])]
        schema = arrow_schema(table)
        changed = pa.schema([schema.field(name) for name in [*table.key, *columns]])
        self._lake.update(table, moved.rows(MOVED + table.name, changed), columns, days)

    def _files(self, tables: Iterable[Table], days: Collection[date], since: datetime | None = None) -> list[TableFile]:
        """The files of dates; of those of an instant and later ones."""
        found = []
        for t in tables:
            files = self._lake.files(t, days) if since is None else self._lake.files_since(t, days, t.date_of, since)
            found += [(TableFolder(self._lake.root, t), file) for file in files]
        return [TableFile(number, *one) for number, one in enumerate(found)]

    def _over(self, kernel: Kernel, files: Sequence[TableFile]) -> Blobs:
        return self._runner.each(OfHeap(kernel), heaps(files, lambda task: task.file.size))

    def _near(self, days: Collection[date], first: datetime | None, *told: Blobs) -> _Near:
        """What places captures of dates, those from the ``first`` on if that is enough, among what is stored."""
        begun = None if first is None else first - 2 * self._longest - self._pause
        files = self._files((schemas.SNAPSHOT_CAPTURE, schemas.COLLECTION_ROUND), _with_neighbours(days), begun)
        captures = self._over(stored_captures, files)
        rounds, gaps = self._rounds(captures, *told)
        if first is not None:
            is_gap = pc.equal(rounds["kind"], "gap")
            if pc.any(pc.and_(is_gap, _is_within(rounds["captured_at"], first - self._pause, first))).as_py():
                return self._near(days, None, *told)  # a run of captures that no marker began lasts until then
            # Where such a run began before what was read, nobody knows which of its rounds are which.
            rounds = rounds.filter(pc.invert(pc.and_(is_gap, _is_within(rounds["captured_at"], None, first))))
        return _Near(rounds, gaps, pa.concat_tables([PROXY.empty_table(), *captures.tables(PROXIES)]), first)

    def _rounds(self, *told: Blobs) -> tuple[pa.Table, pa.Table]:
        """The round of each capture instant, and the rounds that no marker began."""
        placed = self._runner.by_key(RoundsOf(self._limits), *(blobs.of(CAPTURES, MARKS) for blobs in told))
        rounds = pa.concat_tables([ROUNDS.empty_table(), *placed.tables(ROUNDS_OF)])
        return rounds, pa.concat_tables([row_schema(schemas.COLLECTION_ROUND).empty_table(), *placed.tables(GAPS)])

    def _by_member(self, rounds: pa.Table, dates: Collection[ClusterDate], begun: datetime | None) -> Blobs:
        days = {at.event_date for at in dates}
        heartbeats = self._files([schemas.CONSUMER_HEARTBEAT], days, begun)
        buckets = 1 + sum(task.file.rows or 0 for task in heartbeats) // _BUCKET_ROWS
        infos = self._files([schemas.SNAPSHOT_CAPTURE], _with_neighbours(days), begun) if heartbeats else []
        where = Where(dates=frozenset(dates), since=_since("captured_at", begun))
        return self._over(ByMember(rounds, where, buckets), [*heartbeats, *infos]).of(HEARTBEATS, INFOS)

    def _replace_gap_rounds(self, gaps: pa.Table, where: Where) -> None:
        found = chosen(gaps, where)
        if len(found) or len(self._lake.rows(schemas.COLLECTION_ROUND, ["kind"], where)):
            self._lake.replace(schemas.COLLECTION_ROUND, found, where)


def _by_date(proxies: pa.Table, dates: Collection[ClusterDate]) -> dict[ClusterDate, set[str]]:
    """The collectors that asked a proxy on each of the dates."""
    found: dict[ClusterDate, set[str]] = {at: set() for at in dates}
    for row in proxies.to_pylist():
        found.get(ClusterDate(row["cluster"], row["event_date"]), set()).add(row["collector"])
    return found


def _is_within(instants: pa.ChunkedArray, since: datetime | None, until: datetime) -> pa.ChunkedArray:
    found = pc.less(instants, pa.scalar(until, instants.type))
    return found if since is None else pc.and_(found, pc.greater_equal(instants, pa.scalar(since, instants.type)))


def _since(column: str, instant: datetime | None) -> dict[str, datetime]:
    return {} if instant is None else {column: instant}


def _with_neighbours(dates: Iterable[date]) -> set[date]:
    return {date.fromordinal(day.toordinal() + step) for day in dates for step in (-1, 0, 1)}
