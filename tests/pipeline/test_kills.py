"""A run that is broken off anywhere: a plain rerun ends in the same tables, and a reader never sees a part of one.

What is killed how: ``states`` are the lake as it is between two writes of an undisturbed run, one write at a time,
which is what a kill there leaves behind. In the tests that say SIGKILL a process of its own is killed, with its JVM:
after a write that it counts itself, or at a random instant by the test.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobs.lake_lease import take
from jobs.lease_folder import LeaseFolder
from jobs.small_files import LocalStore
from tests.conftest import CAPTURES
from tests.pipeline.interrupted_lake import (
    Seen,
    after_each_write,
    is_published_whole,
    published,
    seen,
    without_empty,
)

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "cluster=oracle"


def lines(path: str, first: int, last: int) -> bytes:
    with gzip.open(CAPTURES / path) as found:
        return b"".join(list(found)[first:last])


def land(landing: Path, name: str, content: bytes) -> None:
    folder, _, rest = name.partition("/")
    path = landing / folder / CLUSTER / rest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@dataclass
class Undisturbed:
    """Two runs, the second with more of the same; the states between their writes, and what each run ended in."""

    root: Path
    states: list[tuple[str, Path]] = field(default_factory=list)
    runs: list[Seen] = field(default_factory=list)

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def after_first(self) -> Path:
        """A copy of the lake between the runs."""
        return self.root / "after-1"

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    def keep(self, lake, write: str, table) -> None:
        copy = self.root / "states" / str(len(self.states))
        shutil.copytree(lake.root, copy)
        self.states.append((f"{write} {table.name}", copy))


def two_runs(pipeline, root: Path, batches: list[dict[str, bytes]]) -> Undisturbed:
    done = Undisturbed(root)
    for batch in batches:
        for name, content in batch.items():
            land(done.landing, name, content)
        with after_each_write(done.keep):
            pipeline(done.landing, done.lake)
        done.runs.append(seen(done.lake))
        shutil.copytree(done.lake, root / f"after-{len(done.runs)}")
    return done


@pytest.fixture(scope="module")
def producers(spark, settings, tmp_path_factory) -> Undisturbed:
    """One producer; the second file overlaps the first, so it has rows to compare and dates to compute anew."""
    hook = "producers/producer_4.7.1_short.jsonl.gz"
    batches = [{"producer_hook/a.jsonl": lines(hook, 0, 200)}, {"producer_hook/b.jsonl": lines(hook, 100, 300)}]
    return two_runs(jobs_of("producer", spark, settings), tmp_path_factory.mktemp("producers"), batches)


def jobs_of(side: str, spark, settings) -> Callable[[Path, Path], None]:
    """The pipeline's jobs: ``producer``: of this side; ``both``: all."""
    from jobs.run_context import RunContext
    from jobs.run_pipeline import JOBS

    chosen = [JOBS[name] for name in (("ingest_send_records", "rebuild_availability") if side == "producer" else JOBS)]

    def run(landing: Path, lake: Path) -> None:
        for job in chosen:
            job(spark, settings, RunContext(str(landing)), str(lake))

    return run


def last_state_after(done: Undisturbed, write: str) -> Path:
    """The lake as it was in the second run after a write."""
    return [path for name, path in done.states if name == write][-1]


def test_the_runs_write_often_and_the_second_one_changes_what_is_there(producers):
    first, second = producers.runs
    changed = {name for name, rows in second.items() if rows != first.get(name)}
    assert {"send_attempt", "send_verdict", "producer_replay", "fleet_minute"} <= changed
    writes = Counter(name.split()[0] for name, _ in producers.states)
    assert writes["merge"] >= 3 and writes["replace_where"] >= 16 and writes["add_candidates"] >= 14


def test_killed_between_the_commits_of_a_job(spark, settings, producers, tmp_path):
    """The second run, after three of seven derived tables."""
    lake = tmp_path / "lake"
    shutil.copytree(last_state_after(producers, "replace_where broker_availability_window"), lake)
    assert seen(lake) != producers.runs[0] and without_empty(seen(lake)) != without_empty(producers.runs[1])
    assert is_published_whole(lake, producers.runs[0])
    jobs_of("producer", spark, settings)(producers.landing, lake)
    assert without_empty(seen(lake)) == without_empty(producers.runs[1])
    assert is_published_whole(lake, producers.runs[1])


