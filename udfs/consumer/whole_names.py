"""Progress with names that mqadmin may have cut, and what routes and subscriptions name, in; the whole names, out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from hindsight.udfs.formats.cut_names import BROKER_MAYBE_CUT, TOPIC_MAYBE_CUT, whole_name

TOPIC, BROKER = "topic", "broker_name"
_DOUBTS = {TOPIC: TOPIC_MAYBE_CUT, BROKER: BROKER_MAYBE_CUT}
# What is named where: ``column`` is of which kind of name.
NAMED = pa.schema(
    [
        ("collector", pa.string()),
        ("round_at", pa.timestamp("us", "UTC")),
        ("column", pa.string()),
        ("name", pa.string()),
    ]
)


def printed_names(progress: pa.Table) -> set[tuple[str, str]]:
    """The names in doubt, each with its column."""
    found = set()
    for row in _doubtful(progress):
        found |= {(column, row[column]) for column, doubt in _DOUBTS.items() if doubt in row["doubts"]}
    return found


def _doubtful(progress: pa.Table) -> list[dict[str, Any]]:
    if progress["doubts"].null_count == progress.num_rows:
        return []
    rows: list[dict[str, Any]] = (
        progress.filter(progress["doubts"].is_valid()).select([TOPIC, BROKER, "doubts"]).to_pylist()
    )
    return rows


class KnownNames:
    """The names that a cluster's routes and subscriptions tell."""

    def __init__(self, named: Iterable[tuple[str, Any, str, str]]) -> None:
        """``named``: collector, round, column and name."""
        self._of_round: dict[tuple[str, Any, str], set[str]] = {}
        self._of_date: dict[tuple[Any, str], set[str]] = {}
        for collector, round_at, column, name in named:
            self._of_round.setdefault((collector, round_at, column), set()).add(name)
            self._of_date.setdefault((round_at.date(), column), set()).add(name)

    def with_whole_names(self, progress: pa.Table) -> pa.Table:
        """Rows of ``queue_progress`` with the topic and broker that ``whole_name`` tells.

        Known are the group's own retry topic, then what the round's routes and subscriptions name, then what those of
        the cluster's date do, whoever collected them. Rows without such a doubt stay as they are.
        """
        if not printed_names(progress):
            return progress
        rows = progress.to_pylist()
        for row in rows:
            for column in (column for column, doubt in _DOUBTS.items() if doubt in (row["doubts"] or ())):
                row[column] = self._whole(row, column)
        return pa.Table.from_pylist(rows, schema=progress.schema)

    def _whole(self, row: dict[str, Any], column: str) -> str:
        own = [f"%RETRY%{row['consumer_group']}"] if column == TOPIC else []
        of_round = self._of_round.get((row["collector"], row["round_at"], column), ())
        of_date = self._of_date.get((row["round_at"].date(), column), ())
        return whole_name(row[column], own, of_round, of_date)
