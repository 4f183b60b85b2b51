"""The wheel, built from the sources and installed where nothing else of the project can be reached."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from hindsight.jobs.running.own_release import own_build

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parent.parent
PACKAGES = ("conf", "schemas", "udfs", "jobs")
SOURCES = ("hindsight", *PACKAGES, "docs", "data_samples", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
SOURCE_SUFFIXES = {".py", ".pyc"}


class Installed(NamedTuple):
    """An environment with the wheel in it."""

    bin: Path
    packages: Path

    def run(self, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A program of the environment, started elsewhere, with nothing of the sources to be found."""
        given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [str(self.bin / str(words[0])), *map(str, words[1:])]
        return subprocess.run(command, cwd=cwd, env=given, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(made), "."], cwd=source, check=True)
    (one,) = made.iterdir()
    return one


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    names = {"base": str(folder), "platbase": str(folder)}
    place = Installed(folder / "bin", Path(sysconfig.get_path("purelib", "venv", names)))
    before = {path.name for path in place.packages.iterdir()}
    # What it depends on is there already; of what lies beside it nothing else leads to the sources.
    (place.packages / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    new = {path.name for path in place.packages.iterdir()} - before - {"beside.pth"}
    assert {name.partition("-")[0] for name in new} == {"hindsight", "rocketmq_hindsight"}
    assert all(name == "hindsight" or name.endswith(".dist-info") for name in new)
    return place


def files_below(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


def test_every_file_of_the_folders_is_in_it(installed):
    for package in PACKAGES:
        assert files_below(installed.packages / "hindsight" / package) == files_below(ROOT / package)


def test_its_licence_and_that_of_what_others_wrote_come_with_it(installed):
    (told,) = installed.packages.glob("rocketmq_hindsight-*.dist-info/licenses")
    assert files_below(told) == {"LICENSE", "hindsight/jobs/report/d3-LICENSE.txt"}


def test_it_is_the_build_of_the_sources(installed, tmp_path):
    assert installed.run("hindsight", "--version", cwd=tmp_path).stdout.endswith(f"(build {own_build()})\n")


def test_it_clashes_with_no_other_name(installed, tmp_path):
    code = f"import importlib.util as u, json; print(json.dumps([n for n in {PACKAGES} if u.find_spec(n)]))"
    done = installed.run("python", "-c", code, cwd=tmp_path)
    assert (json.loads(done.stdout), done.stderr) == ([], "")


def test_a_pipeline_runs_from_elsewhere(installed, tmp_path):
    shutil.copytree(ROOT / "data_samples", tmp_path / "landing")
    done = installed.run("hindsight", "run-pipeline", "--landing", "landing", "--lake", "lake", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lake" / "report.html").stat().st_size > 100_000
    query = "SELECT count(*) AS n FROM current_drift"
    asked = installed.run("hindsight", "sql", query, "--lake", "lake", "--json", cwd=tmp_path)
    assert json.loads(asked.stdout)["n"] > 0, asked.stderr
    code = "from hindsight import Lake; print(len(Lake('lake').view('current_drift').arrow()))"
    read = installed.run("python", "-c", code, cwd=tmp_path)
    assert int(read.stdout) == json.loads(asked.stdout)["n"], read.stderr


def test_type_checkers_find_what_python_is_offered(installed, tmp_path):
    assert (installed.packages / "hindsight" / "py.typed").exists()
    (tmp_path / "own.py").write_text(
        "from hindsight import Lake\n\nreveal_type(Lake('lake').table('send_call').polars())\n"
    )
    python = installed.bin / "python"
    checked = installed.run("python", "-m", "mypy", "--strict", "--python-executable", python, "own.py", cwd=tmp_path)
    assert 'Revealed type is "polars.' in checked.stdout and "DataFrame" in checked.stdout, checked.stdout
    assert checked.returncode == 0, checked.stdout
