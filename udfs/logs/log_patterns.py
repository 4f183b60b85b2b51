"""A layout as logback or log4j2 write it in, the head of each line of such a log out.

``%d %-5p [%t] %c{1} - %m%n`` becomes one regular expression of what stands before the message and one of what follows
it. Neither goes back over a text: a conversion whose text is free ends where the text that follows it in the pattern
first stands. So time is linear, and a thread whose name holds that text is read wrongly by nobody: the line is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from itertools import groupby
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
        """The stamp of a match's named parts; years may have two digits, and hours may be of 12."""
        parts = dict(parts)
        if parts.get("year2"):
            parts["year"] = f"20{parts['year2']}"
        if parts.get("half"):
            parts["hour"] = str(int(parts.get("hour") or 0) % 12 + 12 * (parts["half"] == "PM"))
        stamp = stamp_of(parts, start, end)
        return stamp._replace(is_padded=self.is_padded and stamp.may_be_padded)


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


_ISO8601_REGEX = ["[ T]" if piece == "T" else piece for piece in _pieces(_ISO8601)]


MESSAGE = frozenset({"m", "msg", "message"})
# What prints nothing, or nothing on the message's own line.
_NOTHING = "n ex exception throwable xEx xException xThrowable wEx rEx rException rThrowable nopex nopexception"
# What colours, bounds or escapes a part of the pattern.
_AS_THEY_ARE = (
    "clr highlight style enc encode maxLen maxLength black red green yellow blue magenta cyan white gray boldRed "
    "boldGreen boldYellow boldBlue boldMagenta boldCyan boldWhite"
)
_OTHERS = (
    "c logger lo C class F file l location M method X mdc MDC x NDC K map marker markerSimpleName replace "
    "notEmpty varsNotEmpty variablesNotEmpty equals u uuid caller contextName cn property tid threadId tp "
    "threadPriority fqcn N nano i I applicationName esb correlationId p level le pid processId r relative sn "
    "sequenceNumber L line t thread tn threadName d date"
)
_WORDS = MESSAGE.union(_NOTHING.split(), _AS_THEY_ARE.split(), _OTHERS.split())
_CONVERSION = re.compile(r"%(?P<width>-?0?\d{0,4}(?:\.-?\d{1,4})?)(?P<word>[A-Za-z]+|(?=\())")
_UNESCAPED = {"t": "\t", "n": "\n"}
_DEFAULT_OF = re.compile(r"\$\{[^{}]*?:-([^{}]*)\}")


@dataclass(frozen=True)
class Part:
    """A conversion (``word``), or the text between two (``word`` empty)."""

    text: str
    word: str = ""
    options: tuple[str, ...] = ()
    is_padded: bool = False


def parts_of(pattern: str) -> list[Part]:
    """The parts of a pattern, those left out that print nothing; groups that print their contents are opened.

    Raises: PatternError: a parenthesis or brace that is not closed, a placeholder without a default.
    """
    parts = (part for part in _parts(_with_defaults(pattern)) if part.word not in _NOTHING.split())
    found: list[Part] = []
    for is_text, run in groupby(parts, key=lambda part: not part.word):
        some = list(run)
        found += [Part("".join(part.text for part in some))] if is_text else some  # adjacent texts are one
    return found


def _with_defaults(pattern: str) -> str:
    """The pattern with its placeholders' defaults in place; one whose default is blank stands for any text."""
    while (filled := _DEFAULT_OF.sub(lambda found: found[1] if found[1].strip() else "%property", pattern)) != pattern:
        pattern = filled
    if "${" in pattern:
        raise PatternError("write what stands for ${...}")
    return pattern


def _parts(pattern: str) -> Iterator[Part]:
    """The pattern's conversions and the texts between them; groups that print their contents are opened."""
    text, at = "", 0
    while at < len(pattern):
        if pattern[at] == "\\" and at + 1 < len(pattern):
            text, at = text + _UNESCAPED.get(pattern[at + 1], pattern[at + 1]), at + 2
        elif pattern.startswith("%%", at):
            text, at = text + "%", at + 2
        elif (found := _CONVERSION.match(pattern, at)) is None:
            text, at = text + pattern[at], at + 1
        else:
            if text:
                yield Part(text)
            text = ""
            word, rest = _known_word(found["word"])
            inner, options, at = _arguments(pattern, found.end() - len(rest))
            yield from _conversion(word, inner, options, is_padded=bool(found["width"]))
    if text:
        yield Part(text)


