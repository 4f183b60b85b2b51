"""Captures of a stretch of dates in, rows of the consumers' derived tables out, whichever engine runs the kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.jobs.drift.declared_clients import declared_clients
from hindsight.jobs.drift.drift_buckets import ClusterDates, DriftFold, DriftOptions
from hindsight.jobs.drift.drift_cut import ASKED_PROXY, CUT_ROUNDS, NEAREST, PRINTED, SHOWS, GroupFile, cut, look
from hindsight.jobs.drift.drift_ends import ENDS, cut_ends
from hindsight.jobs.drift.drift_logs import NAMELESS, EventFile, cut_logs
from hindsight.jobs.drift.drift_routes import NAMES, ROUTE_CAPTURES, ROUTE_ENTRIES, RouteFile, cut_routes
from hindsight.jobs.drift.group_split import LOGS, WANTS, Cutting, SplitOpening
from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.heaps import OfHeap, file_heaps
from hindsight.jobs.engines.runner import Blobs, Runner
from hindsight.jobs.producers.producer_buckets import OPENING
from hindsight.jobs.producers.producer_cut import Addresses
from hindsight.jobs.publishing.publication import Stretch
from hindsight.jobs.publishing.row_lineage import Lineage
from hindsight.schemas import (
    CLIENT_EVENT,
    CLIENT_HEARTBEAT,
    CLIENT_STRATEGY_STATE,
    CONSUMER_HEARTBEAT,
    GROUP_DRIFT_STATE,
    MEMBERSHIP_EVENT,
    MESSAGE_REQUEST_MODE,
    POP_ASSIGNMENT,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    REBALANCE_STATE,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
    TOPIC_STATUS,
    Table,
)
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.nearest_captures import merged_nearest
from hindsight.udfs.consumer.round_dates import near
from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.diagnosis.log_processes import log_of
from hindsight.udfs.groups.group_walk import WalkSettings
from hindsight.udfs.groups.recorded_groups import FoldSettings
from hindsight.udfs.landing.landing_formats import FORMATS, distances
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises

_OF_GROUPS = (
    SNAPSHOT_CAPTURE,
    CONSUMER_HEARTBEAT,
    QUEUE_OWNERSHIP,
    POP_ASSIGNMENT,
    QUEUE_PROGRESS,
    MESSAGE_REQUEST_MODE,
    REBALANCE_RESULT,
)
_IF_FED = (CLIENT_HEARTBEAT, MEMBERSHIP_EVENT, CLIENT_EVENT)
_BUCKET_ROWS = 500_000
_MOST_BUCKETS = 200


def derive(stretch: Stretch[Any], settings: Settings, runner: Runner, premises: Premises = NOTHING_SUPPOSED) -> Blobs:
    """Rows of the consumers' derived tables, blobs by name."""
    dates: dict[str, list[date]] = defaultdict(list)
    for at in sorted(stretch.dates):
        dates[at.cluster].append(at.event_date)
    fed = [table for table in _IF_FED if _is_fed(stretch, table)]
    every = near({at.event_date for at in stretch.dates})
    files = {table: stretch.lake.files(table, every) for table in (*_OF_GROUPS, *fed, TOPIC_ROUTE, TOPIC_STATUS)}
    addresses = Addresses(sorted(dates), _buckets(files), {})
    by = Cutting(addresses, dates, settings.drift.lookback_s, None, _distances(stretch))
    if by.distances:
        by = by._replace(nearest=_nearest(runner, _tasks(stretch, files, (SNAPSHOT_CAPTURE,), by)))
    rows = runner.each(OfHeap(cut), file_heaps(_tasks(stretch, files, (*_OF_GROUPS, *fed), by)))
    wants, printed = _wants(rows.tables(WANTS), addresses), _printed(rows)

    def copied(*tables: Table) -> list[RouteFile]:
        tasks = _tasks(stretch, files, tables, by)
        return [RouteFile(task.folder, task.file, by, wants, printed) for task in tasks]

    routed = runner.each(OfHeap(cut_routes), file_heaps(copied(SNAPSHOT_CAPTURE, TOPIC_ROUTE)))
    routes = routed.of(ROUTE_CAPTURES, ROUTE_ENTRIES, NAMES)
    ends = runner.each(OfHeap(cut_ends), file_heaps(copied(TOPIC_STATUS))).of(ENDS)
    logs = runner.each(OfHeap(cut_logs), file_heaps(_logs(stretch, files, by, rows))).of(NAMELESS)
    openings = [
        runner.over(SplitOpening(OPENING + table.name, by), stretch.opening(table))
        for table in (CLIENT_STRATEGY_STATE, GROUP_DRIFT_STATE, REBALANCE_STATE)
    ]
    options = _options(settings, premises, hears=CLIENT_HEARTBEAT in fed, has_logs=MEMBERSHIP_EVENT in fed)
    lineage = Lineage(stretch.context.started_at, stretch.context.run_id)
    fold = DriftFold(addresses, _clusters(stretch, dates, rows), options, lineage)
    names = [table.name for table in (*_OF_GROUPS, *fed)]
    return runner.by_key(fold, rows.of(SHOWS, *names), routes, ends, logs, *openings)


