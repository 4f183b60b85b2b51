"""Show from client and broker logs alone who owned which queues, why that changed, and what failed: in seconds."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.command_options import Json, SettingsFile
from hindsight.jobs.diagnosis.diagnosis_lines import as_json
from hindsight.jobs.diagnosis.diagnosis_told import told
from hindsight.jobs.diagnosis.named_logs import NamedLogs, logs_named, read_log
from hindsight.jobs.intake.read_options import read_options
from hindsight.jobs.running.terminal import write
from hindsight.udfs.diagnosis.log_diagnosis import SILENCE_MS, diagnosis_of
from hindsight.udfs.diagnosis.log_findings import BROKER_LOG, CLIENT_LOG, LogKind

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Logs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LOG...", help="Logs of clients and brokers: plain, .gz, .zip, rotated; folders of them; - for stdin."
    ),
]
KnownLogs = Annotated[list[str] | None, typer.Option(help="Log to read as this kind, whatever its lines look like.")]


@app.command(help=__doc__)
def diagnose(
    logs: Logs = None,
    settings: SettingsFile = None,
    cluster: Annotated[str, typer.Option(help="Cluster whose zones and layouts in the settings apply.")] = "",
    zone: Annotated[str | None, typer.Option(help="Time zone of lines that name none, such as Asia/Shanghai.")] = None,
    client_log: KnownLogs = None,
    broker_log: KnownLogs = None,
    silence: Annotated[
        float, typer.Option(min=1, help="Seconds without a line after which it is no longer known what a client owns.")
    ] = SILENCE_MS / 1000,
    group: Annotated[str, typer.Option(help="Groups to show, shell pattern.")] = "*",
    as_lines: Json = False,
) -> None:
    """Print it; refused: no log is named, or one that is not there."""
    kinds: dict[str, LogKind] = dict.fromkeys(client_log or (), CLIENT_LOG) | dict.fromkeys(
        broker_log or (), BROKER_LOG
    )
    named = _named([*(logs or ()), *kinds])
    options = read_options("", load_settings(settings))
    silence_ms = int(silence * 1000)
    found = [
        read_log(path, options, cluster=cluster, zone=_zone(zone), kind=kinds.get(path), silence_ms=silence_ms)
        for path in named.paths
    ]
    diagnosis = diagnosis_of(found, silence_ms).of_groups(group)
    write((as_json if as_lines else told)(diagnosis, named.left_alone))


def _named(places: list[str]) -> NamedLogs:
    if not places:
        raise typer.BadParameter("name at least one log.")
    try:
        named = logs_named(places)
    except OSError as error:
        raise typer.BadParameter(f"{error.filename!r} cannot be read: {error.strerror}.") from None
    if not named.paths:
        raise typer.BadParameter("no file in the named folders has a log's name; name the files themselves.")
    return named


def _zone(name: str | None) -> str | None:
    if name is not None:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            raise typer.BadParameter(f"--zone {name!r}: there is no such zone; one is Asia/Shanghai.") from None
    return name
