"""The ``hindsight`` command: arguments in, an exit code of the table in docs/operations.md out."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.interrupts import listen
from hindsight.jobs.running.own_release import own_build, own_release
from hindsight.jobs.running.places import is_submitted
from hindsight.jobs.running.terminal import start_log
from hindsight.jobs.running.unseen import pandas_when_asked


class Listed(NamedTuple):
    """A command: the module whose ``app`` has it, its help in a line, which a test compares with its own, its group."""

    module: str
    help: str
    group: str


_OTHER = "hindsight.jobs.commands."
_JOBS, _ASKING = f"{_OTHER}job_commands", f"{_OTHER}asking_commands"
_COLLECT, _RUN, _ASK, _PROVE, _KEEP = "Collect", "Run", "Ask", "Prove", "Keep"
COMMANDS = {
    "run-pipeline": Listed(
        _JOBS,
        "Run all jobs in order, in one session: landing files in; checked tables, a summary and the report out.",
        _RUN,
    ),
    "demo": Listed(
        f"{_OTHER}shipped_commands",
        "Run all jobs on the recorded samples that hindsight brings, into a new lake.",
        _RUN,
    ),
    "ingest-send-records": Listed(_JOBS, "Take in new files of the producers' formats.", _RUN),
    "ingest-consumer-snapshots": Listed(_JOBS, "Take in new files of the consumers' formats and of logs.", _RUN),
    "rebuild-availability": Listed(
        _JOBS,
        "Compute the producers' tables for the dates that new input changed, and for later dates that depend on them.",
        _RUN,
    ),
    "flag-allocation-drift": Listed(
        _JOBS,
        "Compute the consumers' tables for the dates that new input changed, and for later dates that depend on them.",
        _RUN,
    ),
    "check-landing": Listed(
        f"{_OTHER}check_landing",
        "Show what a run would do with a landing folder: in seconds, without a lake and without Spark.",
        _RUN,
    ),
    "collect": Listed(
        f"{_OTHER}collect_command",
        "Ask name servers and brokers who consumes what, again and again; read-only, no Java.",
        _COLLECT,
    ),
    "ship": Listed(
        f"{_OTHER}ship_command",
        "Ship what recorders have finished, as fewer and larger files, to a landing folder or an S3 store.",
        _COLLECT,
    ),
    "diagnose": Listed(
        f"{_OTHER}diagnose",
        "Show from client and broker logs alone who owned which queues, why that changed, and what failed: in seconds.",
        _ASK,
    ),
    "watch": Listed(
        f"{_OTHER}watch_command",
        "Collect, and run the pipeline every minute; each run writes the page again, from the second sweep on.",
        _COLLECT,
    ),
    "render-report": Listed(
        _ASKING, "Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html.", _ASK
    ),
    "sql": Listed(
        _ASKING, "Run a query over tables and views, in DuckDB's SQL, or in Spark's with --engine spark.", _ASK
    ),
    "explain": Listed(
        _ASKING, "Show the inputs of one incident, window, verdict or drift row, so that you can redo it by hand.", _ASK
    ),
    "message": Listed(
        _ASKING,
        "Show the life of a message: its attempts, where it was stored, who consumed it, and what became of it.",
        _ASK,
    ),
    "mcp": Listed(
        f"{_OTHER}serve_command",
        "Answer programs by the Model Context Protocol on stdin and stdout: read-only, bounded; needs the extra `mcp`.",
        _ASK,
    ),
    "serve": Listed(
        f"{_OTHER}serve_command",
        "Answer programs of this machine over HTTP with JSON: read-only, bounded, GET alone; for dashboards.",
        _ASK,
    ),
    "bundle": Listed(
        _ASKING,
        "Write the inputs of one incident, window or verdict into a file to hand on: with other names, and proved.",
        _PROVE,
    ),
    "manual": Listed(
        f"{_OTHER}shipped_commands",
        "Show a page of the manual, or a file of it; without a name: which there are.",
        _ASK,
    ),
    "metrics": Listed(
        _ASKING,
        "Say as OpenMetrics gauges how things stood at the last record: windows, incidents, delays, rebalances.",
        _ASK,
    ),
    "drift": Listed(_ASKING, "Show the incidents that are open now, the worst first.", _ASK),
    "lint": Listed(
        _ASKING, "Show wrong configuration in what has landed: what it breaks, and the line to change.", _ASK
    ),
    "top": Listed(
        f"{_OTHER}top_command",
        "Show live what a lake says: incidents, servers, groups by lag, isolations; keys filter and open one.",
        _ASK,
    ),
    "check": Listed(
        _ASKING,
        "Check published tables against their contracts and invariants; exit code 2 if a critical expectation fails.",
        _KEEP,
    ),
    "compare": Listed(
        f"{_OTHER}compare_command",
        "Say which derived rows appear, vanish or flip: between two lakes, under other settings, by another release.",
        _PROVE,
    ),
    "what-if": Listed(
        f"{_OTHER}what_if_command",
        "Derive recorded dates again under premises, and say what would differ; published tables are only read.",
        _PROVE,
    ),
    "upgrade": Listed(
        f"{_OTHER}upgrade_command",
        "Tell what a rollout does to a group, member by member: who reads what, and how long nobody does.",
        _PROVE,
    ),
    "ladder": Listed(
        f"{_OTHER}ladder_command",
        "Weigh ladders of the fault table by recorded sends: healthy brokers avoided, and sends that met a sick one.",
        _PROVE,
    ),
    "replay": Listed(
        f"{_OTHER}replay_command",
        "Derive what a bundle claims again from the inputs in it, and compare; exit code 4 if a row differs.",
        _PROVE,
    ),
    "events": Listed(
        f"{_OTHER}events_command",
        "Note what has happened to incidents since the last time, and show it or send it to whoever must know.",
        _ASK,
    ),
    "maintain": Listed(
        f"{_OTHER}maintain_command",
        "Maintain the lake: compact small files, delete old quarantine rows, remove files that no kept version needs.",
        _KEEP,
    ),
}

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
    epilog=(
        "Begin with hindsight check-landing DIR: it shows what a run would read in DIR/<format>/cluster=<name>/. Then "
        "hindsight run-pipeline --landing DIR --lake DIR: it takes in new files, computes what they change, "
        "and writes <lake>/report.html; run it as often as you like. Then ask: hindsight drift, hindsight sql, "
        "hindsight explain. If you have only logs: hindsight diagnose LOG... "
        "Exit codes: 0 done, 1 drift found (drift, lint --fail-on) or rows differ (compare), 2 a data gate failed, "
        "3 the run failed, 4 a replayed bundle differs, 64 wrong usage, 75 another run writes to the lake, "
        "130 interrupted."
    ),
)


def app_of(name: str) -> typer.Typer:
    """The app that has a command of ``COMMANDS``; commands that say no help of their own have the one listed."""
    found: typer.Typer = import_module(COMMANDS[name].module).app
    for one in found.registered_commands:
        if one.name and not (one.help or (one.callback and one.callback.__doc__)):
            one.help = COMMANDS[one.name].help
    return found


def of_one(name: str) -> None:
    """Give ``app`` the options of one command."""
    own = {(one.name or one.callback.__name__): one for one in app_of(name).registered_commands if one.callback}
    listed = next(command for command in app.registered_commands if command.name == name)
    listed.callback = (own.get(name) or own.get(name.replace("-", "_")) or next(iter(own.values()))).callback


def _listed_only() -> None:
    """Is never run: ``app`` lists the commands, ``app_of`` has them."""


def _say_release(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"hindsight {own_release()} (build {own_build()})")
        raise typer.Exit


@app.callback()
def _of_all(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_release, help="Say which release and build this is, and end."
        ),
    ] = False,
) -> None:
    pass


for _name, _listed in COMMANDS.items():
    app.command(_name, help=_listed.help, rich_help_panel=_listed.group)(_listed_only)


_FOR_SPARK = ("--engine", "--master")


def main(command: str | None = None) -> None:
    """Run the command line, or one command of it; ends the process."""
    listen()
    start_log()
    arguments = [*([command] if command else []), *sys.argv[1:]]
    sys.exit(exit_code(lambda: asked(arguments)(standalone_mode=False)))


def asked(arguments: list[str]) -> Callable[..., object]:
    """What runs a command line, for typer's own ``standalone_mode``; of a command only its own module is loaded."""
    name, *others = arguments or [""]
    if name not in COMMANDS:
        for completed in _completed():
            of_one(completed)
        return partial(app, args=arguments, prog_name="hindsight")
    others = _of_today(name, others)
    is_for_spark = is_submitted() or any(word.startswith(_FOR_SPARK) for word in others)
    with nullcontext() if is_for_spark else pandas_when_asked():
        found = app_of(name)
    if len(found.registered_commands) > 1:
        return partial(found, args=[name, *others], prog_name="hindsight")
    return partial(found, args=others, prog_name=f"hindsight {name}")


def _of_today(name: str, words: list[str]) -> list[str]:
    """The words of a command with ``--json`` in place of ``--format json``, as some called it before; it is told."""
    said = "\0".join(("", *words, ""))
    now = re.sub("(?<=\0)--format[=\0]json\0", "--json\0", said)
    if name in ("compare", "replay", "what-if"):
        now = re.sub("(?<=\0)--format[=\0]text\0", "", now)
    if now != said:
        sys.stderr.write(
            "hindsight: --format json is called --json now, and text needs no word; the next release knows neither.\n"
        )
    return now.split("\0")[1:-1]


def _completed() -> list[str]:
    """The command whose options a shell asks for while it completes a line; it tells the line by these variables."""
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    return [name for name in line.split()[1:2] if name in COMMANDS]


if __name__ == "__main__":
    main()
