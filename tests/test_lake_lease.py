"""Two runs that write to one lake: one is let in, in any race; a dead one is succeeded, and a late one stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from hindsight.conf.failure import LAKE_HELD, RUN_FAILED
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.lake_rows import EVERY_ROW
from hindsight.jobs.lake import lake_lease
from hindsight.jobs.lake.hadoop_store import HadoopStore
from hindsight.jobs.lake.lake_lease import Holder, LakeHeldError, Lease, LeaseFolder, LeaseLostError, take
from hindsight.jobs.lake.lake_lease import held as held_lake
from hindsight.jobs.lake.small_files import LocalStore
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import SEND_ATTEMPT

ROOT = Path(__file__).parent.parent
# Takes the lease so and so often, waits for it, and notes where it met another run inside.
RUN = """
import os, sys, time
from pathlib import Path
from hindsight.jobs.lake.lake_lease import take
from hindsight.jobs.lake.lake_lease import LeaseFolder
from hindsight.jobs.lake.small_files import LocalStore
lake, name, times, stay = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
for n in range(times):
    lease = take(LeaseFolder(str(lake), LocalStore(lake / "_lease")), f"{name}-{n}", wait_s=60)
    (lake / "inside").open("x").close()
    print("inside", flush=True)
    time.sleep(stay)
    (lake / "inside").unlink()
    lease.renew(released=True)
