"""What stands before a log line's message in, its instant, level, thread and process id out.

RocketMQ's own layouts are known by their form as a whole:

- 4.1-4.2    ``2026-01-05 10:15:00 INFO thread - text``            GMT+8, one-second resolution; brokers of all releases
- 4.1-4.2    ``2026-01-05 10:15:00,123 INFO Class(12) - text``     log4j variant; zone of the JVM, not written
- 4.3-5.0    ``2026-01-05 10:15:00,123 INFO Logger - text``        zone of the JVM, not written
- 5.1 on     ``2026-01-05 10:15:00.123 INFO  [pid] [thread] [logger#method:line] - text``  GMT+8; coloured consoles

4.0.0 writes no instant at all (``%PARSER_ERROR[defaultTopicQueueNums] INFO thread - text``).
Any other layout is read if it has a stamp with a date, a level, and before the message a mark or a logger's name; the
rest is noise. Its times are in the offset they carry, else in the JVM's zone, never in GMT+8 by themselves; what a
fraction of more than three digits is, tells the file (``padded_fractions``).

A line of a log in; what its row holds whatever it tells out: instant, level, thread, text, identity.

What the settings say of client logs in, how the lines of one of them are read out.

An entry holds for the logs that its shell patterns match; the first that does is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta, timezone, tzinfo
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from hindsight.udfs.lines.parsed_line import ClientLogLayout, RefusedLineError, TextEncoding
from hindsight.udfs.lines.text_guess import GUESSED, is_wide
from hindsight.udfs.logs.log_patterns import DeclaredLayout, declared_layout
from hindsight.udfs.logs.log_stamps import (
    DayCount,
    Fractions,
    Look,
    Stamp,
    date_in_name,
    epoch_ms,
    first_stamp,
    last_stamp,
    refuse_zone_letters,
    time_of_day,
    whole_second_ms,
)

GMT8 = timezone(timedelta(hours=8))
_MOST_CHARS = 2048  # before a message; a longer head is none

_LEVELS = "TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE"
_LEVEL = tuple(re.compile(rf"(?<![\w.$-])(?:{names})(?![\w.$=-])") for names in (_LEVELS, _LEVELS.lower()))
_TIME = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
_OWN = {
    " ": re.compile(_TIME + r" ++(?P<level>[A-Z]++) (?P<thread>(?![\[ ])[^ ]*+(?: (?!- )[^ ]*+)*) - ", re.DOTALL),
    ",": re.compile(_TIME + r",(\d{3}) ++(?P<level>[A-Z]++) (?!\[)[^ ]++ - "),
    ".": re.compile(
        _TIME + r"\.(\d{3}) ++(?P<level>[A-Z]++) ++\[(?P<pid>\d{1,18})\] \[(?P<thread>.*)\] "
        r"\[[^\[\]#]*+#[^\[\]:]*+:[^\[\]:]*+\] - ",
        re.DOTALL,
    ),
}
_MARKS = "-:|])>}~#"  # what separates a message from what stands before it
_IN_CLASS_NAME = re.compile(r"\.|[a-z][A-Z]")
_EARLY_CHARS = 16  # within which a line's time of day stands, where nothing is declared
_HEAD_CHARS = 400  # within which a line's own head ends, and
_STAMP_CHARS = 64  # its stamp
_COLOUR = re.compile(r"\x1b\[[0-9;]*+m")
_BEGINS = re.compile(
    r"(?:[\[(<{|]|\S{1,40}[ |]{1,4}){0,3}(?:\d{4}[-/]\d\d[-/]\d\d[ T]|\d\d:\d\d:\d\d[.,]\d|%PARSER_ERROR\[)"
)


# What a stack trace says of an exception may quote anything.
_OF_TRACE = re.compile(
    r"\s*+(?:at [\w$.<>/@-]++\(|\.\.\. \d|(?:Caused by|Suppressed|Wrapped by): "
    r"|(?:Exception in thread \"[^\"]*+\" )?(?:[A-Za-z_][\w$]*+\.)++[\w$]*(?:Exception|Error|Throwable)(?::|\Z))"
)
_TEXT_CHARS = 1000  # of an event's own line, as stored
_REMEMBERED_LINES = 50_000  # that are told from their repetitions
_ASCII = bytes(range(32, 127))


class LogHead(NamedTuple):
    """What stands before a line's message; ``at_ms`` counts from the epoch, ``resolution_ms`` is 1 or 1000.

    ``level`` is '' where a declared layout has none.
    """

    at_ms: int
    resolution_ms: int
    level: str
    pid: int | None
    thread: str | None


class LogReading(NamedTuple):
    """How the heads of one log are read: the JVM's zone, what the settings declare of its layout, and its fractions."""

    zone: tzinfo
    declared: DeclaredLayout | None = None
    days: DayCount | None = None
    fractions: Fractions = Fractions()


