"""A lake for programs and notebooks: a folder in, its tables and views out, as Arrow, Polars or pandas.

It is what ``hindsight sql``, ``explain`` and ``drift`` are made of, without a command: delta-rs finds the files, Arrow
reads them, DuckDB answers. Nothing is ever written to the lake.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import UTC, date, datetime
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyarrow as pa

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.asking.sql_output import cells, table
from hindsight.jobs.engines.asker import Asker, BadQueryError, Record, near, no_table
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.sql_views import views
from hindsight.jobs.lake.lake_place import NoLocalEngineError
from hindsight.jobs.publishing.publication_record import show_one_state
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.schemas import TABLES

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN = 20


class NotInstalledError(ExpectedError, ImportError):
    """Raised where an answer is wanted as a frame of a library that is not installed."""


class Answer:
    """Rows that a lake has been asked for; nothing is read before one of the methods is called.

    Each call asks anew, and reads the tables as they are then. Instants are UTC, with microseconds; what is not known
    is null in every form, never 0 and never NaN. Whatever reads Arrow's C stream (DuckDB, Polars, pyarrow, ...) takes
    the answer itself, piece by piece.
    """

    def __init__(self, asked: Callable[[], AbstractContextManager[Asker]], query: str) -> None:
        self._asked = asked
        self.query = query

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        with self._asked() as asker:
            return asker.answer(self.query).read_all()

    def polars(self) -> polars.DataFrame:
        """All rows as a frame of Polars.

        Raises: NotInstalledError: hindsight itself does without Polars.
        """
        frame: polars.DataFrame = self._frames("polars", "Polars").DataFrame(self.arrow())
        return frame

    def pandas(self) -> pandas.DataFrame:
        """All rows as a frame of pandas whose columns stay Arrow's.

        So a null is ``<NA>``, and a whole number beside a null keeps all its digits.

        Raises: NotInstalledError: hindsight itself does without pandas.
        """
        return self.arrow().to_pandas(types_mapper=self._frames("pandas", "pandas").ArrowDtype)

    @staticmethod
    def _frames(module: str, name: str) -> Any:
        try:
            return import_module(module)
        except ImportError as error:
            raise NotInstalledError(
                f"{name} is not installed, and hindsight itself does without it: `pip install {module}`, or take the "
                "rows with .arrow()."
            ) from error

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's stream of the rows; the lake stays open until the last has been read, or the stream is dropped."""
        with ExitStack() as opened:
            rows = opened.enter_context(self._asked()).answer(self.query)
            pieces = _pieces(rows, opened.pop_all())
        return pa.RecordBatchReader.from_batches(rows.schema, pieces).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """The first rows, as ``hindsight sql`` prints them."""
        return "\n".join(table(self._first(), _SHOWN))

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; names and messages stand as plain text, whatever they hold."""
        first = self._first()
        head, *body = cells(first.slice(0, _SHOWN))
        lines = [_html_line(head, "th"), *(_html_line(line, "td") for line in body)]
        more = f"<p>the first {_SHOWN} rows</p>" if len(first) > _SHOWN else ""
        return f"<table>{''.join(lines)}</table>{more}"

    def _first(self) -> pa.Table:
        """The rows to show, and one more if there is one."""
        with self._asked() as asker:
            return asker.answer(self.query, _SHOWN + 1).read_all()


def _html_line(line: list[str], kind: str) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in line)}</tr>"


def _pieces(rows: pa.RecordBatchReader, opened: ExitStack) -> Iterator[pa.RecordBatch]:
    with opened:
        yield from rows


# A UTC date, also as 2026-11-21; or the first and the last of several, both included, None without a bound.
Day = date | str
Dates = Day | tuple[Day | None, Day | None]


class NoLakeError(ExpectedError):
    """Raised where no table of a lake stands."""

    exit_code = WRONG_USAGE


class Lake:
    """The tables and views under one folder, or one ``s3://`` place, to be read only.

    Each question is answered from what is published when it is asked. So a lake that stays open shows what a later
    run has found. Errors are those of the commands: ``ValueError`` for a question that cannot be understood, which
    says what is near; ``hindsight.conf.failure.ExpectedError`` for a lake that cannot be read, which says what to do.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Find the lake.

        Raises: NoLakeError: there is none. StoreError: its store does not answer, or refuses. NoLocalEngineError: only
        Spark reaches the place.
        """
        self.path = os.fspath(path)
        place = self.path if "://" in self.path else os.path.realpath(self.path)
        self._open: WeakSet[LocalAsker] = WeakSet()
        with _without_spark():
            self._lake: LocalLake | None = LocalLake(place, retention_days=0)  # which only writers need
        if not any(map(self._lake.exists, TABLES.values())):
            raise NoLakeError(
                f"there is no lake at {self.path!r}: none of hindsight's tables stands there. Give the folder that a "
                "run was given as --lake; `hindsight run-pipeline --landing ... --lake ...` makes one."
            )

    def __repr__(self) -> str:
        return f"Lake({self.path!r})"

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is still being read, with an error for its reader; nothing can be asked any more."""
        self._lake = None
        for asker in list(self._open):
            asker.close()

    @property
    def tables(self) -> dict[str, str]:
        """What each table has a row for, by the table's name; those that have had no row yet are there too."""
        return {table.name: table.comment for table in TABLES.values()}

    @property
    def views(self) -> dict[str, str]:
        """What each view shows, by the view's name."""
        return {view.name: view.comment for view in views()}

    def table(
        self,
        name: str,
        *,
        columns: Sequence[str] = (),
        where: str = "",
        dates: Dates | None = None,
        cluster: str | None = None,
        as_of: int | datetime | None = None,
    ) -> Answer:
        """Rows of a table, in no promised order; ``lake.sql("DESCRIBE <name>")`` tells its columns and their units.

        ``columns``: none named: all. ``where``: a condition in DuckDB's SQL. ``dates``: see ``Dates``; files of other
        dates stay closed. ``cluster``: of this RocketMQ cluster only. ``as_of``: the table as it was in an earlier
        version, or at an instant (UTC unless it has a zone), as far back as its history is kept.

        Raises: ValueError: there is no such table, column, date or version, or the condition cannot be read.
        """
        if name not in TABLES:
            raise _not_among(name, self.tables, self.views, "view")
        return self._picked(name + _version(as_of), TABLES[name].schema.names, columns, where, dates, cluster)

    def view(
        self,
        name: str,
        *,
        columns: Sequence[str] = (),
        where: str = "",
        dates: Dates | None = None,
        cluster: str | None = None,
    ) -> Answer:
        """Rows of a view, in the order that it gives them; as ``table``.

        Raises: ValueError: as ``table``; or the view has no ``event_date`` or ``cluster`` to pick by.
        """
        columns_of = {view.name: list(view.columns) for view in views()}
        if name not in columns_of:
            raise _not_among(name, self.views, self.tables, "table")
        return self._picked(name, columns_of[name], columns, where, dates, cluster)

    def sql(self, query: str) -> Answer:
        """The answer to one query over tables and views, in DuckDB's SQL.

        Raises: ValueError: it cannot be understood, names what is not there, or does something else than asking.
        """
        with self._asked() as asker:
            asker.check(query)
        return Answer(self._asked, query)

    def explain(self, table: str, where: str) -> str:
        """The inputs from which one row follows, as ``hindsight explain`` prints them.

        ``where``: SQL that picks exactly that row.
        Raises: ValueError: it picks none or several, or rows of the table cannot be explained.
        """
        from hindsight.jobs.explaining.explain_row import EXPLAINED, explain

        if table not in EXPLAINED:
            raise BadQueryError(f"rows of {table!r} cannot be explained; those of {near(table, EXPLAINED)} can.")
        with self._asked() as asker:
            return "\n\n".join(section.text() for section in explain(asker, table, where))

    def open_incidents(self, cluster: str = "*", group: str = "*") -> list[Record]:
        """Rows of the view ``open_incidents``, the worst first, as plain values; the patterns are a shell's.

        Raises: NothingJudgedError: no round of such groups was judged, so that none is open would say too much.
        HalfPublishedError: a run is committing drift.
        """
        from hindsight.jobs.asking.open_drift import judged_until, open_incidents, require_published

        with self._asked() as asker:
            judged_until(asker, cluster=cluster, group=group)
            found = open_incidents(asker, cluster=cluster, group=group)
            require_published(asker.lake)
        return found

    def _picked(
        self,
        source: str,
        known: Sequence[str],
        columns: Sequence[str],
        where: str,
        dates: Dates | None,
        cluster: str | None,
    ) -> Answer:
        wanted = [columns] if isinstance(columns, str) else list(columns)
        picks = []
        first, last = _range(dates)
        picks += [("event_date", f"event_date >= DATE '{first}'")] if first else []
        picks += [("event_date", f"event_date <= DATE '{last}'")] if last else []
        picks += [("cluster", "cluster = '" + cluster.replace("'", "''") + "'")] if cluster is not None else []
        for column in [*wanted, *(column for column, _ in picks)]:
            if column not in known:
                raise BadQueryError(f"{source.split()[0]} has no column {column!r}; it has {near(column, known)}.")
        conditions = [condition for _, condition in picks]
        conditions += [f"({where}\n)"] if where else []  # a comment at its end ends with its line
        listed = ", ".join(f'"{column}"' for column in wanted) or "*"
        return self.sql(f"SELECT {listed} FROM {source} WHERE {' AND '.join(conditions) or 'TRUE'}")

    @contextmanager
    def _asked(self) -> Iterator[LocalAsker]:
        """The tables and views as they are now, or were before a run that is at work, for one question."""
        show_one_state(self._still_open())
        with _without_spark(), closing(LocalAsker(self._still_open())) as asker:
            self._open.add(asker)
            yield asker
            self._still_open()  # else what was read ended early, without a word

    def _still_open(self) -> LocalLake:
        if self._lake is None:
            raise BadQueryError(f"{self!r} was closed; open it again to ask.")
        return self._lake


