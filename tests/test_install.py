"""Parts that are installed only on request: what does without them, and what is said where one is asked for.

Quick tests hide their modules from a process; soak installs each extra from its lock in an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from hindsight.jobs.command_line import COMMANDS
from tests.test_wheel import wheel  # noqa: F401  (a fixture)

ROOT = Path(__file__).parent.parent
SPARK, GATES = ("pyspark", "py4j", "delta"), ("great_expectations",)
ABSENT = (*SPARK, *GATES, "pandas", "scipy", "altair", "polars")
HIDING = """
import sys
from importlib.machinery import PathFinder
class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {absent} else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""
ALONE = """
from hindsight.jobs.command_line import main
sys.argv = ["hindsight", *sys.argv[1:]]
main()
"""
EVERY_COMMAND = """
from hindsight.jobs.command_line import COMMANDS, app, asked, of_one
from hindsight.jobs.running.exit_codes import exit_code
of_spark = {
    "explain": ["abc"], "message": ["abc"], "sql": ["SELECT 1"],
}
for name in COMMANDS:
    assert exit_code(lambda: asked([name, "--help"])(standalone_mode=False)) == 0, name
    of_one(name)
    options = next(one for one in app.registered_commands if one.name == name).callback.__annotations__
    if "engine" in options:
        given = [name, *of_spark.get(name, []), "--engine", "spark"]
        given += ["--landing", sys.argv[1]] if "landing" in options else []
        given += ["--lake", sys.argv[1]] if "lake" in options else []
        print(name, exit_code(lambda: asked(given)(standalone_mode=False)), file=sys.stderr)
"""


