"""Assigns captures to rounds when they are stored, and corrects stored ones that a late marker or capture moves.

The kernels come first: captures meet by their collector, members' own words by the member.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hindsight.schemas as schemas
from hindsight.conf.settings import Settings, fingerprint
from hindsight.jobs.engines.arrow_columns import chosen, conformed_rows, meets
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.runner import Blob, Blobs, Given, Kernel, OfHeap, Runner, heaps
from hindsight.jobs.intake.ingestion import LandingRead
from hindsight.jobs.intake.intake_kernels import Completed, TableFile
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.running.own_release import own_build
from hindsight.schemas import COLLECTION_ROUND, CONSUMER_HEARTBEAT, SNAPSHOT_CAPTURE, Table
from hindsight.schemas.arrow_types import arrow_schema, row_schema
from hindsight.udfs.consumer.capture_rounds import (
    ASKED,
    CAPTURE,
    COLLECTOR,
    MARKERS,
    MEMBER,
    PROXY,
    ROUNDS,
    RoundLimits,
    asked_proxies,
    capture_rounds,
    with_own_words,
    with_rounds,
)
from hindsight.udfs.landing.landed_rows import Reach
from hindsight.udfs.landing.landing_formats import OWN_SNAPSHOTS
from hindsight.udfs.values.columns import BoolArray
from hindsight.udfs.values.row_hashes import have_keys_of, places_of_keys

CAPTURES, MARKS = "captures", "marks"  # by collector
ROUNDS_OF, GAPS, PROXIES = "rounds", "gaps", "proxies"
INFOS, HEARTBEATS = "infos", "heartbeats"  # by member
MOVED, MOVED_DATES = "moved ", "moved dates"
_SOURCE = ("source", "source_file", "source_line", "ingested_at", "run_id")
_OF_CAPTURES = [*ASKED.names, *_SOURCE]
_OF_INFOS = [*MEMBER, "captured_at", "kind", "answered", "subscriptions", "client_kind"]
_WORDS = ["round_at", "subscriptions", "client_kind"]
_INFO = "consumerRunningInfo"


def told_of_rounds(table: str, rows: pa.Table, place: int) -> Iterator[Blob]:
    """What rows tell of rounds, by their collector: captures with what they asked, and markers."""
    if table == SNAPSHOT_CAPTURE.name:
        asks = rows.select(_OF_CAPTURES)
        # Captures that only follow from rows of one's own put no question.
        kind = pc.if_else(pc.equal(rows["source"], OWN_SNAPSHOTS), pa.scalar(None, pa.string()), rows["kind"])
        yield from _by_collector(CAPTURES, asks.set_column(asks.column_names.index("kind"), "kind", kind), place)
    elif table == COLLECTION_ROUND.name:
        yield from _by_collector(MARKS, rows.filter(pc.equal(rows["kind"], "marker")).select(MARKERS.names), place)


def _by_collector(name: str, rows: pa.Table, place: int) -> Iterator[Blob]:
    of_collectors = rows.select(COLLECTOR).group_by(COLLECTOR).aggregate([])
    for cluster, collector in zip(*(of_collectors[each].to_pylist() for each in COLLECTOR), strict=True):
        own = rows.filter(pc.and_(pc.equal(rows["cluster"], cluster), pc.equal(rows["collector"], collector)))
        yield Blob(name, _hash(f"{cluster}\0{collector}"), place, own)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def stored_captures(task: TableFile) -> Iterator[Blob]:
    """What a stored file tells of rounds; also which collectors asked a proxy, by date."""
    is_of_captures = task.folder.table is SNAPSHOT_CAPTURE or task.folder.table.name == SNAPSHOT_CAPTURE.name
    columns = [*_OF_CAPTURES, "event_date"] if is_of_captures else [*MARKERS.names, "kind"]
    for rows in task.folder.pieces(task.file, columns):
        yield from told_of_rounds(task.folder.table.name, rows, task.number)
        if is_of_captures:
            yield Blob(PROXIES, 0, task.number, asked_proxies(rows))


def rounds_of(key: int, given: Given, *, limits: RoundLimits) -> Iterator[Blob]:
    """The round of each capture instant of collectors; rounds that no marker began, as rows of collection_round."""
    markers = pa.concat_tables([MARKERS.empty_table(), *given.tables(MARKS)])
    rounds = capture_rounds(given.tables(CAPTURES), markers, limits)
    yield Blob(ROUNDS_OF, key, 0, rounds)
    begun = pc.and_(pc.equal(rounds["kind"], "gap"), pc.equal(rounds["captured_at"], rounds["round_at"]))
    yield Blob(GAPS, key, 0, _gaps(rounds.filter(begun), given))


def _gaps(first: pa.Table, given: Given) -> pa.Table:
    """Rounds that no marker began stand in the table too, sourced from their first capture."""
    columns = [*CAPTURE, *_SOURCE]
    schema = row_schema(SNAPSHOT_CAPTURE)
    some = [
        rows.filter(pa.array(have_keys_of(rows, first, CAPTURE))).select(columns) for rows in given.tables(CAPTURES)
    ]
    empty = pa.schema([schema.field(name) for name in columns]).empty_table()
    sources = pa.concat_tables([empty, *(rows.cast(empty.schema) for rows in some)])
    # The last of a key is taken.
    sources = sources.sort_by([("source_file", "descending"), ("source_line", "descending")])
    found = sources.take(pa.array(places_of_keys(first, sources, CAPTURE))).select(_SOURCE)
    for name in (*COLLECTOR, "round_at", "kind"):
        found = found.append_column(name, first[name])
    found = found.append_column("event_date", first["round_at"].cast(pa.date32(), safe=False))
    return conformed_rows(found, COLLECTION_ROUND)


def placed(table: str, rows: pa.Table, *, rounds: pa.Table, tables: frozenset[str]) -> pa.Table:
    """Rows of a table before they are stored: those of captures with their round."""
    return with_rounds(rows, rounds) if table in tables else rows


def misplaced(task: TableFile, *, rounds: pa.Table, where: Where) -> Iterator[Blob]:
    """Keys of a stored file's rows, of captures that meet a condition, whose round is another, with that round."""
    table = task.folder.table
    columns = list(dict.fromkeys([*table.key, *CAPTURE, "event_date", "round_at"]))
    for place, piece in enumerate(task.folder.pieces(task.file, columns)):
        rows = chosen(piece, where)
        yield from _moved(table, rows, with_rounds(rows, rounds), ["round_at"], task.number, place)


