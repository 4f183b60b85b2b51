"""Consumer groups that nobody could judge of late: of whom nothing is said, and why, lest it read as health."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from hindsight.jobs.engines.asker import Asker, Record, records
from hindsight.jobs.engines.sql_files import query

_MOST = 10
_MOST_REASONS = 2


def unjudged(asker: Asker) -> list[Record]:
    """A row for each topic of such a group, sorted, with the reasons: ``scope_reason``, ``missing_inputs``."""
    return records(asker, query("summary", "not_judged"))


def told_of(rows: list[Record]) -> Iterator[str]:
    """A line for each group: who was not judged, and why; the first of them, and how many there are besides."""
    groups = [list(topics) for _, topics in groupby(rows, lambda row: (row["cluster"], row["consumer_group"]))]
    for topics in groups[:_MOST]:
        first = topics[0]
        names = ", ".join(row["topic"] for row in topics[:_MOST_REASONS])
        more = f" and {len(topics) - _MOST_REASONS} more" if len(topics) > _MOST_REASONS else ""
        yield f"{first['cluster']}  {first['consumer_group']}  {names}{more}: {_why(first)}"
    if len(groups) > _MOST:
        yield f"and {len(groups) - _MOST:,} more groups"


def _why(row: Record) -> str:
    if row["scope_reason"]:
        return str(row["scope_reason"])
    return "; ".join(list(row["missing_inputs"] or ())[:_MOST_REASONS]) or "no reason was recorded"
