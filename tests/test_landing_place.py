"""What ``--landing`` may name: a mistake is refused with what was expected, before Spark starts; files may be gone."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from hindsight.jobs.commands import job_commands
from hindsight.jobs.landing import landing_root
from hindsight.jobs.landing.landing_survey import NotALandingError, look_at
from hindsight.jobs.run_pipeline import JOBS, READ_LANDING
from tests.commands import command

ROOT = Path(__file__).parent.parent
COMMANDS = ["run-pipeline", *(job.replace("_", "-") for job in READ_LANDING)]


def write(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x\n")
    return root


def hindsight(*arguments: str, java: Path) -> subprocess.CompletedProcess[str]:
    """The command on a machine without Java: who gets as far as Spark ends with 3."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("HADOOP", "PYSPARK"))}
    return command(*arguments, env={**own, "JAVA_HOME": str(java)})


MISTAKES = {
    "a folder of no format": (
        ["client_logs/cluster=c/a.log"],
        "client_logs/ (no format has this name; nearest: client",
    ),
    "no folder of a cluster": (["client_log/cluster-x/a.log"], "nearest to cluster-x/: cluster=x/"),
    "files in the root": (["a.log", "b.log"], "a.log, b.log (in the landing folder itself only folders of formats"),
    "a name of no pattern": (["heartbeat/cluster=c/a.json"], "heartbeat/cluster=c/a.json (the name matches none of"),
    "many": ([f"logs/{i}/a" for i in range(9)] + [f"{i}.log" for i in range(9)], "0.log, 1.log, 2.log and 6 more ("),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_folder_of_which_no_job_knows_a_file_is_refused_with_what_was_found_and_expected(tmp_path, mistake):
    paths, found = MISTAKES[mistake]
    with pytest.raises(NotALandingError) as refused:
        look_at(str(write(tmp_path, *paths))).require(lake_has_input=False)
    said = str(refused.value)
    assert found in said and repr(str(tmp_path)) in said
    assert "<landing>/<format>/cluster=<name>/, with <format> one of producer_hook, trace_topic," in said


@pytest.mark.parametrize("inside", ["client_log", "client_log/cluster=c"])
def test_who_names_a_folder_in_the_landing_folder_is_told_which_one_was_meant(tmp_path, inside):
    write(tmp_path, "client_log/cluster=c/a.log")
    with pytest.raises(NotALandingError, match=f"Did you mean '{tmp_path}'"):
        look_at(str(tmp_path / inside)).require(lake_has_input=False)


def test_who_names_the_folder_above_is_told_which_one_was_meant(tmp_path):
    write(tmp_path, "aside/a", "landing/client_log/cluster=c/a.log")
    with pytest.raises(NotALandingError, match=f"Did you mean '{tmp_path}/landing'"):
        look_at(str(tmp_path)).require(lake_has_input=False)


@pytest.mark.parametrize("path", ["landng", "landng/client_log", "landing/x", "other"])
def test_an_absent_folder_is_refused_with_the_nearest_one_beside_it(tmp_path, path):
    write(tmp_path, "landing/a.log", "others")
    for lake_has_input in (False, None, True):
        with pytest.raises(NotALandingError, match="there is no landing folder") as refused:
            look_at(str(tmp_path / path)).require(lake_has_input=lake_has_input)
        asked = f"; did you mean '{tmp_path}/landing'?" if path.startswith("landng") else "."
        assert f"there is no landing folder '{tmp_path}/{path}'{asked} Expected: files" in str(refused.value)


def test_a_file_is_no_landing_folder(tmp_path):
    with pytest.raises(NotALandingError):
        look_at(str(write(tmp_path, "a.log") / "a.log")).require(lake_has_input=True)


@pytest.mark.parametrize(
    ("paths", "has_files"),
    [
        ([], False),
        (["client_log/cluster=c/a.log"], True),
        (["client_log/cluster=c/a.log", "client_logs/cluster=c/a.log"], True),
        (["client_log/cluster=c/.half.log"], False),
        ([".gitkeep"], False),
        (["mqadmin/cluster=c/commands.jsonl"], False),
    ],
)
def test_what_may_be_a_landing_folder_is_let_in(tmp_path, paths, has_files):
    (tmp_path / "truth" / "empty").mkdir(parents=True)
    place = look_at(str(write(tmp_path, *paths)))
    place.require(lake_has_input=False)
    assert place.has_files == has_files


def test_once_the_lake_has_input_files_may_be_gone_and_what_is_left_is_only_told(tmp_path):
    place = look_at(str(write(tmp_path, "client_logs/cluster=c/a.log")))
    place.require(lake_has_input=True)
    place.require(lake_has_input=None)
    said = place.said()
    assert said[0].startswith(f"nothing to take in: '{tmp_path}' contains no file that a job can read; expected: ")
    assert said[1:] == ["left alone: no format has this name; nearest: client_log/", "    client_logs/"]


def test_a_store_has_no_folder_once_its_files_are_gone(tmp_path, monkeypatch):
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())  # which is not taken for a disk
    monkeypatch.setattr(landing_root, "_system_of", lambda uri: (store, uri[len("mock://b/") :]))
    write(tmp_path, "landing/client_log/cluster=c/a.log")
    look_at("mock://b/landing").require(lake_has_input=False)
    gone = look_at("mock://b/landng")
    gone.require(lake_has_input=True)
    gone.require(lake_has_input=None)
    assert "contains no file at all" in gone.said()[0]
    with pytest.raises(NotALandingError, match="did you mean 'mock://b/landing'"):
        gone.require(lake_has_input=False)


