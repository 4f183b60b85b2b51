"""Wrong configuration in what has landed: the rules of ``queries/lint_rules.sql`` over the newest records of clusters.

What a rule leaves out on purpose (retry topics, a cluster of one broker, queues that are taken away) stands in its
query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from hindsight.conf.failure import DRIFT_FOUND, ExpectedError
from hindsight.jobs.engines.asker import Asker, Record, as_records, on_last_date
from hindsight.jobs.explaining.explanation import Filled, blocks
from hindsight.jobs.running.terminal import legible
from hindsight.schemas import SEVERITIES, TABLES
from hindsight.udfs.values.message_queues import is_system_group, is_system_topic


class LintFoundError(ExpectedError):
    """Raised when something is as severe as the caller wants to hear of, or more."""

    exit_code = DRIFT_FOUND


class Rule(NamedTuple):
    """``breaks``: what goes wrong with it; ``change``: the line to write, ``{subject}`` being what it is about."""

    code: str
    severity: str
    breaks: str
    change: str
    query: str


_BLOCKS = list(blocks("queries", "lint_rules", of="asking"))
RULES = tuple(
    Rule(code, severity, words[0], words[1], text) for code, severity, words, text in _BLOCKS if code.isupper()
)
_SHARED = {name: text for name, _, _, text in _BLOCKS if not name.isupper()}
_RUNGS = " ".join(
    f"WHEN TRY_ELEMENT_AT(not_available_ms, {n}) > 0 THEN TRY_ELEMENT_AT(latency_max_ms, {n})" for n in range(1, 9)
)


def lint(asker: Asker, accepted: Sequence[str], *, cluster: str = "*") -> list[Record]:
    """What is wrong, the worst first: ``severity``, ``code``, ``cluster``, ``subject`` and sentences.

    ``accepted``: ``CODE`` or ``CODE:subject``, shell patterns. Topics and groups of RocketMQ's own are no fault.
    """
    found = []
    for rule, rows in zip(RULES, asker.answers(_queries(asker)), strict=True):
        for row in as_records(rows):
            if fnmatchcase(row["cluster"], cluster) and not _is_left_out(rule.code, row["subject"], accepted):
                change = rule.change.replace("{subject}", row["subject"]).replace("CLUSTER", row["cluster"])
                found.append(
                    {"severity": rule.severity, "code": rule.code, **row, "breaks": rule.breaks, "change": change}
                )
    return sorted(
        found, key=lambda one: (SEVERITIES.index(one["severity"]), one["code"], one["cluster"], one["subject"])
    )


def _queries(asker: Asker) -> list[str]:
    """Those of the rules, with the last dates of clusters: engines leave files unread by what is constant."""

    @cache
    def last(table: str) -> str:
        return on_last_date(asker, TABLES[table])

    @cache
    def lately(table: str) -> str:
        return on_last_date(asker, TABLES[table], days_before=1)

    dates = {"last": Filled(last), "lately": Filled(lately)}
    shared = {name: text.format(**dates, rungs=_RUNGS) for name, text in _SHARED.items()}
    return [rule.query.format(**dates, **shared) for rule in RULES]


def _is_left_out(code: str, subject: str, accepted: Iterable[str]) -> bool:
    is_own = is_system_topic(subject) or is_system_group(subject)
    return is_own or any(fnmatchcase(code, each) or fnmatchcase(f"{code}:{subject}", each) for each in accepted)


def told(found: Sequence[Record]) -> Iterator[str]:
    """Lines for a person."""
    for one in found:
        yield f"{one['severity']:<8} {one['code']}  {legible(one['cluster'])}  {legible(one['subject'])}"
        yield f"    {legible(one['detail'])}"
        yield f"    breaks: {one['breaks']}"
        yield f"    change: {legible(one['change'])}"
    yield f"{len(found)} found" if found else "Nothing is set wrongly in what has landed"


def refuse(found: Sequence[Record], severity: str) -> None:
    """Raises: LintFoundError: something is as severe as this, or more."""
    worst = [one for one in found if one["severity"] in SEVERITIES[: SEVERITIES.index(severity) + 1]]
    if worst:
        raise LintFoundError(f"{len(worst)} of severity {severity} or worse; settings [lint] accept what is meant so.")
