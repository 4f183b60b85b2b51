"""The examples in docs/schedules in the hands of what reads them: bash, flock, systemd, Airflow, Kubernetes' schema."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.schedules.scheduled_commands import SCHEDULES, SERVICES, crontab, of_the_page, pipeline_jobs
from tests.schedules.stand_in_machine import Machine

pytestmark = pytest.mark.soak

ROOT = SCHEDULES.parent.parent
SCHEDULERS = ROOT / ".venv-schedules" / "bin"
CRON_COMMAND = crontab()[1].split(maxsplit=5)[5]


class MissingToolError(RuntimeError):
    """Raised when a tool that reads a schedule is not there."""


def tool(name: str, package: str) -> str:
    """The path of one of the machine's tools."""
    found = shutil.which(name)
    if found is None:
        raise MissingToolError(f"{name} was not found on PATH; install it (Debian: apt-get install {package}).")
    return found


def of_schedulers(name: str) -> str:
    """The path of a tool of the schedulers' own environment."""
    if not (SCHEDULERS / name).exists():
        raise MissingToolError(f"there is no {SCHEDULERS / name}; `make soak` makes that environment.")
    return str(SCHEDULERS / name)


def run(*command: str, environment: dict[str, str], cwd: Path | str = "/") -> subprocess.CompletedProcess[str]:
    """A command in an environment of its own, with what it printed."""
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment, cwd=cwd)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def cron(machine):
    """The crontab's command as cron runs it: by its shell, with its environment and nothing else."""
    tool("flock", "util-linux")
    environment = crontab()[0]
    moved = environment | {name: machine.moved(environment[name]) for name in ("LANDING", "LAKE", "LOCK", "LOG")}
    return lambda: run(environment["SHELL"], "-c", machine.moved(CRON_COMMAND), environment=moved)


def test_bash_reads_the_line_of_the_crontab():
    done = run(tool("bash", "bash"), "-n", "-c", CRON_COMMAND, environment={})
    assert (done.returncode, done.stderr) == (0, "")
    assert "%" not in CRON_COMMAND, "cron takes it for the line's end"


def test_cron_prints_nothing_of_a_run_that_went_well(cron, machine):
    done = cron()
    assert (done.stdout, done.stderr) == ("", "")
    assert machine.calls() == ["run-pipeline", "drift"]


@pytest.mark.parametrize(
    ("command", "code", "calls"),
    [("run-pipeline", 2, ["run-pipeline"]), ("drift", 1, ["run-pipeline", "drift"])],
)
def test_cron_prints_the_exit_code_and_the_end_of_the_log(cron, machine, command, code, calls):
    machine.let(command, end_with=code)
    told, *end = cron().stdout.splitlines()
    assert told == f"hindsight: exit code {code}; the end of {machine.log}:"
    assert end == machine.log.read_text().splitlines()
    assert machine.calls() == calls


def test_cron_starts_no_run_while_another_goes_on(cron, machine):
    with machine.lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert cron().stdout.startswith("hindsight: exit code 75;")
    assert machine.calls() == []


def test_systemd_accepts_the_units(machine):
    units = [str(machine.installed(f"hindsight.{kind}", folder="units")) for kind in ("service", "timer")]
    done = run(tool("systemd-analyze", "systemd"), "verify", "--man=no", *units, environment={})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_accepts_the_unit_of_a_service(machine, name):
    unit = str(machine.installed(f"{name}.service", folder="units"))
    done = run(tool("systemd-analyze", "systemd"), "verify", "--man=no", unit, environment={})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SERVICES)
def test_compose_accepts_the_file_of_a_service(name):
    file = str(SCHEDULES / f"{name}-compose.yaml")
    done = run(tool("docker-compose", "docker-compose"), "--file", file, "config", "--quiet", environment={})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["cronjob.yaml", *(f"{name}-deployment.yaml" for name in SERVICES)])
def test_the_examples_fit_the_schema_of_kubernetes(name):
    done = run(of_schedulers("kubernetes-validate"), "--strict", str(SCHEDULES / name), environment={})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def airflow(machine):
    """Airflow without a server, its home and its folder of DAGs on the machine."""
    dags = machine.installed("hindsight_dag.py", folder="dags").parent
    home = machine.root / "airflow"
    environment = {
        "PATH": "/usr/bin:/bin",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
    }
    return lambda program, *words: run(of_schedulers(program), *words, environment=environment)


def test_airflow_reads_the_dag_and_its_order_is_that_of_the_pipeline(airflow, machine):
    done = airflow("python", str(Path(__file__).parent / "told_by_airflow.py"), str(machine.root / "dags"))
    assert done.returncode == 0, done.stderr
    tasks = [*pipeline_jobs(), "alert"]
    order = {task: [following] for task, following in pairwise(tasks)} | {"alert": []}
    dag = {"next_tasks": order, "max_active_runs": 1, "catchup": False}
    assert json.loads(done.stdout.splitlines()[-1]) == {"errors": {}, "dags": {"hindsight": dag}}


def test_airflow_runs_the_dag_and_an_alert_fails_it(airflow, machine):
    machine.let("drift", end_with=1)
    assert airflow("airflow", "db", "migrate").returncode == 0
    done = airflow("airflow", "dags", "test", "hindsight")
    assert machine.calls() == [*pipeline_jobs(), "drift"], done.stdout + done.stderr
    assert "returned a non-zero exit code 1" in done.stdout + done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("command", [command for command in of_the_page() if "local[4]" in command.words], ids=str)
def test_the_real_spark_submit_takes_the_words_of_the_page(command, tmp_path):
    """With `--help` at the end it starts the job's file in the interpreter that the schedule names, and no session."""
    project = tmp_path / "opt" / "hindsight"
    project.mkdir(parents=True)
    (project / ".venv").symlink_to(sys.prefix)
    for folder in ("conf", "docs", "hindsight", "jobs", "schemas", "udfs"):
        (project / folder).symlink_to(ROOT / folder)
    own = {"PYSPARK_PYTHON": command.environment["PYSPARK_PYTHON"].replace("/opt", f"{tmp_path}/opt")}
    java = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    words = [word.replace("/opt", f"{tmp_path}/opt") for word in command.words]
    done = run(*words, "--help", environment={"PATH": "/usr/bin:/bin"} | own | java, cwd=project)
    assert done.returncode == 0, done.stderr
    assert "Usage: hindsight" in done.stdout
