"""A log's name and the times of day of its lines in, each line's date out: for lines that write no date.

The name's date is that of the first line. A time that goes back by more than half a day has passed midnight; one that
goes back by more than two hours otherwise (a clock that was set, a day in which nothing was written) leaves the date
unknown from there on.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from hindsight.udfs.lines.parsed_line import RefusedLineError

_IN_NAME = re.compile(r"(?<!\d)(20\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_LATE_MS = 60_000  # by which threads write out of order


def date_in_name(file: str) -> date | None:
    """The one date in a file's name, as ``2026-01-05`` or ``20260105``; None without one, or with two that differ."""
    found = set()
    for year, _, month, day in _IN_NAME.findall(file.rpartition("/")[2]):
        try:
            found.add(date(int(year), int(month), int(day)))
        except ValueError:
            continue
    return found.pop() if len(found) == 1 else None


class DayCount:
    """Follows the times of a log's lines, and counts the midnights that they pass."""

    def __init__(self, first: date | None) -> None:
        self._first = first
        self._days = 0
        self._last = 0
        self._is_lost = False

    def see(self, day_ms: int) -> None:
        """Take note of a line's time, ms since midnight; lines come in their order."""
        if self._is_of_day_before(day_ms):
            return
        back = self._last - day_ms
        if back > _DAY_MS // 2:
            self._days += 1
        elif back > 2 * _HOUR_MS:
            self._is_lost = True
        self._last = day_ms

    def date_of(self, day_ms: int) -> tuple[int, int, int]:
        """Year, month and day of the line with this time, which ``see`` was told last.

        Refused: BAD_TIMESTAMP, where the name has no date, or the lines do not tell how many days have passed.
        """
        if self._first is None:
            raise RefusedLineError("BAD_TIMESTAMP", "the line has no date, and the file's name has none, or several")
        if self._is_lost:
            raise RefusedLineError("BAD_TIMESTAMP", "the times before went back by hours: the date is not known")
        at = self._first + timedelta(days=self._days - self._is_of_day_before(day_ms))
        return at.year, at.month, at.day

    def _is_of_day_before(self, day_ms: int) -> bool:
        """Whether a thread wrote late, just after a midnight that others had passed."""
        return self._days > 0 and self._last < _LATE_MS and day_ms >= _DAY_MS - _LATE_MS
