"""What a table promises: columns with comments, natural key, value sets, which columns are lineage.

The text of a table in ``schemas/tables``, as its contract: all that is known of a column stands in one line there.

A text begins with what a row is, then ``key:`` and, where it has them, ``verdicts:``, ``carried:`` and ``lineage:``,
each with names of columns (`Table`). Then a line a column: name, type, comment, and the only values it holds, parted by
vertical bars. ``!`` behind the type: never null in a stored row. Types are SQL's; a text is ``string`` where it is for
people, ``word`` where rules go by it, else what it names (`NAMES`), so that bundles know what to rename. Lines below a
column, two blanks deeper, are the parts of its ``struct``. ``event_date | of begin_at`` is the partition column. Behind
the columns stand the rules of the gate (`Invariant`): name, query, and ``warning`` where it is none that stops a run.

``shared.txt`` has what several tables have: a column that is named alone, several at once (``*run``), and shapes of
values (``queue`` in ``array<queue>``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pkgutil import get_data
from typing import TYPE_CHECKING, Literal, NamedTuple

from hindsight.schemas.column_types import PLAIN, ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkColumns

LINEAGE = frozenset({"ingested_at", "computed_at", "run_id"})
NAMES = (
    "address broker chooser client cluster collector detail error evidence exception expression file group incident "
    "line log_folder message name_server order_conf release strategy tag thread topic"
)
_KINDS: dict[str, DataType] = {
    **{kind.sql: kind for kind in PLAIN.values()},
    **{name: replace(PLAIN["string"], names=name) for name in (*NAMES.split(), "word")},
}
_Block = tuple[str, list[str]]  # a line, and the lines below it, these less deep by one


class Invariant(NamedTuple):
    """What must hold in a candidate beyond its key and value sets, by name: SQL that selects the rows that break it.

    ``{batch}`` is the candidate, ``candidate_<table>`` that of another table, which is one of ``beside``. A critical
    rule that selects a row stops the publication; a warning is reported. Spark and DuckDB both take the queries, DuckDB
    with Spark's ``size`` and its own word for a function without a name.
    """

    name: str
    query: str
    severity: Literal["critical", "warning"] = "critical"

    @property
    def beside(self) -> tuple[str, ...]:
        """The other tables that it looks at."""
        return tuple(dict.fromkeys(re.findall(r"candidate_(\w+)", self.query)))


@dataclass(frozen=True)
class Part:
    """Columns of a row that one source line brings.

    Of rival lines the smallest by ``order`` wins: by columns that are never null there, or by whether one ``IS NULL``.
    ``line`` names the columns that hold file and line; null there: the part is absent, and its columns are null.
    """

    columns: tuple[str, ...]
    order: tuple[str, ...]
    line: tuple[str, str] = ("source_file", "source_line")


@dataclass(frozen=True)
class Table:
    """The contract of one Delta table at ``<lake>/<name>``; its columns are ``schema``.

    ``key`` identifies a row; ``lineage`` columns (ingestion time, run) are outside the promise that a rebuild
    gives equal contents; ``values`` are the only values a column may hold besides null; ``carried`` are the columns of
    a closing state on which the next date depends (by default all of the contract); ``verdicts``: a row whose key stays
    and one of these changes has flipped. A code that is part of a key cannot flip: such a row vanishes, and another
    appears. A table without verdicts holds facts or states; its rows change. ``rules``: what its gate asks besides.
    """

    name: str
    comment: str
    schema: StructType
    key: tuple[str, ...]
    dated: bool = True
    lineage: frozenset[str] = frozenset()
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    parts: tuple[Part, ...] = ()
    carried: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    rules: tuple[Invariant, ...] = ()

    @property
    def columns(self) -> SparkColumns:
        """The columns in Spark's own types, for what works with Spark; this loads it."""
        return spark_columns(self.schema)

    @property
    def contract_columns(self) -> list[str]:
        """Names of the columns that equal inputs make equal."""
        return [name for name in self.schema.names if name not in self.lineage]

    @property
    def row_parts(self) -> tuple[Part, ...]:
        """The parts of a row; by default one: everything outside the key, ordered by the source line."""
        if self.parts:
            return self.parts
        rest = tuple(name for name in self.schema.names if name not in self.key)
        return (Part(rest, ("source_file", "source_line")),)

    @property
    def carried_columns(self) -> list[str]:
        """The columns of a closing state on which the next date depends."""
        return list(self.carried) or self.contract_columns

    def known(self, column: str) -> tuple[str, ...]:
        """The only values that a column of ``values`` may hold."""
        return dict(self.values)[column]

    @property
    def date_of(self) -> str:
        """The column whose UTC date ``event_date`` is."""
        return str(self.schema["event_date"].metadata["date_of"])

    @property
    def comment_of(self) -> dict[str, str]:
        """Each column's comment."""
        return {field.name: str(field.metadata["comment"]) for field in self.schema}


