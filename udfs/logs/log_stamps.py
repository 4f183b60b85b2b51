"""Parts of a written time in, its instant out: the stamps that loggers write, and those that are found in a head.

A stamp that carries its own offset needs no zone. One that names a zone by letters (CST, IST) is refused, since the
same letters mean several zones. One without a date is dated by its log (``log_dates``), or refused.

Fractions of seconds with more than three digits in; whether they are padded milliseconds, by all lines of the file.

SimpleDateFormat pads milliseconds: ``SSSS`` writes 45 ms as ``.0045``, which as a fraction would be 4.5 ms. Padded ones
have zeros before the last three digits. One of the file that has another digit there makes all of them true fractions;
where none has, twenty such lines make them padded: of true ones of four digits one in 10^20 would look so. Fewer lines
have two readings, and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import RefusedLineError

_IN_NAME = re.compile(r"(?<!\d)(20\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_LATE_MS = 60_000  # by which threads write out of order
ENOUGH = 20  # lines whose fractions all begin with zeros
_HEAD_CHARS = 400  # within which a line's time stands
Reading = Literal["padded", "true", "ambiguous"]
Look = Callable[[], Iterable[Line]]


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


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = r"(?P<hour{0}>\d\d):(?P<minute{0}>\d\d):(?P<second{0}>\d\d)(?:(?P<mark{0}>[.,:])(?P<fraction{0}>\d{{1,9}}+))?"
_OFFSET = (
    r"(?P<offset{0}>Z(?!\w)|[+-]\d\d:?\d\d(?![\d:])| [+-]\d{{4}}(?!\d)| ?(?:UTC|GMT)(?!\w)(?:[+-]\d\d?(?::?\d\d)?)?)?"
)
_DATES = (
    r"(?P<year{0}>\d{{4}})(?P<cut>[-/.])(?P<month{0}>\d\d)(?P=cut)(?P<day{0}>\d\d)(?P<gap>[ T_])",
    r"(?P<day{0}>\d\d)[ /-](?P<name{0}>" + "|".join(MONTHS) + r")[ /-](?P<year{0}>\d{{4}})[ :]",
    r"(?P<year{0}>\d{{4}})(?P<month{0}>\d\d)(?P<day{0}>\d\d)[ T]",
)
_SHORT = r"(?P<hour{0}>\d\d)(?P<minute{0}>\d\d)(?P<second{0}>\d\d)(?P<mark{0}>[.,])(?P<fraction{0}>\d{{3,9}}+)"
_FORMS = (
    _DATES[0] + _TIME + _OFFSET,
    _DATES[1] + _TIME + _OFFSET,
    _DATES[2] + _TIME + _OFFSET,
    _DATES[2] + _SHORT + _OFFSET,
)
_STAMP = re.compile(r"(?<!\d)(?:" + "|".join(form.format(number) for number, form in enumerate(_FORMS)) + ")")
_TIME_OF_DAY = re.compile(r"(?<![\w:.,-])" + _TIME.format("") + r"(?![\d:])")
_ZONE_LETTERS = re.compile(r" \[?(?!TRACE|DEBUG|INFO|WARN|ERROR|FATAL)(?:[A-Z]{2,4}T|MSK)\b")
_OF_OFFSET = re.compile(r" ?(?:UTC|GMT|Z)?(?:([+-])(\d\d?):?(\d\d)?)?")


class Stamp(NamedTuple):
    """A time as written: where it stands, its parts (``date`` None: only a time of day), and its own offset."""

    start: int
    end: int
    date: tuple[int, int, int] | None
    time: tuple[int, int, int]
    mark: str | None
    fraction: str | None
    offset: str | None
    is_plain: bool  # of the form ``2026-01-05 10:15:00``, which is RocketMQ's own
    is_padded: bool = False  # the fraction is milliseconds, with zeros before them

    @property
    def may_be_padded(self) -> bool:
        """Whether its fraction has two readings: more than three digits, those before the last three all 0."""
        fraction = self.fraction or ""
        return len(fraction) > 3 and not fraction[:-3].strip("0") and fraction[-3:] != "000"

    @property
    def millis(self) -> int:
        """Milliseconds of the fraction; what is finer is cut off."""
        fraction = self.fraction or "0"
        return int(fraction[-3:] if self.is_padded else fraction[:3].ljust(3, "0"))

    @property
    def resolution_ms(self) -> int:
        """1, or 1000 where fewer than three digits of the fraction are written."""
        return 1 if self.fraction and len(self.fraction) >= 3 else 1000

    @property
    def day_ms(self) -> int:
        """Milliseconds since midnight."""
        hour, minute, second = self.time
        return ((hour * 60 + minute) * 60 + second) * 1000 + self.millis


def last_stamp(text: str, end: int) -> Stamp | None:
    """The last stamp with a date before ``end``: those before it are of whoever passed the line on."""
    found = None
    for stamp in _STAMP.finditer(text, 0, end):
        found = stamp
    return _dated(found) if found else None


def first_stamp(text: str, end: int) -> Stamp | None:
    """The first stamp with a date before ``end``: a line's own, whatever its message holds."""
    found = _STAMP.search(text, 0, end)
    return _dated(found) if found else None


