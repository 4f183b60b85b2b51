"""A folder that its writer has sealed is looked through once; what somebody else puts there is found and told."""

from __future__ import annotations

import json
import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs
from structlog.testing import capture_logs

from hindsight.jobs.collect.landing_writer import LandingWriter
from hindsight.jobs.landing import landing_root
from hindsight.jobs.landing.landing_survey import survey, whole_survey
from hindsight.udfs.landing import hour_folders
from hindsight.udfs.landing.hour_folders import SEAL, hour_folder, is_hour, is_over, named_by, seal_of
from tests.test_folders_at_rest import FOLDER, HOOK, Lake, age, write

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
HOUR = "2026-03-02/09-collector"
MINUTE_AGO = 1 / 1440  # days


class Clock:
    """The time that writers go by."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def going(self):
        return patch.object(hour_folders, "datetime", SimpleNamespace(now=lambda zone: self.now.astimezone(zone)))


@pytest.fixture
def clock():
    clock = Clock()
    with clock.going():
        yield clock


def seal(folder: Path, **others: int) -> None:
    """Seal what lies in a folder; ``others``: sizes that are told beside or instead."""
    sizes = {file.name: file.stat().st_size for file in folder.glob("[!_]*")}
    (folder / SEAL).write_bytes(seal_of(sizes | others))
    age(folder, MINUTE_AGO)


def sealed(landing: Path, name: str = HOUR) -> Path:
    folder = write(landing / FOLDER / name / "a.jsonl", "1\n").parent
    seal(folder)
    return folder


def test_an_hour_has_a_folder_of_each_writer(clock):
    assert hour_folder("collector") == HOUR
    assert hour_folder("a b/../ü") == "2026-03-02/09-a-b-..-"
    assert is_hour(HOUR) and not is_hour("2026-03-02/09") and not is_hour(f"{HOUR}/x") and not is_hour("../../09-x/y")
    assert [is_over(f"2026-03-{name}") for name in ("02/09-z", "02/10-a", "02/08-z", "01/23-z")] == [0, 0, 1, 1]
    assert hour_folder("") == "" and not is_over("") and not is_over("2026-03-01") and not is_over("../../x")


@pytest.mark.parametrize(
    "damaged", [b"", b"[]", b'{"files": [1]}', b'{"files": {"a": null, "b": 1e999}}', b"\xff", b"[" * 9_000]
)
def test_a_damaged_seal_names_nothing(damaged):
    assert named_by(damaged) == {}
    assert named_by(seal_of({"b": 2, "a": 1})) == {"a": 1, "b": 2}


def test_a_sealed_folder_is_at_rest_at_once_and_its_seal_is_no_file(tmp_path):
    folder = sealed(tmp_path, hour_folder("collector"))
    found = whole_survey(str(tmp_path), {})
    assert [file.file for file in found.files] == [str((folder / "a.jsonl").relative_to(tmp_path))]
    assert found.left_alone == found.unknown == [] and not found.unnamed
    assert list(found.at_rest) == [str(folder.relative_to(tmp_path))]
    again = survey(str(tmp_path), [HOOK], found.at_rest)
    assert again.files == [] and again.at_rest == found.at_rest


CHANGES = {
    "there is no seal": lambda at: (at / SEAL).unlink(),
    "the seal is damaged": lambda at: (at / SEAL).write_text("x"),
    "the seal is a link": lambda at: (
        (at / SEAL).rename(at.parent / "elsewhere"),
        (at / SEAL).symlink_to(at.parent / "elsewhere"),
    ),
    "another file is there": lambda at: write(at / "b.jsonl", "2\n"),
    "a file has grown": lambda at: (at / "a.jsonl").write_text("1\n2\n"),
    "a file is left alone": lambda at: (at / "b.csv").write_text("2\n"),
    "a file is being written": lambda at: (at / "_b.jsonl").write_text("2\n"),
    "a folder is in it": lambda at: write(at / "more" / "b.jsonl", "2\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_not_where(tmp_path, change):
    folder = sealed(tmp_path, hour_folder("collector"))
    CHANGES[change](folder)
    age(folder, MINUTE_AGO)
    found = survey(str(tmp_path), [HOOK], {})
    assert not found.at_rest
    unnamed = {"another file is there": "b.jsonl", "a file has grown": "a.jsonl", "the seal is damaged": "a.jsonl"}
    assert [path.rpartition("/")[2] for path in found.unnamed if "_b." not in path and ".csv" not in path] == (
        [unnamed[change]] if change in unnamed else []
    )


def test_nor_where_it_may_have_changed_a_moment_ago(tmp_path):
    folder = sealed(tmp_path, hour_folder("collector"))
    os.utime(folder)
    assert not survey(str(tmp_path), [HOOK], {}).at_rest


def test_a_seal_that_cannot_be_read_is_none(tmp_path, monkeypatch):
    sealed(tmp_path)
    monkeypatch.setattr(
        landing_root.LandingRoot, "opened", lambda *of: (_ for _ in ()).throw(PermissionError(13, "no"))
    )
    found = survey(str(tmp_path), [HOOK], {})
    assert len(found.files) == 1 and not found.at_rest


def test_the_folder_of_a_cluster_is_never_at_rest(tmp_path, monkeypatch):
    seal(write(tmp_path / FOLDER / "a.jsonl", "1\n").parent)
    assert not survey(str(tmp_path), [HOOK], {}).at_rest
    monkeypatch.setattr(landing_root, "_system_of", lambda uri: (Store(tmp_path), ""))
    assert not survey("mock://b", [HOOK], {}).at_rest


def test_nor_is_a_folder_of_a_store_in_which_others_are(tmp_path, monkeypatch):
    """Else what comes there would not be seen for a day."""
    monkeypatch.setattr(landing_root, "_system_of", lambda uri: (Store(tmp_path), ""))
    seal(write(tmp_path / FOLDER / "2026-03-02" / "a.jsonl", "1\n").parent)
    hour = sealed(tmp_path)
    first = survey("mock://b", [HOOK], {})
    assert list(first.at_rest) == [f"{FOLDER}/{HOUR}"]
    seal(hour.parent)
    assert survey("mock://b", [HOOK], first.at_rest).at_rest == first.at_rest


def test_no_seal_is_read_where_nobody_will_know_what_is_at_rest(tmp_path):
    sealed(tmp_path)
    with patch.object(landing_root, "named_by", side_effect=AssertionError):
        assert len(survey(str(tmp_path), [HOOK]).files) == 1


def test_runs_look_through_it_once_and_tell_what_came_later(tmp_path, monkeypatch):
    lake, hour = Lake(tmp_path, monkeypatch), hour_folder("ship")
    day = hour.partition("/")[0]
    folder = tmp_path / "landing" / FOLDER / hour
    lake.land(f"{hour}/a.jsonl", 1, days_ago=MINUTE_AGO)
    seal(folder)
    assert lake.run() == {day, hour}
    lake.land("new.jsonl", 2, days_ago=0)
    assert lake.run() == {day}
    lake.land(f"{hour}/late.jsonl", 3, days_ago=MINUTE_AGO / 2)
    with capture_logs() as told:
        assert lake.run() == {day, hour}
    (said,) = [one for one in told if "does not name" in one["event"]]
    assert (said["files"], said["such_as"]) == (1, f"{FOLDER}/{hour}/late.jsonl")
    assert lake.files() == sorted([f"{hour}/a.jsonl", f"{hour}/late.jsonl", "new.jsonl"])
    lake.land("newer.jsonl", 4, days_ago=0)
    with capture_logs() as told:
        lake.run()
    assert not [one for one in told if "does not name" in one["event"]]


class Store:
    """A store, which counts what it lists."""

    def __init__(self, root: Path) -> None:
        self._store = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())
        self.listed: list[tuple[str, bool]] = []

    def get_file_info(self, asked):
        if isinstance(asked, fs.FileSelector):
            self.listed.append((asked.base_dir.removeprefix(f"/{FOLDER}").lstrip("/"), asked.recursive))
        return self._store.get_file_info(asked)

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_store_is_listed_by_prefixes_where_some_are_sealed_and_whole_again_after_a_day(tmp_path, monkeypatch):
    store = Store(tmp_path)
    monkeypatch.setattr(landing_root, "_system_of", lambda uri: (store, ""))
    for hour in ("09", "10"):
        sealed(tmp_path, f"2026-03-02/{hour}-a")
    write(tmp_path / FOLDER / "2026-03-02" / "11-a" / "a.jsonl")
    write(tmp_path / FOLDER / "2026-03-01" / "11" / "a.jsonl")
    first = survey("mock://b", [HOOK], {})
    assert len(first.files) == 4 and store.listed == [(HOOK, True)]
    assert [path.removeprefix(f"{FOLDER}/") for path in first.at_rest] == ["2026-03-02/09-a", "2026-03-02/10-a"]
    store.listed.clear()
    write(tmp_path / FOLDER / "2026-03-02" / "09-a" / "late.jsonl")
    again = survey("mock://b", [HOOK], first.at_rest)
    assert again.at_rest == first.at_rest
    assert [file.file.removeprefix(f"{FOLDER}/") for file in again.files] == [
        "2026-03-01/11/a.jsonl",
        "2026-03-02/11-a/a.jsonl",
    ]
    recursive = [place for place, is_recursive in store.listed if is_recursive]
    assert sorted(recursive) == ["2026-03-01", "2026-03-02/11-a"]
    assert len(store.listed) == len(recursive) + 3  # the format's, the cluster's, and that of the date
    old = {path: at - 86_400_000_000_000 for path, at in first.at_rest.items()}
    later = survey("mock://b", [HOOK], old)
    assert len(later.files) == 5 and [path.rpartition("/")[2] for path in later.unnamed] == ["late.jsonl"]
    assert [path.rpartition("/")[2] for path in later.at_rest] == ["10-a"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("wait"), st.sampled_from([10, 45, 600])),
        st.tuples(st.just("restart"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("killed"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("intrude"), st.integers(0, 20)),
        st.tuples(st.just("run"), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_writers_and_others_do_each_file_is_listed(steps):
    """Runs that know what earlier ones saw at rest miss nothing; sealed hours are not looked through again."""
    clock, seen, known, number = Clock(), set[str](), dict[str, int](), 0
    with tempfile.TemporaryDirectory() as folder, clock.going():
        landing = Path(folder)
        writers = {name: LandingWriter(landing, "c", hours_of=name) for name in "ab"}

        def run() -> None:
            nonlocal known
            with patch.object(landing_root, "_SETTLED_NS", -1):  # what follows the sleep is another tick of the clock
                found = survey(str(landing), ["admin_snapshots"], known)
            seen.update(file.file for file in found.files)
            known = dict(found.at_rest)
            time.sleep(0.006)

        for what, which in [*steps, ("run", None)]:
            number += 1
            if what == "write":
                writers[which].write(b"%d" % number)
                writers[which].close()
            elif what == "wait":
                clock.now += timedelta(minutes=which)
            elif what in ("restart", "killed"):
                if what == "killed":
                    own = landing / "admin_snapshots" / "cluster=c"
                    own.mkdir(parents=True, exist_ok=True)
                    (own / f"collector-{number}.jsonl.part").write_bytes(b"1\n")
                writers[which] = LandingWriter(landing, "c", hours_of=which)
                writers[which].start()
                writers[which].close()
            elif what == "intrude":
                hours = sorted(landing.glob("*/*/*/*"))
                if hours:
                    (hours[which % len(hours)] / f"x{number}.jsonl").write_text("1\n")
            else:
                run()
        every = {str(file.relative_to(landing)) for file in landing.rglob("*.jsonl")}
        assert seen == every
        assert not list(landing.glob(f"*/*/{SEAL}"))
        for mark in landing.rglob(SEAL):
            named = named_by(mark.read_bytes())
            own = {file.name: file.stat().st_size for file in mark.parent.glob("collector-*.jsonl")}
            assert own.items() <= named.items()


def test_a_writer_puts_files_into_the_hour_in_which_they_end_and_seals_it_later(tmp_path, clock):
    writer = LandingWriter(tmp_path, "c", hours_of="collector")
    writer.start()
    folder = tmp_path / "admin_snapshots" / "cluster=c"
    for minute in range(3):
        writer.write(b"%d" % minute)
        writer.close()
        clock.now += timedelta(minutes=20)
    first, second = folder / HOUR, folder / "2026-03-02/10-collector"
    assert [len([*hour.glob("collector-*.jsonl")]) for hour in (first, second)] == [2, 1]
    assert named_by((first / SEAL).read_bytes()) == {
        file.name: file.stat().st_size for file in first.glob("collector-*.jsonl")
    }
    assert not (second / SEAL).exists()
    clock.now += timedelta(hours=1)
    other = LandingWriter(tmp_path, "c", hours_of="other")
    other.start()
    assert not (second / SEAL).exists()  # it is another writer's
    LandingWriter(tmp_path, "c", hours_of="collector").start()
    assert len(named_by((second / SEAL).read_bytes())) == 1
    assert json.loads((second / SEAL).read_text())["files"]
