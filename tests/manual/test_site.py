"""The manual as a site: built strictly, searchable, and nothing in it is fetched from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
MKDOCS = ROOT / ".venv-manual" / "bin" / "mkdocs"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*", re.IGNORECASE)


@pytest.mark.skipif(not MKDOCS.exists(), reason="make manual installs what builds the site")
def test_the_manual_is_a_site_that_is_searched_without_a_network(tmp_path):
    build = [str(MKDOCS), "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = {page.relative_to(tmp_path).with_suffix("") for page in tmp_path.rglob("*.html")}
    docs = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in docs if page.name != "README"} <= pages and Path("index") in pages
    index = json.loads((tmp_path / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    for word in ("ORPHAN_QUEUE", "运维人员"):
        assert any(word in entry["title"] + entry["text"] for entry in index), word
    assert [
        found for page in tmp_path.rglob("*.html") for found in LOADED.findall(page.read_text(encoding="utf-8"))
    ] == []
    assert [*dead_links(tmp_path)] == []


class Page(HTMLParser):
    """What a page can be found by, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            elif name in ("href", "src") and value:
                self.links.append(value)


def dead_links(site: Path) -> Iterator[str]:
    """Links of pages to files or headings that the site does not have; its 404 page is for a site's root alone."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in map(urlsplit, page.links):
            if link.scheme:
                continue
            place = (path.parent / unquote(link.path)).resolve() if link.path else path
            place = place / "index.html" if place.is_dir() else place
            if not place.exists() or (link.fragment and unquote(link.fragment) not in pages[place].ids):
                yield f"{path.name}: {link.geturl()}"
