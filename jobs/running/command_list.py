"""Every command by name, with what ``hindsight --help`` says of it; its module is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import typer


class Listed(NamedTuple):
    """A command: the module whose ``app`` has it, and its help in a line, which a test compares with its own."""

    module: str
    help: str


_OTHER = "hindsight.jobs.commands."
_JOBS, _ASKING = f"{_OTHER}job_commands", f"{_OTHER}asking_commands"
COMMANDS = {
    "run-pipeline": Listed(
        _JOBS, "Run all jobs in order, in one session: landing files in; checked tables, a summary and the report out."
    ),
    "ingest-send-records": Listed(_JOBS, "Take in new files of the producers' formats."),
    "ingest-consumer-snapshots": Listed(_JOBS, "Take in new files of the consumers' formats and of logs."),
    "rebuild-availability": Listed(
        _JOBS,
        "Compute the producers' tables for the dates that new input changed, and for later dates that depend on them.",
    ),
    "flag-allocation-drift": Listed(
        _JOBS,
        "Compute the consumers' tables for the dates that new input changed, and for later dates that depend on them.",
    ),
    "check-landing": Listed(
        f"{_OTHER}check_landing",
        "Show what a run would do with a landing folder: in seconds, without a lake and without Spark.",
    ),
    "collect": Listed(
        "hindsight.jobs.collect.command",
        "Ask name servers and brokers who consumes what, again and again; read-only, no Java.",
    ),
    "diagnose": Listed(
        f"{_OTHER}diagnose",
        "Show from client and broker logs alone who owned which queues, why that changed, and what failed: in seconds.",
    ),
    "watch": Listed(
        f"{_OTHER}watch_command",
        "Collect, and run the pipeline every minute; each run writes the page again, from the second sweep on.",
    ),
    "render-report": Listed(
        _ASKING, "Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."
    ),
    "sql": Listed(_ASKING, "Run a query over tables and views, in DuckDB's SQL, or in Spark's with --engine spark."),
    "explain": Listed(
        _ASKING, "Show the inputs of one incident, window, verdict or drift row, so that you can redo it by hand."
    ),
    "bundle": Listed(
        _ASKING,
        "Write the inputs of one incident, window or verdict into a file to hand on: with other names, and proved.",
    ),
    "metrics": Listed(
        _ASKING,
        "Say as OpenMetrics gauges how things stood at the last record: windows, incidents, delays, rebalances.",
    ),
    "drift": Listed(_ASKING, "Show the incidents that are open now, the worst first."),
    "check": Listed(
        _ASKING,
        "Check published tables against their contracts and invariants; exit code 2 if a critical expectation fails.",
    ),
    "compare": Listed(
        f"{_OTHER}compare_command",
        "Say which derived rows appear, vanish or flip: between two lakes, under other settings, by another release.",
    ),
    "what-if": Listed(
        f"{_OTHER}what_if_command",
        "Derive recorded dates again under premises, and say what would differ; published tables are only read.",
    ),
    "replay": Listed(
        f"{_OTHER}replay_command",
        "Derive what a bundle claims again from the inputs in it, and compare; exit code 4 if a row differs.",
    ),
    "events": Listed(
        f"{_OTHER}events_command",
        "Note what has happened to incidents since the last time, and show it or send it to whoever must know.",
    ),
    "maintain": Listed(
        f"{_OTHER}maintain_command",
        "Maintain the lake: compact small files, delete old quarantine rows, remove files that no kept version needs.",
    ),
}

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
    epilog=(
        "Begin with hindsight check-landing DIR: it shows what a run would read in DIR/<format>/cluster=<name>/. Then "
        "hindsight run-pipeline --landing DIR --lake DIR: it takes in new files, computes what they change, "
        "and writes <lake>/report.html; run it as often as you like. Then ask: hindsight drift, hindsight sql, "
        "hindsight explain. If you have only logs: hindsight diagnose LOG... "
        "Exit codes: 0 done, 1 drift found (drift --fail-on) or rows differ (compare), 2 a data gate failed, "
        "3 the run failed, 4 a replayed bundle differs, 64 wrong usage, 75 another run writes to the lake, "
        "130 interrupted."
    ),
)


def app_of(name: str) -> typer.Typer:
    """The app that has a command of ``COMMANDS``."""
    found: typer.Typer = import_module(COMMANDS[name].module).app
    return found


def _listed_only() -> None:
    """Is never run: ``app`` lists the commands, ``app_of`` has them."""


for _name, _listed in COMMANDS.items():
    app.command(_name, help=_listed.help)(_listed_only)
