"""Links that lead out of the manual: its site holds docs/ alone, so there they name the file instead."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)[^)]*\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page's text, as mkdocs asks for it before it makes a page of it."""

    def named(link: re.Match[str]) -> str:
        text, place = link[1], normpath(join(dirname(page.file.src_uri), link[2]))
        if not place.startswith("../") or "://" in link[2]:
            return link[0]
        name = place.removeprefix("../")
        return text if name in text else f"{text} (`{name}`)"

    return _LINK.sub(named, markdown)
