"""The consumers' derived tables of a stretch of dates: captures in, rows out, whichever engine runs the kernels.

What the settings say of single members of groups is checked here before anything is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import hindsight.schemas as schemas
from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import SettingsError
from hindsight.jobs.drift.drift_buckets import ClusterDates, DriftFold, DriftOptions
from hindsight.jobs.drift.drift_cut import (
    ASKED_PROXY,
    COPIED,
    CUT_ROUNDS,
    LOGGED,
    NEAREST,
    OF_LOGS,
    OF_ROUNDS,
    PRINTED,
    SEEN,
    SHOWS,
    SIGNS_OF_SERVERS,
    CutFile,
    copy,
    copy_ends,
    cut,
    look,
    needed_since,
)
from hindsight.jobs.drift.group_split import LOGS, WANTS, Cutting, split_opening
from hindsight.jobs.drift.kept_groups import (
    END_OF_QUEUE,
    KEPT_STATES,
    KEPT_TOLD,
    NOTHING_SEEN,
    Cuts,
    Seen,
    Walks,
    ends_of,
    ends_of_rounds,
    has_logs,
    is_otherwise,
    kept_of,
    seen_of,
)
from hindsight.jobs.engines.arrow_columns import Lineage
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile, Where
from hindsight.jobs.engines.runner import Blobs, OfHeap, Runner, file_heaps
from hindsight.jobs.lake.cluster_dates import OPENING, Addresses, ClusterDate
from hindsight.jobs.publishing.kept_walks import Start, cuts_of
from hindsight.jobs.publishing.publication import Stretch
from hindsight.schemas import Table
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.rows_of_rounds import merged_nearest
from hindsight.udfs.groups.group_walk import FoldSettings, WalkSettings
from hindsight.udfs.landing.landing_formats import FORMATS, distances
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises
from hindsight.udfs.strategies.member_families import Declaration, check_family
from hindsight.udfs.values.columns import EPOCH, microseconds, near

INPUTS = (*OF_ROUNDS, schemas.TOPIC_ROUTE, schemas.TOPIC_STATUS, *OF_LOGS)  # as publication names them
CLOSING = (schemas.CLIENT_STRATEGY_STATE, schemas.GROUP_DRIFT_STATE, schemas.REBALANCE_STATE)
DERIVED = (
    *CLOSING,
    schemas.EXPECTED_ALLOCATION,
    schemas.BROKER_ASSIGNMENT,
    schemas.ALLOCATION_DRIFT,
    schemas.MEMBERSHIP_CHANGE,
    schemas.REBALANCE_EVENT,
    schemas.DRIFT_INCIDENT,
    schemas.GROUP_ROUND,
)
_BUCKET_ROWS = 500_000
_MOST_BUCKETS = 200


def derive(
    stretch: Stretch[Any],
    settings: Settings,
    runner: Runner,
    premises: Premises = NOTHING_SUPPOSED,
    walks: Walks | None = None,
) -> Blobs:
    """Rows of the consumers' derived tables, blobs by name.

    ``walks``: where those of first dates go on, and what is kept of this run's; None: nothing is.
    """
    dates: dict[str, list[date]] = defaultdict(list)
    for at in sorted(stretch.dates):
        dates[at.cluster].append(at.event_date)
    starts = {} if walks is None else walks.begin(stretch, {cluster: days[0] for cluster, days in dates.items()})
    cut_rows = _cut(stretch, settings, runner, dates, starts)
    doubtful = {cluster for cluster, start in starts.items() if is_otherwise(start, cut_rows.seen_of(start.at))}
    doubtful |= {cluster for cluster in starts if not cut_rows.may_be_kept(starts[cluster].at, starts[cluster].seen)}
    if doubtful:
        starts = {cluster: start for cluster, start in starts.items() if cluster not in doubtful}
        cut_rows = _cut(stretch, settings, runner, dates, starts)
    made = _folded(stretch, settings, runner, premises, cut_rows, starts, keeps=walks is not None)
    if walks is not None:
        _keep(walks, stretch, cut_rows, starts, made)
    return made


@dataclass(frozen=True)
class _CutRows:
    """Rows of a stretch by bucket, and what they show that holds for whole dates."""

    by: Cutting
    files: Mapping[Table, Collection[DataFile]]
    rows: Blobs
    seen: Mapping[ClusterDate, Seen]
    ends: Mapping[ClusterDate, tuple[int, Mapping[str, int]]]

    def seen_of(self, at: ClusterDate) -> Seen:
        """What captures of a date show."""
        return self.seen.get(at, NOTHING_SEEN)

    def may_be_kept(self, at: ClusterDate, earlier: Seen = NOTHING_SEEN) -> bool:
        """Whether later rows leave what is said of a date as it is: one source tells of it, no name is cut, and no
        broker named by its address."""
        seen = earlier.both(self.seen_of(at))
        return not self.by.printed.get(at.cluster) and not seen.by_address and len(seen.sources) <= 1


def _cut(
    stretch: Stretch[Any],
    settings: Settings,
    runner: Runner,
    dates: Mapping[str, list[date]],
    starts: Mapping[str, Start],
) -> _CutRows:
    fed = (table for table in OF_LOGS if table == schemas.REBALANCE_RESULT or _is_fed(stretch, table))
    tables = (*OF_ROUNDS, *fed, schemas.TOPIC_ROUTE, schemas.TOPIC_STATUS)
    every = near({at.event_date for at in stretch.dates})
    since = {cluster: start.since_us for cluster, start in starts.items()}
    by = Cutting(Addresses(sorted(dates), 1, {}), dates, settings.drift.lookback_s, None, _distances(stretch), since)
    files = {table: _files(stretch, table, every, by) for table in tables}
    by = by._replace(addresses=Addresses(sorted(dates), _buckets(files), {}))
    if by.distances:
        by = by._replace(nearest=_nearest(runner, _tasks(stretch, files, (schemas.SNAPSHOT_CAPTURE,), by)))
    rows = runner.each(OfHeap(cut), file_heaps(_tasks(stretch, files, (*OF_ROUNDS, *OF_LOGS), by)))
    asked = [of for table in rows.tables(ASKED_PROXY) for of in _values(table)]
    seen = list(rows.tables(SEEN))
    wants, logs = (_wants(rows.tables(name), by.addresses, of) for name, of in ((WANTS, str), (LOGS, log_of)))
    by = by._replace(wants=wants, logs=logs, printed=_printed(rows))
    return _CutRows(by, files, rows, seen_of(seen, asked), ends_of_rounds(seen))


def _files(stretch: Stretch[Any], table: Table, days: Collection[date], by: Cutting) -> Collection[DataFile]:
    """The files of dates; where all that is needed of them is later than an instant, only those with such rows."""
    found: Collection[DataFile] = stretch.lake.files(table, days, needed_since(table, by))
    return found


def _folded(
    stretch: Stretch[Any],
    settings: Settings,
    runner: Runner,
    premises: Premises,
    of: _CutRows,
    starts: Mapping[str, Start],
    *,
    keeps: bool,
) -> Blobs:
    by, rows = of.by, of.rows
    copied = runner.each(OfHeap(copy), file_heaps(_tasks(stretch, of.files, COPIED, by)))
    openings = [
        runner.over(partial(split_opening, OPENING + table.name, by), stretch.opening(table)) for table in CLOSING
    ]
    openings += _kept_before(stretch, runner, by, starts)
    options = _options(
        settings, premises, hears=schemas.CLIENT_HEARTBEAT in of.files, has_logs=schemas.MEMBERSHIP_EVENT in of.files
    )
    lineage = Lineage(stretch.context.started_at, stretch.context.run_id)
    cuts = _cuts(stretch, of, starts) if keeps else {}
    fold = DriftFold(by.addresses, _clusters(stretch, of, starts), options, lineage, cuts)
    names = [table.name for table in (*OF_ROUNDS, *OF_LOGS)]
    return runner.by_key(fold, rows.of(SHOWS, LOGGED, SIGNS_OF_SERVERS, *names), copied, *openings)


def _kept_before(stretch: Stretch[Any], runner: Runner, by: Cutting, starts: Mapping[str, Start]) -> list[Blobs]:
    """What was kept where walks go on, and the rows of their dates that are written again, by bucket."""
    found = []
    for cluster, start in starts.items():
        own = pc.invert(pc.equal(start.told["consumer_group"], ""))
        for name, kept in ((KEPT_STATES, start.states), (KEPT_TOLD, start.told.filter(own))):
            found.append(runner.over(partial(split_opening, name, by), kept))
        told_ends = ends_of(start.told.filter(pc.equal(start.told["kind"], END_OF_QUEUE)))
        found.append(runner.over(partial(copy_ends, cluster, by), told_ends))
        for table in (schemas.EXPECTED_ALLOCATION, schemas.MEMBERSHIP_CHANGE):
            stored = stretch.lake.rows(table, where=Where(dates=[start.at]))
            found.append(runner.over(partial(split_opening, OPENING + table.name, by), stored))
    return found


def _cuts(stretch: Stretch[Any], of: _CutRows, starts: Mapping[str, Start]) -> dict[str, Cuts]:
    """Where walks are cut: of each cluster in its last dates, those of which logs tell excepted."""
    found = {}
    for cluster, days in of.by.dates.items():
        start = starts.get(cluster)
        from_us = start.cut.until_us if start else 0
        last = stretch.last_recorded.get(cluster, days[-1])
        at = {
            day: cuts_of(day, first_us, last_us.values(), from_us)
            for day in days
            for first_us, last_us in [of.ends.get(ClusterDate(cluster, day), (0, {}))]
            if day >= last - timedelta(days=1)
            and of.may_be_kept(
                ClusterDate(cluster, day), start.seen if start and start.at.event_date == day else NOTHING_SEEN
            )
            and not has_logs(stretch.lake, day)
        }
        collected = []
        if start:
            day_number = (start.at.event_date - EPOCH.date()).days
            collected = [(topic, collector, day_number) for collector, topic in sorted(start.seen.routes)]
        found[cluster] = Cuts(from_us, at, collected)
    return found


def _keep(walks: Walks, stretch: Stretch[Any], of: _CutRows, starts: Mapping[str, Start], made: Blobs) -> None:
    """Note what is kept of each date once it is published."""
    states, told = list(made.tables(KEPT_STATES)), list(made.tables(KEPT_TOLD))
    for at in stretch.dates:
        start = starts.get(at.cluster)
        start = start if start is not None and start.at == at else None
        if start is not None:
            walks.starts[at] = start
        own = [[rows for rows in tables if rows["cluster"][0].as_py() == at.cluster] for tables in (states, told)]
        kept = kept_of(at, start, of.seen_of(at), *own)
        if kept is not None:
            walks.kept[at] = kept


def _is_fed(stretch: Stretch[Any], table: Table) -> bool:
    return any(table.name in FORMATS[name].tables for name in stretch.formats)


def _distances(stretch: Stretch[Any]) -> Mapping[str, int]:
    """The distances of sources, where several may tell of groups."""
    capturing = {name for name, of in FORMATS.items() if schemas.SNAPSHOT_CAPTURE.name in of.tables}
    return distances() if len(capturing & stretch.formats) > 1 else {}


def _buckets(files: Mapping[Table, Collection[DataFile]]) -> int:
    # Of events only few rows are kept.
    rows = sum(
        file.rows or 0 for table, of_table in files.items() if table != schemas.CLIENT_EVENT for file in of_table
    )
    return min(max(1, round(rows / _BUCKET_ROWS)), _MOST_BUCKETS)


def _tasks(
    stretch: Stretch[Any], files: Mapping[Table, Collection[DataFile]], tables: Collection[Table], by: Cutting
) -> list[CutFile]:
    folders = {table: TableFolder(stretch.lake.root, table) for table in tables}
    return [CutFile(folder, file, by) for table, folder in folders.items() for file in files.get(table, ())]


def _nearest(runner: Runner, tasks: Collection[CutFile]) -> dict[tuple[str, str, int], int]:
    found = runner.each(OfHeap(look), file_heaps(list(tasks))).tables(NEAREST)
    return merged_nearest([{(c, group, day): of for c, group, day, of in _values(table)} for table in found])


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _wants(
    told: Iterable[pa.Table], addresses: Addresses, named: Callable[[str], str]
) -> dict[str, dict[str, frozenset[int]]]:
    """By cluster and name, the buckets that want what is of it: of a topic, its routes."""
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for table in told:
        for key, name in _values(table):
            found[addresses.cluster_of(key)][named(name)].add(key)
    return {cluster: {name: frozenset(keys) for name, keys in of.items()} for cluster, of in found.items()}


def _printed(rows: Blobs) -> dict[str, list[tuple[str, str]]]:
    """By cluster, the kinds and beginnings of names that may be cut."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for table in rows.tables(PRINTED):
        for cluster, column, name in _values(table):
            found[cluster].add((column, name))
    return {cluster: sorted(names) for cluster, names in found.items()}


