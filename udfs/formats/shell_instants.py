"""What ``date``, ``watch`` and ``script`` print of an instant in, the instant out.

A zone that is written as a number, and UTC, are what they say. Letters (CST) mean several zones: they are taken where
the zone of the JVM that ran beside it has these letters at that time, and else the instant is not known.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from hindsight.udfs.lines.parsed_line import EARLIEST_MS, LATEST_MS, RefusedLineError
from hindsight.udfs.logs.log_stamps import MONTHS, zone_of_offset

_DAY_NAME = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*+[,.]? +)?"
_MONTH = rf"(?P<name>{'|'.join(MONTHS)})[a-z]*+"
_CLOCK = r"(?P<hour>\d\d?):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{3})\d*+)?(?: (?P<half>[AP]M))?"
_ZONE = r"(?: ?(?P<offset>Z|[+-]\d\d:?\d\d)| \(?(?P<letters>[A-Z]{2,5}|[+-]\d\d)\)?)?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"{_DAY_NAME}{_MONTH} +(?P<day>\d\d?),? {_CLOCK}{_ZONE} (?P<year>\d{{4}})",
        rf"{_DAY_NAME}(?P<day>\d\d?) {_MONTH} (?P<year>\d{{4}}),? {_CLOCK}{_ZONE}",
        rf"(?P<year>\d{{4}})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)[ T_]{_CLOCK}{_ZONE}",
        rf"(?P<year>\d{{4}}) ?年 ?(?P<month>\d\d?) ?月 ?(?P<day>\d\d?) ?日 ?(?:[星周]期?[一二三四五六日天] ?)?"
        rf"(?P<han>上午|下午)? ?{_CLOCK}{_ZONE}",
        r"(?P<epoch>\d{10}(?:\d{3})?)",
    )
)
_MAY_TELL = re.compile(r"\d:\d\d:\d\d|\d{10}")
_AROUND = "=-#*+~<>|:[]() \t"
_LABEL = re.compile(r"(?:date|time|now|at|when|时间)\s*[:：=]?\s*", re.IGNORECASE)
_MOST_CHARS = 120


class Moment(NamedTuple):
    """An instant, epoch ms; None: it names a zone that is not known."""

    at: int | None
    text: str


def moment_of_line(text: str, zone: tzinfo) -> Moment | None:
    """The instant that a whole line tells, with signs around it; None: it tells of something else, too."""
    if len(text) > _MOST_CHARS or _MAY_TELL.search(text) is None:
        return None
    inner = text.strip(_AROUND)
    for told in (inner, _LABEL.sub("", inner, count=1)):
        if found := moment_of(told, zone):
            return found
    return None


def moment_of(text: str, zone: tzinfo) -> Moment | None:
    """The instant that a text is; None: it is none."""
    found = next((match for form in _FORMS if (match := form.fullmatch(text.strip()))), None)
    if found is None:
        return None
    parts = found.groupdict()
    if parts.get("epoch"):
        at = int(parts["epoch"]) * (1000 if len(parts["epoch"]) == 10 else 1)
        return Moment(at, text) if EARLIEST_MS <= at < LATEST_MS else None
    try:
        local = _local(parts)
        own = zone_of_offset(parts.get("offset"))
    except (ValueError, RefusedLineError):
        return None
    letters = parts.get("letters")
    if own is None and letters in ("UTC", "GMT"):
        own = UTC
    if own is None and letters is not None and local.replace(tzinfo=zone).tzname() != letters:
        return Moment(None, text)
    at = int(local.replace(tzinfo=own or zone).timestamp() * 1000)
    return Moment(at, text) if EARLIEST_MS <= at < LATEST_MS else None


def _local(parts: dict[str, str | None]) -> datetime:
    def number(name: str) -> int:
        return int(parts.get(name) or 0)

    month = MONTHS.index(parts["name"]) + 1 if parts.get("name") else number("month")
    hour = number("hour")
    half = parts.get("half") or {"上午": "AM", "下午": "PM"}.get(parts.get("han") or "")
    if half is not None:
        hour = hour % 12 + 12 * (half == "PM")
    day = datetime(number("year"), month, number("day"), hour, number("minute"), number("second"))
    return day + timedelta(milliseconds=number("fraction"))
