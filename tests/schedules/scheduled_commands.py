"""The commands that the examples in docs/schedules start, each with the environment that its schedule gives it."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any
from unittest.mock import MagicMock, patch

from ruamel.yaml import YAML

from hindsight.jobs.run_pipeline import JOBS

SCHEDULES = Path(__file__).parent.parent.parent / "docs" / "schedules"
_AIRFLOW = ("airflow", "airflow.sdk", "airflow.providers", "airflow.providers.standard")
_BASH = "airflow.providers.standard.operators.bash"


@dataclass(frozen=True)
class Command:
    """A call of spark-submit or hindsight: its words, the first of them the program."""

    schedule: str
    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """What is called, without its folder."""
        return Path(self.words[0]).name

    def __str__(self) -> str:
        return " ".join([self.schedule, self.program, *(Path(word).name for word in self.words if ".py" in word)])


def pipeline_jobs() -> list[str]:
    """The jobs of run-pipeline in their order, the report at the end."""
    return [*(job.replace("_", "-") for job in JOBS), "render-report"]


def of_cron() -> list[Command]:
    """What the crontab's line calls, its variables filled in."""
    environment, line = crontab()
    command = Template(line.split(maxsplit=5)[5]).safe_substitute(environment)
    return [Command("cron", words, environment) for words in calls(command)]


def of_systemd() -> list[Command]:
    """What the service's ``ExecStart`` lines call."""
    lines = unit("hindsight.service")["Service", "ExecStart"]
    return [Command("systemd", words) for line in lines for words in calls(line)]


def of_airflow() -> list[Command]:
    """What the DAG's tasks call; Airflow itself is not needed to read them."""
    operator = MagicMock()
    modules = {name: MagicMock() for name in _AIRFLOW} | {_BASH: MagicMock(BashOperator=operator)}
    with patch.dict("sys.modules", modules):
        runpy.run_path(str(SCHEDULES / "hindsight_dag.py"))
    tasks = [call.kwargs for call in operator.call_args_list]
    return [Command("airflow", words) for task in tasks for words in calls(task["bash_command"])]


def of_kubernetes() -> list[Command]:
    """What the CronJob's containers call, the init container first."""
    pod = cronjob()["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [
        Command("kubernetes", (*container["command"], *container["args"]))
        for container in (*pod["initContainers"], *pod["containers"])
    ]


def of_services(name: str) -> list[Command]:
    """What the examples of one that never ends start: a unit, a Deployment and a compose file.

    systemd takes a ``;`` for one only where it stands alone.
    """
    (line,) = unit(f"{name}.service")["Service", "ExecStart"]
    (container,) = deployment(name)["spec"]["template"]["spec"]["containers"]
    composed = compose(name)["services"][name]
    return [
        Command("systemd", tuple(line.split())),
        Command("kubernetes", (*container["command"], *container["args"])),
        Command("compose", (*composed["entrypoint"], *composed["command"])),
    ]


def of_the_page() -> list[Command]:
    """What the shell blocks of the README call."""
    page = (SCHEDULES / "README.md").read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        variables = dict(re.findall(r'^(?:export )?(\w+)="?(.*?)"?$', block, re.MULTILINE))
        told = re.sub(r"^(?:export )?\w+=.*$", "", block, flags=re.MULTILINE)
        lines = Template(told).safe_substitute(variables).splitlines()
        found += [Command("README", words, variables) for line in lines for words in calls(line)]
    return found


def calls(shell: str) -> Iterator[tuple[str, ...]]:
    """The calls of our programs within a line of shell, up to the next operator; redirections are left out."""
    lexer = shlex.shlex(shell, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    for begin, word in enumerate(words):
        if re.fullmatch(r"(\S+/bin/)?(spark-submit|hindsight)", word):
            ends = [at for at in range(begin, len(words)) if set(words[at]) <= set("();<>|&")]
            yield tuple(words[begin : ends[0] if ends else None])


def crontab() -> tuple[dict[str, str], str]:
    """The crontab's environment, and its one line."""
    lines = (SCHEDULES / "hindsight.crontab").read_text(encoding="utf-8").splitlines()
    told = [line for line in lines if line and not line.startswith("#")]
    settings = [line for line in told if re.match(r"\w+=", line)]
    (line,) = [line for line in told if line not in settings]
    return dict(setting.split("=", 1) for setting in settings), line


def unit(name: str) -> dict[tuple[str, str], list[str]]:
    """The values of each section and key of a systemd unit, in their order."""
    section, values = "", {}
    for line in (SCHEDULES / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            values.setdefault((section, key), []).append(value)
    return values


def cronjob() -> dict[str, Any]:
    """The CronJob as it stands in its file."""
    return YAML(typ="safe").load(SCHEDULES / "cronjob.yaml")


def deployment(name: str) -> dict[str, Any]:
    """A Deployment as it stands in its file."""
    return YAML(typ="safe").load(SCHEDULES / f"{name}-deployment.yaml")


def compose(name: str) -> dict[str, Any]:
    """A compose file."""
    return YAML(typ="safe").load(SCHEDULES / f"{name}-compose.yaml")


SERVICES = {"collector": "collect", "watch": "watch"}  # the command of each
SCHEDULED = (of_cron, of_systemd, of_airflow, of_kubernetes)