def _clusters(stretch: Stretch[Any], of: _CutRows, starts: Mapping[str, Start]) -> dict[str, ClusterDates]:
    asked: dict[str, set[tuple[str, date]]] = defaultdict(set)
    for at, seen in of.seen.items():
        asked[at.cluster] |= {(collector, at.event_date) for collector in seen.proxies}
    for cluster, start in starts.items():
        asked[cluster] |= {(collector, start.at.event_date) for collector in start.seen.proxies}
    cut_rounds: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for table in of.rows.tables(CUT_ROUNDS):
        instants = microseconds(table, "round_at").tolist()
        for (cluster, collector), at in zip(_values(table.drop_columns(["round_at"])), instants, strict=True):
            cut_rounds[cluster].add((collector, at))
    return {
        cluster: ClusterDates(
            [(day, day >= stretch.last_recorded.get(cluster, day)) for day in days],
            frozenset(asked[cluster]),
            frozenset(cut_rounds[cluster]),
        )
        for cluster, days in of.by.dates.items()
    }


def _options(settings: Settings, premises: Premises, *, hears: bool, has_logs: bool) -> DriftOptions:
    drift = settings.drift
    values = settings.timing.model_dump() | {"progress_valid_s": drift.progress_valid_s}
    walk = WalkSettings(Timing.of(values), settings.timing.carry_days, values["maintenance"])
    return DriftOptions(
        FoldSettings(walk, drift.lookback_s, drift.progress_valid_s, settings.rounds.loose_spread_s),
        [entry.model_dump() | {"parameters": entry.parameters or None} for entry in drift.strategy],
        declared_clients(settings),
        drift.heartbeat_expiry_s,
        drift.strategy_carry_days,
        hears,
        has_logs,
        premises,
    )


def declared_clients(settings: Settings) -> tuple[Declaration, ...]:
    """The entries of ``[[drift.client_family]]``.

    Raises: SettingsError: there is no such family.
    """
    entries = tuple(Declaration(**entry.model_dump()) for entry in settings.drift.client_family)
    for number, entry in enumerate(entries):
        try:
            if entry.family is not None:
                check_family(entry.family)
        except ValueError as error:
            raise SettingsError(f"drift.client_family.{number}: {error}") from error
    return entries