def _conversion(word: str, inner: str | None, options: tuple[str, ...], *, is_padded: bool) -> Iterator[Part]:
    content = inner if inner is not None else (options[0] if options else "")
    holds_message = any(part.word in MESSAGE for part in _parts(content)) if "%" in content else False
    is_open = word in _AS_THEY_ARE.split() and (inner is not None or "%" in content)
    if is_open or word == "" or holds_message:
        yield from _parts(content)
    else:
        yield Part("", word, options, is_padded)


def _known_word(letters: str) -> tuple[str, str]:
    """The conversion's word, and the letters after it that are text: ``%mfoo`` begins with ``%m``."""
    for size in range(len(letters), 0, -1):
        if letters[:size] in _WORDS:
            return letters[:size], letters[size:]
    return letters, ""


def _arguments(pattern: str, at: int) -> tuple[str | None, tuple[str, ...], int]:
    """What stands in a conversion's parentheses, in its braces, and where it ends."""
    inner = None
    if pattern.startswith("(", at):
        inner, at = _enclosed(pattern, at, "(", ")")
    options = []
    while pattern.startswith("{", at):
        option, at = _enclosed(pattern, at, "{", "}")
        options.append(option)
    return inner, tuple(options), at


def _enclosed(pattern: str, at: int, opens: str, closes: str) -> tuple[str, int]:
    depth = 0
    for place in range(at, len(pattern)):
        if pattern[place - 1] == "\\" and place > at:
            continue
        depth += (pattern[place] == opens) - (pattern[place] == closes)
        if depth == 0:
            return pattern[at + 1 : place], place + 1
    raise PatternError(f"{opens} is not closed at character {at}")


_LEVEL = r"(?P<level>[A-Za-z]{1,10}+)"
_FIXED = {
    **dict.fromkeys(("p", "level", "le"), _LEVEL),
    **dict.fromkeys(("pid", "processId"), r"(?P<pid>\d{1,18}+)"),
    **dict.fromkeys(("r", "relative", "sn", "sequenceNumber", "L", "line"), r"(?:\d++|\?)"),
}
_THREAD = frozenset({"t", "thread", "tn", "threadName"})
_DATE = frozenset({"d", "date"})
_NAME = re.compile(r"\(\?P<(\w+)>")
_MOST_CHARS = 2000
_MOST_TAIL = 1000  # of what follows a message


@dataclass(frozen=True)
class DeclaredLayout:
    """A layout, compiled: ``before`` fits what stands before a message, ``after`` what follows it.

    ``to_date`` fits a line up to its date's end.
    """

    before: re.Pattern[str]
    to_date: re.Pattern[str]
    after: re.Pattern[str] | None
    after_starts: str
    dates: DatePattern

    def head(self, text: str, start: int) -> tuple[Stamp, str, str | None, int | None] | None:
        """Stamp, level ('': none written), thread and process id of the line whose message begins at ``start``.

        None: the line is of another layout.
        """
        found = self.before.fullmatch(text, 0, start)
        if found is None:
            return None
        parts = found.groupdict()
        thread, pid = parts.get("thread"), parts.get("pid")
        stamp = self.dates.stamp(parts, *found.span("date"))
        return stamp, parts.get("level") or "", (thread or "").strip() or None, int(pid) if pid else None

    def time_of(self, text: str) -> Stamp | None:
        """The stamp of any line of the layout, wanted or not; None: it is of another, or continues one."""
        found = self.to_date.match(text)
        return self.dates.stamp(found.groupdict(), *found.span("date")) if found else None

    def message_end(self, text: str, start: int) -> int:
        """Where the message that begins at ``start`` ends."""
        if self.after is None:
            return len(text)
        at = text.rfind(self.after_starts, max(start, len(text) - _MOST_TAIL))
        while at >= 0:
            if self.after.fullmatch(text, at):
                return at
            at = text.rfind(self.after_starts, max(start, len(text) - _MOST_TAIL), at)
        return len(text)