def _moved(table: Table, before: pa.Table, now: pa.Table, columns: list[str], key: int, place: int) -> Iterator[Blob]:
    differs = np.zeros(len(now), np.bool_)
    for name in columns:
        differs |= _differ(before[name], now[name])
    if differs.any():
        moved = now.filter(pa.array(differs)).select([*table.key, *columns])
        yield Blob(MOVED + table.name, key, place, moved)
        days = pc.unique(moved["event_date"])
        yield Blob(MOVED_DATES, key, place, pa.table({"table": pa.repeat(table.name, len(days)), "event_date": days}))


def _differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> BoolArray:
    """Which values differ; null is a value of its own."""
    if pa.types.is_nested(old.type):
        return np.fromiter((a != b for a, b in zip(old.to_pylist(), new.to_pylist(), strict=True)), np.bool_, len(new))
    other = pc.fill_null(pc.not_equal(old, new), pa.scalar(False))
    found: BoolArray = pc.or_(other, pc.xor(pc.is_null(old), pc.is_null(new))).to_numpy()
    return found


@dataclass(frozen=True)
class ByMember:
    """Brings heartbeats and running infos with their rounds to the bucket of their member."""

    rounds: pa.Table
    where: Where
    buckets: int

    def __call__(self, task: TableFile) -> Iterator[Blob]:
        """Heartbeats that meet a condition, with the round they had as ``before``; running infos, of any date."""
        is_info = task.folder.table.name == SNAPSHOT_CAPTURE.name
        of_heartbeats = [*CONSUMER_HEARTBEAT.key, *CAPTURE, "consumer_group", "client_id", "event_date", "language"]
        columns = _OF_INFOS if is_info else list(dict.fromkeys([*of_heartbeats, *_WORDS]))
        for place, piece in enumerate(task.folder.pieces(task.file, columns)):
            if is_info:
                rows = piece.filter(pc.and_(pc.equal(piece["kind"], _INFO), piece["answered"]))
                rows = chosen(rows, Where(since=self.where.since))
                rows = with_rounds(
                    rows.append_column("round_at", pa.nulls(len(rows), ROUNDS.field("round_at").type)), self.rounds
                )
            else:
                rows = chosen(piece, self.where)
            yield from self._split(INFOS if is_info else HEARTBEATS, rows, task.number, place)

    def _split(self, name: str, rows: pa.Table, number: int, place: int) -> Iterator[Blob]:
        encoded = rows["client_id"].combine_chunks().dictionary_encode(null_encoding="encode")
        of_each = np.array([_hash(one or "") % self.buckets for one in encoded.dictionary.to_pylist()], np.int64)
        bucket = of_each[encoded.indices.to_numpy()]
        for key in np.unique(bucket).tolist():
            yield Blob(name, key, number, rows.filter(pa.array(bucket == key)))


def misworded(key: int, given: Given, *, rounds: pa.Table, proxies: pa.Table, where: Where) -> Iterator[Blob]:
    """Keys of heartbeats, of rounds that meet a condition, whose round or member's own words are others, with these."""
    schema = row_schema(SNAPSHOT_CAPTURE)
    empty = pa.schema([schema.field(name) for name in [*_OF_INFOS, "round_at"]]).empty_table()
    told = pa.concat_tables([empty, *(rows.cast(empty.schema) for rows in given.tables(INFOS))])
    for place, before in enumerate(given.tables(HEARTBEATS)):
        after = with_rounds(before, rounds)
        is_of_round = meets(after, where)
        before, after = (rows.filter(is_of_round) if where.since else rows for rows in (before, after))
        now = with_own_words(after, told, proxies.cast(PROXY))
        yield from _moved(CONSUMER_HEARTBEAT, before, now, _WORDS, key, place)