def _is_fed(stretch: Stretch[Any], table: Table) -> bool:
    return any(table.name in FORMATS[name].tables for name in stretch.formats)


def _distances(stretch: Stretch[Any]) -> Mapping[str, int]:
    """The distances of sources, where several may tell of groups."""
    capturing = {name for name, of in FORMATS.items() if SNAPSHOT_CAPTURE.name in of.tables}
    return distances() if len(capturing & stretch.formats) > 1 else {}


def _buckets(files: Mapping[Table, Collection[DataFile]]) -> int:
    # Of events only few rows are kept.
    rows = sum(file.rows or 0 for table, of_table in files.items() if table != CLIENT_EVENT for file in of_table)
    return min(max(1, round(rows / _BUCKET_ROWS)), _MOST_BUCKETS)


def _tasks(
    stretch: Stretch[Any], files: Mapping[Table, Collection[DataFile]], tables: Collection[Table], by: Cutting
) -> list[GroupFile]:
    return [GroupFile(TableFolder(stretch.lake.root, table), file, by) for table in tables for file in files[table]]


def _nearest(runner: Runner, tasks: Collection[GroupFile]) -> dict[tuple[str, str, int], int]:
    found = runner.each(OfHeap(look), file_heaps(list(tasks))).tables(NEAREST)
    return merged_nearest([{(c, group, day): of for c, group, day, of in _values(table)} for table in found])


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _wants(
    told: Iterable[pa.Table], addresses: Addresses, named: Callable[[str], str] = str
) -> dict[str, dict[str, frozenset[int]]]:
    """By cluster and name, the buckets that want what is of it: of a topic, its routes."""
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for table in told:
        for key, name in _values(table):
            found[addresses.cluster_of(key)][named(name)].add(key)
    return {cluster: {name: frozenset(keys) for name, keys in of.items()} for cluster, of in found.items()}


def _logs(
    stretch: Stretch[Any], files: Mapping[Table, Collection[DataFile]], by: Cutting, rows: Blobs
) -> list[EventFile]:
    """The files whose lines name no group, with who wants those of which log."""
    if CLIENT_EVENT not in files:
        return []
    wants = _wants(rows.tables(LOGS), by.addresses, log_of)
    return [EventFile(task.folder, task.file, by, wants) for task in _tasks(stretch, files, (CLIENT_EVENT,), by)]


def _printed(rows: Blobs) -> dict[str, list[tuple[str, str]]]:
    """By cluster, the kinds and beginnings of names that may be cut."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for table in rows.tables(PRINTED):
        for cluster, column, name in _values(table):
            found[cluster].add((column, name))
    return {cluster: sorted(names) for cluster, names in found.items()}


def _clusters(stretch: Stretch[Any], dates: Mapping[str, list[date]], rows: Blobs) -> dict[str, ClusterDates]:
    asked: dict[str, set[tuple[str, date]]] = defaultdict(set)
    for table in rows.tables(ASKED_PROXY):
        for cluster, collector, day in _values(table):
            asked[cluster].add((collector, date.fromisoformat(day)))
    cut_rounds: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for table in rows.tables(CUT_ROUNDS):
        instants = microseconds(table, "round_at").tolist()
        for (cluster, collector), at in zip(_values(table.drop_columns(["round_at"])), instants, strict=True):
            cut_rounds[cluster].add((collector, at))
    return {
        cluster: ClusterDates(
            [(day, day >= stretch.last_recorded.get(cluster, day)) for day in days],
            frozenset(asked[cluster]),
            frozenset(cut_rounds[cluster]),
        )
        for cluster, days in dates.items()
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