def without(absent, *words, code=ALONE, cwd=ROOT) -> subprocess.CompletedProcess[str]:
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HIDING.format(absent=repr(absent)) + code, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=given, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo_lake(tmp_path_factory) -> Path:
    """The lake of ``hindsight demo`` in an empty folder, made with the base alone."""
    folder = tmp_path_factory.mktemp("empty")
    done = without(ABSENT, "demo", cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Longest isolations" in done.stdout and 100_000 < (folder / "lake/report.html").stat().st_size < 300_000
    return folder / "lake"


def test_the_base_makes_the_samples_lake_and_answers(demo_lake):
    asked = without(ABSENT, "sql", "SELECT count(*) AS n FROM current_drift", "--lake", demo_lake, "--json")
    assert json.loads(asked.stdout)["n"] > 0, asked.stderr
    assert without(ABSENT, "drift", "--lake", demo_lake, "--fail-on", "high").returncode == 1


def test_samples_never_get_into_a_lake_that_is_there(demo_lake):
    again = without(ABSENT, "demo", "--lake", demo_lake)
    assert (again.returncode, "name a new folder" in again.stderr) == (64, True)


def test_a_broken_rule_fails_with_and_without_great_expectations(demo_lake):
    incidents = str(demo_lake / "drift_incident")
    first = DeltaTable(incidents).to_pyarrow_table().slice(0, 1)
    try:
        write_deltalake(incidents, first, mode="append")  # its key is there again
        alone, beside = (without(a, "check", "--json", "--lake", demo_lake) for a in (ABSENT, SPARK))
    finally:
        DeltaTable(incidents).restore(DeltaTable(incidents).version() - 1)
    assert (alone.returncode, beside.returncode) == (2, 2), alone.stderr + beside.stderr
    rows = [[json.loads(line) for line in done.stdout.splitlines()] for done in (alone, beside)]
    assert rows[0] == rows[1] and len(rows[0]) > 100
    assert "Great Expectations is not installed" in alone.stderr
    assert "Great Expectations is not installed" not in beside.stderr


def test_every_command_starts_and_says_what_spark_would_need(tmp_path):
    done = without(ABSENT, tmp_path, code=EVERY_COMMAND)
    assert done.returncode == 0, done.stderr
    asked = [name for name in COMMANDS if f"\n{name} " in done.stderr]
    assert {"run-pipeline", "sql", "drift", "check", "maintain", "metrics"} <= set(asked)
    assert [name for name in asked if f"\n{name} 64\n" not in done.stderr] == [], done.stderr
    assert done.stderr.count("rocketmq-hindsight[spark]") == len(asked), done.stderr


def test_a_frame_of_pandas_is_refused_with_a_sentence(demo_lake):
    code = "from hindsight import Lake\n"
    code += "try: Lake(sys.argv[1]).table('send_call').pandas()\nexcept ImportError as error: print(error)"
    assert "pandas is not installed" in without(ABSENT, demo_lake, code=code).stdout


def test_the_manual_comes_with_it():
    listed = without(ABSENT, "manual").stdout
    pages = {line.split()[0] for line in listed.splitlines()}
    assert {"runbook", "faq", "monitoring/dashboard.json", "monitoring/alerts.yml"} <= pages
    alerts = without(ABSENT, "manual", "monitoring/alerts.yml").stdout
    assert alerts == (ROOT / "docs/monitoring/alerts.yml").read_text(encoding="utf-8").rstrip("\n") + "\n"
    assert "did you mean 'runbook'" in without(ABSENT, "manual", "runbok").stderr


# -- each extra in an environment of its own, from the locks -----------------------------------------------------------

EXTRAS = {"base": (), "spark": ("spark",), "gates": ("gates",), "both": ("spark", "gates")}


@pytest.fixture(scope="module", params=EXTRAS)
def fresh(request, wheel, tmp_path_factory) -> tuple[str, Path]:  # noqa: F811
    """An environment with the wheel and what the locks of some extras pin."""
    folder = tmp_path_factory.mktemp(request.param)
    venv.create(folder, with_pip=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    locks = [f"requirements{extra}.lock" for extra in ("", *(f"-{extra}" for extra in EXTRAS[request.param]))]
    listed = [word for lock in locks for word in ("-r", ROOT / lock)]
    subprocess.run([*pip, "--require-hashes", *listed], check=True)
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    return request.param, folder


def run(program: object, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A program started elsewhere, without a terminal, with nothing of the sources to be found."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(program), *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


OPEN = "SELECT list(incident_id) AS ids FROM open_incidents"
IN_ORDER = (
    ("demo",),
    ("ingest-send-records", "--landing", "LANDING", "--lake", "lake"),
    ("ingest-consumer-snapshots", "--landing", "LANDING", "--lake", "lake"),
    ("rebuild-availability", "--landing", "LANDING", "--lake", "lake"),
    ("flag-allocation-drift", "--landing", "LANDING", "--lake", "lake"),
    ("run-pipeline", "--landing", "LANDING", "--lake", "lake"),
    ("check-landing", "LANDING"),
    ("diagnose", "LANDING/client_log"),
    ("sql", "SELECT 1", "--lake", "lake"),
    ("drift", "--lake", "lake"),
    ("lint", "--lake", "lake"),
    ("top", "--lake", "lake"),
    ("explain", "INCIDENT", "--lake", "lake"),
    ("bundle", "INCIDENT", "--lake", "lake"),
    ("replay", "bundle.zip"),
    ("compare", "lake", "lake"),
    ("metrics", "--lake", "lake"),
    ("events", "--lake", "lake"),
    ("check", "--lake", "lake"),
    ("maintain", "--lake", "lake"),
    ("what-if", "x", "--suppose", 'group = {consumer_group = "g_avg", joins = ["10.0.0.9@new"]}', "--lake", "lake"),
    ("render-report", "--lake", "lake"),
    ("ladder", "--lake", "lake"),
    ("upgrade", "g_avg", "--release", "5.3.3", "--lake", "lake"),
    ("manual", "runbook"),
)
# what cannot be had there, and the sentence that says so
REFUSED = {
    ("ship", "nowhere", "--to", "landing", "--once"): (64, "'nowhere' is no folder of recorders"),
    ("message", "--key", "none", "--lake", "lake"): (64, "no send and no consumption is recorded"),
    ("mcp", "--lake", "lake"): (64, "rocketmq-hindsight[mcp]"),
    ("serve", "--lake", "nowhere"): (64, "there is no lake at 'nowhere'"),
    ("collect", "--name-server", "127.0.0.1:9", "--cluster", "c", "--landing", "l", "--once"): (3, "ever answered"),
    ("watch", "--name-server", "127.0.0.1:9", "--cluster", "c", "--landing", "l", "--lake", "new", "--rounds", "1"): (
        3,
        "ever answered",
    ),
}


@pytest.mark.soak
def test_each_command_in_a_fresh_environment(fresh, tmp_path):
    extra, folder = fresh
    assert {words[0] for words in (*IN_ORDER, *REFUSED)} == COMMANDS.keys()
    meant = {"LANDING": str(ROOT / "data_samples")}

    def hindsight(*words: str) -> subprocess.CompletedProcess[str]:
        told = [re.sub("|".join(meant), lambda found: meant[found[0]], word) for word in words]
        return run(folder / "bin/hindsight", *told, cwd=tmp_path)

    for words in IN_ORDER:
        if "INCIDENT" in words:
            meant["INCIDENT"] = json.loads(hindsight("sql", OPEN, "--lake", "lake", "--json").stdout)["ids"][0]
        done = hindsight(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (words, done.stderr[-2000:])
        assert hindsight(words[0], "--help").returncode == 0
    for words, (code, sentence) in REFUSED.items():
        done = hindsight(*words)
        assert (done.returncode, sentence in done.stderr) == (code, True), (words, done.stderr[-2000:])
        assert "Traceback" not in done.stderr
    absent = "Great Expectations is not installed" in hindsight("check", "--lake", "lake").stderr
    assert absent == (extra in ("base", "spark"))
    on_spark = hindsight("sql", "SELECT 1", "--engine", "spark", "--lake", "lake")
    if extra in ("base", "gates"):
        assert (on_spark.returncode, "rocketmq-hindsight[spark]" in on_spark.stderr) == (64, True), on_spark.stderr
    else:
        assert on_spark.returncode == 0, on_spark.stderr[-2000:]


@pytest.mark.soak
def test_without_an_installation_runners_make_the_samples_lake(wheel, tmp_path):  # noqa: F811
    """`pipx run` and `uv tool run`, in empty folders, with what the index gives for the wheel's ranges."""
    venv.create(tmp_path / "runners", with_pip=True)
    runners = tmp_path / "runners/bin"
    done = run(runners / "python", "-m", "pip", "install", "--quiet", "pipx==1.18.4", "uv==0.13.9", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    python = ("--python", sys.executable)
    for program, words in {
        "pipx": ("run", *python, "--spec", wheel, "hindsight"),
        "uv": ("tool", "run", *python, "--from", wheel, "hindsight"),
    }.items():
        folder = tmp_path / program
        folder.mkdir()
        for asked in (("demo",), ("drift", "--lake", "lake")):
            done = run(runners / program, *words, *asked, cwd=folder)
            assert done.returncode == 0, (program, done.stderr[-2000:])
        assert (folder / "lake/report.html").stat().st_size > 100_000


@pytest.mark.soak
def test_the_base_is_small(fresh, wheel):  # noqa: F811
    extra, folder = fresh
    if extra != "base":
        pytest.skip("only the base is bounded")
    (packages,) = folder.glob("lib/python*/site-packages")
    files = (file for file in packages.rglob("*") if file.is_file())
    held = sum(file.lstat().st_size for file in files if not file.relative_to(packages).parts[0].startswith("pip"))
    print(f"site-packages {held / 1e6:.0f} MB, wheel {wheel.stat().st_size / 1e6:.2f} MB")
    assert held < 550_000_000 and wheel.stat().st_size < 3_000_000
