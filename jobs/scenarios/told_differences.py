"""Rows that differ in; what people or programs read of them, out: which verdicts flip, how, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.asker import as_records
from hindsight.jobs.scenarios.difference_causes import Cause
from hindsight.jobs.scenarios.table_differences import Change, DateDifferences, counts
from hindsight.schemas import Table

# In the order in which people want to see them.
_WORDS: dict[Change, tuple[str, str]] = {
    "flips": ("flips its verdict", "flip their verdict"),
    "vanishes": ("vanishes", "vanish"),
    "appears": ("appears", "appear"),
    "changes": ("changes otherwise", "change otherwise"),
}
_SHOWN = 3  # rows of a table and date that people see
_LONGEST = 80  # of a value that people see


class Answer(NamedTuple):
    """What differs between two sides, which are named."""

    before: str
    after: str
    found: list[DateDifferences]

    @property
    def rows(self) -> int:
        """Of rows that differ."""
        return sum(len(one.found) for one in self.found)


def told(answer: Answer) -> Iterator[str]:
    """For people: what differs in all, and of each table and date how many rows do, why, and a few of them.

    Tables of verdicts come first, then those of facts and states.
    """
    if not answer.found:
        yield "The derived tables hold the same."
        return
    yield f"before: {answer.before}"
    yield f"after:  {answer.after}"
    yield _counted(pa.concat_arrays([chunk for one in answer.found for chunk in one.found["change"].chunks]))
    for one in sorted(answer.found, key=lambda one: not one.table.verdicts):
        yield ""
        yield f"{one.table.name}, {one.day}: {_counted(one.found['change'])}"
        yield from _because(one)
        yield from _flipped(one)
        for row in _first(one.found):
            yield f"  {row['change']}: {_named(one.table, row)}{_what(row)}"


def as_json(answer: Answer) -> Iterator[str]:
    """For programs: a line for each row that differs."""
    for one in answer.found:
        for row in as_records(one.found):
            causes = [cause._asdict() for cause in one.causes[row["cluster"]]]
            yield json.dumps({"table": one.table.name, **row, "causes": causes}, default=str, ensure_ascii=False)


def _counted(changes: pa.Array | pa.ChunkedArray) -> str:
    """How many rows differ in which way."""
    by_kind = counts(changes)
    return ", ".join(f"{by_kind[kind]} {words[by_kind[kind] > 1]}" for kind, words in _WORDS.items() if by_kind[kind])


def _because(one: DateDifferences) -> Iterator[str]:
    """The causes of a date, each once with the clusters that have it."""
    clusters: dict[Cause, list[str]] = {}
    for cluster, causes in one.causes.items():
        for cause in causes:
            clusters.setdefault(cause, []).append(cluster)
    for cause, having in clusters.items():
        yield f"  because of {cause.kind} ({', '.join(having)}): {cause.detail}"


def _flipped(one: DateDifferences) -> Iterator[str]:
    """Each verdict that flips, from what to what, in how many rows."""
    rows = one.found.filter(pc.equal(one.found["change"], "flips"))
    for name in one.table.verdicts:
        sides = {side: pc.struct_field(rows[side], name) for side in ("before", "after")}
        for pair in pa.table(sides).group_by(["before", "after"]).aggregate([([], "count_all")]).to_pylist():
            if pair["before"] != pair["after"]:
                number = pair["count_all"]
                yield f"  {name} {_pair(pair)}: {number} row{'s' * (number > 1)}"


def _first(found: pa.Table) -> list[dict[str, Any]]:
    by_kind = [found.filter(pc.equal(found["change"], kind))[:_SHOWN] for kind in _WORDS]
    return as_records(pa.concat_tables(by_kind)[:_SHOWN])


def _named(table: Table, row: dict[str, Any]) -> str:
    key = [name for name in table.key if name != "event_date" and row[name] not in (None, "")]
    return " ".join(f"{name}={row[name]}" for name in key)


def _what(row: dict[str, Any]) -> str:
    """The columns that differ, with both values where these are short."""
    sides = {name: {side: row[side][name] for side in ("before", "after")} for name in row["columns"]}
    short = {name: pair for name, pair in sides.items() if all(len(str(value)) <= _LONGEST for value in pair.values())}
    told = [f"{name} {_pair(pair)}" for name, pair in short.items()] + [
        f"{name} differs" for name in sides if name not in short
    ]
    return f": {'; '.join(told)}" if told else ""


def _pair(sides: dict[str, Any]) -> str:
    before, after = ("null" if value is None else value for value in (sides["before"], sides["after"]))
    return f"{before} -> {after}"
