"""What the folder of a Delta table's log tells without a list of it: which commit is the newest.

A log that is kept for a week of minutes has ten thousand commits, so nothing that each run does may list it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

_LOG, _CHECKPOINT = "_delta_log", "_last_checkpoint"


def commit_name(version: int) -> str:
    """The file of a commit."""
    return f"{version:020}.json"


def is_newest(table: Path, version: int) -> bool:
    """Whether a version of a table is there, and none that follows it."""
    log = table / _LOG
    return (log / commit_name(version)).exists() and not (log / commit_name(version + 1)).exists()


def newest_version(table: Path) -> int | None:
    """The newest version of a table; None: there is none. From the last checkpoint on each commit is looked for."""
    log, version = table / _LOG, -1
    with suppress(OSError, ValueError, TypeError, KeyError):
        version = int(json.loads((log / _CHECKPOINT).read_bytes())["version"])
    if not (log / commit_name(max(version, 0))).exists():  # nothing tells where it begins
        return _newest_listed(log)
    while (log / commit_name(version + 1)).exists():
        version += 1
    return version


def _newest_listed(log: Path) -> int | None:
    with suppress(FileNotFoundError), os.scandir(log) as entries:
        names = (entry.name.partition(".")[0] for entry in entries if entry.name.endswith(".json"))
        return max((int(name) for name in names if name.isdecimal()), default=None)
    return None
