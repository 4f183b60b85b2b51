"""The tables of a lake without a JVM: Arrow reads and writes their files, delta-rs their log.

A write stages its files first and becomes visible with one commit. Whatever rests on rows that were read is committed
only where nobody has committed since.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs
from typing_extensions import override

from hindsight.jobs.engines.arrow_columns import (
    chosen,
    columns_of,
    conformed_rows,
    delta_schema,
    no_rows,
    with_comments,
)
from hindsight.jobs.engines.arrow_lake import (
    CANDIDATES,
    KEPT_UNSAID,
    RETENTIONS,
    ArrowLake,
    Footprint,
    rows_in_pieces,
    written_meanwhile,
)
from hindsight.jobs.engines.changed_files import (
    files_of,
    partition_of,
    rest,
    too_many_small,
    updated,
    with_keys,
)
from hindsight.jobs.engines.data_files import rows_in
from hindsight.jobs.engines.lake_rows import EVERY_ROW, DataFile, Rows, StagedFile, Where
from hindsight.jobs.engines.stored_table import Change, OpenTables, changes_since, stored_table
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import (
    delta_options,
    file_system,
    for_others,
    is_local,
    refuse_without_spark,
)
from hindsight.jobs.lake.small_files import NOTES, store_at
from hindsight.jobs.lake.table_schema import later_columns, stored_columns, tell_later
from hindsight.jobs.running.unseen import unseen_spark
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema

_COMMIT = re.compile(r"(\d{20})\.json")
_LENGTH = re.compile(r"(\d+) (week|day|hour|minute|second)s?")


class LocalLake(ArrowLake):
    """The tables under one root, as ``ArrowLake`` says; candidates are files that are staged and not yet committed.

    Raises: NoLocalEngineError: only Spark reaches the place. StoreError: its store does not answer.
    """

    def __init__(self, root: str, *, retention_days: int, confirm: Callable[[], None] = lambda: None) -> None:
        self.root = for_others(root).rstrip("/")
        if not is_local(root):
            from hindsight.jobs.lake.object_store import reached  # its client is not for those who need none

            refuse_without_spark(root)
            reached(self.root)
        self.retention_days = retention_days
        self.confirm = confirm
        self.spark = None
        self._notes = store_at(None, f"{self.root}/{NOTES}")
        self._options = delta_options(root)
        self._tables = OpenTables(self._options)
        self._of_contract: set[str] = set()
        self._gathered: dict[Table, list[pa.Table]] = {}
        self._pinned: Mapping[str, int | None] = {}
        self._candidates: dict[str, list[StagedFile]] = {}  # by table, staged by this run

    def hold(self, confirm: Callable[[], None]) -> None:
        """The lake is this run's: nobody else writes from now on, which ``confirm`` confirms before each write."""
        self.confirm = confirm
        self._tables.hold()

    def pin(self, versions: Mapping[str, int | None]) -> None:
        """Have readers see these versions of tables, by name (None: there was none yet), as long as they are there."""
        self._pinned = versions

    @override
    def exists(self, table: Table) -> bool:
        return self._latest(table) is not None

    def _latest(self, table: Table) -> DeltaTable | None:
        """The latest version of a table, with the rows that were gathered for it."""
        if table in self._gathered:
            self.append(table, pa.concat_tables(self._gathered.pop(table)))
        return self._tables.latest(self.path(table))

    def _create(self, table: Table) -> None:
        self.confirm()
        kept = f"interval {self.retention_days} days"
        DeltaTable.create(
            self.path(table),
            delta_schema(stored_columns(table)),
            mode="ignore",
            partition_by=["event_date"] if table.dated else None,
            description=table.comment,
            configuration={"delta.enableDeletionVectors": "false", **dict.fromkeys(RETENTIONS, kept)},
            storage_options=self._options,
        )
        self._tables.changed(self.path(table))

    def _migrate(self, table: Table) -> None:
        stored = self.opened(table)
        if later := later_columns(columns_of(stored.schema()), table, self.path(table)):
            self.confirm()
            tell_later(table, later)
            write_deltalake(
                stored, with_comments(table, stored.schema()).empty_table(), mode="append", schema_mode="merge"
            )
            self._tables.changed(self.path(table))

    def opened(self, table: Table, *, as_of: int | datetime | None = None) -> DeltaTable:
        """The latest version of a table, or the one of a number or an instant.

        Raises: NoLocalEngineError: it has a feature that only Spark knows. UnreadableTableError: its log is damaged.
        TableNotFoundError: it was never created.
        """
        latest = self._latest(table) if as_of is None else None
        return latest or stored_table(self.path(table), self._options, as_of=as_of)

    def _shown(self, table: Table) -> DeltaTable | None:
        """The version that readers see; None: there was none yet."""
        latest = self.opened(table)
        pinned = self._pinned.get(table.name, latest.version())
        if pinned is None or pinned == latest.version():
            return latest if pinned is not None else None
        try:
            return self.opened(table, as_of=pinned)
        except DeltaError:  # its files have gone with the retention
            return latest

    @override
    def version(self, table: Table) -> int | None:
        latest = self._latest(table)
        return None if latest is None else latest.version()

    @override
    def rows(self, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        wanted = list(columns) or table.schema.names
        return self._rows_of(table, self.files(table, where.days()), wanted, where)

    @override
    def files(
        self,
        table: Table,
        dates: Collection[date] | None = None,
        since: tuple[str, datetime] | None = None,
        *,
        as_of: int | datetime | None = None,
    ) -> list[DataFile]:
        """As every lake, of a version (None: the latest).

        Raises: WrongSchemaError: the table is of no earlier contract either.
        """
        if not self.exists(table):
            return []
        stored = self.opened(table, as_of=as_of) if as_of is not None else self._shown(table)
        if stored is None:
            return []
        later_columns(columns_of(stored.schema()), table, self.path(table))  # refuses what is of no contract
        return files_of(stored, dates if table.dated else None, since)

    def changes_since(self, table: Table, first: int, last: int) -> list[Change] | None:
        """What the commits after one version, up to another, changed of a table's rows; None: not all are there."""
        return changes_since(self.root, table.name, first, last)

    def gather(self, table: Table, rows: pa.Table) -> None:
        """Add rows with those to come, in one commit: when the table is next read, or at ``write_gathered``."""
        self._gathered.setdefault(table, []).append(rows)

    @override
    def gathered(self, table: Table) -> pa.Table:
        return pa.concat_tables([arrow_schema(table).empty_table(), *self._gathered.get(table, ())])

    @override
    def write_gathered(self) -> None:
        for table in list(self._gathered):
            self._latest(table)

    def store(
        self, table: Table, fresh: Rows | None, changed: Rows | None, dates: Collection[date], version: int | None
    ) -> None:
        """Add ``fresh`` rows and put ``changed`` ones in the place of those with their keys, in one commit."""
        self.confirm()
        stored, folder = self.opened(table), self.folder(table)
        if stored.version() != version:
            raise written_meanwhile(self.path(table))
        others = [name for name in table.schema.names if name not in table.key]
        anew, removed = ((), ()) if changed is None else self._anew(stored, table, changed, others, dates)
        pieces = chain(() if fresh is None else rows_in_pieces(fresh), anew)
        self._commit(table, folder.stage(pieces), removed, version)

    @override
    def update(self, table: Table, changed: Rows, columns: list[str], dates: Iterable[date]) -> None:
        self.confirm()
        stored = self.opened(table)
        version = stored.version()
        anew, removed = self._anew(stored, table, changed, columns, dates)
        self._commit(table, self.folder(table).stage(anew), removed, version)

    def _anew(
        self, stored: DeltaTable, table: Table, changed: Rows, columns: list[str], dates: Iterable[date]
    ) -> tuple[Iterable[pa.Table], list[DataFile]]:
        """The rows of files that hold some of the keys, with the columns as they are now; and these files."""
        folder, wanted = self.folder(table), [*table.key, *columns]
        pieces = (conformed_rows(piece, table, wanted) for piece in rows_in_pieces(changed))
        fresh = pa.concat_tables([no_rows(table, wanted), *pieces])
        removed = with_keys(folder, files_of(stored, set(dates)), table.key, fresh)
        return (updated(folder.read(file), fresh, table.key, columns) for file in removed), removed

    @override
    def _rest(self, table: Table, conditions: Sequence[Where]) -> tuple[list[DataFile], Iterable[pa.Table]]:
        return rest(self.folder(table), self._touched(table, conditions))

    @override
    def _commit(
        self, table: Table, added: Sequence[StagedFile], removed: Sequence[DataFile], rests_on: int | None
    ) -> None:
        """Where small files have become too many, the same version has their rows in one: readers see no gap."""
        if not added and not removed:
            return
        stored, is_blind = self.opened(table), rests_on is None
        if not is_blind and stored.version() != rests_on:
            raise written_meanwhile(self.path(table))
        changes = _actions(added, removed, changes_rows=True)
        by, place = ["event_date"] if table.dated else [], self.path(table)
        days = {file.event_date for file in added if file.event_date} if table.dated else None
        small = too_many_small(table.name, files_of(stored, days), added, removed)
        try:
            if small:
                merged = self.folder(table).stage(self.folder(table).read(file) for file in small)
                both = changes + _actions(merged, small, changes_rows=False)
                self._tables.commit(place, stored, both, by, is_blind=False)
            else:
                self._tables.commit(place, stored, changes, by, is_blind=is_blind)
        except CommitFailedError as error:
            if not (small and is_blind):
                raise written_meanwhile(place) from error
            self._tables.commit(place, self.opened(table), changes, by, is_blind=True)

    @override
    def of_dates(self, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]) -> pa.Table:
        rows = self.rows(table, where=Where(dates=stored))
        if not computed:
            return rows
        days = {at.event_date for at in computed}
        files = [file for file in self.candidates(table) if file.event_date in days]
        return pa.concat_tables([rows, chosen(rows_in(self.folder(table), files), Where(dates=computed))])

    @override
    def counted(self, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        both = list(dict.fromkeys([*columns, *where.columns()]))
        folder, files = self.folder(table), self.files(table, where.days())
        told = [f for f in files if f.cluster and f.rows and where == EVERY_ROW and {*columns} <= {*f._fields}]
        pieces = (chosen(folder.read(f, both), where).select(list(columns)) for f in files if f not in told)
        counts = [
            piece.group_by(columns).aggregate([([], "count_all")]) for piece in (no_rows(table, columns), *pieces)
        ]
        of_files = [{n: getattr(f, n) for n in columns} | {"count_all": f.rows} for f in told]
        counts.append(pa.Table.from_pylist(of_files, counts[0].schema))
        summed = pa.concat_tables(counts).group_by(columns).aggregate([("count_all", "sum")])
        return summed.rename_columns({"count_all_sum": "rows"})

    @override
    def results(
        self, job: str, frames: Mapping[Table, Any], whole: Mapping[Table, Any], *, by_great_expectations: bool
    ) -> list[dict[str, Any]]:
        if not by_great_expectations:
            from hindsight.jobs.engines.gate import counted_here

            return counted_here(self, frames, whole)
        with unseen_spark():  # Great Expectations takes seconds to import, and loads Spark if it can
            from hindsight.jobs.engines.expectation_suites import results_here

        return results_here(self, job, frames, whole)

    @override
    def operations_since(self, table: Table, version: int) -> set[str]:
        history = self.opened(table).history()
        return {commit["operation"] for commit in history if commit["version"] > version}

    @override
    def footprint(self, table: Table) -> Footprint:
        files = self.files(table)
        since = datetime.now(UTC) - self._kept(table)
        log = ((_COMMIT.fullmatch(info.base_name), info.mtime) for info in _below(f"{self.path(table)}/_delta_log"))
        commits = sorted((int(name[1]), at) for name, at in log if name)
        # Vacuum keeps the files of the version that was current then; the log may begin later.
        oldest = max((commit for commit in commits if commit[1] <= since), default=commits[0])
        uncounted = any(file.rows is None for file in files)
        return Footprint(
            rows=len(self.rows(table, table.key[:1])) if uncounted else sum(file.rows or 0 for file in files),
            files=len(files),
            bytes=sum(file.size for file in files),
            bytes_with_history=sum(info.size for info in _below(self.path(table))),
            oldest_version=oldest[0],
            oldest_at=oldest[1],
        )

    @override
    def compact(self, table: Table) -> None:
        self.confirm()
        self.opened(table).optimize.compact()
        self._tables.changed(self.path(table))

    @override
    def vacuum(self, table: Table) -> None:
        """As every lake does it; staged files that were never committed go too."""
        self.confirm()
        stored = self.opened(table)
        if self._kept(table) < timedelta(days=self.retention_days):
            stored.alter.set_table_properties(dict.fromkeys(RETENTIONS, f"interval {self.retention_days} days"))
        if stored.vacuum(dry_run=True, full=True):  # else it would add a version that says nothing
            stored.vacuum(dry_run=False, full=True)
        stored.cleanup_metadata()
        self._tables.changed(self.path(table))

    def _kept(self, table: Table) -> timedelta:
        """How long the table keeps the files of earlier versions."""
        text = self.opened(table).metadata().configuration.get(RETENTIONS[1], KEPT_UNSAID)
        return sum((timedelta(**{f"{unit}s": int(n)}) for n, unit in _LENGTH.findall(text)), timedelta())

    @override
    def drop_old_candidates(self, table: Table) -> None:
        self.confirm()
        place = f"{self.root}/{CANDIDATES}/{table.name}"
        written = [info.mtime for info in _below(place)]
        if written and datetime.now(UTC) - max(written) > timedelta(days=self.retention_days):
            system, path = file_system(place)
            system.delete_dir(path)


def _below(place: str) -> list[fs.FileInfo]:
    """The files of a folder and of those in it."""
    system, path = file_system(place)
    found = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [info for info in found if info.type == fs.FileType.File]


def _actions(
    added: Sequence[StagedFile], removed: Sequence[DataFile], *, changes_rows: bool
) -> list[AddAction | RemoveAction]:
    now = int(time.time() * 1000)
    return [
        *(AddAction(file.path, file.size, partition_of(file), now, changes_rows, file.stats) for file in added),
        *(RemoveAction(file.path, changes_rows, now, file.size, partition_of(file)) for file in removed),
    ]
