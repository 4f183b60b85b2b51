"""Small files beside the tables: what a reader finds while one is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.small_files import LocalStore


def test_a_write_that_is_broken_off_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    store.write("report.html", "before")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", lambda *_: pytest.fail("killed before the new file is in place"))
        with pytest.raises(pytest.fail.Exception, match="killed"):
            store.write("report.html", "after")
    assert store.read("report.html") == "before"
    store.write("report.html", "after")
    assert store.read("report.html") == "after"
