"""Rows as Arrow columns in, out which of them no rule of the door finds anything about: ``door``, for many rows.

A rule about names is asked once for each combination of names, one about another text once for each text; the others
stand here once more, as masks. Whatever is not surely sound is for ``door`` to judge, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.limits.door_rules import (
    DELAY_LEVELS,
    LONGEST_NAME,
    LONGEST_SEND_MS,
    MAX_BODY,
    NAMES,
    OTHER_NAMES,
    RULES,
    Rule,
    Severity,
)
from hindsight.udfs.values.arrays import BoolArray, IntArray

Columns = Mapping[str, pa.Array]


def sound(columns: Columns, table: str, severity_of: Mapping[str, Severity]) -> BoolArray:
    """Which rows surely break no rule that is in force for the table.

    Args:
        columns: n values each, instants as epoch milliseconds; one that the rows have not got is left out.
        table: whose rows they are.
        severity_of: of each rule by code; ``ignore``: it is not in force.
    """
    count = len(next(iter(columns.values())))
    rules = [rule for rule in RULES if severity_of[rule.code] != "ignore" and (not rule.tables or table in rule.tables)]
    found = _sound_names(columns, [rule for rule in rules if _is_of_names(rule)], count)
    for rule in rules:
        if not _is_of_names(rule) and set(rule.columns) <= set(columns):
            found &= _mask(rule, columns)
    return found


def _mask(rule: Rule, columns: Columns) -> BoolArray:
    """Which rows the rule finds nothing about; of one that is known in no better way, none."""
    if rule.code in _MASKS:
        return _MASKS[rule.code](columns)
    if is_of_one_text(rule, columns):
        encoded = columns[rule.columns[0]].dictionary_encode(null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        verdicts = np.array([not _finds(rule, {rule.columns[0]: value}) for value in values], dtype=np.bool_)
        found: BoolArray = verdicts[encoded.indices.to_numpy()]
        return found
    return np.zeros(len(next(iter(columns.values()))), dtype=np.bool_)


def is_of_one_text(rule: Rule, columns: Mapping[str, pa.Array]) -> bool:
    """Whether a rule looks at a single column, and that is a text."""
    return len(rule.columns) == 1 and not rule.optional and pa.types.is_string(columns[rule.columns[0]].type)


def _is_of_names(rule: Rule) -> bool:
    return {*rule.columns, *rule.optional} <= set(NAMES)


def _sound_names(columns: Columns, rules: list[Rule], count: int) -> BoolArray:
    """Judged once for each combination of names; a rule may look at several."""
    names = [name for name in NAMES if name in columns]
    which: IntArray = np.zeros(count, dtype=np.int64)
    values = []
    for name in names:
        encoded = columns[name].dictionary_encode(null_encoding="encode")
        values.append(encoded.dictionary.to_pylist())
        which = which * max(1, len(values[-1])) + encoded.indices.to_numpy()
    combinations, first, of_row = np.unique(which, return_index=True, return_inverse=True)
    verdicts = np.ones(len(combinations), dtype=np.bool_)
    for index, at in enumerate(first.tolist()):
        row = {name: columns[name][at].as_py() for name in names}
        verdicts[index] = not any(_finds(rule, row) for rule in rules)
    found: BoolArray = verdicts[of_row]
    return found


def _finds(rule: Rule, row: dict[str, str | None]) -> bool:
    return all(row.get(column) is not None for column in rule.columns) and rule.check(row) is not None


def _short_names(columns: Columns) -> BoolArray:
    """No name has more bytes than it may have characters."""
    found = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for name in OTHER_NAMES:
        if name in columns and pa.types.is_string(columns[name].type):
            found &= numbers(pc.binary_length(columns[name]), 0) <= LONGEST_NAME
    return found


def _within(column: str, low: int | None, high: int | None) -> Callable[[Columns], BoolArray]:
    def mask(columns: Columns) -> BoolArray:
        values = numbers(columns[column], low if high is None else high)
        found = np.ones(len(values), dtype=np.bool_)
        if low is not None:
            found &= values >= low
        if high is not None:
            found &= values <= high
        return found

    return mask


def _as_measured(columns: Columns) -> BoolArray:
    latency = columns["latency_ms"]
    between = pc.subtract(columns["end_at"], columns["begin_at"])
    found: BoolArray = pc.fill_null(pc.equal(latency, between), True).to_numpy(zero_copy_only=False)
    return found


def numbers(values: pa.Array, instead: int | None) -> IntArray:
    """A column of whole numbers, with ``instead`` where it is null."""
    found: IntArray = (pc.fill_null(values, instead) if values.null_count else values).to_numpy()
    return found


_MASKS: dict[str, Callable[[Columns], BoolArray]] = {
    "NAME_TOO_LONG": _short_names,
    "DELAY_LEVEL": _within("delay_level", 0, DELAY_LEVELS),
    "BODY_LENGTH": _within("body_length", 1, MAX_BODY),
    "NEGATIVE_LATENCY": _within("latency_ms", 0, None),
    "EXTREME_LATENCY": _within("latency_ms", None, LONGEST_SEND_MS),
    "LATENCY_DIFFERS": _as_measured,
}
