"""The format of a date in a logger's pattern in, what reads such dates out: letters as SimpleDateFormat has them.

More than three ``S`` are milliseconds with zeros before them, as SimpleDateFormat pads them: of logback before 1.3, and
log4j. True fractions are ``n``, as log4j2 writes them; declare them too for logback from 1.3 on, whose ``S`` are such.
A fraction whose first digits are not 0 can only be a true one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hindsight.udfs.logs.log_stamps import MONTHS, Stamp, stamp_of, zone_of_offset

_DEFAULT = "yyyy-MM-dd HH:mm:ss,SSS"
_NAMED = {
    "": _DEFAULT,
    "DEFAULT": _DEFAULT,
    "DEFAULT_MICROS": "yyyy-MM-dd HH:mm:ss,nnnnnn",
    "DEFAULT_NANOS": "yyyy-MM-dd HH:mm:ss,nnnnnnnnn",
    "DEFAULT_PERIOD": "yyyy-MM-dd HH:mm:ss.SSS",
    "ABSOLUTE": "HH:mm:ss,SSS",
    "STRICT": "HH:mm:ss,SSS",
    "ABSOLUTE_MICROS": "HH:mm:ss,nnnnnn",
    "ABSOLUTE_PERIOD": "HH:mm:ss.SSS",
    "DATE": "dd MMM yyyy HH:mm:ss,SSS",
    "DATE_PERIOD": "dd MMM yyyy HH:mm:ss.SSS",
    "COMPACT": "yyyyMMddHHmmssSSS",
    "ISO8601_BASIC": "yyyyMMdd'T'HHmmss,SSS",
    "ISO8601_BASIC_PERIOD": "yyyyMMdd'T'HHmmss.SSS",
    "ISO8601_PERIOD": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "ISO8601_PERIOD_MICROS": "yyyy-MM-dd'T'HH:mm:ss.nnnnnn",
    "ISO8601_OFFSET_DATE_TIME_HH": "yyyy-MM-dd'T'HH:mm:ss,SSSX",
    "ISO8601_OFFSET_DATE_TIME_HHMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXX",
    "ISO8601_OFFSET_DATE_TIME_HHCMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXXX",
}
_ISO8601 = "yyyy-MM-dd'T'HH:mm:ss,SSS"  # of log4j2; logback writes a blank
_LETTERS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_OFFSET = r"(?P<offset>Z|[+-]\d\d(?::?\d\d)?)"
_NAMES_OF_DAYS = r"[A-Z][a-z]{2,8}+"


class PatternError(ValueError):
    """A pattern, or the format of its date, by which no line could be read; the text says why."""


@dataclass(frozen=True)
class DatePattern:
    """Reads the dates of one format; ``zone`` is that which the pattern names beside it, ``is_padded``: see above."""

    regex: re.Pattern[str]
    zone: tzinfo | None
    is_dated: bool
    is_padded: bool = False

    def stamp(self, parts: Mapping[str, str | None], start: int, end: int) -> Stamp:
        """The stamp of a match's named parts."""
        stamp = stamp_of(self.parts(parts), start, end)
        return stamp._replace(is_padded=self.is_padded and stamp.may_be_padded)

    @staticmethod
    def parts(found: Mapping[str, str | None]) -> dict[str, str | None]:
        """Named parts as ``stamp_of`` takes them: years of two digits whole, hours of 12 counted from midnight."""
        parts = dict(found)
        if parts.get("year2"):
            parts["year"] = f"20{parts['year2']}"
        if parts.get("half"):
            parts["hour"] = str(int(parts.get("hour") or 0) % 12 + 12 * (parts["half"] == "PM"))
        return parts


def date_pattern(options: tuple[str, ...]) -> DatePattern:
    """Of what stands in the braces of ``%d``.

    Raises: PatternError: an unknown letter or zone, a date that is there in part, no time.
    """
    format_text, zone_text = _format_and_zone(options)
    regex = "".join(_ISO8601_REGEX if format_text == "ISO8601" else _pieces(_NAMED.get(format_text, format_text)))
    stated = re.findall(r"\(\?P<(\w+)>", regex)
    names = set(stated)
    if len(names) < len(stated):
        raise PatternError("a letter stands twice in the date's format")
    if not {"hour", "minute", "second"} <= names:
        raise PatternError("the date's format needs hour, minute and second")
    dated = {"year", "day", "name" if "name" in names else "month"}
    given = {"year" if name == "year2" else name for name in names}
    if given & {"year", "month", "name", "day"} and not dated <= given:
        raise PatternError("the date's format needs year, month and day, or none of them")
    is_padded = "SSSS" in _NAMED.get(format_text, format_text)
    return DatePattern(re.compile(regex), _zone(zone_text), "day" in names, is_padded)


def _format_and_zone(options: tuple[str, ...]) -> tuple[str, str]:
    """log4j2 writes the zone into braces of its own, logback after a comma; commas in its formats stand in quotes."""
    given = options[0].strip() if options else ""
    zone = options[1].strip() if len(options) > 1 else ""
    quoted = re.fullmatch(r'"([^"]*)"(?:\s*,\s*([^,]*))?(?:\s*,.*)?', given)
    if quoted:
        return quoted[1], zone or (quoted[2] or "").strip().strip('"')
    before, comma, last = given.rpartition(",")
    if comma and _is_zone(last.strip()):
        return before.strip(), zone or last.strip()
    return given, zone


def _is_zone(text: str) -> bool:
    try:
        return _zone(text) is not None
    except PatternError:
        return False


def _zone(text: str) -> tzinfo | None:
    if not text:
        return None
    offset = zone_of_offset(text) if re.fullmatch(r"(?:UTC|GMT|Z)?[+-]\d\d?(?::?\d\d)?|Z", text) else None
    try:
        return offset or ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PatternError(f"there is no time zone {text!r}") from None


def _pieces(format_text: str) -> list[str]:
    pieces = []
    for found in _LETTERS.finditer(format_text):
        quoted, letter, other = found.groups()
        if letter:
            pieces.append(_piece(letter, len(found[0])))
        else:
            pieces.append(re.escape(other if quoted is None else quoted.replace("''", "'") or "'"))
    return pieces


def _piece(letter: str, count: int) -> str:
    """The expression of one letter's run."""
    two = r"\d\d" if count > 1 else r"\d\d?"
    if letter in "yu":
        return r"(?P<year2>\d\d)" if count == 2 else r"(?P<year>\d{4})"
    if letter in "ML":
        return rf"(?P<month>{two})" if count < 3 else rf"(?P<name>{'|'.join(MONTHS)})[a-z]*+"
    if letter in "Sn":
        return rf"(?P<fraction>\d{{{count if letter == 'S' or count > 1 else 9}}})"
    if letter in "EXxZa":
        return {"E": _NAMES_OF_DAYS, "a": "(?P<half>AM|PM)"}.get(letter, _OFFSET)
    name = {"d": "day", "H": "hour", "h": "hour", "m": "minute", "s": "second"}.get(letter)
    if name is None:
        raise PatternError(f"the letter {letter!r} of the date's format cannot be read")
    return rf"(?P<{name}>{two})"


_ISO8601_REGEX = [piece.replace("T", "[ T]") if piece == "T" else piece for piece in _pieces(_ISO8601)]
