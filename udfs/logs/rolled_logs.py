"""The name of a file in, the log out of which it was rolled."""

from __future__ import annotations

import re

_ROTATED = re.compile(r"(?P<log>.*\.(?:log|LOG|out|txt))(?:[.-][0-9][0-9._-]*)?")
_FOLDERS = frozenset({"otherdays", "other_days"})  # into which RocketMQ moves what it rolls
_NUMBERED = re.compile(r"[.-][0-9][0-9._-]*(?=\.(?:log|LOG)\Z)")


def log_of(path: str) -> str:
    """``a/x.log`` for ``a/x.log.3.gz`` and ``a/x.log-20260105``, and for RocketMQ's own ``a/otherdays/x-3.log.gz``."""
    path = path.removesuffix(".gz").removesuffix(".zip")
    folder, cut, name = path.rpartition("/")
    found = _ROTATED.fullmatch(name)
    name = found["log"] if found else name
    if folder.rpartition("/")[2] in _FOLDERS:
        folder, cut = folder.rpartition("/")[0], "/"
        name = _NUMBERED.sub("", name)
    return f"{folder}{cut}{name}" if folder else name