def _dated(found: re.Match[str]) -> Stamp:
    groups = found.groupdict()
    number = next(i for i in range(len(_FORMS)) if groups[f"year{i}"] is not None)
    parts = {name.removesuffix(str(number)): value for name, value in groups.items() if name.endswith(str(number))}
    plain = number == 0 and groups["cut"] == "-" and groups["gap"] == " "
    return stamp_of(parts, found.start(), found.end(), is_plain=plain)


def time_of_day(text: str, end: int) -> Stamp | None:
    """The first time without a date before ``end``."""
    found = _TIME_OF_DAY.search(text, 0, end)
    return stamp_of(found.groupdict(), found.start(), found.end()) if found else None


def stamp_of(parts: Mapping[str, str | None], start: int, end: int, *, is_plain: bool = False) -> Stamp:
    """A stamp of its named parts; ``name`` is a month's English name."""
    name, month = parts.get("name"), parts.get("month")
    number = MONTHS.index(name) + 1 if name else int(month or 0)
    year, day = parts.get("year"), parts.get("day")
    date = (int(year), number, int(day)) if year and day else None
    time = (int(parts.get("hour") or 0), int(parts.get("minute") or 0), int(parts.get("second") or 0))
    return Stamp(start, end, date, time, parts.get("mark"), parts.get("fraction"), parts.get("offset"), is_plain)


def epoch_ms(stamp: Stamp, zone: tzinfo) -> int:
    """The instant of a dated stamp; ``zone`` holds where it has no offset of its own.

    Refused: BAD_TIMESTAMP.
    """
    if stamp.date is None:
        raise RefusedLineError("BAD_TIMESTAMP", "the time has no date")
    return whole_second_ms(*stamp.date, *stamp.time, zone_of_offset(stamp.offset) or zone) + stamp.millis


@lru_cache(maxsize=64)
def whole_second_ms(year: int, month: int, day: int, hour: int, minute: int, second: int, zone: tzinfo) -> int:
    """Epoch milliseconds of a local second; refused: BAD_TIMESTAMP."""
    try:
        return int(datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()) * 1000
    except (ValueError, OverflowError) as error:
        said = f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        raise RefusedLineError("BAD_TIMESTAMP", f"{said!r}: {error}") from None


def zone_of_offset(offset: str | None) -> tzinfo | None:
    """The zone that an offset as written is; None without one.

    Refused: BAD_TIMESTAMP, of a day or more.
    """
    found = _OF_OFFSET.fullmatch(offset) if offset else None
    if found is None:
        return None
    sign, hours, minutes = found.groups()
    if sign is None:
        return UTC
    size = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if size >= timedelta(days=1):
        raise RefusedLineError("BAD_TIMESTAMP", f"{offset!r} is no offset from UTC")
    return timezone(-size if sign == "-" else size)


def refuse_zone_letters(text: str, stamp: Stamp) -> None:
    """Refused: UNKNOWN_LOG_LAYOUT, where letters that mean several zones follow a stamp."""
    if stamp.offset is None and (found := _ZONE_LETTERS.match(text, stamp.end)):
        raise RefusedLineError(
            "UNKNOWN_LOG_LAYOUT", f"the zone's letters {found[0].strip(' [')!r} mean several zones; declare the layout"
        )


class Fractions:
    """How the fractions of a file's times are read; the file is looked at once for each way of writing them."""

    def __init__(self, look: Look | None = None) -> None:
        """``look``: gives the file's lines anew; None: it can be read only once."""
        self._look = look
        self._readings: dict[tuple[str, int], Reading] = {}

    def settled(self, stamp: Stamp) -> Stamp:
        """The stamp, which is padded where the file says so; refused: BAD_TIMESTAMP, where it has two readings."""
        if not stamp.may_be_padded:
            return stamp
        key = stamp.mark or "", len(stamp.fraction or "")
        if key not in self._readings:
            self._readings[key] = _reading(self._look, *key)
        reading = self._readings[key]
        if reading == "ambiguous":
            raise RefusedLineError(
                "BAD_TIMESTAMP",
                f"the fraction {stamp.fraction!r} is padded milliseconds or a true one, and too few lines of the file "
                f"tell which: declare the layout, with {'S' * key[1]} or {'n' * key[1]} in its date",
            )
        return stamp._replace(is_padded=reading == "padded")


def _reading(look: Look | None, mark: str, digits: int) -> Reading:
    fraction = re.compile(rf"\d\d:?\d\d:?\d\d{re.escape(mark)}(\d{{{digits - 3}}})\d{{3}}(?!\d)")
    padded = 0
    for line in look() if look is not None else ():
        found = fraction.search(line.text, 0, _HEAD_CHARS)
        if found is None:
            continue
        if found[1].strip("0"):
            return "true"
        padded += 1
    return "padded" if padded >= ENOUGH else "ambiguous"
