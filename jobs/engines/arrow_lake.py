"""What a lake does for its callers, in Arrow's terms: the same whichever engine reads and writes its tables.

Rows are written as files of their table's folder first, and become visible with one commit that names these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import date, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.engines.arrow_columns import chosen, no_rows, rows_that_meet
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import EVERY_ROW, DataFile, StagedFile, Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import TABLES, Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.values.date_digests import SUMMED, DateDigest, by_date, dates_in, digests_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindsight.jobs.lake.small_files import Store

_AT_ONCE = 4
CANDIDATES = "_candidate"  # where runs of earlier releases on Spark left rows that they did not publish
RETENTIONS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")  # properties of a table
KEPT_UNSAID = "interval 7 days"  # where a table does not carry the second
OPTIMIZE, SET_PROPERTIES = "OPTIMIZE", "SET TBLPROPERTIES"  # operations, in Delta's words

# A file in its table's folder, and what is asked of it.
FileTask = tuple[TableFolder, Any, Any]
# Of tables, by date.
Digests = dict[Table, list[tuple[ClusterDate, DateDigest]]]


class Footprint(NamedTuple):
    """What there is of a table: rows, files and bytes; bytes with what its history keeps, and how far that goes back.

    ``oldest_version`` was current at ``oldest_at`` (UTC) and is the oldest that time travel is promised to reach.
    """

    rows: int
    files: int
    bytes: int
    bytes_with_history: int
    oldest_version: int
    oldest_at: datetime

    @property
    def sizes(self) -> tuple[int, ...]:
        """The figures that tell how big it is."""
        return self[:4]


class ConcurrentWriteError(ExpectedError):
    """Raised when another run has changed a table between the reading and the commit; nothing was stored."""


def written_meanwhile(place: str) -> ConcurrentWriteError:
    """What is raised of a table at ``place``."""
    return ConcurrentWriteError(
        f"another run has written to {place} meanwhile; nothing of this write was stored. Rerun."
    )


class ArrowLake(Protocol):
    """The tables under one root, and what both engines do alike; each engine's lake says how it does the rest.

    ``rows`` of a method may also be what the engine itself hands out. ``spark``: the session of an engine that has one.
    Every write is one commit, confirmed by the lease before it begins: ``confirm`` raises where the lake is no longer
    the run's that writes.
    """

    root: str
    retention_days: int
    spark: SparkSession | None
    _notes: Store  # what is kept beside the tables
    confirm: Callable[[], None]
    _of_contract: set[str]  # names of the tables that are known to have the columns of their contracts
    _candidates: dict[str, list[StagedFile]]  # by table, staged by this run

    def path(self, table: Table) -> str:
        """Where a table stands."""
        return f"{self.root}/{table.name}"

    def folder(self, table: Table) -> TableFolder:
        """Where its files stand, for workers that read them or stage some."""
        return TableFolder(self.root, table)

    def exists(self, table: Table) -> bool:
        """Whether it was created."""

    def create(self, table: Table) -> None:
        """Create the table from its contract, or add the columns that this has gained since it was created.

        No feature that shuts other readers out. Raises: WrongSchemaError: it differs in anything else.
        """
        if table.name in self._of_contract:
            return
        if self.exists(table):
            self._migrate(table)
        else:
            self._create(table)
        self._of_contract.add(table.name)

    def _create(self, table: Table) -> None:
        """Create a table that is not there."""

    def _migrate(self, table: Table) -> None:
        """Add the columns that the contract of a table that is there has gained."""

    def version(self, table: Table) -> int | None:
        """The latest version of a table; None: it does not exist."""

    def rows(self, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        """Bring few rows to the driver, with these columns (none named: all); a column not stored yet is null.

        Of a table that does not exist none. Raises: WrongSchemaError: it is of no earlier contract either.
        """

    def _rows_of(self, table: Table, files: Iterable[DataFile], columns: Sequence[str], where: Where) -> pa.Table:
        """The rows of files that this process reads."""
        both = list(dict.fromkeys([*columns, *where.columns()]))
        pieces = (chosen(self.folder(table).read(file, both), where).select(list(columns)) for file in files)
        return pa.concat_tables([no_rows(table, columns), *pieces])

    def files(
        self, table: Table, dates: Collection[date] | None = None, since: tuple[str, datetime] | None = None
    ) -> list[DataFile]:
        """The files of the latest version that hold rows of these dates; None: all.

        ``since``: a column and an instant; those that may hold a row in which it is not earlier.
        """

    def append(self, table: Table, rows: Any) -> None:
        """Add rows; files that were staged before are named in the same commit."""
        self.confirm()
        self.create(table)
        self._commit(table, self._staged(table, rows_in_pieces(rows)), (), None)

    def _staged(self, table: Table, pieces: Iterable[Any]) -> list[StagedFile]:
        """Pieces of rows as files of the table's folder that no version names; those that stand there as they are."""
        return self.folder(table).stage(pieces)

    def _commit(
        self, table: Table, added: Sequence[StagedFile], removed: Sequence[DataFile], rests_on: int | None
    ) -> None:
        """Make one version of what is added and removed; without any change there is none.

        ``rests_on``: the version that must be the latest still; None: any may be.
        Raises: ConcurrentWriteError: it is not.
        """

    def gather(self, table: Table, rows: pa.Table) -> None:
        """Add rows with those to come: at once, when the table is next read, or at ``write_gathered``."""
        self.append(table, rows)

    def gathered(self, table: Table) -> pa.Table:
        """The rows that are not written yet."""
        return arrow_schema(table).empty_table()

    def write_gathered(self) -> None:
        """Write what was gathered."""

    def store(
        self, table: Table, fresh: Any | None, changed: Any | None, dates: Collection[date], version: int | None
    ) -> None:
        """Add ``fresh`` rows of new keys, and put ``changed`` ones in the place of those with their keys.

        ``dates``: those on which changed rows fall. ``version``: the latest when was read what this rests on.
        Raises: ConcurrentWriteError: another run has written since; nothing of that is stored.
        """

    def update(self, table: Table, changed: Any, columns: list[str], dates: Iterable[date]) -> None:
        """Set ``columns`` of the rows whose keys ``changed`` holds; ``dates``: those on which they fall."""

    def replace_dates(self, table: Table, rows: Any, dates: Collection[ClusterDate]) -> None:
        """Replace the rows of these dates of clusters; ``rows`` are of no other."""
        self.replace(table, rows, Where(dates=dates))

    def replace_since(
        self,
        table: Table,
        rows: Any,
        dates: Collection[ClusterDate],
        column: str,
        since: Mapping[ClusterDate, datetime],
    ) -> None:
        """The same, but of a date in ``since`` only the rows whose ``column`` is not earlier than the instant there."""
        whole = [at for at in dates if at not in since]
        conditions = [Where(dates=[at], since={column: instant}) for at, instant in since.items()]
        self._replace(table, rows, [*([Where(dates=whole)] if whole else []), *conditions])

    def replace_files(self, table: Table, rows: Any, column: str, files: Collection[str]) -> None:
        """Replace the rows whose ``column`` names one of these landing files; ``rows`` name no other."""
        self.replace(table, rows, Where(values={column: files}))

    def replace(self, table: Table, rows: Any, where: Where) -> None:
        """Replace the rows that meet a condition; ``rows`` meet it too."""
        self._replace(table, rows, [where])

    def _replace(self, table: Table, rows: Any, conditions: Sequence[Where]) -> None:
        """Replace the rows that meet one of the conditions, no two of which are of one date, in one commit."""
        self.confirm()
        self.create(table)
        version = self.version(table)
        removed, kept = self._rest(table, conditions)
        pieces = chain(rows_that_meet(rows_in_pieces(rows), conditions), kept)
        self._commit(table, self._staged(table, pieces), removed, version)

    def _rest(
        self, table: Table, conditions: Sequence[Where]
    ) -> tuple[list[DataFile], Iterable[pa.Table | StagedFile]]:
        """The files with rows that meet a condition, and the rows of these that meet none."""

    def _touched(self, table: Table, conditions: Sequence[Where]) -> dict[DataFile, list[Where]]:
        """The files that may hold rows that meet a condition, with these conditions."""
        found: dict[DataFile, list[Where]] = defaultdict(list)
        for where in conditions:
            days, since = where.days(), next(iter(where.since.items()), None)
            for file in self.files(table, days, since):
                found[file].append(where)
        return found

    def delete(self, table: Table, where: Where) -> None:
        """Delete rows; without such a row there is no commit."""
        self.confirm()
        version = self.version(table)
        removed, kept = self._rest(table, [where])
        if removed:
            self._commit(table, self._staged(table, kept), removed, version)

    def add_candidates(self, table: Table, rows: Any, *, first: bool) -> None:
        """Stage rows that are not published yet; before the ``first`` ones of a publication there are none."""
        self.confirm()
        self.create(table)
        before = [] if first else self._candidates[table.name]
        self._candidates[table.name] = before + self._staged(table, rows_in_pieces(rows))

    def candidates(self, table: Table) -> list[StagedFile]:
        """The files of the rows that ``add_candidates`` staged for this publication."""
        return self._candidates[table.name]

    def candidate_digests(self, columns: Mapping[Table, Sequence[str]]) -> Digests:
        """Of each table's candidate rows, per date their number and a digest of these columns (none: 0)."""
        tasks = [(self.folder(t), file, names) for t, names in columns.items() for file in self.candidates(t)]
        pieces = {table: [SUMMED.empty_table()] for table in columns}
        for name, piece in self._by_workers(_digested, tasks):
            pieces[TABLES[name]].append(piece)
        found = {table: digests_of(pa.concat_tables(own)) for table, own in pieces.items()}
        return {t: [(ClusterDate(cluster, day), each) for cluster, day, each in own] for t, own in found.items()}

    def counted(self, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        """The values that these columns hold together, each once, and their number of rows as ``rows``."""

    def candidate_dates(self, table: Table, where: Where) -> set[ClusterDate]:
        """The dates of which a candidate row meets a condition."""
        tasks = [(self.folder(table), file, where) for file in self.candidates(table)]
        return {at for dates in self._by_workers(_dates_that_meet, tasks) for at in dates}

    def _by_workers(self, call: Callable[[FileTask], Any], tasks: Sequence[FileTask]) -> list[Any]:
        """What a function, one of a module, gives for each task, in any order."""
        return list(map(call, tasks))

    def of_dates(self, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]) -> Any:
        """Stored rows of some dates and this run's candidates of others, as this engine hands rows on."""

    def results(
        self, job: str, frames: Mapping[Table, Any], whole: Mapping[Table, Any], *, by_great_expectations: bool
    ) -> list[dict[str, Any]]:
        """Check rows against the contracts and invariants of their tables, beside all rows of others (``whole``).

        By counting, or by Great Expectations, where it is installed.
        """

    def operations_since(self, table: Table, version: int) -> set[str]:
        """What the commits after ``version`` did, in Delta's words."""

    def silenced(self) -> AbstractContextManager[None]:
        """Keep quiet what an engine prints itself while it vacuums."""
        return nullcontext()

    def footprint(self, table: Table) -> Footprint:
        """Size of the table now, and how far its history goes back."""

    def compact(self, table: Table) -> None:
        """Write the small files of each partition as one; a partition of a single file, or of large ones, stays."""

    def vacuum(self, table: Table) -> None:
        """Remove the files that no version within the retention needs.

        Delta goes by what the table carries and by nothing else, so a longer retention of the settings is put there.
        """

    def drop_old_candidates(self, table: Table) -> None:
        """Remove candidates that a run of an earlier release on Spark left behind, once they are older than the
        retention.
        """

    def note(self, name: str, text: str | None) -> None:
        """Keep a short text beside the tables until it is taken back (None)."""
        self.confirm()
        if text is None:
            self._notes.delete(name)
        else:
            self._notes.write(name, text)

    def noted(self, name: str) -> str | None:
        """The text that was kept and not taken back."""
        return self._notes.read(name)

    def together(self, calls: Iterable[Callable[[], Any]]) -> list[Any]:
        """Run independent reads or writes at once, give their results: small ones keep only the driver waiting."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            started = [pool.submit(self._in_thread(call)) for call in calls]
            return [each.result() for each in started]

    def _in_thread(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """The call as another thread is to make it."""
        return call

    def plans(self) -> AbstractContextManager[Callable[[int], None]]:
        """What is to be told, before a step, of how many lines it is about."""
        return nullcontext(lambda lines: None)


def _digested(task: FileTask) -> tuple[str, pa.Table]:
    folder, file, columns = task
    wanted = list(dict.fromkeys(["cluster", "event_date", *columns]))
    return folder.table.name, by_date(folder.read(file, wanted), columns)


def _dates_that_meet(task: FileTask) -> set[ClusterDate]:
    folder, file, where = task
    wanted = list(dict.fromkeys(["cluster", "event_date", *where.columns()]))
    return {ClusterDate(*at) for at in dates_in(chosen(folder.read(file, wanted), where))}


def rows_in_pieces(rows: Any) -> Iterable[Any]:
    """What a lake is given to store, piece by piece: Arrow's tables, staged files, what the engine hands out."""
    return rows if isinstance(rows, Iterable) and not isinstance(rows, pa.Table) else [rows]
