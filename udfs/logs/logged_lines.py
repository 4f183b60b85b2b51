"""A line of a log in; what its row holds whatever it tells out: instant, level, thread, text, identity."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from hindsight.udfs.logs.log_layouts import LogHead

_TEXT_CHARS = 1000  # of an event's own line, as stored
_REMEMBERED_LINES = 50_000  # that are told from their repetitions


class Occurrences:
    """Numbers equal lines of a file, in bounded memory.

    Equal lines are of one instant, and near each other: threads write out of order by some milliseconds.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}

    def count(self, digest: bytes) -> int:
        """1 for the first such line; of lines further apart than the memory reaches, for each."""
        number = self._seen.get(digest, self._before.get(digest, 0)) + 1
        if len(self._seen) >= _REMEMBERED_LINES:
            self._seen, self._before = {}, self._seen
        self._seen[digest] = number
        return number


def line_digest(text: str) -> bytes:
    """What tells a line from others of its instant."""
    return blake2b(text.encode(), digest_size=12).digest()


def stamp(row: dict[str, Any], head: LogHead, text: str, message: str, occurrences: Occurrences | None) -> None:
    """Put into an event's row what its line says by its place and form; ``text``: the whole line.

    ``occurrences``: None leaves out what tells it from other lines, which is known later (``identify``).
    """
    row["logged_at"] = head.at_ms
    row["resolution_ms"] = head.resolution_ms
    row["level"] = head.level
    row["thread"] = head.thread
    row["text"] = message[:_TEXT_CHARS]
    if occurrences is not None:
        identify(row, text, occurrences)


def identify(row: dict[str, Any], text: str, occurrences: Occurrences) -> None:
    """Put into an event's row what tells it from others of its instant."""
    digest = line_digest(text)
    row["line_digest"] = digest.hex()
    row["occurrence"] = occurrences.count(digest)