def without_colours(text: str) -> str:
    """A line of a console, as a file would have it."""
    return _COLOUR.sub("", text) if "\x1b[" in text else text


def continues_trace(text: str) -> bool:
    """Whether a line is one of a stack trace by its form: what it quotes is no message."""
    return _OF_TRACE.match(text) is not None


def begins_record(text: str) -> bool:
    """Whether a line that holds nothing wanted begins as a record does: it ends the stack trace before it."""
    return _BEGINS.match(without_colours(text[:200])) is not None


def time_of_line(text: str, log: LogReading) -> Stamp | None:
    """The time that any line of a log begins with, wanted or not; None: it begins with none."""
    if log.declared is not None:
        return log.declared.time_of(without_colours(text))
    return time_of_day(without_colours(text[:40]), _EARLY_CHARS)


def written_at(text: str, log: LogReading) -> LogHead | None:
    """When any line was written, wanted or not, and by which process; None: its beginning does not tell.

    As ``read_head``, without a message to end at: a layout that is not known need not have a level.
    """
    text = without_colours(text[:_HEAD_CHARS])
    try:
        if found := _begins_as_own(text, 0, log):
            return _head_of(found, text, log.zone)
        stamp = time_of_line(text, log) if log.declared or log.days else first_stamp(text, _STAMP_CHARS)
        if stamp is None:
            return None
        if found := _begins_as_own(text, stamp.start, log):  # something stands before it, as a mark of a quotation
            return _head_of(found, text, log.zone)
        refuse_zone_letters(text, stamp)
        stamp = stamp if log.declared else log.fractions.settled(stamp)
        if stamp.date is None and log.days is not None:
            log.days.see(stamp.day_ms)
            stamp = stamp._replace(date=log.days.date_of(stamp.day_ms))
        return LogHead(epoch_ms(stamp, log.zone), stamp.resolution_ms, "", None, None)
    except RefusedLineError:
        return None


def _begins_as_own(text: str, at: int, log: LogReading) -> re.Match[str] | None:
    own = _OWN.get(text[at + 19 : at + 20]) if log.declared is None else None
    return own.match(text, at) if own else None


def read_head(text: str, start: int, log: LogReading) -> LogHead:
    """The head of the line whose message begins at ``start``.

    4.7.1 prints the seconds again as the fraction: such a fraction tells nothing, the resolution is then a second.
    Refused: UNKNOWN_LOG_LAYOUT, BAD_TIMESTAMP.
    """
    if start > _MOST_CHARS or "\n" in text[:start]:
        raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"the message begins far behind the line's start: {text[:40]!r}")
    head = (_declared_head(text, start, log) if log.declared else None) or _own_head(text, 0, start, log.zone)
    if head is not None:
        return head
    stamp = last_stamp(text, start)
    if stamp is None:
        stamp = _dated_by_name(text, start, log)
    elif own := _own_head(text, stamp.start, start, log.zone):
        return own
    refuse_zone_letters(text, stamp)
    level = _level(text, stamp, start)
    if level is None:
        raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"no level before the message: {text[:40]!r}")
    if not _is_separated(text[:start]):
        raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"something else quotes the message: {text[:start][-40:]!r}")
    stamp = log.fractions.settled(stamp)
    return LogHead(epoch_ms(stamp, log.zone), stamp.resolution_ms, level, None, None)


def _level(text: str, stamp: Stamp, start: int) -> str | None:
    """The first level behind the stamp, or before it; in small letters only where there is no other."""
    for pattern in _LEVEL:
        found = pattern.search(text, stamp.end, start) or pattern.search(text, 0, stamp.start)
        if found is not None:
            return found[0]
    return None


