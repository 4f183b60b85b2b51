"""The commits of a table since a version in; the files whose rows they added or took away, out.

Files that were only brought together are left out (``dataChange`` false): their rows are as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import unquote

from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.lake.lake_place import file_system


class Change(NamedTuple):
    """A file whose rows were added, or taken away."""

    file: DataFile
    is_added: bool


def changes_since(root: str, table: str, first: int, last: int) -> list[Change] | None:
    """What the commits after the version ``first``, up to ``last``, changed; None: not all of them are there."""
    system, folder = file_system(f"{root}/{table}/_delta_log")
    found: list[Change] = []
    for version in range(first + 1, last + 1):
        try:
            with system.open_input_stream(f"{folder}/{version:020}.json") as stream:
                found += _changes(stream.read().decode())
        except FileNotFoundError:
            return None
    return found


def _changes(commit: str) -> Iterator[Change]:
    for line in commit.splitlines():
        action: dict[str, Any] = json.loads(line) if line.strip() else {}
        for kind in ("add", "remove"):
            told = action.get(kind)
            if told is not None and told.get("dataChange", True):
                day = (told.get("partitionValues") or {}).get("event_date")
                file = DataFile(unquote(told["path"]), told.get("size") or 0, None, day and date.fromisoformat(day))
                yield Change(file, kind == "add")
