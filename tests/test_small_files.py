"""Small files beside the tables: what a reader finds while one is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from hindsight.jobs.lake.arrow_store import ArrowStore
from hindsight.jobs.lake.lake_place import NoLocalEngineError
from hindsight.jobs.lake.small_files import LocalStore, store_at


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


def test_a_store_that_arrow_reaches_keeps_what_is_written(tmp_path):
    store = ArrowStore(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "lake/_notes")
    assert (store.names(), store.read("a")) == ([], None)
    store.delete("a")
    store.write("a", "ü")
    store.write("a", "ä\n")
    assert (store.names(), store.read("a")) == (["a"], "ä\n")
    store.delete("a")
    assert store.names() == []


def test_without_spark_an_object_store_keeps_notes_and_no_lease(monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = store_at(None, "s3://bucket/lake/_notes")
    with pytest.raises(NoLocalEngineError, match="--engine spark"):
        store.create("000000001.json", "a lease")
    with pytest.raises(NoLocalEngineError, match="hdfs://"):
        store_at(None, "hdfs://n/lake")