def _is_separated(head: str) -> bool:
    """Whether a message begins after a head: after a mark, a wide gap, or a class's name; else something quotes it."""
    name = head[-200:].rpartition(" ")[0].rpartition(" ")[2]
    ends = head.rstrip(" ")[-1:] in _MARKS or head.endswith(("  ", "\t"))
    return ends or (head.endswith(" ") and _IN_CLASS_NAME.search(name) is not None)


def _own_head(text: str, at: int, start: int, zone: tzinfo) -> LogHead | None:
    """The head where it is one of RocketMQ's own layouts, from ``at`` on."""
    own = _OWN.get(text[at + 19 : at + 20])
    found = own.fullmatch(text, at, start) if own else None
    return _head_of(found, text, zone) if found else None


def _head_of(found: re.Match[str], text: str, zone: tzinfo) -> LogHead:
    parts = found.groupdict()
    thread, pid = parts.get("thread"), parts.get("pid")
    if text[found.start() + 19] == " ":
        return LogHead(_whole_ms(found[1], GMT8), 1000, parts["level"], None, thread or None)
    at_ms = _whole_ms(found[1], GMT8 if pid else zone)
    if pid is None and int(found[2]) == int(found[1][17:]):
        return LogHead(at_ms, 1000, parts["level"], None, None)
    return LogHead(at_ms + int(found[2]), 1, parts["level"], int(pid) if pid else None, thread)


@lru_cache(maxsize=64)
def _whole_ms(day_and_time: str, zone: tzinfo) -> int:
    """Epoch milliseconds of a second as RocketMQ's layouts write it; refused: BAD_TIMESTAMP."""
    year, month, day, hour, minute, second = map(int, re.split("[- :]", day_and_time))
    return whole_second_ms(year, month, day, hour, minute, second, zone)


def _dated_by_name(text: str, start: int, log: LogReading) -> Stamp:
    stamp = time_of_day(text, start)
    if stamp is None:
        raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"no known time stamp before the message: {text[:40]!r}")
    if log.days is None:
        raise RefusedLineError(
            "UNKNOWN_LOG_LAYOUT", f"a time without a date: [[ingest.client_log_layout]] can give it: {text[:40]!r}"
        )
    return stamp._replace(date=log.days.date_of(stamp.day_ms))


def _declared_head(text: str, start: int, log: LogReading) -> LogHead | None:
    """The head as the settings declare it; None: it is another."""
    found = log.declared.head(text, start) if log.declared else None
    if found is None:
        return None
    stamp, level, thread, pid = found
    if stamp.date is None:
        if log.days is None:
            raise RefusedLineError("UNKNOWN_LOG_LAYOUT", "the declared pattern writes no date")
        stamp = stamp._replace(date=log.days.date_of(stamp.day_ms))
    return LogHead(epoch_ms(stamp, log.zone), stamp.resolution_ms, level, pid, thread)


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
    return next((layout for layout in layouts if _holds_for(layout, cluster, path)), None)


def _holds_for(entry: ClientLogLayout | TextEncoding, cluster: str, path: str) -> bool:
    names = (path, path.rpartition("/")[2])
    return fnmatchcase(cluster, entry.cluster) and any(fnmatchcase(name, entry.file) for name in names)


def reading_of(layout: ClientLogLayout | None, zone: tzinfo, path: str, look: Look | None = None) -> LogReading:
    """How the lines of a log are read; ``zone``: where the entry and its pattern name none; ``look``: see Fractions."""
    fractions = Fractions(look)
    if layout is None:
        return LogReading(zone, fractions=fractions)
    declared = declared_layout(layout.pattern) if layout.pattern is not None else None
    own = ZoneInfo(layout.zone) if layout.zone is not None else None
    days = DayCount(date_in_name(path)) if layout.date_from_file_name else None
    return LogReading((declared.dates.zone if declared else None) or own or zone, declared, days, fractions)


def encoding_of(
    encodings: Iterable[TextEncoding], layout: ClientLogLayout | None, cluster: str, landing_format: str, path: str
) -> str:
    """The encoding that the settings declare for a text file; ``GUESSED`` without one."""
    if layout is not None and layout.encoding is not None:
        return layout.encoding
    of_format = (one for one in encodings if fnmatchcase(landing_format, one.format))
    return next((one.encoding for one in of_format if _holds_for(one, cluster, path)), GUESSED)


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
