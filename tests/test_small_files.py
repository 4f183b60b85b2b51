"""Small files beside the tables: what a reader finds while one is written."""

from __future__ import annotations

import resource
from datetime import timedelta
from pathlib import Path

import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake import object_store
from hindsight.jobs.lake.lake_lease import LeaseFolder
from hindsight.jobs.lake.lake_place import NoLocalEngineError
from hindsight.jobs.lake.object_store import ObjectStore, StoreError
from hindsight.jobs.lake.small_files import LocalStore, store_at, store_errors


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


@pytest.mark.parametrize("write", [LocalStore.write, LocalStore.create])
def test_a_full_disk_leaves_no_file(tmp_path, write):
    """An empty lease made the next run wait for a minute."""
    store, before = LocalStore(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write(store, "000000001.json", "mine")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.names() == []
    write(store, "000000001.json", "mine")
    assert store.read("000000001.json") == "mine"


def test_an_object_store_keeps_what_is_written():
    store = ObjectStore(MemoryStore())
    assert (store.names(), store.read("a")) == ([], None)
    store.delete("a")
    store.write("a", "ü")
    store.write("a", "ä\n")
    assert (store.names(), store.read("a")) == (["a"], "ä\n")
    store.delete("a")
    assert store.names() == []


def test_of_two_that_take_a_number_at_an_object_store_one_has_it():
    folder = LeaseFolder("s3://bucket/lake", ObjectStore(MemoryStore()))
    assert folder.create(1, "first")
    assert not folder.create(1, "second")
    assert folder.latest() == (1, "first")
    assert folder.create(2, "third") and folder.numbers() == [0, 1, 2]


def test_what_an_object_store_fails_with_is_known():
    assert issubclass(GenericError, store_errors())


def test_a_store_that_only_spark_reaches_is_refused():
    with pytest.raises(NoLocalEngineError, match="hdfs://"):
        store_at(None, "hdfs://n/lake")


def test_a_store_that_does_not_answer_is_told_with_its_server_before_anything_is_done(monkeypatch):
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "hush", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(object_store, "_GIVES_UP", timedelta(0))
    with pytest.raises(StoreError, match=r"s3://bucket/lake could not be listed: .* http://127\.0\.0\.1:1;") as told:
        LocalLake("s3a://bucket/lake", retention_days=7)
    assert "hush" not in str(told.value)
