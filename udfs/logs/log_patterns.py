"""A layout as logback or log4j2 write it in, the head of each line of such a log out.

``%d %-5p [%t] %c{1} - %m%n`` becomes one regular expression of what stands before the message and one of what follows
it. Neither goes back over a text: a conversion whose text is free ends where the text that follows it in the pattern
first stands. So time is linear, and a thread whose name holds that text is read wrongly by nobody: the line is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo

from hindsight.udfs.logs.log_stamps import Stamp
from hindsight.udfs.logs.pattern_dates import DatePattern, PatternError, date_pattern
from hindsight.udfs.logs.pattern_parts import MESSAGE, Part, parts_of

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

    @property
    def zone(self) -> tzinfo | None:
        """The zone that the pattern's date names."""
        return self.dates.zone

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
        return f"(?>{content}(?={_without_names(_fixed(following, date) or '')}))", place
    if place + 1 == len(parts) and is_head:  # ends where the message begins, wherever else its text stands
        return f"{content}{re.escape(following.text)}\\Z", place + 1
    # The padding of either neighbour may go on after a blank.
    padded = (place + 1 < len(parts) and parts[place + 1].is_padded) or (
        parts[place - 1].is_padded and not following.text.strip()
    )
    return f"(?>{content}{re.escape(following.text)})" + (r"[ \t]*+" if padded else ""), place + 1


def _without_names(regex: str) -> str:
    return _NAME.sub("(?:", regex)
