"""A full disk, a killed Python worker, a clock that steps, two runs at once: readers see a whole run, a rerun heals."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from errno import ENOSPC
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from hindsight.conf.failure import DONE, LAKE_HELD, RUN_FAILED
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.run_pipeline import job_of
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.run_context import RunContext
from tests.pipeline.interrupted_lake import (
    Reader,
    is_published_whole,
    one_write_at_a_time,
    published,
    seen,
    without_empty,
)
from tests.pipeline.local_runs import OF_PRODUCERS, run_here
from tests.pipeline.stepped_clock import AnHourBack
from tests.pipeline.undisturbed_runs import is_healed_by_a_rerun, on_spark, run_on_spark
from tests.processes import processes

ROOT = Path(__file__).parent.parent.parent
# The room holds the lake as it was, and so many KiB more.
IN_A_SMALL_ROOM = """
mount -t tmpfs none {room} && cp -a {before}/. {room} || exit 99
mount -o remount,size=$(( $(df -k --output=used {room} | tail -n 1) + {room_kb} ))k {room} || exit 99
{run}
code=$?
cp -a {room}/. {after}
exit $code
"""


def pipeline_command(landing: Path, lake: Path, settings_file: Path) -> list[str]:
    options = ["--landing", str(landing), "--lake", str(lake), "--settings", str(settings_file)]
    return [sys.executable, "-m", "hindsight.jobs.run_pipeline", *options]


def copied(lake: Path, to: Path) -> Path:
    shutil.copytree(lake, to)
    return to


@pytest.mark.soak
@pytest.mark.parametrize("percent", [10, 40, 70, 95])
def test_a_full_disk(pipeline, both_sides, settings_file, tmp_path, percent):
    """The lake on a file system of its own, in a mount namespace, with a part of the room that its new rows need."""
    if subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this machine lets nobody mount in a namespace of his own")
    room, after = tmp_path / "room", tmp_path / "after"
    room.mkdir()
    after.mkdir()
    room_kb = (kib(both_sides.lake) - kib(both_sides.after_first)) * percent // 100
    run = shlex.join(pipeline_command(both_sides.landing, room, settings_file))
    script = IN_A_SMALL_ROOM.format(before=both_sides.after_first, room=room, room_kb=room_kb, after=after, run=run)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == RUN_FAILED, done.stderr[-2000:]
    assert done.stderr.splitlines()[-1].startswith("hindsight: there is no space left"), done.stderr[-2000:]
    assert published(after) and is_published_whole(after, *both_sides.runs)
    assert is_healed_by_a_rerun(pipeline, both_sides, after)


def kib(folder: Path) -> int:
    """What its files take, in pages of 4 KiB as on a tmpfs."""
    return sum(-(-path.stat().st_size // 4096) * 4 for path in folder.rglob("*") if path.is_file())


def test_a_write_that_finds_no_space_between_two_commits(settings, producers, tmp_path, capsys):
    """As on a full disk, after the commits of three derived tables of seven."""
    lake, run = copied(producers.after_first, tmp_path / "lake"), partial(run_here, settings, jobs=OF_PRODUCERS)
    with_space = {"ingested_file", "producer_replay", "fault_item_state", "broker_availability_window"}
    replace = LocalLake.replace

    def without_space(lake: LocalLake, table, *rest) -> None:
        if table.name not in with_space:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        replace(lake, table, *rest)

    with one_write_at_a_time(), patch.object(LocalLake, "replace", without_space):
        assert exit_code(lambda: run(producers.landing, lake)) == RUN_FAILED
    assert capsys.readouterr().err.splitlines()[-1].startswith("hindsight: there is no space left")
    (first, second), stored = producers.runs, seen(lake)
    assert stored["producer_replay"] == second["producer_replay"] != first["producer_replay"]
    assert stored["send_verdict"] == first["send_verdict"] != second["send_verdict"]
    assert published(lake) and is_published_whole(lake, producers.runs[0])
    assert is_healed_by_a_rerun(run, producers, lake)


def own_workers() -> list[int]:
    """The Python workers of this process's JVM: children of the daemon that it started."""
    there = processes()
    jvms = {pid for pid, (_, parent) in there.items() if parent == os.getpid()}
    daemons = {pid for pid, (command, parent) in there.items() if "pyspark.daemon" in command and parent in jvms}
    return [pid for pid, (_, parent) in there.items() if parent in daemons]


def kill_own_workers() -> int:
    """How many there were."""
    workers = own_workers()
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    return len(workers)


@pytest.mark.soak
@pytest.mark.parametrize("job", ["ingest_send_records", "rebuild_availability"])
def test_a_killed_python_worker(spark, settings, producers, tmp_path, job):
    """Without retries, as in local mode, the run fails; it names no cause, since nobody knows it.

    Workers that wait for work are killed too, and missed by nobody; so all are killed until the job has failed.
    """
    lake, context = copied(producers.after_first, tmp_path / "lake"), RunContext(str(producers.landing))
    if job == "rebuild_availability":
        run_on_spark(job_of("ingest_send_records"), spark, settings, context, lake)
    codes: list[int] = []
    run = threading.Thread(
        target=lambda: codes.append(exit_code(lambda: run_on_spark(job_of(job), spark, settings, context, lake)))
    )
    reader, killed = Reader(lake, *producers.runs), 0
    run.start()
    while run.is_alive():
        if now := kill_own_workers():
            killed += now
            reader.read()
        time.sleep(0.02)
    run.join()
    assert killed and reader.reads and codes == [RUN_FAILED]
    assert published(lake) and is_published_whole(lake, producers.runs[0])
    assert is_healed_by_a_rerun(on_spark(spark, settings, OF_PRODUCERS), producers, lake)


def started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as said:
        return subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)


@pytest.mark.soak
def test_of_two_whole_runs_at_once_one_does_it_all_and_the_other_nothing(both_sides, settings_file, tmp_path):
    lake, logs = copied(both_sides.after_first, tmp_path / "lake"), [tmp_path / "0.log", tmp_path / "1.log"]
    command, reader = pipeline_command(both_sides.landing, lake, settings_file), Reader(lake, *both_sides.runs)
    with started(command, logs[0]) as one, started(command, logs[1]) as other:
        reader.until(one)
        reader.until(other)
    said = dict(zip((one.returncode, other.returncode), (log.read_text() for log in logs), strict=True))
    assert sorted(said) == [DONE, LAKE_HELD], said
    (sentence,) = said[LAKE_HELD].splitlines()[-1:]
    assert sentence.startswith(f"hindsight: {lake} is being written by another run") and reader.reads
    assert without_empty(seen(lake)) == without_empty(both_sides.runs[1])
    assert is_published_whole(lake, both_sides.runs[1])


def test_a_clock_that_steps_back_between_two_runs(settings, producers, tmp_path, monkeypatch):
    """By what its rows say the second run is the earlier one; readers take it for the newest all the same."""
    lake = copied(producers.after_first, tmp_path / "lake")
    for module in ("running.run_context", "publishing.publication_record", "publishing.quality_gate"):
        monkeypatch.setattr(f"hindsight.jobs.{module}.datetime", AnHourBack)
    run_here(settings, producers.landing, lake, OF_PRODUCERS)
    rows = DeltaTable(lake / "publication").to_pyarrow_table().to_pylist()
    first, second = (row["published_at"] for row in sorted(rows, key=lambda row: row["number"]))
    assert second < first
    assert without_empty(seen(lake)) == without_empty(producers.runs[1]) != without_empty(producers.runs[0])
    assert is_published_whole(lake, producers.runs[1])
