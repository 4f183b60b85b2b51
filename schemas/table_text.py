"""The text of a table in ``schemas/tables``, as its contract: all that is known of a column stands in one line there.

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

from collections.abc import Iterable, Iterator
from functools import cache
from pkgutil import get_data

from hindsight.schemas.column_types import PLAIN, ArrayType, DataType, MapType, StringType, StructField, StructType
from hindsight.schemas.table_contract import LINEAGE, Invariant, Table

NAMES = (
    "address broker chooser client cluster collector detail error evidence exception expression file group incident "
    "line log_folder message name_server order_conf release strategy tag thread topic"
)
_KINDS: dict[str, DataType] = {
    **{kind.simpleString(): kind for kind in PLAIN.values()},
    **{name: StringType(name) for name in (*NAMES.split(), "word")},
}
_Block = tuple[str, list[str]]  # a line, and the lines below it, these less deep by one


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
