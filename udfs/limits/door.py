"""Parsed lines in, the same judged by RocketMQ's own limits out: broken rows refused, doubtful ones flagged.

What becomes of a row that breaks a rule is the rule's severity: ``quarantine`` sends its whole line there under the
rule's code, ``flag`` stores the row with the code in its ``doubts``, ``ignore`` switches the rule off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.limits.door_rules import LONGEST_NAME, NAMES, OTHER_NAMES, RULES, SEVERITIES, Row, Rule, Severity
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import ParsedLine, Record, asked_in_vain
from hindsight.udfs.values.columns import BoolArray, IntArray, flags


def severities(overrides: Mapping[str, str]) -> dict[str, Severity]:
    """The severity of each rule by code, the operator's own over the defaults.

    Raises: ValueError: for a code or severity that is not known.
    """
    found: dict[str, Severity] = {rule.code: rule.severity for rule in RULES}
    for code, severity in overrides.items():
        known = next((one for one in SEVERITIES if one == severity), None)
        if code not in found or known is None:
            raise ValueError(
                f"no rule {code!r} can have severity {severity!r} (rules: {', '.join(found)}; "
                f"severities: {', '.join(SEVERITIES)})"
            )
        found[code] = known
    return found


def judged(
    parsed: Iterable[ParsedLine], severity_of: Mapping[str, Severity], flagged_tables: Iterable[str]
) -> Iterator[ParsedLine]:
    """The lines, those refused that hold a broken row; doubtful rows with ``doubts``, their codes in order.

    Doubts that a reader has itself come first.

    ``flagged_tables``: those that have a column ``doubts``; elsewhere a doubt is not recorded.
    """
    judge = _Judge(severity_of, flagged_tables)
    for one in parsed:
        yield judge.line(one) if one.records else one


# What is found of a row: why its line is refused, or the codes of its doubts.
_Found = Refusal | tuple[str, ...]
_MOST_NAMES = 50_000  # combinations of names whose judgement is remembered; then it begins anew


class _Judge:
    """The rules in force, by table; of the few names that all rows share the judgement is remembered."""

    def __init__(self, severity_of: Mapping[str, Severity], flagged_tables: Iterable[str]) -> None:
        self._severity_of = severity_of
        self._flagged = frozenset(flagged_tables)
        self._rules: dict[str, tuple[list[Rule], list[Rule]]] = {}
        self._of_names: dict[tuple[str | None, ...], tuple[str, ...]] = {}

    def line(self, one: ParsedLine) -> ParsedLine:
        """The line with its doubts, or refused."""
        doubtful = {}
        for index, (table, row) in enumerate(one.records):
            found = self._row(table, row)
            if isinstance(found, Refusal):
                return self._refused(one, found)
            if found and table in self._flagged:
                doubtful[index] = Record(table, {**row, "doubts": [*(row.get("doubts") or ()), *found]})
        if not doubtful:
            return one
        return one._replace(records=tuple(doubtful.get(i, record) for i, record in enumerate(one.records)))

    def _refused(self, one: ParsedLine, found: Refusal) -> ParsedLine:
        """A line that is refused; of what it asked in vain a trace stays, unless that is what is broken."""
        asked = () if one.refusal else asked_in_vain(one.records, found.code)
        sound = not any(isinstance(self._row(*record), Refusal) for record in asked)
        return ParsedLine(one.line, asked if sound else (), one.refusal or found)

    def _row(self, table: str, row: Row) -> _Found:
        rules = self._rules.get(table) or self._rules.setdefault(table, _in_force(table, self._severity_of))
        by_name, others = rules
        names = (table, *map(row.get, NAMES))
        found: _Found | None = self._of_names.get(names)
        if found is None:
            found = self._broken(by_name, row)
            if not isinstance(found, Refusal):  # of these few are alike, and each may be as long as a line
                if len(self._of_names) >= _MOST_NAMES:
                    self._of_names.clear()
                self._of_names[names] = found
        if not others or isinstance(found, Refusal):
            return found
        more = self._broken(others, row)
        return more if isinstance(more, Refusal) else found + more

    def _broken(self, rules: Iterable[Rule], row: Row) -> _Found:
        doubts: tuple[str, ...] = ()
        value_of = row.get
        for code, check, _, columns, _, _, _ in rules:
            for column in columns:
                if value_of(column) is None:
                    break
            else:
                said = check(row)
                if said is not None:
                    if self._severity_of[code] == "quarantine":
                        return Refusal(code, said)
                    doubts += (code,)
        return doubts


def _is_of_names(rule: Rule) -> bool:
    return {*rule.columns, *rule.optional} <= set(NAMES)


def _in_force(table: str, severity_of: Mapping[str, Severity]) -> tuple[list[Rule], list[Rule]]:
    """The rules about names alone that are in force for a table, and the others."""
    rules = [rule for rule in RULES if severity_of[rule.code] != "ignore" and (not rule.tables or table in rule.tables)]
    return [rule for rule in rules if _is_of_names(rule)], [rule for rule in rules if not _is_of_names(rule)]


Columns = Mapping[str, pa.Array]


def sound(columns: Columns, table: str, severity_of: Mapping[str, Severity]) -> BoolArray:
    """Which rows surely break no rule that is in force for the table.

    Args:
        columns: n values each, instants as epoch milliseconds; one that the rows have not got is left out.
        table: whose rows they are.
        severity_of: of each rule by code; ``ignore``: it is not in force.
    """
    by_name, others = _in_force(table, severity_of)
    found = _sound_names(columns, by_name)
    for rule in others:
        if set(rule.columns) <= set(columns):
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
    return np.zeros(_count(columns), dtype=np.bool_)


def _count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def is_of_one_text(rule: Rule, columns: Mapping[str, pa.Array]) -> bool:
    """Whether a rule looks at a single column, and that is a text."""
    return len(rule.columns) == 1 and not rule.optional and pa.types.is_string(columns[rule.columns[0]].type)


def _sound_names(columns: Columns, rules: list[Rule]) -> BoolArray:
    """Judged once for each combination of names; a rule may look at several."""
    names = [name for name in NAMES if name in columns]
    which: IntArray = np.zeros(_count(columns), dtype=np.int64)
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
    found = np.ones(_count(columns), dtype=np.bool_)
    for name in OTHER_NAMES:
        if name in columns and pa.types.is_string(columns[name].type):
            found &= numbers(pc.binary_length(columns[name]), 0) <= LONGEST_NAME
    return found


def _within(rule: Rule, columns: Columns) -> BoolArray:
    least, most = rule.span or (0, 0)
    values = numbers(columns[rule.columns[0]], least)
    found: BoolArray = (values >= least) & (values <= most)
    return found


def _as_measured(columns: Columns) -> BoolArray:
    latency = columns["latency_ms"]
    between = pc.subtract(columns["end_at"], columns["begin_at"])
    return flags(pc.equal(latency, between), instead=True)


def numbers(values: pa.Array, instead: int | None) -> IntArray:
    """A column of whole numbers, with ``instead`` where it is null."""
    found: IntArray = (pc.fill_null(values, instead) if values.null_count else values).to_numpy()
    return found


_MASKS: dict[str, Callable[[Columns], BoolArray]] = {
    "NAME_TOO_LONG": _short_names,
    "LATENCY_DIFFERS": _as_measured,
    **{rule.code: partial(_within, rule) for rule in RULES if rule.span is not None},
}
