"""Forms of log messages in, the one that a message has out: how the readers of logs recognise what they take in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from udfs.parsed_line import RefusedLineError

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


def template(
    kind: str, starts: str, pattern: str, *, mark: str = "", traced: bool = False, lost: bool = False
) -> Template:
    """A form whose ``pattern`` is given as text; it must be linear: no text may match it in two ways."""
    return Template(kind, starts, re.compile(pattern, re.DOTALL), mark, traced, lost)


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


class TemplateIndex:
    """Finds a message's form by its first word, without trying every form."""

    def __init__(self, templates: Iterable[Template]) -> None:
        self._by_word: dict[str, list[Template]] = {}
        self._after_name: list[Template] = []
        self._glued: list[Template] = []  # recognised before the first word ends
        for one in templates:
            if one.starts.startswith(" "):
                self._after_name.append(one)
            elif " " in one.starts or one.pattern.fullmatch(one.starts):
                self._by_word.setdefault(one.starts.partition(" ")[0], []).append(one)
            else:
                self._glued.append(one)
        self._after_starts = tuple(one.starts for one in self._after_name)
        self._glued_starts = tuple(one.starts for one in self._glued)

    def find(self, text: str, start: int = 0) -> Template | None:
        """The first form that the message beginning at ``start`` has, without copying it; None: none."""
        end = text.find(" ", start)
        if end < 0:
            end = len(text)
        known = self._by_word.get(text[start:end])
        if known is not None:
            for one in known:
                if text.startswith(one.starts, start) and text.find(one.mark, start) >= 0:
                    return one
        if text.startswith(self._after_starts, end):
            return next(one for one in self._after_name if text.startswith(one.starts, end))
        if text.startswith(self._glued_starts, start):
            return next(one for one in self._glued if text.startswith(one.starts, start))
        return None