"""
ELSEWHERE = Holder("run-elsewhere", "2099-01-01T00:00:00Z", "another-host", 7, "another-machine", "1")


def folder_of(lake: Path) -> LeaseFolder:
    return LeaseFolder(str(lake), LocalStore(lake / "_lease"))


def run(lake: Path, name: str, times: int, stay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(lake), name, str(times), str(stay)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def written_elsewhere(folder: LeaseFolder, renewals: int = 0) -> None:
    folder.create(3, "")
    folder.write(3, json.dumps(asdict(replace(ELSEWHERE, renewals=renewals))))


def sleeping(sleep):
    """The module ``time`` with another ``sleep``, for the lease alone: other threads of this process sleep as ever."""
    return SimpleNamespace(**{**vars(time), "sleep": sleep})


@pytest.fixture
def quick(monkeypatch) -> list[float]:
    """A holder of another machine is dead after a second, in which a run sleeps twenty times; its sleeps."""
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(lake_lease, "STALE_S", 1)
    monkeypatch.setattr(lake_lease, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(lake_lease, "time", sleeping(sleep))
    return sleeps


def test_a_second_process_is_refused_at_once_and_told_who_holds_the_lake_until_that_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(lake_lease, "time", sleeping(lambda _: pytest.fail("waited, though it was not asked to")))
    with run(tmp_path, "first", 1, 60) as first:
        try:
            assert first.stdout is not None and first.stdout.readline() == "inside\n"
            begun = time.monotonic()
            with pytest.raises(LakeHeldError) as refused:
                take(folder_of(tmp_path), "second")
            assert time.monotonic() - begun < 1
        finally:
            first.send_signal(signal.SIGKILL)
    holder = json.loads(next((tmp_path / "_lease").iterdir()).read_text())
    for known in ("first-0", f"process {first.pid} on {holder['host']}", holder["since"], f"{tmp_path}/_lease"):
        assert known in str(refused.value)
    take(folder_of(tmp_path), "second").confirm()
    assert [path.name for path in (tmp_path / "_lease").iterdir()] == ["000000002.json"]


def test_of_processes_that_race_one_at_a_time_is_inside(tmp_path):
    """The file ``inside`` is created by one process only: a second one fails of it."""
    racers = [run(tmp_path, f"racer-{n}", 5, 0.02) for n in range(4)]
    for racer in racers:
        said, _ = racer.communicate(timeout=120)
        assert (racer.returncode, said) == (0, "inside\n" * 5)


def test_a_silent_holder_on_another_machine_is_succeeded_whatever_its_clock_said(tmp_path, quick):
    folder = folder_of(tmp_path)
    written_elsewhere(folder)
    begun = time.monotonic()
    take(folder, "second").confirm()
    assert 1 <= time.monotonic() - begun < 5
    assert sum(quick) < 1.1


def test_a_holder_on_another_machine_that_renews_its_lease_is_alive(tmp_path, quick, monkeypatch):
    folder, looks = folder_of(tmp_path), iter(range(1, 1000))
    written_elsewhere(folder)
    monkeypatch.setattr(lake_lease, "time", sleeping(lambda _: written_elsewhere(folder, next(looks))))
    with pytest.raises(LakeHeldError, match="run-elsewhere, process 7 on another-host"):
        take(folder, "second")


def test_a_run_waits_as_long_as_it_was_asked_to(tmp_path, quick):
    held = take(folder_of(tmp_path), "first")
    begun = time.monotonic()
    with pytest.raises(LakeHeldError):
        take(folder_of(tmp_path), "second", wait_s=0.5)
    assert 0.5 <= time.monotonic() - begun < 3
    assert sum(quick) < 0.6
    held.renew(released=True)
    take(folder_of(tmp_path), "second").confirm()


def test_a_process_number_that_another_process_has_by_now_keeps_nobody_out(tmp_path):
    folder = folder_of(tmp_path)
    earlier = replace(ELSEWHERE, pid=os.getpid(), machine=lake_lease._machine(), process="1")
    folder.create(3, json.dumps(asdict(earlier)))
    take(folder, "second").confirm()
    assert folder.numbers() == [0, 4] and '"second"' in folder.latest()[1]


def test_who_was_succeeded_while_alive_writes_nothing_more_and_takes_nothing_back(tmp_path, quick):
    folder = folder_of(tmp_path)
    written_elsewhere(folder)
    late = Lease(folder, 3, ELSEWHERE)
    late.confirm()
    successor = take(folder, "second")
    late.renew()
    late.renew(released=True)
    with pytest.raises(LeaseLostError, match="run-elsewhere"):
        late.confirm()
    successor.confirm()


def test_a_higher_number_ends_a_hold_whose_file_still_stands(tmp_path):
    """The successor has written its own file, and not yet removed the earlier one; a rival has lost the race."""
    folder = folder_of(tmp_path)
    late = take(folder, "first")
    folder.create(5, json.dumps(asdict(ELSEWHERE)))
    assert sorted(folder.numbers()) == [0, 1, 5]
    with pytest.raises(LeaseLostError):
        late.confirm()
    assert not Lease(folder, 4, replace(ELSEWHERE, run_id="rival")).begin()


def test_deleting_the_folder_ends_a_hold(tmp_path):
    late = take(folder_of(tmp_path), "first")
    for file in (tmp_path / "_lease").iterdir():
        file.unlink()
    take(folder_of(tmp_path), "second").confirm()
    with pytest.raises(LeaseLostError):
        late.confirm()


def test_a_holder_that_could_not_say_that_it_lives_does_so_before_it_writes(tmp_path, monkeypatch):
    held = take(folder_of(tmp_path), "first")
    before = folder_of(tmp_path).latest()
    held.confirm()
    assert folder_of(tmp_path).latest() == before
    monkeypatch.setattr(lake_lease, "_now", lambda: time.clock_gettime(lake_lease._CLOCK) + lake_lease.STALE_S / 2)
    held.confirm()
    assert folder_of(tmp_path).latest() != before


def test_a_store_that_rewrites_a_file_in_two_steps_ends_no_hold(tmp_path, monkeypatch):
    held, begun = take(folder_of(tmp_path), "first"), Event()

    def write(store: LocalStore, name: str, text: str) -> None:
        store.delete(name)
        begun.set()
        time.sleep(0.2)
        store.create(name, text)

    monkeypatch.setattr(LocalStore, "write", write)
    renewer = Thread(target=held.renew)
    renewer.start()
    begun.wait()
    held.confirm()
    renewer.join()
    assert json.loads(folder_of(tmp_path).latest()[1])["renewals"] == 1


def test_a_file_that_is_just_being_written_is_a_holder(tmp_path, quick):
    folder = folder_of(tmp_path)
    folder.create(1, "")
    begun = time.monotonic()
    take(folder, "second").confirm()
    assert time.monotonic() - begun >= 1


@pytest.mark.parametrize(("error", "code"), [(LakeHeldError, LAKE_HELD), (LeaseLostError, RUN_FAILED)])
def test_each_has_its_exit_code(error, code, capsys):
    def fails():
        raise error("why")

    assert exit_code(fails) == code
    assert capsys.readouterr().err == "hindsight: why\n"


WRITES = {
    "create": (),
    "append": (None,),
    "update": (None, [], []),
    "replace": (None, EVERY_ROW),
    "delete": ("",),
    "compact": (),
    "vacuum": (),
    "drop_old_candidates": (),
}


@pytest.mark.parametrize("write", [*WRITES, "add_candidates"])
def test_no_write_begins_without_the_lease(write, spark, tmp_path, monkeypatch):
    def lost() -> None:
        raise LeaseLostError

    lake = Lake(spark, str(tmp_path), retention_days=7, confirm=lost)
    monkeypatch.setattr(lake, "exists", lambda _: False)
    with pytest.raises(LeaseLostError):
        if write == "add_candidates":
            lake.add_candidates(SEND_ATTEMPT, None, first=True)
        else:
            getattr(lake, write)(SEND_ATTEMPT, *WRITES[write])
    assert [*tmp_path.iterdir()] == []


def test_hadoops_client_keeps_the_files_as_well(spark, tmp_path, quick):
    path = spark._jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}/_lease")
    system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    folder = LeaseFolder("lake", HadoopStore(spark._jvm, system, path))
    assert folder.latest() == (0, None)
    assert folder.create(1, "one") and not folder.create(1, "two")
    assert folder.latest() == (1, "one")
    folder.write(1, "wön")
    assert (folder.read(1), folder.read(2)) == ("wön", None)
    lease = take(folder, "first")
    lease.confirm()
    folder.delete(2)
    assert folder.numbers() == [0]
    with pytest.raises(LeaseLostError):
        lease.confirm()


@pytest.mark.parametrize(
    ("error", "released"), [(None, True), (ValueError, True), (SystemExit, True), (KeyboardInterrupt, False)]
)
def test_a_lake_is_given_back_however_the_run_ends_but_not_where_its_jvm_may_go_on(
    tmp_path, monkeypatch, error, released
):
    monkeypatch.setattr(LeaseFolder, "of", lambda *_: folder_of(tmp_path))
    with suppress(error or ()), held_lake(None, str(tmp_path), RunContext("")) as context:
        context.confirm()
        if error:
            raise error
    assert json.loads(folder_of(tmp_path).latest()[1])["released"] is released
