"""The options that commands share: what each is called, and what it takes; and what ``--json`` chooses between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hindsight.jobs.running.places import Engine, file_to_write, lake_folder, without_password
from hindsight.jobs.running.run_context import DateRange
from hindsight.jobs.running.terminal import say, write_json

Severity = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"]
Landing = Annotated[
    str, typer.Option(callback=without_password, help="Folder with <format>/cluster=<name>/ files; local path or URI.")
]
LakeRoot = Annotated[
    str,
    typer.Option(
        "--lake", envvar="HINDSIGHT_LAKE", callback=lake_folder, help="Folder of the Delta tables; created if absent."
    ),
]
LakeThere = Annotated[
    str, typer.Option("--lake", envvar="HINDSIGHT_LAKE", callback=lake_folder, help="Folder of the Delta tables.")
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="TOML file with the settings that differ from the defaults.")
]
From = Annotated[
    datetime | None,
    typer.Option("--from", formats=["%Y-%m-%d"], help="First UTC date."),
]
To = Annotated[datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Last UTC date.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines for machines.")]
Metrics = Annotated[
    Path | None,
    typer.Option(dir_okay=False, callback=file_to_write, help="OpenMetrics text file to write at the end."),
]
Wait = Annotated[
    float,
    typer.Option("--wait", min=0, help="Seconds to wait for another run that writes to the lake; else exit code 75."),
]
SinkNames = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        help="Send events to a sink: the name of a sink of the settings, or FORM:URL, FORM:env:VARIABLE or "
        "FORM:file:PATH, with webhook, slack, dingtalk or alertmanager as FORM. May be repeated.",
    ),
]
EngineName = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="local: this machine, without Java; spark: Spark (default with --master and under spark-submit).",
    ),
]
Master = Annotated[str | None, typer.Option(help="Spark master, e.g. local[4]; leave out under spark-submit.")]


def dates_of(first: datetime | None, last: datetime | None) -> DateRange:
    """The dates that ``--from`` and ``--to`` name; refused: a first one after the last."""
    if first and last and first > last:
        raise typer.BadParameter(f"--from {first:%Y-%m-%d} is after --to {last:%Y-%m-%d}.")
    return DateRange(first and first.date(), last and last.date())


def show(as_lines: bool, rows: Iterable[Mapping[str, Any]], lines: Iterable[str]) -> None:
    """Print what was found: ``rows`` for a machine, or ``lines`` for people; the other is not looked at."""
    if as_lines:
        write_json(rows)
    else:
        say(lines)
