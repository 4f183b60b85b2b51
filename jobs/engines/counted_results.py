"""What a run checks itself: rows that break a contract or an invariant are counted by SQL, one result per expectation.

Each result is the one that Great Expectations gives of the same rows (``hindsight check`` asks it where it is
installed); a run does not wait for it to load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hindsight.schemas import Table

OBSERVED_CHARS = 500
_UNEXPECTED, _SELECTED = "unexpected_count", "observed_value"

# Numbers that queries give, in their order. Raises whatever an engine raises of a query.
Ask = Callable[[Sequence[str]], Sequence[int]]


class Expectation(NamedTuple):
    """What is expected of a table's rows, as it is told; the query of how many break it, of ``{batch}``."""

    told: str
    severity: str
    counts: str
    query: str


def expectations(table: Table, quote: Callable[[str], str]) -> Iterator[Expectation]:
    """The table's key is unique, its closed columns hold known values, and its invariants hold.

    ``quote`` writes a column's name as the engine's SQL has it.
    """
    key = ", ".join(map(quote, table.key))
    times = f"SELECT COUNT(*) AS times FROM {{batch}} GROUP BY {key} HAVING COUNT(*) > 1"
    repeated = f"SELECT CAST(COALESCE(SUM(times), 0) AS BIGINT) FROM ({times})"
    yield Expectation(_unique(table.key), "critical", _UNEXPECTED, repeated)
    for column, values in table.values:
        known = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
        query = f"SELECT COUNT(*) FROM {{batch}} WHERE {quote(column)} NOT IN ({known})"
        told = _told("expect_column_values_to_be_in_set", {"column": column})
        yield Expectation(told, "critical", _UNEXPECTED, query)
    for rule in table.rules:
        yield Expectation(rule.name, rule.severity, _SELECTED, f"SELECT COUNT(*) FROM ({rule.query})")


def _unique(key: Sequence[str]) -> str:
    if len(key) == 1:
        return _told("expect_column_values_to_be_unique", {"column": key[0]})
    return _told("expect_compound_columns_to_be_unique", {"column_list": list(key), "ignore_row_if": "never"})


def _told(kind: str, of: dict[str, Any]) -> str:
    return f"{kind} {json.dumps(of, sort_keys=True)}"


def results_of_table(
    table: Table, expected: Sequence[Expectation], ask: Ask, *, has_rows: bool = True
) -> list[dict[str, Any]]:
    """The rows of ``quality_result``; ``ask`` is of this table's rows. What cannot be counted is a critical failure.

    Where it has none, no row repeats a key or has an unknown value: only invariants, which see more, are asked for.
    """
    asked = [each for each in expected if has_rows or each.counts == _SELECTED]
    try:
        counts = dict(zip(asked, ask([each.query for each in asked]) if asked else (), strict=True))
        return [_result(table, each, counts.get(each, 0)) for each in expected]
    except Exception:  # of one count, whatever it is: each by itself, to tell which
        return [_by_itself(table, each, ask) for each in expected]


def _by_itself(table: Table, each: Expectation, ask: Ask) -> dict[str, Any]:
    try:
        return _result(table, each, *ask([each.query]))
    except Exception as error:  # a check that cannot be made has failed, and the gate refuses
        return crash_of(table, each.told, error)


def _result(table: Table, each: Expectation, count: int) -> dict[str, Any]:
    told = {"severity": each.severity, "success": count == 0, "observed": json.dumps({each.counts: count})}
    return {"table": table.name, "expectation": each.told, **told}


def crash_of(table: Table, expectation: str, error: Exception) -> dict[str, Any]:
    """The row of an expectation whose rows could not be looked for: a critical failure."""
    told = {"severity": "critical", "success": False, "observed": str(error)[:OBSERVED_CHARS]}
    return {"table": table.name, "expectation": expectation, **told}