def declared_layout(pattern: str) -> DeclaredLayout:
    """A PatternLayout's text as what reads its lines.

    Known: ``%d %date`` with a format and a zone, ``%p %level``, ``%t %thread``, ``%m %msg %message``, ``%pid``, ``%L
    %r``, ``%n`` and exceptions, which end the line, ``%clr %highlight %style %enc`` around a part, and defaults of
    ``${...:-...}``. Any other conversion (``%c %logger %X %replace``) stands for any text.
    Raises: PatternError: without exactly one message and one date before it, or with parts that cannot be told apart.
    """
    if len(pattern) > _MOST_CHARS:
        raise PatternError(f"the pattern is longer than {_MOST_CHARS} characters")
    parts = parts_of(pattern)
    places = [i for i, part in enumerate(parts) if part.word in MESSAGE]
    if len(places) != 1:
        raise PatternError("the pattern needs one %m, and only one")
    before, after = parts[: places[0]], parts[places[0] + 1 :]
    dates = [part for part in before if part.word in _DATE]
    if len(dates) != 1:
        raise PatternError("the pattern needs one %d before its %m, and only one")
    date = date_pattern(dates[0].options)
    if after and (after[0].word or not after[0].text.strip()):
        raise PatternError("what follows %m must begin with a text")
    starts = after[0].text.rstrip() if after else ""
    return DeclaredLayout(
        before=_compiled(_regex(before, date, is_head=True)),
        to_date=_compiled(_regex(before[: before.index(dates[0]) + 1], date, is_head=False)),
        after=_compiled(_regex(after, date, is_head=False) + r"[ \t]*+") if after else None,
        after_starts=starts,
        dates=date,
    )


def _compiled(regex: str) -> re.Pattern[str]:
    """A conversion may stand twice: its first text counts."""
    seen: set[str] = set()

    def named_once(found: re.Match[str]) -> str:
        is_new = found[1] not in seen
        seen.add(found[1])
        return found[0] if is_new else "(?:"

    return re.compile(_NAME.sub(named_once, regex), re.DOTALL)


def _regex(parts: list[Part], date: DatePattern, *, is_head: bool) -> str:
    """One expression of all parts, in which no free text is looked for twice."""
    regex = ""
    place = 0
    while place < len(parts):
        part = parts[place]
        if not part.word:
            regex, place = regex + _literal(part.text, parts, place), place + 1
        elif (fixed := _fixed(part, date)) is not None:
            pad = r"[ \t]*+" if part.is_padded else ""
            regex, place = regex + pad + fixed + pad, place + 1
        else:
            free, place = _free(parts, place, date, is_head=is_head)
            regex += free
    return regex


def _fixed(part: Part, date: DatePattern) -> str | None:
    return f"(?P<date>{date.regex.pattern})" if part.word in _DATE else _FIXED.get(part.word)


def _literal(text: str, parts: list[Part], place: int) -> str:
    """A text between conversions; blanks beside a padded one may be more, or be part of its padding."""
    before = place > 0 and parts[place - 1].is_padded
    after = place + 1 < len(parts) and parts[place + 1].is_padded
    kept = text.lstrip(" \t") if before else text
    kept = kept.rstrip(" \t") if after else kept
    return re.escape(kept) + (r"[ \t]*+" if after or (before and not kept) else "")


def _free(parts: list[Part], place: int, date: DatePattern, *, is_head: bool) -> tuple[str, int]:
    """Conversions of any text, up to where what follows them first stands; adjacent ones are one."""
    names = [parts[place].word]
    place += 1
    while place < len(parts) and parts[place].word and _fixed(parts[place], date) is None:
        names.append(parts[place].word)
        place += 1
    content = "(?P<thread>.*?)" if len(names) == 1 and names[0] in _THREAD else ".*?"
    if place == len(parts):
        return content.replace(".*?", ".*+", 1), place
    following = parts[place]
    if following.word:
        return f"(?>{content}(?={_NAME.sub('(?:', _fixed(following, date) or '')}))", place
    if place + 1 == len(parts) and is_head:  # ends where the message begins, wherever else its text stands
        return f"{content}{re.escape(following.text)}\\Z", place + 1
    # The padding of either neighbour may go on after a blank.
    padded = (place + 1 < len(parts) and parts[place + 1].is_padded) or (
        parts[place - 1].is_padded and not following.text.strip()
    )
    return f"(?>{content}{re.escape(following.text)})" + (r"[ \t]*+" if padded else ""), place + 1
