"""Folders that go with their process: nobody's is removed while it lives, a dead one's is by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hindsight.jobs.running.scratch_folder import ScratchFolder, remove_dead

ROOT = Path(__file__).parent.parent
KEEPS = """
import sys
from hindsight.jobs.running.scratch_folder import ScratchFolder
folder = ScratchFolder()
(folder.path / "spool").write_text("rows")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def keeper(temporary):
    process = subprocess.Popen(
        [sys.executable, "-c", KEEPS],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_gone_after_its_block_and_with_its_process(temporary):
    with ScratchFolder() as folder:
        (folder / "spool").write_text("rows")
        assert [folder] == list(temporary.iterdir())
    assert list(temporary.iterdir()) == []
    process, folder = keeper(temporary)
    assert folder.exists()
    process.communicate()
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed_and_what_lives_or_is_no_folder_of_ours_stays(temporary):
    alive, kept = keeper(temporary)
    killed, left = keeper(temporary)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    others = [temporary / name for name in ("hindsight-bench-x", "other")]
    for other in others:
        other.mkdir()
    linked = temporary / "hindsight-scratch-link"
    linked.symlink_to(others[1])
    assert left.exists()
    with ScratchFolder() as own:
        assert not left.exists()
        assert set(temporary.iterdir()) == {kept, own, *others, linked}
    remove_dead()
    assert (kept / "spool").read_text() == "rows"
    alive.communicate()


def test_a_folder_that_was_taken_for_a_dead_one_before_it_was_locked_is_made_anew(temporary, monkeypatch):
    from hindsight.jobs.running import scratch_folder

    stolen = []
    made = scratch_folder.tempfile.mkdtemp

    def made_and_stolen(**words):
        folder = made(**words)
        if not stolen:
            stolen.append(folder)
            remove_dead()
        return folder

    monkeypatch.setattr(scratch_folder.tempfile, "mkdtemp", made_and_stolen)
    with ScratchFolder() as folder:
        assert stolen and str(folder) not in stolen and folder.exists()
