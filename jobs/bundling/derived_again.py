"""Input rows in; the rows that the jobs' own derivations make of them, out; in a folder that is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.jobs.bundling.known_dates import KnownDates
from hindsight.jobs.bundling.subject import is_claimed
from hindsight.jobs.drift import drift_derivation
from hindsight.jobs.engines.arrow_columns import arrow_schema
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.producers import producer_derivation
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.scratch_folder import ScratchFolder
from hindsight.schemas import Table
from hindsight.udfs.strategies.ring_positions import Positions, given_positions

_RUN = "bundle"
_AT = datetime(2000, 1, 1, tzinfo=UTC)


def derived_again(
    rows: Mapping[Table, pa.Table],
    dates: KnownDates,
    cluster: str,
    settings: Settings,
    ring: Positions,
    *,
    of_groups: bool,
) -> dict[str, pa.Table]:
    """The rows of all derived tables of these dates, by the names of the tables."""
    derive = drift_derivation.derive if of_groups else producer_derivation.derive
    with ScratchFolder() as folder, LocalRunner(1) as runner:
        lake = LocalLake(str(folder), retention_days=1)
        for table, own in rows.items():
            lake.append(table, with_lineage(own, table))
        stretch = dates.stretch(lake, RunContext(str(folder), run_id=_RUN, started_at=_AT), cluster)
        with given_positions(ring):
            made = derive(stretch, settings, runner)
            return {table.name: _of(made, table) for table in _derived(of_groups)}


def _derived(of_groups: bool) -> Iterable[Table]:
    from hindsight.jobs.bundling.subject import OF_ALL_PRODUCERS, OF_GROUPS

    return OF_GROUPS if of_groups else OF_ALL_PRODUCERS


def _of(made: Any, table: Table) -> pa.Table:
    schema = arrow_schema(table)
    pieces = [piece.cast(pa.schema([f.with_nullable(True) for f in schema])) for piece in made.rows(table.name, schema)]
    empty = pa.schema([f.with_nullable(True) for f in schema]).empty_table()
    return pa.concat_tables([empty, *pieces])


def own_rows(rows: pa.Table, table: Table, of: Mapping[str, str], days: Iterable[Any]) -> list[dict[str, Any]]:
    """The rows that a bundle of a subject claims: without what tells of a run, as plain values."""
    dates = set(days)
    return [
        {name: row[name] for name in table.contract_columns}
        for row in rows.to_pylist()
        if row["event_date"] in dates
        and all(row.get(name) == value for name, value in of.items())
        and is_claimed(table, of, row)
    ]


def with_lineage(rows: pa.Table, table: Table) -> pa.Table:
    """Rows of a bundle as a lake stores them: which run they are of is no part of a bundle."""
    for name in sorted(table.lineage & {*table.schema.names}):
        kind = arrow_schema(table).field(name).type
        value = pa.scalar(_RUN if pa.types.is_string(kind) else _AT, kind)
        column = pa.repeat(value, len(rows))
        place = rows.schema.get_field_index(name)
        rows = rows.append_column(name, column) if place < 0 else rows.set_column(place, name, column)
    return rows
