"""What answers questions about a lake: SQL over its tables and views in, rows out, the same on either engine."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import pyarrow as pa

from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.sql_views import columns_by_name
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.schemas import Table

Record = dict[str, Any]
_ZONED, _ZONELESS = pa.timestamp("us", "UTC"), pa.timestamp("us")
_PLAIN = {pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.date32(), _ZONELESS}


class BadQueryError(ValueError):
    """Raised where a query cannot be understood, or names what is not there."""


class Asker(Protocol):
    """The tables and views of one lake, by their names; instants are UTC, and nulls come first.

    Hindsight's own queries are texts that both engines take as they are. Who asks writes nothing to the lake.
    """

    lake: ArrowLake  # itself, for what is no question of SQL

    def answer(self, query: str, limit: int | None = None) -> pa.RecordBatchReader:
        """The rows of one query, piece by piece, or the first of them.

        Raises: BadQueryError: it is none, does more than ask, or names a table or column that is not there; with what
        is near.
        """

    def answers(self, queries: Sequence[str]) -> list[pa.Table]:
        """The rows of independent queries."""

    def stored(self, table: Table, dates: DateRange = EVERY_DATE) -> Any:
        """A table's rows of some dates, as this engine hands rows on to the checks."""

    def name(self, name: str, rows: pa.Table) -> None:
        """Give some rows a name that later queries can use."""

    def literal(self, text: str) -> str:
        """A text as SQL of this engine, whatever it holds."""


def records(asker: Asker, query: str) -> list[Record]:
    """The answer to a query as plain values by column; instants without a zone are UTC."""
    return as_records(asker.answer(query).read_all())


def as_records(rows: pa.Table) -> list[Record]:
    """Rows as plain values by column; instants without a zone are UTC, a whole number is an int."""
    for place, field in enumerate(rows.schema):
        if field.type == _ZONED:  # Arrow takes the zone off faster than a loop
            rows = rows.set_column(place, field.name, rows.column(place).cast(_ZONELESS))
    found: list[Record] = rows.to_pylist(maps_as_pydicts="strict")
    for name in (field.name for field in rows.schema if field.type not in _PLAIN):
        for row in found:
            row[name] = _plain(row[name])
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)  # a sum of whole numbers is wider than these
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def only_read(what: str) -> BadQueryError:
    """The error that says that a lake is only read."""
    return BadQueryError(
        f"a lake is only read: ask with SELECT; this is {what}. --output writes an answer into a file."
    )


def no_table(name: str, known: Iterable[str] | None = None) -> BadQueryError:
    """The error that says that there is no such table or view, and which there are: all, or those ``known``."""
    return BadQueryError(f"there is no table or view {name!r}; there is {near(name, known or columns_by_name())}.")


def near(name: str, known: Iterable[str]) -> str:
    """The names that resemble one that is not known, or all."""
    names = list(known)
    return ", ".join(difflib.get_close_matches(name.lower(), names, n=3) or sorted(names))


def no_column(name: str) -> BadQueryError:
    """The error that says that there is no such column, and which are near."""
    close = difflib.get_close_matches(name.lower(), set().union(*columns_by_name().values()), n=3)
    hint = f"there is {', '.join(close)}" if close else "DESCRIBE TABLE <name> lists those of a table or a view"
    return BadQueryError(f"there is no column {name!r} where the query asks for it; {hint}.")


def on_last_date(asker: Asker, table: Table, *, days_before: int = 0, until: date = date.max) -> str:
    """SQL: a row lies on its cluster's last date up to ``until``, or on one of so many before it.

    The dates are written out: engines leave files unread by what is constant.
    """
    rows = asker.lake.counted(table, ["cluster", "event_date"]).to_pylist()
    last = dict(sorted((r["cluster"], r["event_date"]) for r in rows if r["event_date"] <= until))
    spans = {cluster: (day - timedelta(days=days_before), day) for cluster, day in last.items()}
    of_each = [
        f"cluster = {asker.literal(cluster)} AND event_date BETWEEN DATE'{first}' AND DATE'{day}'"
        for cluster, (first, day) in spans.items()
    ]
    earliest = min((first for first, _ in spans.values()), default=date.max)
    return f"event_date >= DATE'{earliest}' AND ({' OR '.join(of_each) or 'FALSE'})"


@cache
def query(folder: str, name: str, of: str = "report") -> str:
    """A query of ``jobs/report``, or of another folder there; what stands in braces is for the caller to fill in."""
    return files("hindsight.jobs").joinpath(of, folder, f"{name}.sql").read_text(encoding="utf-8")
