"""The examples in docs/schedules call what exists, in the right order, one run at a time."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.command_line import app_of
from hindsight.jobs.running.spark_session import _local
from tests.schedules.scheduled_commands import (
    SCHEDULED,
    SCHEDULES,
    SERVICES,
    compose,
    cronjob,
    crontab,
    deployment,
    of_airflow,
    of_cron,
    of_kubernetes,
    of_services,
    of_systemd,
    of_the_page,
    pipeline_jobs,
    unit,
)

ROOT = SCHEDULES.parent.parent
COMMANDS = [command for of_one in SCHEDULED for command in of_one()]


def command_of(words: tuple[str, ...]) -> list[str]:
    """What the command line reads of a call: the command's name, then its options."""
    if Path(words[0]).name == "hindsight":
        return list(words[1:])
    (at,) = [at for at, word in enumerate(words) if word.startswith("jobs/")]
    properties = words[words.index("--properties-file") + 1]
    assert [name for name in (words[at], properties) if not (ROOT / name).is_file()] == []
    job = Path(words[at]).stem
    return [*([] if job == "command_line" else [job.replace("_", "-")]), *words[at + 1 :]]


def parsed(words: tuple[str, ...]) -> tuple[str, dict[str, object]]:
    """The command's name and what its options were given; wrong usage raises, and nothing is run."""
    arguments = command_of(words)
    name, *rest = arguments
    found = typer.main.get_command(app_of(name))
    command = getattr(found, "commands", {name: found})[name]
    return name, command.make_context(name, rest).params


@pytest.mark.parametrize("command", [*COMMANDS, *of_the_page()], ids=str)
def test_the_command_line_takes_what_a_schedule_calls(command):
    name, options = parsed(command.words)
    assert options["lake"] in ("/srv/hindsight/lake", "s3a://bucket/lake")
    if name == "drift":
        assert options["fail_on"] == "HIGH"
    else:
        assert options["landing"] in ("/srv/hindsight/landing", "s3://bucket/landing")


@pytest.mark.parametrize("name", SERVICES)
def test_the_command_line_takes_what_the_examples_of_a_service_start(name):
    commands = of_services(name)
    assert len({command.words[1:] for command in commands}) <= 2  # name servers have other names in Kubernetes
    for command in commands:
        called, options = parsed(command.words)
        assert called == SERVICES[name]
        assert (options["name_server"].count(";"), options["cluster"], options["gzipped"]) == (1, "prod", True)
        places = (str(options["landing"]), str(options["metrics"]))
        assert places == ("/srv/hindsight/landing", "/srv/hindsight/collector.prom")
        if called == "watch":
            told = (options["lake"], options["run_minutes"], str(options["run_metrics"]))
            assert told == ("/srv/hindsight/lake", 1, "/srv/hindsight/run.prom")


@pytest.mark.parametrize(("name", "grace_s"), [("collector", 30), ("watch", 300)])
def test_no_example_lets_two_run_or_cuts_a_sweep_short(name, grace_s):
    spec, service = deployment(name)["spec"], unit(f"{name}.service")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == grace_s
    assert compose(name)["services"][name]["stop_grace_period"] == f"{grace_s}s"
    assert service["Service", "TimeoutStopSec"] == [str(grace_s)]
    assert service["Service", "RestartPreventExitStatus"] == ["64"]


def test_systemd_tells_spark_nothing_of_a_stop_that_lets_a_run_end():
    assert unit("watch.service")["Service", "KillMode"] == ["mixed"]


@pytest.mark.parametrize("name", SERVICES)
def test_no_example_holds_a_secret_or_names_one_on_the_command_line(name):
    words = [word for command in of_services(name) for word in command.words]
    assert [word for word in words if "key" in word.lower() or "secret" in word.lower()] == []
    (container,) = deployment(name)["spec"]["template"]["spec"]["containers"]
    assert [entry.keys() for entry in container["env"]] == [{"name", "valueFrom"}] * 2


@pytest.mark.parametrize("of_one", [of_cron, of_systemd, of_kubernetes])
def test_a_schedule_runs_the_pipeline_and_then_asks_for_drift(of_one):
    assert [parsed(command.words)[0] for command in of_one()] == ["run-pipeline", "drift"]


def test_the_tasks_of_the_dag_are_those_of_the_pipeline_and_then_the_alert():
    expected = [*pipeline_jobs(), "drift"]
    assert [parsed(command.words)[0] for command in of_airflow()] == expected


def test_no_schedule_needs_spark_and_the_page_says_what_does():
    assert {command.program for command in COMMANDS} == {"hindsight"}
    on_this_machine = [command for command in of_the_page() if "local[4]" in command.words]
    assert [one.environment["PYSPARK_PYTHON"] for one in on_this_machine] == ["/opt/hindsight/.venv/bin/python"]


def test_local_conf_holds_what_hindsight_sets_for_itself_in_local_mode(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    builder = MagicMock()
    builder.config.return_value = builder
    _local(builder, load_settings())
    set_by_hindsight = dict(call.args for call in builder.config.call_args_list)
    lines = (SCHEDULES / "local.conf").read_text(encoding="utf-8").splitlines()
    told = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    assert told.keys() == set_by_hindsight.keys()
    differ = {name for name, value in told.items() if value != set_by_hindsight[name]}
    assert differ == {"spark.driver.memory", "spark.driver.extraJavaOptions"}


def test_the_schedules_are_of_five_fields_and_start_in_the_same_minute():
    dag = (SCHEDULES / "hindsight_dag.py").read_text(encoding="utf-8")
    fields = crontab()[1].split()[:5]
    assert [re.fullmatch(r"[\d*/,-]+", one) is not None for one in fields] == [True] * 5
    assert cronjob()["spec"]["schedule"] == " ".join(fields)
    assert f'schedule="{" ".join(fields)}"' in dag
    assert unit("hindsight.timer")["Timer", "OnCalendar"] == [f"*:{fields[0]}"]


def test_no_schedule_lets_two_runs_overlap():
    assert " flock --nonblock " in crontab()[1].partition("hindsight run-pipeline")[0]
    assert unit("hindsight.service")["Service", "Type"] == ["oneshot"]
    assert cronjob()["spec"]["concurrencyPolicy"] == "Forbid"
    assert "max_active_runs=1," in (SCHEDULES / "hindsight_dag.py").read_text(encoding="utf-8")


def test_the_page_names_every_example():
    page = (SCHEDULES / "README.md").read_text(encoding="utf-8")
    examples = [path.name for path in SCHEDULES.iterdir() if path.is_file() and path.name != "README.md"]
    assert [name for name in examples if f"]({name})" not in page] == []
