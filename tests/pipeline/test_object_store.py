"""A lake and a landing folder on an S3 store, without Spark: the same tables, one run at a time, questions, upkeep."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hindsight.conf.failure import LAKE_HELD
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import OF_PRODUCERS, run_here
from tests.pipeline.sample_files import SAMPLES
from tests.stores.s3_server import S3Server, s3_server

pytestmark = pytest.mark.soak
LAKE, LANDING = "s3a://bucket/lake", "s3://bucket/landing"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[S3Server]:
    """A server with the samples landed and a lake of them."""
    with s3_server(tmp_path_factory.mktemp("store")) as server:
        server.put(SAMPLES, "landing")
        check(server, "run-pipeline", "--landing", LANDING, "--lake", LAKE)
        yield server


def started(store: S3Server, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hindsight.jobs.command_line", *words]
    return subprocess.Popen(command, env=store.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(store: S3Server, *words: str, ends: int = 0) -> str:
    process = started(store, *words)
    said, errors = process.communicate(timeout=600)
    assert process.returncode == ends, errors
    return said + errors


def test_the_tables_hold_what_a_lake_of_this_machine_holds(store, settings, tmp_path):
    run_here(settings, SAMPLES, tmp_path / "lake")
    store.copy("lake", tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "lake")


def test_the_lease_was_given_back(store, tmp_path):
    (tmp_path / "lease").mkdir()
    store.copy("lake/_lease", tmp_path / "lease")
    (last,) = (tmp_path / "lease").iterdir()
    assert json.loads(last.read_text())["released"] is True


def test_a_rerun_publishes_nothing_and_upkeep_loses_nothing(store, tmp_path):
    store.copy("lake", tmp_path / "before")
    check(store, "run-pipeline", "--landing", LANDING, "--lake", LAKE)
    check(store, "maintain", "--lake", LAKE)
    store.copy("lake", tmp_path / "after")
    assert contents(tmp_path / "after") == contents(tmp_path / "before")


def test_questions_are_answered(store):
    rows = json.loads(check(store, "sql", "--lake", LAKE, "--json", "SELECT COUNT(*) n FROM group_round"))
    assert rows[0]["n"] > 100 if isinstance(rows, list) else rows["n"] > 100
    assert "g_mix" in check(store, "drift", "--lake", LAKE)


def test_it_is_read_from_python(store):
    code = f"""if True:
        from hindsight import Lake
        with Lake({LAKE!r}) as lake:
            print(lake.table("group_round", where="consumer_group = 'g_mix'").arrow().num_rows > 10)
            print({{row["consumer_group"] for row in lake.open_incidents()}} >= {{"g_mix", "g_sub"}})"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=store.environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


def test_of_two_runs_that_begin_at_once_one_is_told_that_the_lake_is_held(store):
    runs = [started(store, "run-pipeline", "--landing", LANDING, "--lake", "s3://bucket/contended") for _ in range(2)]
    said = [run.communicate(timeout=600)[1] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, LAKE_HELD], said


@pytest.mark.parametrize("form", [(), ("--by-hour",)])
def test_what_recorders_finished_is_shipped_to_it(store, settings, tmp_path, form):
    for file in (SAMPLES / "producer_hook").rglob("*.jsonl.gz"):
        for root in ("source", "recorded"):
            copy = tmp_path / root / file.relative_to(SAMPLES).with_suffix("")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(gzip.decompress(file.read_bytes()))
            os.utime(copy, (0, 0))
    words = ("ship", str(tmp_path / "source"), "--to", "s3://bucket/shipped", "--once", *form)
    check(store._replace(port=1), *words, ends=3)
    assert len([*(tmp_path / "source").rglob("*.jsonl")]) == len([*(tmp_path / "recorded").rglob("*.jsonl")])
    check(store, *words)
    assert [*(tmp_path / "source").rglob("*.jsonl")] == []
    for job in OF_PRODUCERS:
        check(store, job.replace("_", "-"), "--landing", "s3://bucket/shipped", "--lake", "s3://bucket/of_shipped")
    store.copy("of_shipped", tmp_path / "copy")
    run_here(settings, tmp_path / "recorded", tmp_path / "lake", OF_PRODUCERS)
    assert contents(tmp_path / "copy", with_sources=False) == contents(tmp_path / "lake", with_sources=False)


def test_a_store_that_does_not_answer_ends_the_run(store):
    gone = store._replace(port=1)
    for words in (("maintain", "--lake"), ("drift", "--lake"), ("run-pipeline", "--landing", str(SAMPLES), "--lake")):
        said = check(gone, *words, LAKE, ends=3)
        assert "s3://bucket/lake could not be listed: " in said and "http://127.0.0.1:1;" in said
    assert "NoSuchBucket" in check(store, "maintain", "--lake", "s3://none/lake", ends=3)
