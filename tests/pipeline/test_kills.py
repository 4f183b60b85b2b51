"""A run that is broken off anywhere: a plain rerun ends in the same tables, and a reader never sees a part of one.

What is killed how: ``states`` are the lake as it is between two writes of an undisturbed run, one write at a time,
which is what a kill there leaves behind. In the tests that say SIGKILL a process of its own kills itself, on Spark with
its JVM: after a write that it counts, or some time later.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hindsight.jobs.lake.lake_lease import LeaseFolder, take
from hindsight.jobs.lake.small_files import LocalStore
from tests.pipeline.interrupted_lake import (
    BrokenOffError,
    Reader,
    broken_off,
    is_published_whole,
    seen,
    without_empty,
)
from tests.pipeline.local_runs import OF_PRODUCERS, run_here
from tests.pipeline.undisturbed_runs import Run, Undisturbed, is_healed_by_a_rerun, on_spark

ROOT = Path(__file__).parent.parent.parent


def test_the_runs_write_often_and_the_second_one_changes_what_is_there(producers):
    first, second = producers.runs
    changed = {name for name, rows in second.items() if rows != first.get(name)}
    assert {"send_attempt", "send_verdict", "producer_replay", "fleet_minute"} <= changed
    writes = Counter(name.split()[0] for name, _ in producers.states)
    assert writes["store"] >= 2 and writes["replace"] >= 16 and writes["add_candidates"] >= 14


@pytest.fixture
def of_producers(settings) -> Run:
    return partial(run_here, settings, jobs=OF_PRODUCERS)


def test_killed_between_the_commits_of_a_job(of_producers, producers, tmp_path):
    """The second run, after three of seven derived tables."""
    lake = tmp_path / "lake"
    nth = producers.nth_write("replace broker_availability_window")
    shutil.copytree(producers.states_of_second[nth - 1][1], lake)
    assert seen(lake) != producers.runs[0] and without_empty(seen(lake)) != without_empty(producers.runs[1])
    assert is_published_whole(lake, producers.runs[0])
    assert is_healed_by_a_rerun(of_producers, producers, lake)


@pytest.fixture
def killed_run(settings_file, tmp_path) -> Callable[..., Path]:
    """A second run that is killed so many seconds after a write, with a reader beside it; its lake."""

    def run(done: Undisturbed, last_write: int | str, seconds: float = 0, engine: str = "local") -> Path:
        lake, log, enough = (tmp_path / name for name in ("lake", "log", "enough"))
        shutil.copytree(done.after_first, lake)
        command = [sys.executable, "-m", "tests.pipeline.run_to_be_killed", str(last_write), str(seconds), enough]
        options = ["--landing", done.landing, "--lake", lake, "--settings", settings_file, "--engine", engine]
        reader = Reader(lake, *done.runs)
        with (
            log.open("wb") as said,
            subprocess.Popen(
                [*command, "run-pipeline", *options], cwd=ROOT, stderr=said, stdout=said, start_new_session=True
            ) as process,
        ):
            reader.until(process, enough)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        assert process.returncode == -signal.SIGKILL, log.read_text()[-2000:]
        assert reader.reads > 3
        return lake

    return run


def killed_before_the_ledger(killed_run, producers: Undisturbed, engine: str) -> Path:
    """The second run's first write is that of the attempts, its third that of the ledger: killed after the second."""
    lake = killed_run(producers, 2, engine=engine)
    assert seen(lake)["send_attempt"] == producers.runs[1]["send_attempt"] != producers.runs[0]["send_attempt"]
    take(LeaseFolder(str(lake), LocalStore(lake / "_lease")), "the next run").renew(released=True)
    return lake


def test_a_sigkill_between_two_commits_while_somebody_reads(of_producers, producers, killed_run):
    lake = killed_before_the_ledger(killed_run, producers, "local")
    assert is_healed_by_a_rerun(of_producers, producers, lake)


def test_an_intake_on_spark_that_is_broken_off_between_two_commits(spark, settings, of_producers, producers, tmp_path):
    """It leaves what a kill there leaves, and Spark takes the files in again; with its own JVM: the next one."""
    lake = shutil.copytree(producers.after_first, tmp_path / "lake")
    take_in = on_spark(spark, settings, ["ingest_send_records"])
    with broken_off(2), pytest.raises(BrokenOffError):
        take_in(producers.landing, lake)
    assert seen(lake)["send_attempt"] == producers.runs[1]["send_attempt"] != producers.runs[0]["send_attempt"]
    take_in(producers.landing, lake)
    assert is_healed_by_a_rerun(of_producers, producers, lake)


@pytest.mark.soak
def test_a_sigkill_of_a_run_on_spark_between_two_commits(spark, settings, producers, killed_run):
    lake = killed_before_the_ledger(killed_run, producers, "spark")
    assert is_healed_by_a_rerun(on_spark(spark, settings, OF_PRODUCERS), producers, lake)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_killed_between_any_two_writes(pipeline, both_sides, tmp_path, part):
    """In both runs, candidates excepted, which nobody reads; every fourth in each part.

    No process is killed here: the lake is a copy made between two writes of the undisturbed runs. That a kill leaves
    the same behind is what the tests below see.
    """
    first, second = both_sides.runs
    kills = [(n, name) for n, (name, _) in enumerate(both_sides.states) if not name.startswith("add_candidates")]
    assert len(kills) >= 50
    for n, name in kills[part::4]:
        lake = tmp_path / str(n)
        shutil.copytree(both_sides.states[n][1], lake)
        assert is_published_whole(lake, first, second), (n, name)
        pipeline(both_sides.landing, lake)
        assert without_empty(seen(lake)) == without_empty(second), (n, name)
        assert is_published_whole(lake, second), (n, name)
        shutil.rmtree(lake)


# A write within each job's own.
WRITES = (
    "store send_attempt",
    "store queue_ownership",
    "replace send_verdict",
    "replace_since allocation_drift",
)


@pytest.mark.soak
@pytest.mark.parametrize("write", WRITES)
def test_a_sigkill_within_each_job(pipeline, both_sides, killed_run, write):
    """What the killed process leaves behind is what there was then in the undisturbed run."""
    lake = killed_run(both_sides, write)
    assert seen(lake) == seen(both_sides.states_of_second[both_sides.nth_write(write) - 1][1])
    assert without_empty(seen(lake)) != without_empty(both_sides.runs[1])
    assert is_healed_by_a_rerun(pipeline, both_sides, lake)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_a_sigkill_at_a_random_instant(pipeline, both_sides, killed_run, seed):
    """Within two seconds of any write: after the last one the run still makes the report, which takes longer."""
    instant = random.Random(seed)
    lake = killed_run(both_sides, instant.randint(1, both_sides.writes[1]), instant.uniform(0, 2))
    assert is_healed_by_a_rerun(pipeline, both_sides, lake)
