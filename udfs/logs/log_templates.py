"""Forms of log messages in, the one that a message has out: how the readers of logs recognise what they take in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hindsight.udfs.lines.parsed_line import RefusedLineError

_GROUPS = re.compile(r"\(\?P<\w+>|(?<!\\)\)")  # the begin of one with a name, and the end of any
_PART = re.compile(r"\{([A-Z_]+)\}")
_VARIES = re.compile(r"(?<!\\)[.^$*+?{}\[\]()|]|\\\w")
Reader = Callable[[str], dict[str, Any]]


class Template(NamedTuple):
    """One form of message: ``starts`` and ``mark`` recognise it, ``pattern`` (fullmatch) reads it.

    ``starts`` is the message's beginning; with a leading space, what follows a first word that is a name.
    ``traced``: a stack trace may follow. ``lost``: its arguments were never filled in, or it has none.
    """

    kind: str
    starts: str
    pattern: re.Pattern[str]
    mark: str = ""
    traced: bool = False
    lost: bool = False


def templates(table: str, parts: Mapping[str, str] = MappingProxyType({})) -> tuple[Template, ...]:
    """The forms of a table, one a line: ``kind | pattern``, then ``| "mark" traced lost`` as far as it has these.

    A line that is indented goes on with the one before, behind a blank; one that begins with ``#`` is a remark.
    ``{NAME}`` in a pattern stands for one of ``parts``. A pattern must be linear: no text may match it in two ways.
    A form is recognised by what its pattern begins with, behind a name if that comes first: by all up to its first part
    that may vary, or less, up to ``(?#)``, which stands before alternatives too. A message that begins so and goes on
    otherwise is refused.
    """
    lines = (line for line in re.sub(r"\n +", " ", table).splitlines() if line and not line.startswith("#"))
    return tuple(_template(*line.split(" | "), parts=parts) for line in lines)


def _template(kind: str, pattern: str, more: str = "", *, parts: Mapping[str, str]) -> Template:
    pattern = _PART.sub(lambda found: parts[found[1]], pattern)
    begin = _GROUPS.sub("", pattern.partition("(?#)")[0]).removeprefix("[^ ]++")
    starts = re.sub(r"\\(?=\W)", "", _VARIES.split(begin, maxsplit=1)[0])
    mark, _, words = more.removeprefix('"').rpartition('"')
    regex = re.compile(pattern.replace("(?#)", ""), re.DOTALL)
    return Template(kind, starts, regex, mark, "traced" in words, "lost" in words)


def read_message(form: Template, message: str, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The kind of a recognised message and what it tells: its named groups, as ``readers`` read them or as they are.

    Refused: BAD_EVENT_LINE.
    """
    found = form.pattern.fullmatch(message)
    if found is None:
        raise RefusedLineError("BAD_EVENT_LINE", f"begins as {form.kind}, but goes on otherwise: {message[:120]!r}")
    row: dict[str, Any] = {"kind": form.kind}
    for name, value in found.groupdict().items():
        if value is None:
            continue
        read = readers.get(name)
        if read is None:
            row[name] = value
        else:
            row.update(read(value))
    return row


def holds_any(text: str, needles: tuple[str, ...]) -> bool:
    """Whether a text holds one of these, which is asked of every line of a log."""
    for needle in needles:  # noqa: SIM110 - any() takes twice as long
        if needle in text:
            return True
    return False


class TemplateIndex:
    """Finds a message's form: at a place where a message begins, or anywhere in a line."""

    def __init__(self, templates: Iterable[Template], needles: tuple[str, ...]) -> None:
        """``needles``: texts of which every form's ``starts`` or ``mark`` holds one, and ordinary lines few."""
        self._needles = needles
        forms = tuple(templates)
        for one in forms:
            if not any(needle in one.starts or needle in one.mark for needle in needles):
                raise ValueError(f"no needle finds {one.kind}: {one.starts!r}")
        # The longest first: one that begins as another, but earlier in the line, is found where it begins.
        starts = sorted({one.starts for one in forms}, key=len, reverse=True)
        self._hits = re.compile("|".join(map(re.escape, starts))).finditer
        self._forms = {begin: [one for one in forms if begin.startswith(one.starts)] for begin in starts}

    def may_hold_one(self, text: str) -> bool:
        """False: the line holds no message of a known form. Quick, for all the lines that do not."""
        return holds_any(text, self._needles)

    def search(self, text: str) -> tuple[int, Template] | None:
        """Where in a line the first message of a known form begins, and the form; None: there is none."""
        absent: set[str] = set()  # marks that do not follow: looked for once, or many beginnings would cost
        for hit in self._hits(text):
            start = hit.start()
            if hit[0].startswith(" "):
                start = text.rfind(" ", 0, start) + 1
                if start == hit.start():  # behind no name
                    continue
            for form in self._forms[hit[0]]:
                if form.mark in absent:
                    continue
                if text.find(form.mark, start) >= 0:
                    return start, form
                absent.add(form.mark)
        return None