_OF_ROUNDS = tuple(t for t in schemas.TABLES.values() if "round_at" in t.schema.names and t.date_of == "captured_at")
_TABLES_OF_CAPTURES = tuple(table for table in _OF_ROUNDS if table is not CONSUMER_HEARTBEAT)
CHANGE_ROUNDS = (COLLECTION_ROUND, *_OF_ROUNDS)
_BUCKET_ROWS = 200_000  # of heartbeats
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

    def complete(self, read: LandingRead) -> Completed:
        """What places the captures that were read, among those that are stored near them."""
        days = {day for table in CHANGE_ROUNDS for day in read.dates.get(table, ())}
        self._first = min((read.first[table] for table in CHANGE_ROUNDS if table in read.first), default=None)
        known = {at.event_date for at in self._settled()}
        new = days - known if known else set()
        self._new = new - {task.file.event_date for task in self._files(CHANGE_ROUNDS, new)} if new else new
        rounds = self._near(days, self._first, read.blobs).rounds
        return partial(placed, rounds=rounds, tables=frozenset(table.name for table in _OF_ROUNDS))

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
        of_gaps = Where(dates=dates, values={"kind": ["gap"]}, since=_since("round_at", near.since))
        gaps = chosen(near.gaps, of_gaps)
        if len(gaps) or len(self._lake.rows(COLLECTION_ROUND, ["kind"], of_gaps)):
            self._lake.replace(COLLECTION_ROUND, gaps, of_gaps)
        days = {at.event_date for at in dates}
        of_captures = Where(dates=dates, since=_since("captured_at", near.since))
        asked = [
            {"cluster": at.cluster, "collector": collector, "event_date": at.event_date}
            for at, collectors in shown.items()
            for collector in sorted(collectors)
        ]
        # Of a round, whatever is moved into it or out of it, no capture is earlier than this.
        begun = None if near.since is None else near.since - self._longest
        of_rounds = Where(since=_since("round_at", begun))
        words = partial(misworded, rounds=near.rounds, proxies=pa.Table.from_pylist(asked, PROXY), where=of_rounds)
        moved = self._runner.together(
            self._over(
                partial(misplaced, rounds=near.rounds, where=of_captures),
                self._files(_TABLES_OF_CAPTURES, days, near.since),
            ),
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
        columns = _WORDS if table is CONSUMER_HEARTBEAT else ["round_at"]
        schema = arrow_schema(table)
        changed = pa.schema([schema.field(name) for name in [*table.key, *columns]])
        self._lake.update(table, moved.rows(MOVED + table.name, changed), columns, days)

    def _files(self, tables: Iterable[Table], days: Collection[date], since: datetime | None = None) -> list[TableFile]:
        """The files of dates; of those of an instant and later ones."""
        found = []
        for t in tables:
            files = self._lake.files(t, days, None if since is None else (t.date_of, since))
            found += [(TableFolder(self._lake.root, t), file) for file in files]
        return [TableFile(number, *one) for number, one in enumerate(found)]

    def _over(self, kernel: Kernel, files: Sequence[TableFile]) -> Blobs:
        return self._runner.each(OfHeap(kernel), heaps(files, lambda task: task.file.size))

    def _near(self, days: Collection[date], first: datetime | None, *told: Blobs) -> _Near:
        """What places captures of dates, those from the ``first`` on if that is enough, among what is stored."""
        begun = None if first is None else first - 2 * self._longest - self._pause
        files = self._files((SNAPSHOT_CAPTURE, COLLECTION_ROUND), _with_neighbours(days), begun)
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
        kernel = partial(rounds_of, limits=self._limits)
        found = self._runner.by_key(kernel, *(blobs.of(CAPTURES, MARKS) for blobs in told))
        rounds = pa.concat_tables([ROUNDS.empty_table(), *found.tables(ROUNDS_OF)])
        return rounds, pa.concat_tables([row_schema(COLLECTION_ROUND).empty_table(), *found.tables(GAPS)])

    def _by_member(self, rounds: pa.Table, dates: Collection[ClusterDate], begun: datetime | None) -> Blobs:
        days = {at.event_date for at in dates}
        heartbeats = self._files([CONSUMER_HEARTBEAT], days, begun)
        buckets = 1 + sum(task.file.rows or 0 for task in heartbeats) // _BUCKET_ROWS
        infos = self._files([SNAPSHOT_CAPTURE], _with_neighbours(days), begun) if heartbeats else []
        where = Where(dates=frozenset(dates), since=_since("captured_at", begun))
        return self._over(ByMember(rounds, where, buckets), [*heartbeats, *infos]).of(HEARTBEATS, INFOS)


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
