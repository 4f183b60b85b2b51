"""What an explanation is made of: sections of rows for a person, and the SQL that picks them, from ``queries``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from itertools import takewhile
from typing import Any

from hindsight.jobs.engines.asker import Asker, Record, query, records
from hindsight.jobs.running.terminal import legible, upright, width_of

MOST = 60
# The attempts that the replay went by: of some producers several sources tell.
_REPLAYED = """send_attempt AS a SEMI JOIN producer_replay AS r
            ON a.cluster = r.cluster AND a.event_date = r.event_date AND a.producer_group = r.producer_group
            AND a.client_id = r.client_id AND ARRAY_CONTAINS(r.sources, a.source)"""
_PLACE = re.compile(r"(\w+)(?:([+-]\d+)([sd]))?")
_UNITS = {"s": "seconds", "d": "days"}


@dataclass(frozen=True)
class Section:
    """Some of the inputs: what they are, how the row follows from them, and the rows themselves."""

    title: str
    words: str
    rows: list[Record]

    def text(self, width: int | None = None) -> str:
        """For a terminal; a single row stands upright, and so do rows that are wider than ``width``."""
        head = f"== {self.title} ==" + (f"\n{self.words}" if self.words else "")
        if not self.rows:
            return f"{head}\n  (no row)"
        if len(self.rows) == 1:
            return "\n".join([head, *(f"  {name}: {shown(value)}" for name, value in self.rows[0].items())])
        lines = [list(self.rows[0]), *([shown(value) for value in row.values()] for row in self.rows)]
        widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
        if width is not None and sum(widths) + len(widths) > width:
            return "\n".join([head, *upright(lines)])
        table = (
            " ".join(" " * (each - width_of(text)) + text for text, each in zip(line, widths, strict=True))
            for line in lines
        )
        return "\n".join([head, *table])


@dataclass(frozen=True)
class Filled:
    """What a place in braces stands for, by what is in its brackets."""

    by: Callable[[str], str]

    def __getitem__(self, named: str) -> str:
        return self.by(named)


def section(asker: Asker, name: str, row: Record, **more: object) -> Section:
    """The section called ``name`` in ``queries``, of the row that is explained; its query is bounded.

    What stands in braces there: ``same[a b]``: the columns hold what they hold in the row; ``and_same[a b]``: that
    behind an AND, or nothing where the row's last of them is null or empty; ``at[a]``, ``on[a]``: an instant of the
    row, or its UTC date, also moved, as ``at[a-30s]`` or ``on[a+1d]``; ``text[a]``: a text of it; and ``more``.
    """
    title, words, text = _sections()[name]
    fills = _fills(asker, row, more)
    return Section(title, words.format(**fills), records(asker, text.format(**fills)))


def answer(asker: Asker, file: str, name: str, row: Record, **more: object) -> list[Record]:
    """The rows of a query of ``asking/queries``, by its file and name, in which braces stand for the same."""
    return records(asker, _queries(file)[name].format(**_fills(asker, row, more)))


def _fills(asker: Asker, row: Record, more: dict[str, object]) -> dict[str, object]:
    return {
        "same": Filled(lambda names: same(asker, row, *names.split())),
        "and_same": Filled(lambda names: _and_same(asker, row, names.split())),
        "at": Filled(lambda place: at_instant(_moved(row, place))),
        "on": Filled(lambda place: on_date(_moved(row, place))),
        "text": Filled(lambda column: asker.literal(row[column])),
        "most": MOST,
        "replayed": _REPLAYED,
        **more,
    }


@cache
def _queries(file: str) -> dict[str, str]:
    return {name: text for name, _, _, text in blocks("queries", file, of="asking")}


@cache
def _sections() -> dict[str, tuple[str, str, str]]:
    """By name: title, words and query."""
    found = (block for rows_of in ("producers", "groups") for block in blocks("queries", rows_of, of="explaining"))
    return {name: (title, " ".join(words), text) for name, title, words, text in found}


def blocks(folder: str, name: str, *, of: str) -> Iterator[tuple[str, str, list[str], str]]:
    """The queries of one file, which blank lines part: the name and title and the words of its comment, and the query.

    What stands before the first query is about the file.
    """
    for block in query(folder, name, of=of).strip().split("\n\n")[1:]:
        lines = block.split("\n")
        head, *words = (line.removeprefix("-- ") for line in takewhile(lambda line: line.startswith("--"), lines))
        named, _, title = head.partition(": ")
        yield named, title, words, "\n".join(lines[len(words) + 1 :])


def _and_same(asker: Asker, row: Record, names: Sequence[str]) -> str:
    return "" if row[names[-1]] in (None, "") else f" AND {same(asker, row, *names)}"


def _moved(row: Record, place: str) -> datetime:
    """An instant of the row, perhaps moved by some seconds or days."""
    ((column, number, unit),) = _PLACE.findall(place)
    instant: datetime = row[column]
    return instant + timedelta(**{_UNITS[unit]: int(number)}) if number else instant


def same(asker: Asker, row: Record, *names: str) -> str:
    """SQL: these columns hold what they hold in ``row``, null included; plain conditions leave files unread."""
    told = {name: row[name] for name in names}
    return " AND ".join(f"{n} IS NULL" if v is None else f"{n} = {_literal(asker, v)}" for n, v in told.items())


def _literal(asker: Asker, value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return at_instant(value)
    return f"DATE'{value}'" if isinstance(value, date) else asker.literal(value)


def at_instant(instant: datetime) -> str:
    """SQL of an instant, UTC."""
    return f"TIMESTAMP'{instant.isoformat(sep=' ')}'"


def on_date(instant: datetime) -> str:
    """SQL of an instant's UTC date."""
    return f"DATE'{instant.date().isoformat()}'"


def shown(value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, dict):
        return " ".join(f"{name}={shown(each)}" for name, each in value.items())
    return "; ".join(map(shown, value)) if isinstance(value, list) else "null" if value is None else legible(str(value))
