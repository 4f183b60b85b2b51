"""The beginning of a log line in, its instant, level, thread and message out: every layout of RocketMQ's own logs.

- 4.1-4.2    ``2026-01-05 10:15:00 INFO thread - text``            GMT+8, one-second resolution; brokers of all releases
- 4.1-4.2    ``2026-01-05 10:15:00,123 INFO Class(12) - text``     log4j variant; zone of the JVM, not written
- 4.3-5.0    ``2026-01-05 10:15:00,123 INFO Logger - text``        zone of the JVM, not written
- 5.1 on     ``2026-01-05 10:15:00.123 INFO  [pid] [thread] [logger] - text``  GMT+8; its console copy has colours

4.0.0 writes no instant at all (``%PARSER_ERROR[defaultTopicQueueNums] INFO thread - text``).
A line that begins with none of these continues the one before: a stack trace, or a message of several lines.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple

from udfs.parsed_line import RefusedLineError

GMT8 = timezone(timedelta(hours=8))
STAMPLESS = "%PARSER_ERROR["  # how every line of 4.0.0 begins

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,. ]"  # how every other line begins that continues none

begins_with_stamp = re.compile(STAMP).match

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:([,.])(\d{3}))? ++([A-Z]++) ")
_BRACKETS = re.compile(r" *+\[(\d{1,18})\] \[([^\]]*+)\] ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*+m")


class LogHead(NamedTuple):
    """What stands before a line's message; ``at_ms`` counts from the epoch, ``resolution_ms`` is 1 or 1000."""

    at_ms: int
    resolution_ms: int
    level: str
    pid: int | None
    thread: str | None


def without_colours(text: str) -> str:
    """A line of the console copy of 5.1 on, as the file has it."""
    return _COLOUR.sub("", text) if text.startswith("\x1b[") else text


def message_start(text: str) -> int:
    """Where the message begins: after the first `` - `` behind the stamp; the line's end where there is none."""
    separator = text.find(" - ", 19)
    return len(text) if separator < 0 else separator + 3


def read_head(text: str, zone: tzinfo) -> LogHead:
    """The head of a stamped line; ``zone``: the JVM's, for layouts that write local time without naming it.

    4.7.1 prints the seconds again as the fraction: such a fraction tells nothing, the resolution is then a second.
    Refused: UNKNOWN_LOG_LAYOUT, BAD_TIMESTAMP.
    """
    stamp = _STAMP.match(text)
    if stamp is None:
        raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"no known time stamp at the line's start: {text[:40]!r}")
    day_and_time, mark, millis, level = stamp.groups()
    at = _epoch_ms(day_and_time, zone if mark == "," else GMT8)
    pid, thread = _process_and_thread(text, stamp.end(), mark)
    if millis is None or (mark == "," and int(millis) == int(day_and_time[17:])):
        return LogHead(at, 1000, level, pid, thread)
    return LogHead(at + int(millis), 1, level, pid, thread)


@lru_cache(maxsize=64)
def _epoch_ms(day_and_time: str, zone: tzinfo) -> int:
    try:
        return int(datetime.fromisoformat(day_and_time).replace(tzinfo=zone).timestamp()) * 1000
    except (ValueError, OverflowError) as error:
        raise RefusedLineError("BAD_TIMESTAMP", f"{day_and_time!r}: {error}") from None


def _process_and_thread(text: str, at: int, mark: str | None) -> tuple[int | None, str | None]:
    if mark is None:
        return None, text[at:].partition(" - ")[0] or None
    found = _BRACKETS.match(text, at) if mark == "." else None
    return (int(found[1]), found[2]) if found else (None, None)
