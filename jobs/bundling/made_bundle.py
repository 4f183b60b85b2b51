"""A lake and a subject in; what a bundle of it holds, out: proved, since the rows that it claims were derived again."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.conf.failure import ExpectedError
from hindsight.conf.settings import Settings
from hindsight.jobs.bundling.derived_again import derived_again, own_rows
from hindsight.jobs.bundling.known_dates import KnownDates, Side, known_dates
from hindsight.jobs.bundling.renamed_rows import compared_columns, found_names, renamed
from hindsight.jobs.bundling.renamed_settings import note_settings, renamed_settings, settings_of
from hindsight.jobs.bundling.sliced_groups import GroupSlice, Rows
from hindsight.jobs.bundling.sliced_producers import producer_opening, producer_rows
from hindsight.jobs.bundling.subject import Subject, is_claimed
from hindsight.jobs.engines.arrow_columns import arrow_schema
from hindsight.jobs.engines.arrow_lake import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import Table
from hindsight.udfs.bundles.new_names import NewNames
from hindsight.udfs.bundles.ring_record import Recorded, RingRecorder


class DoesNotFollowError(ExpectedError):
    """Raised where rows of the lake do not follow from its inputs under these settings and this release."""


class Bundle(NamedTuple):
    """What a bundle holds; every name in it is a new one.

    Attributes:
        of: the columns by which claimed rows are the subject's own.
        inputs: by table.
        claims: rows as they were derived, by table.
        named: the row that was asked for, as it was derived; its table's name first.
        ring: positions on CONSISTENT_HASH's ring.
    """

    cluster: str
    of: Mapping[str, str]
    of_groups: bool
    dates: KnownDates
    settings: Mapping[str, Any]
    inputs: Mapping[Table, pa.Table]
    claims: Mapping[Table, pa.Table]
    named: tuple[str, dict[str, Any]]
    ring: Recorded


def made_bundle(lake: LocalLake, settings: Settings, subject: Subject) -> Bundle:
    """A bundle of a subject.

    Raises: DoesNotFollowError: what was derived again is not what the lake holds.
    """
    side: Side = "consumer" if subject.is_of_group else "producer"
    dates = known_dates(lake, side, subject.cluster, subject.first, subject.last)
    inputs = _inputs(lake, settings, subject, dates)
    stored = {table: _stored(lake, table, subject, dates) for table in subject.claimed}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for table, rows in (*inputs.items(), *stored.items()):
        found_names(rows, table, found)
    found["cluster"].add(subject.cluster)
    note_settings(settings, found)
    names = NewNames(found)
    own_settings = renamed_settings(settings, subject.cluster, names)
    new = {table: renamed(_without_lineage(rows, table), table, names) for table, rows in inputs.items() if len(rows)}
    cluster, of = names.of("cluster", subject.cluster), _renamed_key(subject.of, names)
    recorder = RingRecorder(names)
    derived = derived_again(new, dates, cluster, settings_of(own_settings), recorder, of_groups=subject.is_of_group)
    claims = {table: own_rows(derived[table.name], table, of, dates.dates) for table in subject.claimed}
    wanted = {table: _compared(renamed(rows, table, names).to_pylist(), table) for table, rows in stored.items()}
    _require_same(wanted, {table: _compared(rows, table) for table, rows in claims.items()})
    return Bundle(
        cluster,
        of,
        subject.is_of_group,
        dates,
        own_settings,
        new,
        {table: as_table(rows, table) for table, rows in claims.items()},
        (subject.table.name, _named(subject, names, claims[subject.table])),
        recorder.positions,
    )


def _inputs(lake: LocalLake, settings: Settings, subject: Subject, dates: KnownDates) -> Rows:
    if not subject.is_of_group:
        found = producer_rows(lake, subject.cluster, subject.of, dates.dates)
        return found | producer_opening(lake, subject.cluster, subject.of, dates.previous)
    group = subject.of["consumer_group"]
    sliced = GroupSlice(lake, subject.cluster, group, dates.dates, settings.drift.lookback_s)
    return sliced.rows() | sliced.opening(dates.previous)


def _stored(lake: LocalLake, table: Table, subject: Subject, dates: KnownDates) -> pa.Table:
    """The rows of the lake that are claimed."""
    days = [ClusterDate(subject.cluster, day) for day in dates.dates]
    rows = lake.rows(table, where=Where(dates=days, values={name: [value] for name, value in subject.of.items()}))
    return rows.filter(pa.array([is_claimed(table, subject.of, row) for row in rows.to_pylist()], pa.bool_()))


def _without_lineage(rows: pa.Table, table: Table) -> pa.Table:
    return rows.select(table.contract_columns)


def _renamed_key(of: Mapping[str, str], names: NewNames) -> dict[str, str]:
    kinds = {"consumer_group": "group", "producer_group": "group", "client_id": "client"}
    return {name: names.of(kinds[name], value) for name, value in of.items()}


def as_table(rows: list[dict[str, Any]], table: Table) -> pa.Table:
    """Claimed rows as a table, in an order that equal rows share."""
    schema = arrow_schema(table)
    fields = [schema.field(name).with_nullable(True) for name in table.contract_columns]
    ordered = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))
    return pa.Table.from_pylist(ordered, schema=pa.schema(fields))


def _compared(rows: list[dict[str, Any]], table: Table) -> Counter[str]:
    columns = compared_columns(table)
    return Counter(json.dumps({name: row[name] for name in columns}, default=str) for row in rows)


def _require_same(wanted: Mapping[Table, Counter[str]], derived: Mapping[Table, Counter[str]]) -> None:
    for table, rows in wanted.items():
        lacks, more = rows - derived[table], derived[table] - rows
        if lacks or more:
            raise DoesNotFollowError(
                f"{table.name}: {lacks.total()} row(s) of the lake do not follow from its inputs under these settings "
                f"and this release, and {more.total()} other(s) do; run the pipeline with the settings of this "
                "command, or give those of the last run with --settings. Nothing was written."
            )


def _named(subject: Subject, names: NewNames, claims: list[dict[str, Any]]) -> dict[str, Any]:
    """The row that was asked for among those that were derived."""
    row = renamed(pa.Table.from_pylist([dict(subject.row)], arrow_schema(subject.table)), subject.table, names)
    (wanted,) = _compared(row.to_pylist(), subject.table)
    return next(one for one in claims if _compared([one], subject.table) == Counter([wanted]))
