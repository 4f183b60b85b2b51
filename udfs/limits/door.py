"""Parsed lines in, the same judged by RocketMQ's own limits out: broken rows refused, doubtful ones flagged.

What becomes of a row that breaks a rule is the rule's severity: ``quarantine`` sends its whole line there under the
rule's code, ``flag`` stores the row with the code in its ``doubts``, ``ignore`` switches the rule off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hindsight.udfs.limits.door_rules import NAMES, RULES, SEVERITIES, Row, Rule, Severity
from hindsight.udfs.limits.unread_answers import asked_in_vain
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import ParsedLine, Record


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
        by_name, others = self._rules.get(table) or self._rules_of(table)
        names = (table, *map(row.get, NAMES))
        found: _Found | None = self._of_names.get(names)
        if found is None:
            found = self._broken(by_name, row)
            self._remember(names, found)
        if not others or isinstance(found, Refusal):
            return found
        more = self._broken(others, row)
        return more if isinstance(more, Refusal) else found + more

    def _remember(self, names: tuple[str | None, ...], found: _Found) -> None:
        if isinstance(found, Refusal):
            return  # few are alike, and each may be as long as a line
        if len(self._of_names) >= _MOST_NAMES:
            self._of_names.clear()
        self._of_names[names] = found

    def _rules_of(self, table: str) -> tuple[list[Rule], list[Rule]]:
        rules = [r for r in RULES if self._severity_of[r.code] != "ignore" and (not r.tables or table in r.tables)]
        by_name = [rule for rule in rules if {*rule.columns, *rule.optional} <= set(NAMES)]
        self._rules[table] = by_name, [rule for rule in rules if rule not in by_name]
        return self._rules[table]

    def _broken(self, rules: Iterable[Rule], row: Row) -> _Found:
        doubts: tuple[str, ...] = ()
        value_of = row.get
        for code, check, _, columns, _, _ in rules:
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
