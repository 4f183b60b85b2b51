"""A text and a shell pattern in, whether they match out."""

from __future__ import annotations

import re
from functools import cache


def is_like(text: str, pattern: str) -> bool:
    """Whether a shell pattern matches: ``*`` and ``?`` alone mean something."""
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
