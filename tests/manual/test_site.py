"""The manual as a site: built strictly, searchable, and nothing in it is fetched from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

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
