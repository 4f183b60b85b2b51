"""A run that is told to stop, or killed, with workers alive: no process and no folder stays, and the next is right."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import run_here
from tests.processes import below, processes

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ROOT / "data_samples"
SENTENCE = "hindsight: interrupted; a rerun takes up where this run stopped"
SENDS = "producer_5.3.3_laton.jsonl.gz"
FILES = 6  # of 1.8 MB: too many bytes for one process


@pytest.fixture(scope="module")
def landing(tmp_path_factory):
    """Files of several producers, so many that workers are started for them."""
    place = tmp_path_factory.mktemp("ends") / "landing"
    folder = place / "producer_hook" / "cluster=oracle"
    folder.mkdir(parents=True)
    with gzip.open(SAMPLES / "producer_hook" / "cluster=oracle" / SENDS, "rt") as sends:
        text = sends.read()
    for number in range(FILES):
        (folder / f"{number}.jsonl").write_text(text.replace("@5.3.3_laton", f"@5.3.3_laton_{number}"))
    return place


@pytest.fixture(scope="module")
def undisturbed(landing, tmp_path_factory):
    lake = tmp_path_factory.mktemp("undisturbed")
    run_here(load_settings(None), landing, lake)
    return contents(lake)


class Run:
    """``run-pipeline`` in a process of its own, with a temporary directory of its own."""

    def __init__(self, landing: Path, root: Path) -> None:
        self.lake, self.temporary, self._log = root / "lake", root / "tmp", root / "log"
        self.temporary.mkdir(exist_ok=True)
        words = [
            "-m",
            "hindsight.jobs.command_line",
            "run-pipeline",
            "--landing",
            str(landing),
            "--lake",
            str(self.lake),
        ]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def left(self) -> list[str]:
        """Names in its temporary directory."""
        return [path.name for path in self.temporary.iterdir()]

    def workers(self) -> list[int]:
        """Those that are alive."""
        return [pid for pid, command in below(self.process.pid) if "spawn_main" in command]

    def until_at_work(self) -> list[int]:
        """Wait for its workers."""
        end = time.monotonic() + 120
        while not (found := self.workers()):
            assert self.process.poll() is None and time.monotonic() < end, self._log.read_text()
            time.sleep(0.02)
        return found

    def end(self) -> tuple[int, str]:
        """Its exit code, and the last line that it said."""
        code = self.process.wait(timeout=60)
        return code, (self._log.read_text().splitlines() or [""])[-1]


def are_gone(pids: list[int]) -> bool:
    """Within seconds: the kernel has to tell them."""
    end = time.monotonic() + 10
    while any("spawn_main" in processes().get(pid, ("", 0))[0] for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def is_right(landing: Path, root: Path, undisturbed: dict[str, list[str]]) -> bool:
    """Whether the next run leaves nothing, and the tables of a run that nobody ended."""
    run = Run(landing, root)
    code, _ = run.end()
    return code == 0 and run.left == [] and contents(run.lake) == undisturbed


def test_of_a_killed_run_the_workers_end_and_the_next_run_removes_its_folder(landing, undisturbed, tmp_path):
    run = Run(landing, tmp_path)
    workers = run.until_at_work()
    assert run.left
    run.process.kill()
    assert run.end()[0] == -signal.SIGKILL
    assert are_gone(workers)
    assert is_right(landing, tmp_path, undisturbed)


@pytest.mark.parametrize("to_all", [False, True])
def test_sigterm_is_what_ctrl_c_is(landing, tmp_path, to_all):
    """``to_all``: systemd says it to each process of a unit."""
    run = Run(landing, tmp_path)
    workers = run.until_at_work()
    if to_all:
        os.killpg(run.process.pid, signal.SIGTERM)
    else:
        run.process.terminate()
    assert run.end() == (130, SENTENCE)
    assert are_gone(workers)
    assert run.left == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_at_any_instant(landing, undisturbed, tmp_path, seed):
    instant = random.Random(seed)
    number = instant.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    run = Run(landing, tmp_path)
    workers = run.until_at_work()
    time.sleep(instant.uniform(0, 4))
    workers += run.workers()
    run.process.send_signal(number)
    code, said = run.end()
    assert (code, said) == (130, SENTENCE) or number == signal.SIGKILL or code == 0
    assert are_gone(workers)
    assert run.left == [] or number == signal.SIGKILL
    assert is_right(landing, tmp_path, undisturbed)


def test_the_first_process_of_a_container_hears_sigterm():
    """To such a process a signal means nothing that it does not ask for."""
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces here")
    code = """
import sys, time
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.interrupts import listen
listen()
print("ready", flush=True)
sys.exit(exit_code(lambda: time.sleep(60)))
"""
    with subprocess.Popen(
        [*apart, sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        (first,) = [pid for pid, command in below(process.pid) if command.startswith(sys.executable)]
        os.kill(first, signal.SIGTERM)
        assert process.stderr.read() == f"{SENTENCE}\n"
        assert process.wait(timeout=30) == 130


def test_a_demo_that_is_told_to_stop_says_so_and_names_no_page(tmp_path):
    words = [sys.executable, "-m", "hindsight.jobs.command_line", "demo", "--lake", str(tmp_path / "lake")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline()  # its run has begun
        process.terminate()
        said, log = process.communicate(timeout=120)
    assert process.returncode == 130 and SENTENCE in log and "Open" not in said
