"""Folders of an hour in a landing folder: each writer has one of its own, and seals it when the hour is over.

A seal names the folder's files with their sizes. So who has looked through the folder once need not do so again, and
what somebody else puts there later shows as what it is. Writers use this where nothing but Python is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

SEAL = "_sealed.json"
MOST_SEAL_BYTES = 16 << 20
TO_THE_HOUR = len("2026-11-29/09")
_HOUR = re.compile(r"\d{4}-\d\d-\d\d/\d\d-[A-Za-z0-9_.\-]+")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.]+")


def hour_folder(writer: str, now: datetime | None = None) -> str:
    """The folder of a writer in this hour, below that of a cluster: ``2026-11-29/09-<writer>``, UTC; of none empty."""
    return f"{now or datetime.now(UTC):%Y-%m-%d/%H}-{_NO_NAME.sub('-', writer)}" if writer else ""


def is_hour(folder: str) -> bool:
    """Whether a text is a folder of ``hour_folder``."""
    return _HOUR.fullmatch(folder) is not None


def is_over(folder: str) -> bool:
    """Whether a text is a folder of ``hour_folder`` whose hour is over."""
    return is_hour(folder) and folder[:TO_THE_HOUR] < hour_folder("now")[:TO_THE_HOUR]


def seal_of(files: Mapping[str, int]) -> bytes:
    """The seal of these files, with their sizes in bytes."""
    return json.dumps({"files": dict(sorted(files.items()))}, separators=(",", ":")).encode()


def named_by(seal: bytes) -> dict[str, int]:
    """The files that a seal names, with their sizes; one that is damaged names none."""
    try:
        return {name: size for name, size in json.loads(seal)["files"].items() if isinstance(size, int)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
