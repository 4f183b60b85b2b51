"""Answers about a lake without a JVM: delta-rs tells of its files, Arrow reads them, DuckDB answers.

Tables reach DuckDB as Arrow datasets, of which it asks for the columns and the files that a query needs. No extension
is loaded or fetched. What hindsight's queries call as Spark does is a macro of ``queries/as_spark.sql``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError
from typing_extensions import override

from hindsight.jobs.engines.asker import Asker, BadQueryError, no_column, no_table, only_read, query
from hindsight.jobs.engines.data_files import scanned
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.sql_views import views
from hindsight.jobs.lake.what_ifs import supposed_in, what_if_root
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.jobs.running.scratch_folder import own_scratch
from hindsight.schemas import TABLES, Table

_DESCRIBE = re.compile(r"\s*DESC(?:RIBE)?\s+(?:TABLE\s+)?\"?(\w+)\"?\s*;?\s*", re.IGNORECASE)
# A text of SQL, or a table with a version.
_AS_OF = re.compile(r"'[^']*'|\b(\w+)\s+(?:VERSION\s+AS\s+OF\s+(\d+)|TIMESTAMP\s+AS\s+OF\s+'([^']*)')", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+)?", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_NO_TABLE = re.compile(r"Table with name \"?(\w+)\"? does not exist")
_NO_COLUMN = re.compile(r"(?:Referenced column \"(\w+)\" not found|does not have a column named \"(\w+)\")")


class LocalAsker(Asker):
    """The tables and views of a lake in a DuckDB of its own; see ``Asker``."""

    lake: LocalLake

    def __init__(self, lake: LocalLake) -> None:
        self.lake = lake
        self._database = duckdb.connect(config={"temp_directory": f"{own_scratch()}/duckdb"})
        self._database.execute(query("queries", "as_spark", of="engines"))
        self._views = {view.name: view for view in views()}
        self._ready: set[str] = set()

    def close(self) -> None:
        """End what reads in the background; nothing can be asked any more."""
        self._database.close()

    def bound(self, megabytes: int) -> None:
        """From now on so much memory, no file, no extension and no setting can be reached by a query."""
        for setting in (f"memory_limit = '{megabytes}MB'", "python_enable_replacements = false"):
            self._database.execute(f"SET {setting}")
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def interrupt(self) -> None:
        """End the query that runs, with an error for who waits; from another thread."""
        self._database.interrupt()

    @override
    def answer(self, query: str, limit: int | None = None) -> pa.RecordBatchReader:
        asked = self._understood(query)
        if isinstance(asked, pa.Table):
            return asked.to_reader()
        with _in_words():
            return (asked if limit is None else asked.limit(limit)).to_arrow_reader()

    def check(self, query: str) -> None:
        """Understand a query, and run nothing.

        Raises: BadQueryError: as ``answer``.
        """
        self._understood(query)

    def _understood(self, query: str) -> pa.Table | duckdb.DuckDBPyRelation:
        """What a query asks for, of which nothing but a description is there yet."""
        self._get_ready(query)
        self._suppose(query)
        described = _DESCRIBE.fullmatch(query)
        if described and (rows := self._described(described[1])) is not None:
            return rows
        with _in_words():
            found = self._database.sql(self._one_statement(self._with_versions(query)))
        return pa.table({}) if found is None else found

    def answers(self, queries: Sequence[str]) -> list[pa.Table]:
        """The rows of independent queries; DuckDB gives each of them all cores."""
        return [self.answer(query).read_all() for query in queries]

    @override
    def stored(self, table: Table, dates: DateRange = EVERY_DATE) -> ds.Dataset | pa.Table:
        return scanned(self.lake, table, dates)

    @override
    def name(self, name: str, rows: pa.Table) -> None:
        self._database.register(name, rows)

    @override
    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def _get_ready(self, query: str) -> None:
        """Open the tables and make the views that a query names, or all: one that names none may list them."""
        every = {*TABLES, *self._views}
        wanted = every & set(_WORD.findall(query.lower())) or every
        for name in sorted(wanted):
            if name in self._ready:
                continue
            self._ready.add(name)
            if name in TABLES:
                self._database.register(name, scanned(self.lake, TABLES[name]))
            else:
                view = self._views[name]
                self._get_ready(view.query)
                columns = ", ".join(f'"{column}"' for column in view.columns)
                self._database.execute(f"CREATE VIEW {name} ({columns}) AS {view.query}")

    def _suppose(self, query: str) -> None:
        """Open the tables of what-ifs that a query names."""
        for word, name, table in supposed_in(query, None, self.lake.root):
            if word not in self._ready:
                self._ready.add(word)
                lake = LocalLake(what_if_root(self.lake.root, name), retention_days=self.lake.retention_days)
                self._database.register(word, scanned(lake, table))

    def _one_statement(self, query: str) -> duckdb.Statement:
        """What is asked: it only reads, and may not be followed by something else."""
        statements = self._database.extract_statements(query)
        if len(statements) != 1:
            raise BadQueryError("a query is one SQL statement.")
        if not self._only_reads(statements[0]):
            raise only_read(statements[0].type.name)
        return statements[0]

    def _only_reads(self, statement: duckdb.Statement) -> bool:
        """Whether it is a question. EXPLAIN ANALYZE runs what follows it, so that must be one too."""
        kind, explained = statement.type, _EXPLAIN.match(statement.query)
        if kind == duckdb.StatementType.EXPLAIN and explained:
            return all(map(self._only_reads, self._database.extract_statements(statement.query[explained.end() :])))
        return kind in (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # the latter: PIVOT

    def _with_versions(self, query: str) -> str:
        """The query with a name of its own for each earlier version of a table that it names, as Spark writes them."""
        return _AS_OF.sub(lambda found: self._version(*found.groups()) if found[1] else found[0], query)

    def _version(self, name: str, number: str | None, instant: str | None) -> str:
        """The name of an earlier version of a table."""
        if name.lower() not in TABLES:
            raise no_table(name)
        try:
            as_of = int(number) if number else datetime.fromisoformat(instant or "").replace(tzinfo=UTC)
            rows = scanned(self.lake, TABLES[name.lower()], as_of=as_of)
        except (ValueError, DeltaError) as error:
            raise BadQueryError(f"{name} has no version {number or instant!r} that can be read.") from error
        named = f"{name.lower()} as of {as_of}"
        self._database.register(named, rows)
        return f'"{named}"'

    def _described(self, name: str) -> pa.Table | None:
        """What each column of a table or view means; None: there is none of that name."""
        if name not in self._views and name not in TABLES:
            return None
        comments = self._views[name].columns if name in self._views else TABLES[name].comment_of
        kinds = self._database.sql(f'DESCRIBE "{name}"').fetchall()
        told = [(column, kind.lower(), comments[column]) for column, kind, *_ in kinds]
        return pa.table(list(map(pa.array, zip(*told, strict=True))), ["col_name", "data_type", "comment"])


@contextmanager
def _in_words() -> Iterator[None]:
    """Say in one sentence what DuckDB finds wrong with a query. Raises: BadQueryError."""
    try:
        yield
    except duckdb.Error as error:
        said = str(error)
        if found := _NO_TABLE.search(said):
            raise no_table(found[1]) from error
        if found := _NO_COLUMN.search(said):
            raise no_column(found[1] or found[2]) from error
        raise BadQueryError(said.partition("\n")[0]) from error