def start(landing: Path, lake: Path, settings_file: Path, last_write: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.pipeline.run_to_be_killed", str(last_write), "run-pipeline"]
    options = ["--landing", str(landing), "--lake", str(lake), "--settings", str(settings_file), "--master", "local[2]"]
    log = (lake.parent / f"{lake.name}.log").open("wb")
    return subprocess.Popen([*command, *options], cwd=ROOT, stderr=log, stdout=log, start_new_session=True)


class Reader:
    """Reads what is published, over and over, without Spark and without asking anybody."""

    def __init__(self, lake: Path, *runs: Seen) -> None:
        self.lake, self.runs, self.reads = lake, runs, 0

    def until(self, process: subprocess.Popen[bytes], *, at_most_s: float = 600) -> None:
        """Read while a process lives, and at most so long."""
        end = time.monotonic() + at_most_s
        while process.poll() is None and time.monotonic() < end:
            self.reads += bool(published(self.lake))
            assert is_published_whole(self.lake, *self.runs)
            time.sleep(0.1)


def test_a_sigkill_between_two_commits_while_somebody_reads(spark, settings, producers, settings_file, tmp_path):
    """The second run's first write is that of the attempts, its third that of the ledger: killed after the second."""
    lake = tmp_path / "lake"
    shutil.copytree(producers.after_first, lake)
    reader = Reader(lake, *producers.runs)
    with start(producers.landing, lake, settings_file, 2) as process:
        reader.until(process)
    assert process.returncode == -signal.SIGKILL, (tmp_path / "lake.log").read_text()[-2000:]
    assert reader.reads > 3
    assert seen(lake)["send_attempt"] == producers.runs[1]["send_attempt"] != producers.runs[0]["send_attempt"]
    take(LeaseFolder(str(lake), LocalStore(lake / "_lease")), "the next run").renew(released=True)
    jobs_of("producer", spark, settings)(producers.landing, lake)
    assert without_empty(seen(lake)) == without_empty(producers.runs[1])


@pytest.fixture(scope="module")
def both_sides(spark, settings, tmp_path_factory) -> Undisturbed:
    """Producers and consumers, in two runs."""
    hook, rounds = "producers/producer_4.7.1_short.jsonl.gz", "consumers/admin_snapshots.jsonl.gz"
    batches = [
        {"producer_hook/a.jsonl": lines(hook, 0, 200), "admin_snapshots/a.jsonl": lines(rounds, 0, 60)},
        {"producer_hook/b.jsonl": lines(hook, 100, 300), "admin_snapshots/b.jsonl": lines(rounds, 60, 120)},
    ]
    return two_runs(jobs_of("both", spark, settings), tmp_path_factory.mktemp("both"), batches)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_killed_between_any_two_writes(pipeline, both_sides, tmp_path, part):
    """In both runs, candidates excepted, which nobody reads; every fourth in each part."""
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


@pytest.fixture
def killed_runs(both_sides, settings_file, tmp_path) -> Iterator[Callable[[int, float], Path]]:
    """A second run that is killed after its n-th write, or at an instant, with a reader beside it."""

    def run(last_write: int, seconds: float) -> Path:
        lake = tmp_path / f"lake-{last_write}-{seconds:.1f}"
        shutil.copytree(both_sides.after_first, lake)
        with start(both_sides.landing, lake, settings_file, last_write) as process:
            Reader(lake, *both_sides.runs).until(process, at_most_s=seconds)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return lake

    yield run


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_a_sigkill_at_a_random_instant(pipeline, both_sides, killed_runs, seed):
    lake = killed_runs(0, random.Random(seed).uniform(8, 60))
    pipeline(both_sides.landing, lake)
    assert without_empty(seen(lake)) == without_empty(both_sides.runs[1])
    assert is_published_whole(lake, both_sides.runs[1])
