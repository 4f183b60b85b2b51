"""A lake and a landing folder on HDFS: Spark's workers write the same tables, also where a plain path means it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import SAMPLES
from tests.stores.hdfs_server import HdfsServer, hdfs_server

pytestmark = [pytest.mark.soak, pytest.mark.spark]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[HdfsServer]:
    with hdfs_server(tmp_path_factory.mktemp("store")) as server:
        server.put(SAMPLES, "landing")
        yield server


def check(store: HdfsServer, *words: str) -> None:
    command = [sys.executable, "-m", "hindsight.jobs.command_line", *words, "--engine", "spark"]
    done = subprocess.run(command, env=store.environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr


def test_the_tables_hold_what_a_lake_of_this_machine_holds(store, settings, tmp_path):
    run_here(settings, SAMPLES, tmp_path / "lake")
    there = tmp_path / "there"
    for lake in (str(there), f"{store.uri}{there}"):
        check(store, "run-pipeline", "--landing", f"{store.uri}/landing", "--lake", lake)
        assert not there.exists()
    store.copy(str(there)[1:], tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "lake")
