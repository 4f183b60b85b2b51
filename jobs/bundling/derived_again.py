"""Input rows in; the rows that the jobs' own derivations make of them, out; in a folder that is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from hindsight.conf.settings import Settings
from hindsight.jobs.bundling.subject import OF_ALL_PRODUCERS, OF_GROUPS, is_claimed
from hindsight.jobs.drift import drift_derivation
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.ledger import files_of_dates, ledger
from hindsight.jobs.producers import producer_derivation
from hindsight.jobs.publishing.dates_to_compute import Progress
from hindsight.jobs.publishing.publication import Stretch
from hindsight.jobs.publishing.publication_record import computed_before
from hindsight.jobs.running.run_context import EVERY_DATE, RunContext
from hindsight.jobs.running.scratch_folder import ScratchFolder
from hindsight.schemas import CLIENT_EVENT, TOPIC_ROUTE, Table
from hindsight.schemas.arrow_types import arrow_schema, row_schema
from hindsight.udfs.landing.landing_formats import FORMATS, formats_of
from hindsight.udfs.strategies.consistent_hash import Positions, given_positions

_JOBS = {"consumer": "flag_allocation_drift", "producer": "rebuild_availability"}


class KnownDates(NamedTuple):
    """Dates of one cluster; ``formats``: of all files that bear on any date of the lake."""

    dates: list[date]
    previous: date | None
    following: date | None
    last_recorded: date
    recorded: list[date]
    formats: list[str]

    def stretch(self, lake: LocalLake, context: RunContext, cluster: str) -> Stretch[Any]:
        """The dates as a job computes them at once."""
        return Stretch(
            lake,
            context,
            [ClusterDate(cluster, day) for day in self.dates],
            {} if self.previous is None else {cluster: self.previous},
            {} if self.following is None else {cluster: self.following},
            {cluster: self.last_recorded},
            frozenset(ClusterDate(cluster, day) for day in self.recorded),
            frozenset(),
            frozenset(self.formats),
        )


Side = Literal["producer", "consumer"]


def known_dates(lake: LocalLake, side: Side, cluster: str, first: date, last: date) -> KnownDates:
    """What is known of a cluster from ``first`` to ``last``; ``side``: ``consumer`` or ``producer``."""
    own = frozenset(formats_of(side))
    beside = (n for n, f in FORMATS.items() if {TOPIC_ROUTE.name, CLIENT_EVENT.name} & {*f.tables})
    bearing = own if side == "consumer" else own.union(beside)
    with_files = {f.at: f.formats for f in files_of_dates(ledger(lake, sorted(bearing))) if f.formats & own}
    stored, _ = computed_before(lake, _JOBS[side])
    known = Progress(dict.fromkeys(with_files, ""), stored, EVERY_DATE).known(cluster)
    recorded = sorted(at.event_date for at in with_files if at.cluster == cluster)
    return KnownDates(
        [day for day in known if first <= day <= last],
        max((day for day in known if day < first), default=None),
        min((day for day in known if day > last), default=None),
        max(recorded, default=last),
        recorded,
        sorted(frozenset[str]().union(*with_files.values())),
    )


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
            return {table.name: _of(made, table) for table in (OF_GROUPS if of_groups else OF_ALL_PRODUCERS)}


def _of(made: Any, table: Table) -> pa.Table:
    schema = row_schema(table)
    pieces = [piece.cast(schema) for piece in made.rows(table.name, arrow_schema(table))]
    return pa.concat_tables([schema.empty_table(), *pieces])


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
