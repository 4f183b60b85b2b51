"""The runbook's entries, read from docs/runbook.md, so that the page and the terminal say the same as the document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_ENTRY = re.compile(r"^### (\w+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"^\*\*(Means|Check|Do)\*\* (.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Entry(NamedTuple):
    """What a code means, what to check, and what to do: plain text."""

    code: str
    means: str
    check: str
    do: str


@cache
def entries() -> dict[str, Entry]:
    """Every entry, by its code."""
    text = files("hindsight").joinpath("docs", "runbook.md").read_text(encoding="utf-8")
    return {code: _entry(code, body) for code, body in _ENTRY.findall(text)}


def entry_of(codes: Iterable[str]) -> Entry | None:
    """The entry of the first code that has one: give the cause before what came of it."""
    return next((entries()[code] for code in codes if code in entries()), None)


def _entry(code: str, body: str) -> Entry:
    parts = {name.lower(): _plain(text) for name, text in _PART.findall(body)}
    return Entry(code, **parts)


def _plain(text: str) -> str:
    """Text without the marks of Markdown, its lines joined."""
    return " ".join(_LINK.sub(r"\1", text).replace("`", "").split())