@contextmanager
def _without_spark() -> Iterator[None]:
    """Say of what only Spark reads how its rows come to Python all the same."""
    try:
        yield
    except NoLocalEngineError as error:
        way_out = "From Python there is no such engine: let `hindsight sql` write the answer into a file."
        raise NoLocalEngineError(f"{error} {way_out}") from error


def _not_among(name: str, known: dict[str, str], others: dict[str, str], kind: str) -> BadQueryError:
    if name in others:
        return BadQueryError(f"{name!r} is a {kind}: .{kind}({name!r}) reads it.")
    return no_table(name, known)


def _version(as_of: int | datetime | None) -> str:
    if isinstance(as_of, datetime):
        instant = as_of.astimezone(UTC) if as_of.tzinfo else as_of
        return f" TIMESTAMP AS OF '{instant:%Y-%m-%dT%H:%M:%S.%f}'"
    return "" if as_of is None else f" VERSION AS OF {as_of}"


def _range(dates: Dates | None) -> DateRange:
    if dates is None:
        return EVERY_DATE
    first, last = map(_day, dates if isinstance(dates, tuple) else (dates, dates))
    if first and last and first > last:
        raise BadQueryError(f"dates: {first} is after {last}.")
    return DateRange(first, last)


def _day(day: Day | None) -> date | None:
    if day is None or (isinstance(day, date) and not isinstance(day, datetime)):
        return day
    try:
        return date.fromisoformat(str(day))
    except ValueError as error:
        raise BadQueryError(f"dates: {day!r} is no UTC date such as 2026-11-21.") from error
