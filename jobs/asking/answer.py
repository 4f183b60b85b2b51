"""The answer to one question, for programs: a query in, Arrow, Polars or pandas out, whenever it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from html import escape
from typing import TYPE_CHECKING

import pyarrow as pa

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.asking.sql_output import cells, table
from hindsight.jobs.engines.asker import Asker

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
        try:
            import polars
        except ImportError as error:
            raise NotInstalledError(
                "Polars is not installed, and hindsight itself does without it: `pip install polars`, or take the rows "
                "with .arrow() or .pandas()."
            ) from error
        return polars.DataFrame(self.arrow())

    def pandas(self) -> pandas.DataFrame:
        """All rows as a frame of pandas whose columns stay Arrow's.

        So a null is ``<NA>``, and a whole number beside a null keeps all its digits.
        """
        import pandas

        return self.arrow().to_pandas(types_mapper=pandas.ArrowDtype)

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