def beside(tables: Iterable[Table]) -> list[str]:
    """The tables that rules of these look at beside their own."""
    return sorted({name for table in tables for rule in table.rules for name in rule.beside})


@cache
def spark_columns(columns: StructType) -> SparkColumns:
    """Columns in Spark's own types; this loads Spark."""
    from pyspark.sql.types import StructType as SparkColumns  # whatever runs without Spark never asks for it

    return SparkColumns.fromJson(json.loads(columns.json()))


def table_of(name: str) -> Table:
    """The contract of a table by its text."""
    head, body, *rules = _text(name).split("\n\n")
    comment, *marks = (line for line in head.splitlines() if not line.startswith("#"))
    of = {mark: tuple(names.split()) for mark, _, names in (line.partition(":") for line in marks)}
    values: dict[str, tuple[str, ...]] = {}
    columns = StructType(list(_columns(body.splitlines(), values)))
    return Table(
        name,
        comment,
        columns,
        key=of["key"],
        dated="event_date" in columns.names,
        lineage=frozenset(of.get("lineage", LINEAGE)),
        values=tuple(values.items()),
        carried=of.get("carried", ()),
        verdicts=of.get("verdicts", ()),
        rules=tuple(_rule(line) for text in rules for line in text.splitlines() if not line.startswith("#")),
    )


def _rule(line: str) -> Invariant:
    name, query, *severity = line.split(" | ")
    return Invariant(name, query, "warning" if severity == ["warning"] else "critical")


def _text(name: str) -> str:
    found = get_data(__package__, f"tables/{name}.txt")
    assert found is not None, name
    return found.decode()


@cache
def _shared() -> dict[str, _Block]:
    return {block[0].split(" | ")[0]: block for block in _blocks(_text("shared").splitlines()[1:])}


def _blocks(lines: Iterable[str]) -> Iterator[_Block]:
    found: list[_Block] = []
    for line in filter(None, lines):
        if line.startswith("  "):
            found[-1][1].append(line[2:])
        else:
            found.append((line, []))
    return iter(found)


def _columns(lines: Iterable[str], values: dict[str, tuple[str, ...]]) -> Iterator[StructField]:
    """The columns; ``values`` takes those that a column holds alone."""
    for line, below in _blocks(lines):
        if " | " not in line:
            line, below = _shared()[line]
        if line.startswith("*"):
            yield from _columns(below, values)
            continue
        name, kind, *told = line.split(" | ")
        if kind.startswith("of "):
            metadata = {"comment": f"UTC date of {(told or [kind[3:]])[0]}; partition column.", "date_of": kind[3:]}
            yield StructField(name, PLAIN["date"], nullable=False, metadata=metadata)
            continue
        if len(told) > 1:
            values[name] = tuple(told[1].split())
        yield StructField(name, _type(kind.rstrip("!"), below), not kind.endswith("!"), {"comment": told[0]})


def _type(kind: str, below: Iterable[str]) -> DataType:
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "array":
        return ArrayType(_type(inner.rstrip("?"), below), containsNull=inner.endswith("?"))
    if outer == "map":
        key, value = inner.split(",")
        return MapType(_type(key, ()), _type(value, ()), valueContainsNull=False)
    if kind == "struct" or f"={kind}" in _shared():
        return StructType(list(_columns(below if kind == "struct" else _shared()[f"={kind}"][1], {})))
    return _KINDS[kind]
