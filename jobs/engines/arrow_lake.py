"""What a lake does for its callers, in Arrow's terms: the same whichever engine reads and writes its tables.

A condition is values, never SQL text: each engine says it in its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.small_files import NOTES, Store, store_at
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.values.date_digests import DateDigest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 4
CANDIDATES = "_candidate"  # the folder of rows that Spark computed and has not published
RETENTIONS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")  # properties of a table
KEPT_UNSAID = "interval 7 days"  # where a table does not carry the second
OPTIMIZE, SET_PROPERTIES = "OPTIMIZE", "SET TBLPROPERTIES"  # operations, in Delta's words


@dataclass(frozen=True)
class Where:
    """Rows that meet all of it; without anything every row does.

    ``dates``: they belong to one of these dates of clusters; ``values``: a column holds one of these;
    ``before``: an instant lies before this one; ``since``: it does not. Null meets nothing.
    """

    dates: Collection[ClusterDate] | None = None
    values: Mapping[str, Collection[Any]] = field(default_factory=dict)
    before: Mapping[str, datetime] = field(default_factory=dict)
    since: Mapping[str, datetime] = field(default_factory=dict)

    def days(self) -> frozenset[date] | None:
        """The dates on which such rows lie; None: on any."""
        of_clusters = None if self.dates is None else frozenset(at.event_date for at in self.dates)
        listed = frozenset(self.values["event_date"]) if "event_date" in self.values else None
        if of_clusters is None or listed is None:
            return listed if of_clusters is None else of_clusters
        return of_clusters & listed

    def columns(self) -> list[str]:
        """The columns that it looks at."""
        of_dates = ("cluster", "event_date") if self.dates is not None else ()
        return sorted({*self.values, *self.before, *self.since, *of_dates})


EVERY_ROW = Where()


class DataFile(NamedTuple):
    """A Parquet file of a table, for workers: its path below the table's folder, its bytes, its rows and its date.

    ``rows`` is None where its writer did not count them; ``event_date`` of a table without dates; ``cluster`` where
    statistics do not say that all rows are of one.
    """

    path: str
    size: int
    rows: int | None
    event_date: date | None
    cluster: str | None = None


class StagedFile(NamedTuple):
    """A data file that stands in its table's folder and belongs to no version yet; ``stats``: Delta's JSON of it."""

    path: str
    size: int
    rows: int
    event_date: date | None
    stats: str


# Of tables, by date.
Digests = dict[Table, list[tuple[ClusterDate, DateDigest]]]
# What a lake stores: a table, or pieces of what need not fit into memory.
Rows = pa.Table | Iterable[pa.Table | StagedFile]


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
    confirm: Callable[[], None]
    _of_contract: set[str]  # names of the tables that are known to have the columns of their contracts

    def path(self, table: Table) -> str:
        """Where a table stands."""
        return f"{self.root}/{table.name}"

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

    def files(self, table: Table, dates: Collection[date] | None = None) -> list[DataFile]:
        """The files of the latest version that hold rows of these dates; None: all."""

    def files_since(self, table: Table, dates: Collection[date], column: str, since: datetime) -> list[DataFile]:
        """Of these the ones that may hold a row whose ``column`` is not earlier than the instant."""
        return self.files(table, dates)

    def append(self, table: Table, rows: Any) -> None:
        """Add rows."""

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

    def staging(self, table: Table) -> Any | None:
        """The ``TableFolder`` where workers may stage files for a commit; None: rows are handed to the lake."""
        return None

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
        """Replace the rows that meet one of the conditions, no two of which are of one date."""

    def delete(self, table: Table, where: Where) -> None:
        """Delete rows; without such a row there is no commit."""

    def add_candidates(self, table: Table, rows: Any, *, first: bool) -> None:
        """Add rows to a table's candidate; the ``first`` ones of a run replace what an earlier run left there."""

    def candidates(self, table: Table) -> Any:
        """The rows that ``add_candidates`` wrote in this run, as this engine hands rows on."""

    def candidate_digests(self, columns: Mapping[Table, Sequence[str]]) -> Digests:
        """Of each table's candidate rows, per date their number and a digest of these columns (none: 0)."""

    def counted(self, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        """The values that these columns hold together, each once, and their number of rows as ``rows``."""

    def candidate_dates(self, table: Table, where: Where) -> set[ClusterDate]:
        """The dates of which a candidate row meets a condition."""

    def of_dates(self, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]) -> Any:
        """Stored rows of some dates and this run's candidates of others, as this engine hands rows on."""

    def counted_results(self, frames: Mapping[Table, Any], whole: Mapping[Table, Any]) -> list[dict[str, Any]]:
        """Check rows against the contracts and invariants of their tables, beside all rows of others (``whole``)."""

    def expectation_results(
        self, job: str, frames: Mapping[Table, Any], whole: Mapping[Table, Any]
    ) -> list[dict[str, Any]]:
        """The same by Great Expectations, where it is installed."""

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
        """Remove candidates that a run on Spark left behind; those with a file younger than the retention stay.

        A run reads only candidates that it wrote itself, and none lasts that long.
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

    @cached_property
    def _notes(self) -> Store:
        return store_at(self.spark, f"{self.root}/{NOTES}")

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
