"""What lies in a folder of a date that is over is known: it is looked through again where something has changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hindsight.conf.failure import DONE
from hindsight.jobs.commands.watch_command import run_pipeline
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.landing import landing_root
from hindsight.jobs.landing.landing_survey import look_at, survey
from hindsight.schemas import INGESTED_FILE

HOOK = "producer_hook"
FOLDER = f"{HOOK}/cluster=c"
OLD, DAY_S = "2026-03-02", 86_400


def write(path: Path, text: str = "", *, days_ago: float = 3) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for changed in (path, path.parent):
        age(changed, days_ago)
    return path


def age(path: Path, days: float) -> None:
    at = time.time() - days * DAY_S
    os.utime(path, (at, at))


def at_rest(landing: Path) -> set[str]:
    return {path.removeprefix(f"{FOLDER}/") for path in survey(str(landing), [HOOK]).at_rest}


@pytest.mark.parametrize(
    ("folder", "rests"),
    [
        *((name, True) for name in (OLD, "date=2026-03-02", "20260302", "20260302T13", "2026/03/02/13")),
        *((name, True) for name in ("event_date=2026-03-02/hour=13", "app/2026-03-02")),
        *((name, False) for name in ("app", "app-2026-03-02", "20261399", "20260302123000", "2026/03")),
        *((-1, False), (-2, True), (1, False)),
    ],
)
def test_a_folder_that_a_date_names_which_is_over_comes_to_rest(tmp_path, folder, rests):
    if isinstance(folder, int):  # days from today, which may be another day than when the tests were collected
        folder = str(datetime.now(UTC).date() + timedelta(days=folder))
    write(tmp_path / FOLDER / folder / "a.jsonl")
    assert at_rest(tmp_path) == ({folder} if rests else set())


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file came within a day": lambda at: (write(at / "b.jsonl", days_ago=0.5), age(at, 3)),
    "a file came or went within a day": lambda at: age(at, 0.5),
    "a file is left alone": lambda at: write(at / "b.csv"),
    "a link is left alone": lambda at: ((at / "c.jsonl").symlink_to(at / "a.jsonl"), age(at, 3)),
    "a folder is in it": lambda at: (write(at / "13" / "b.jsonl"), age(at, 3)),
    "nothing is in it": lambda at: ((at / "a.jsonl").unlink(), age(at, 3)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_does_not_where(tmp_path, change):
    write(tmp_path / FOLDER / OLD / "a.jsonl")
    CHANGES[change](tmp_path / FOLDER / OLD)
    assert OLD not in at_rest(tmp_path)


def test_the_folder_of_a_cluster_never_does(tmp_path):
    write(tmp_path / HOOK / "cluster=2026-03-02" / "a.jsonl")
    assert at_rest(tmp_path) == set()


def test_what_is_known_is_not_looked_through_until_it_changes(tmp_path):
    folder = write(tmp_path / FOLDER / OLD / "a.jsonl").parent
    found = survey(str(tmp_path), [HOOK])
    again = survey(str(tmp_path), [HOOK], found.at_rest)
    assert (len(found.files), again.files, again.at_rest) == (1, [], found.at_rest)
    place = look_at(str(tmp_path), found.at_rest)
    assert place.has_files and place.said() == []
    write(folder / "b.jsonl", days_ago=2)
    later = survey(str(tmp_path), [HOOK], found.at_rest)
    assert len(later.files) == 2 and later.at_rest != found.at_rest


class Lake:
    """A landing folder with a file of each of some days, and the lake of its runs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.looked_through = root, list[str]()
        scandir = os.scandir
        monkeypatch.setattr(landing_root.os, "scandir", lambda at: self.looked_through.append(str(at)) or scandir(at))

    def land(self, name: str, number: int, **aged: float) -> None:
        start = {"type": "start", "ts": 1_767_600_000_000 + number, "clientId": f"c@{number}", "group": "g"}
        line = json.dumps({**start, "version": "4.9.8"})
        write(self.root / "landing" / FOLDER / name, f"{line}\n", **aged)

    def run(self, *options: str) -> set[str]:
        """The folders that a run looked through."""
        self.looked_through.clear()
        places = ["--landing", str(self.root / "landing"), "--lake", str(self.root / "lake")]
        assert run_pipeline([*places, *options]) == DONE
        of_landing = [path for path in self.looked_through if path.startswith(str(self.root / "landing" / HOOK))]
        assert len(of_landing) == len({*of_landing})  # each once, whichever jobs ask
        below = (path.partition(f"{FOLDER}/")[2] for path in of_landing)
        return {path for path in below if path}

    def files(self) -> list[str]:
        lake = LocalLake(str(self.root / "lake"), retention_days=7)
        return sorted(name.removeprefix(f"{FOLDER}/") for name in lake.rows(INGESTED_FILE)["file"].to_pylist())


def test_runs_look_through_what_may_be_new(tmp_path, monkeypatch):
    lake = Lake(tmp_path, monkeypatch)
    lake.land(f"{OLD}/a.jsonl", 1)
    lake.land("2026-03-03/a.jsonl", 2)
    assert lake.run() == {OLD, "2026-03-03"}
    assert lake.run() == set()  # nothing is new
    lake.land("new.jsonl", 3, days_ago=0)
    assert lake.run() == set()
    lake.land(f"{OLD}/late.jsonl", 4, days_ago=2)
    assert lake.run() == {OLD}
    assert lake.run() == set()
    assert lake.files() == [f"{OLD}/a.jsonl", f"{OLD}/late.jsonl", "2026-03-03/a.jsonl", "new.jsonl"]
    assert lake.run("--from", OLD, "--to", OLD) == {OLD, "2026-03-03"}


def test_a_run_that_was_broken_off_knows_nothing_more(tmp_path, monkeypatch):
    lake = Lake(tmp_path, monkeypatch)
    lake.land(f"{OLD}/a.jsonl", 1)
    with monkeypatch.context() as broken:
        broken.setattr(LocalLake, "write_gathered", lambda self: 1 / 0)
        with pytest.raises(AssertionError):
            lake.run()
    assert lake.run() == {OLD}
    assert lake.files() == [f"{OLD}/a.jsonl"]