def test_an_empty_folder_is_said_in_words(tmp_path):
    (said,) = look_at(str(tmp_path)).said()
    assert said.startswith(
        f"nothing to take in: '{tmp_path}' contains no file at all; expected: files below <landing>/"
    )


def test_what_is_left_alone_is_named_and_counted_within_bounds(tmp_path):
    write(tmp_path, "client_log/cluster=c/a.log", *(f"client_log/cluster=c/{i:03}.bak" for i in range(200)))
    write(tmp_path, *(f"client_log/{i:03}/a.log" for i in range(200)))
    said = look_at(str(tmp_path)).said()
    assert said[0] == "left alone: not below client_log/cluster=<name>/; nearest to 000/: cluster=000/"
    assert said[1] == "    client_log/000/a.log"
    assert len(said) < 40 and said[-1] == "and 390 more, for other reasons"
    (tmp_path / "client_log" / "cluster=c" / "z.bak").touch()
    for i in range(200):
        (tmp_path / f"client_log/{i:03}/a.log").unlink()
    reason, *shown, more = look_at(str(tmp_path)).said()
    assert "matches none of" in reason and shown[0] == "    client_log/cluster=c/000.bak" and len(shown) == 10
    assert more == "    and 191 more"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("paths", [None, ["client_logs/cluster=c/a.log"]])
def test_the_command_refuses_it_with_64_before_spark_starts_or_a_lake_is_made(tmp_path, command, paths):
    if paths:
        write(tmp_path / "landing", *paths)
    done = hindsight(command, "--landing", f"{tmp_path}/landing", "--lake", f"{tmp_path}/lake", java=tmp_path)
    assert done.returncode == 64 and done.stdout == ""
    (said,) = done.stderr.splitlines()
    assert said.startswith("hindsight: ") and ("client_log/" in said) == bool(paths)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("landing", "taken_in"),
    [
        ([], False),
        (["client_log/cluster=c/a.log"], False),  # of the consumers only: a job of the producers runs on it, too
        (["client_logs/cluster=c/a.log"], True),
    ],
)
def test_a_landing_folder_that_may_be_one_is_left_to_the_job(tmp_path, landing, taken_in):
    write(tmp_path / "landing", *landing)
    (tmp_path / "landing").mkdir(exist_ok=True)
    if taken_in:
        write(tmp_path, "lake/ingested_file/part-0.parquet")
    arguments = ("--landing", f"{tmp_path}/landing", "--lake", f"{tmp_path}/lake")
    done = hindsight("ingest-send-records", *arguments, "--engine", "spark", java=tmp_path)
    assert done.returncode == 3 and "no Java was found" in done.stderr
    assert ('"finds nothing to take in"' in done.stderr) == (landing != ["client_log/cluster=c/a.log"])
    assert ('"paths": "client_logs/"' in done.stderr) == taken_in


def test_a_job_that_does_not_read_the_landing_folder_does_not_ask_for_it(tmp_path):
    for job in JOBS.keys() - set(READ_LANDING):
        arguments = ("--landing", f"{tmp_path}/gone", "--lake", f"{tmp_path}/lake")
        done = hindsight(job.replace("_", "-"), *arguments, "--engine", "spark", java=tmp_path)
        assert done.returncode == 3 and "no Java was found" in done.stderr


@pytest.mark.parametrize("has_input", [False, True])
def test_a_lake_that_only_spark_can_see_is_asked_for_its_input(tmp_path, has_input):
    holding = SimpleNamespace(lake=SimpleNamespace(rows=lambda table, columns: ["a row"][:has_input]))
    place = look_at(str(write(tmp_path, "client_logs/a.log")))

    @contextmanager
    def lake_held():
        yield holding

    if has_input:
        with job_commands._landing_held(lake_held, place) as held:
            assert held is holding
    else:
        with pytest.raises(NotALandingError), job_commands._landing_held(lake_held, place):
            pass
