"""What the settings say of client logs in, how the lines of one of them are read out.

An entry holds for the logs that its shell patterns match; the first that does is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

from hindsight.udfs.lines.parsed_line import ClientLogLayout, TextEncoding
from hindsight.udfs.lines.text_guess import GUESSED, is_wide
from hindsight.udfs.logs.log_layouts import LogReading
from hindsight.udfs.logs.log_patterns import declared_layout
from hindsight.udfs.logs.log_stamps import DayCount, Fractions, Look, date_in_name

_ASCII = bytes(range(32, 127))


def check_layout(layout: ClientLogLayout) -> None:
    """Refuse what no log could be read by.

    Raises: ValueError: its pattern or its encoding; the text says why.
    """
    if layout.pattern is not None:
        dates = declared_layout(layout.pattern).dates
        if dates.is_dated and layout.date_from_file_name:
            raise ValueError("the pattern's lines have a date: they need none from the file's name")
        if not (dates.is_dated or layout.date_from_file_name):
            raise ValueError("the pattern's lines have no date: set date_from_file_name, or none could be taken in")
    if layout.encoding is not None:
        check_encoding(layout.encoding)


def layout_of(layouts: Iterable[ClientLogLayout], cluster: str, path: str) -> ClientLogLayout | None:
    """The first entry that holds for the log at ``path`` in its cluster's folder."""
    names = (path, path.rpartition("/")[2])
    for layout in layouts:
        if fnmatchcase(cluster, layout.cluster) and any(fnmatchcase(name, layout.file) for name in names):
            return layout
    return None


def reading_of(layout: ClientLogLayout | None, zone: tzinfo, path: str, look: Look | None = None) -> LogReading:
    """How the lines of a log are read; ``zone``: where the entry and its pattern name none; ``look``: see Fractions."""
    fractions = Fractions(look)
    if layout is None:
        return LogReading(zone, fractions=fractions)
    declared = declared_layout(layout.pattern) if layout.pattern is not None else None
    own = ZoneInfo(layout.zone) if layout.zone is not None else None
    days = DayCount(date_in_name(path)) if layout.date_from_file_name else None
    return LogReading((declared.zone if declared else None) or own or zone, declared, days, fractions)


def encoding_of(
    encodings: Iterable[TextEncoding], layout: ClientLogLayout | None, cluster: str, landing_format: str, path: str
) -> str:
    """The encoding that the settings declare for a text file; ``GUESSED`` without one."""
    if layout is not None and layout.encoding is not None:
        return layout.encoding
    names = (path, path.rpartition("/")[2])
    for one in encodings:
        is_of = fnmatchcase(cluster, one.cluster) and fnmatchcase(landing_format, one.format)
        if is_of and any(fnmatchcase(name, one.file) for name in names):
            return one.encoding
    return GUESSED


def check_encoding(name: str) -> None:
    """Refuse an encoding whose lines cannot be cut at the byte of a line's end, unless it is UTF-16 or UTF-32.

    Raises: ValueError: no codec of Python's for text, or one like EBCDIC.
    """
    if is_wide(name):
        return
    try:
        is_ascii = all(text.decode(name) == text.decode() for text in (rb"\x41", _ASCII))
    except (LookupError, ValueError):
        is_ascii = False
    if not is_ascii or "\0" in name:
        known = "utf-8, utf-16, gbk, gb18030, big5, shift_jis, euc_kr"
        raise ValueError(f"{name!r} is no encoding that holds ASCII as it is, nor UTF-16; such are {known}")
