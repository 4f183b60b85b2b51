"""Whether a run would find nothing new is told without Spark, and everything that a run would act on is seen."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.landing.landing_survey import NOTHING_LANDED, Survey, survey
from hindsight.jobs.publishing.last_run import LastRun, last_run
from hindsight.udfs.landing.landing_formats import FORMATS
from tests.test_folders_at_rest import Lake

HOOKS = "producer_hook/cluster=c"
OUTPUTS = "mqadmin/cluster=c"


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Place:
    """A landing folder and a lake whose last whole run is noted."""

    def __init__(self, root: Path) -> None:
        self.landing, self.lake, self.settings = root / "landing", root / "lake", load_settings(None)
        write(self.landing / HOOKS / "a.jsonl")
        write(self.landing / OUTPUTS / "a.txt")
        write(self.lake / "send_attempt/_delta_log/00000000000000000001.json")
        write(self.lake / "_candidate/send_attempt/part-0.parquet")
        write(self.lake / "_notes/render_report")
        write(self.lake / "report.html")
        self.seen().remember(["a summary"], confirm=lambda: None)

    def landed(self) -> Survey:
        return survey(str(self.landing), FORMATS)

    def seen(self) -> LastRun:
        found = last_run(str(self.lake), self.landed(), self.settings, "local", None)
        assert found is not None
        return found

    def use(self, name: str, **values: object) -> None:
        section = getattr(self.settings, name).model_copy(update=values)
        self.settings = self.settings.model_copy(update={name: section})


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def test_as_the_last_run_left_it_there_is_nothing_to_do(place):
    assert place.seen().left_nothing_to_do()
    assert place.seen().summary == ["a summary"]


CHANGES: dict[str, Callable[[Place], None]] = {
    "a file landed": lambda p: write(p.landing / HOOKS / "b.jsonl"),
    "a file landed in another cluster": lambda p: write(p.landing / "producer_hook/cluster=d/a.jsonl"),
    "a file of another format landed": lambda p: write(p.landing / "client_log/cluster=c/a.log"),
    "a file grew": lambda p: write(p.landing / HOOKS / "a.jsonl", "xx"),
    "the commands of mqadmin's outputs came": lambda p: write(p.landing / OUTPUTS / "commands.jsonl"),
    "a table was written to": lambda p: write(p.lake / "send_attempt/_delta_log/00000000000000000002.json"),
    "a table was made": lambda p: write(p.lake / "send_verdict/_delta_log/00000000000000000000.json"),
    "a run was broken off at its commits": lambda p: write(p.lake / "_notes/rebuild_availability", "[]"),
    "a page of other dates was made": lambda p: write(p.lake / "_notes/render_report", "y"),
    "the page is gone": lambda p: (p.lake / "report.html").unlink(),
    "the note is gone": lambda p: (p.lake / "_notes/run_pipeline").unlink(),
    "a setting is another": lambda p: p.use("replay", carry_days=3),
    "a setting of the page is another": lambda p: p.use("report", rows=3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_run_would_act_on_is_seen(place, change):
    CHANGES[change](place)
    assert not place.seen().left_nothing_to_do()


def test_other_contracts_are_seen(place, monkeypatch):
    monkeypatch.setattr("hindsight.jobs.publishing.last_run.SCHEMA_VERSION", 10_000)
    assert not place.seen().left_nothing_to_do()


STAYS: dict[str, Callable[[Place], None]] = {
    "a hidden file is half written": lambda p: write(p.landing / HOOKS / ".b.jsonl"),
    "what no format knows landed": lambda p: write(p.landing / HOOKS / "b.bin"),
    "the heap is larger": lambda p: p.use("spark", driver_memory="9g"),
    "a run before it left a candidate": lambda p: write(p.lake / "_candidate/send_attempt/part-1.parquet"),
}


@pytest.mark.parametrize("change", STAYS)
def test_what_no_run_would_act_on_starts_none(place, change):
    STAYS[change](place)
    assert place.seen().left_nothing_to_do()


def test_what_lands_while_a_run_is_at_work_is_left_to_the_next_one(place):
    write(place.landing / HOOKS / "b.jsonl")
    at_work = place.seen()
    write(place.landing / HOOKS / "c.jsonl")
    at_work.remember([], confirm=lambda: None)
    assert not place.seen().left_nothing_to_do()


def test_nothing_is_noted_once_the_lake_is_another_runs(place):
    write(place.landing / HOOKS / "b.jsonl")

    def lost() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        place.seen().remember([], confirm=lost)
    assert not place.seen().left_nothing_to_do()


def test_a_note_that_cannot_be_read_tells_nothing(place):
    write(place.lake / "_notes/run_pipeline", '{"given": ')
    assert not place.seen().left_nothing_to_do()


@pytest.mark.parametrize(
    ("lake", "master", "environment"),
    [
        ("s3a://bucket/lake", None, {}),
        ("hdfs://host/lake", None, {}),
        ("/lake", "spark://host:7077", {}),
        ("/lake", "yarn", {}),
        ("/lake", None, {"HADOOP_CONF_DIR": "/etc/hadoop"}),
    ],
)
def test_a_lake_that_may_be_elsewhere_is_left_to_spark(tmp_path, monkeypatch, lake, master, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert last_run(lake, NOTHING_LANDED, load_settings(None), "spark", master) is None


def test_a_uri_of_this_machine_names_the_same_lake(place):
    found = last_run(place.lake.as_uri(), place.landed(), place.settings, "spark", "spark://host:7077")
    assert found is not None and found.left_nothing_to_do()


def test_a_run_that_finds_nothing_new_removes_what_a_killed_one_left(tmp_path, monkeypatch):
    lake = Lake(tmp_path, monkeypatch)
    lake.land("a.jsonl", 1)
    lake.run()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "hindsight-scratch-of-a-dead-one"
    left.mkdir()
    lake.run()
    assert not left.exists()
