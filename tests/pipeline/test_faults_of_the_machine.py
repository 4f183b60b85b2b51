"""A full disk, a killed Python worker: the run fails clearly, and a plain rerun heals."""

from __future__ import annotations

import gzip
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jobs import ingest_send_records
from jobs.exit_codes import RUN_FAILED, exit_code
from jobs.run_context import RunContext
from tests.conftest import CAPTURES
from tests.pipeline.interrupted_lake import Seen, is_published_whole, seen, without_empty
from tests.processes import processes

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "cluster=oracle"
IN_A_SMALL_ROOM = """
mount -t tmpfs -o size={size} none {room} && cp -a {before}/. {room}
{run}
code=$?
cp -a {room}/. {after}
exit $code
"""


def land(landing: Path, name: str, capture: str, first: int, last: int) -> None:
    folder, _, rest = name.partition("/")
    path = landing / folder / CLUSTER / rest
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(CAPTURES / capture) as found:
        path.write_bytes(b"".join(list(found)[first:last]))


@pytest.fixture(scope="module")
def landing(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("faults") / "landing"
    land(root, "producer_hook/a.jsonl", "producers/producer_4.7.1_short.jsonl.gz", 0, 300)
    land(root, "admin_snapshots/a.jsonl", "consumers/admin_snapshots.jsonl.gz", 0, 90)
    return root


@pytest.fixture(scope="module")
def undisturbed(spark, settings, landing, tmp_path_factory) -> Seen:
    from jobs.run_pipeline import JOBS

    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    for job in JOBS.values():
        job(spark, settings, RunContext(str(landing)), str(lake))
    return seen(lake)


def pipeline_command(landing: Path, lake: Path, settings_file: Path) -> list[str]:
    options = ["--landing", str(landing), "--lake", str(lake), "--settings", str(settings_file)]
    return [sys.executable, "-m", "jobs.command_line", "run-pipeline", *options]


@pytest.mark.soak
@pytest.mark.parametrize("room_kb", [40, 200, 600, 1200])
def test_a_full_disk(pipeline, landing, undisturbed, settings_file, tmp_path, room_kb):
    """The lake on a file system of its own, in a mount namespace: after so many KiB a write finds no space."""
    if subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this machine lets nobody mount in a namespace of his own")
    before, room, after = (tmp_path / name for name in ("before", "room", "after"))
    for folder in (before, room, after):
        folder.mkdir()
    run = shlex.join(pipeline_command(landing, room, settings_file))
    script = IN_A_SMALL_ROOM.format(size=room_kb * 1024, before=before, room=room, after=after, run=run)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == RUN_FAILED, done.stderr[-2000:]
    assert done.stderr.splitlines()[-1].startswith("hindsight: there is no space left"), done.stderr[-2000:]
    assert is_published_whole(after, undisturbed)
    pipeline(landing, after)
    assert without_empty(seen(after)) == without_empty(undisturbed)


def own_workers() -> list[int]:
    """The Python workers of this process's JVM: children of the daemon that it started."""
    there = processes()
    jvms = {pid for pid, (_, parent) in there.items() if parent == os.getpid()}
    daemons = {pid for pid, (command, parent) in there.items() if "pyspark.daemon" in command and parent in jvms}
    return [pid for pid, (_, parent) in there.items() if parent in daemons]


@pytest.mark.soak
def test_a_killed_python_worker(spark, settings, tmp_path):
    """Without retries, as in local mode, the run fails; it names no cause, since nobody knows it."""
    landing, lake = tmp_path / "landing", tmp_path / "lake"
    for n in range(6):
        land(landing, f"producer_hook/{n}.jsonl", "producers/producer_4.7.1_short.jsonl.gz", 0, 20_000)

    def take_in(where: Path) -> None:
        ingest_send_records.run(spark, settings, RunContext(str(landing)), str(where))

    codes: list[int] = []
    run = threading.Thread(target=lambda: codes.append(exit_code(lambda: take_in(lake))))
    run.start()
    killed = 0
    while run.is_alive() and not killed:
        for pid in own_workers():
            os.kill(pid, signal.SIGKILL)
            killed += 1
        time.sleep(0.05)
    run.join()
    assert killed and codes == [RUN_FAILED]
    take_in(lake)
    take_in(tmp_path / "undisturbed")
    assert seen(lake) == seen(tmp_path / "undisturbed")
