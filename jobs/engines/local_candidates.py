"""Candidates without a JVM: files that are staged in their table's folder and belong to no version yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from hindsight.jobs.engines.arrow_columns import chosen
from hindsight.jobs.engines.arrow_lake import EVERY_ROW, Digests, Rows, StagedFile, Where
from hindsight.jobs.engines.data_files import TableFolder, rows_in
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import Table
from hindsight.udfs.values.date_digests import SUMMED, DateDigest, by_date, dates_in, digests_of


class Tables(Protocol):
    """What the methods below rest on: a lake, and by table the files that this run staged."""

    confirm: Callable[[], None]
    staged_candidates: dict[str, list[StagedFile]]

    def create(self, table: Table) -> None:
        """Create a table."""

    def folder(self, table: Table) -> TableFolder:
        """Where its files stand."""

    def rows(self, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        """Rows that are stored."""

    def candidates(self, table: Table) -> list[StagedFile]:
        """Files that are staged."""


class LocalCandidates:
    """The methods of ``LocalLake`` that stage candidates and look at them."""

    def add_candidates(self: Tables, table: Table, rows: Rows, *, first: bool) -> None:
        """Add rows to a table's candidate; the ``first`` ones of a run replace earlier ones."""
        self.confirm()
        self.create(table)
        before = [] if first else self.staged_candidates[table.name]
        self.staged_candidates[table.name] = before + self.folder(table).stage(rows)

    def candidates(self: Tables, table: Table) -> list[StagedFile]:
        """The files that ``add_candidates`` staged in this run."""
        return self.staged_candidates[table.name]

    def candidate_digests(self: Tables, columns: Mapping[Table, Sequence[str]]) -> Digests:
        """Of each table's candidate rows, per date their number and a digest of these columns (none: 0)."""
        return {table: _digests(self, table, names) for table, names in columns.items()}

    def candidate_dates(self: Tables, table: Table, where: Where) -> set[ClusterDate]:
        """The dates of which a candidate row meets a condition."""
        wanted = list(dict.fromkeys(["cluster", "event_date", *where.columns()]))
        read = self.folder(table).read
        found = (chosen(read(file, wanted), where) for file in self.candidates(table))
        return {ClusterDate(*at) for rows in found for at in dates_in(rows)}

    def of_dates(
        self: Tables, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]
    ) -> pa.Table:
        """Stored rows of some dates and this run's candidates of others."""
        rows = self.rows(table, where=Where(dates=stored))
        if not computed:
            return rows
        days = {at.event_date for at in computed}
        files = [file for file in self.candidates(table) if file.event_date in days]
        return pa.concat_tables([rows, chosen(rows_in(self.folder(table), files), Where(dates=computed))])


def _digests(lake: Tables, table: Table, columns: Sequence[str]) -> list[tuple[ClusterDate, DateDigest]]:
    read, wanted = lake.folder(table).read, list(dict.fromkeys(["cluster", "event_date", *columns]))
    pieces = [by_date(read(file, wanted), columns) for file in lake.candidates(table)]
    found = digests_of(pa.concat_tables([SUMMED.empty_table(), *pieces]))
    return [(ClusterDate(cluster, day), digest) for cluster, day, digest in found]
