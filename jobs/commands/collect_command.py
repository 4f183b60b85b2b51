"""``hindsight collect``: what the command line says, as a plan."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.jobs.collect.cluster_view import Shard, Wanted, shard_of
from hindsight.jobs.collect.collector import Plan, run_collector
from hindsight.jobs.collect.landing_writer import Limits
from hindsight.jobs.collect.server import Manners, split_address
from hindsight.jobs.commands.command_options import Json
from hindsight.jobs.running.terminal import write_json
from hindsight.udfs.remoting.remoting_frames import Credentials, CredentialsError, credentials_of, read_credentials

_CLUSTER = re.compile(r"[A-Za-z0-9_.\-]{1,255}")
_ENVIRONMENT = {
    "access_key": "HINDSIGHT_ACCESS_KEY",
    "secret_key": "HINDSIGHT_SECRET_KEY",
    "security_token": "HINDSIGHT_SECURITY_TOKEN",
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _sweeps(
    name_server: Annotated[str, typer.Option(help="HOST:9876[;HOST:9876], each asked separately. IPv6: [::1]:9876.")],
    cluster: Annotated[str, typer.Option(help="Name of the cluster's folder in the landing folder.")],
    landing: Annotated[Path, typer.Option(help="Landing folder, on this machine.")],
    every: Annotated[
        float, typer.Option(min=0.1, help="Seconds from the begin of one sweep to the begin of the next.")
    ] = 15.0,
    rounds: Annotated[int | None, typer.Option(min=1, help="Number of sweeps; default: until stopped.")] = None,
    once: Annotated[bool, typer.Option("--once", help="One sweep.")] = False,
) -> dict[str, Any]:
    if once and rounds not in (None, 1):
        raise typer.BadParameter("--once and --rounds contradict each other.")
    return {
        "name_servers": _name_servers(name_server),
        "cluster": _cluster(cluster),
        "landing": _folder(landing),
        "every_s": every,
        "rounds": 1 if once else rounds,
    }


def _wanted(
    group: Annotated[list[str] | None, typer.Option(help="Consumer groups, shell pattern; may be repeated.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Topics, shell pattern; may be repeated.")] = None,
    producer_group: Annotated[
        list[str] | None, typer.Option(help="Producer group, GROUP or GROUP@TOPIC; may be repeated.")
    ] = None,
    details_every: Annotated[
        float, typer.Option(min=0, help="Seconds between reads of data that seldom changes.")
    ] = 300.0,
) -> dict[str, Any]:
    wanted = Wanted(_names(group), _names(topic), _names(producer_group))
    return {"wanted": wanted, "details_every_s": details_every}


def _manners(
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds to wait for a connection or an answer.")] = 3.0,
    rate: Annotated[float, typer.Option(min=1, help="Questions a second to each server, at most.")] = 500.0,
    in_flight: Annotated[int, typer.Option(min=1, max=64, help="Questions at once to each server, at most.")] = 4,
    tls: Annotated[bool, typer.Option("--tls", help="Speak TLS.")] = False,
    tls_ca: Annotated[
        Path | None, typer.Option(help="PEM file of the authorities that may sign the servers' certificates.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM file of the collector's own certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of its key, if that is not in --tls-cert.")] = None,
    acl_file: Annotated[
        Path | None,
        typer.Option(help=f"File with accessKey and secretKey; else {' and '.join(_ENVIRONMENT.values())}."),
    ] = None,
) -> dict[str, Any]:
    context = _tls(tls, tls_ca, tls_cert, tls_key)
    return {"manners": Manners(timeout, in_flight, rate, context, _credentials(acl_file))}


def _files(
    rotate_mb: Annotated[float, typer.Option(min=0.001, help="Size at which a file is closed.")] = 64.0,
    rotate_minutes: Annotated[float, typer.Option(min=0, help="Age at which a file is closed.")] = 5.0,
    gzipped: Annotated[bool, typer.Option("--gzip", help="Write .jsonl.gz.")] = False,
    short_lines: Annotated[
        bool, typer.Option("--short-lines", help="Write an answer that is as before as a short line.")
    ] = False,
    by_hour: Annotated[
        bool, typer.Option("--by-hour", help="Put files into a folder for each hour, which is sealed once it is over.")
    ] = False,
) -> dict[str, Any]:
    limits = Limits(int(rotate_mb * 2**20), rotate_minutes * 60)
    return {"limits": limits, "gzipped": gzipped, "short_lines": short_lines, "by_hour": by_hour}


def _collector(
    collector: Annotated[str | None, typer.Option(help="Name of this collector, if there are several.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="I/N: ask for the I-th of N parts of the cluster; others ask for the rest.")
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option(dir_okay=False, help="OpenMetrics file to write after each sweep.")
    ] = None,
) -> dict[str, Any]:
    if metrics and not metrics.absolute().parent.is_dir():
        raise typer.BadParameter(f"--metrics {str(metrics)!r}: there is no folder {str(metrics.parent)!r}.")
    part = _shard(shard)
    return {"collector": part.collector(collector and _text(collector)), "shard": part, "metrics": metrics}


# Their parameters are the options of ``collect``; each gives fields of the plan.
PARTS_OF_PLAN = (_sweeps, _wanted, _manners, _files, _collector)


def plan_of(options: Mapping[str, Any]) -> Plan:
    """What the options say, those by name of ``PARTS_OF_PLAN``; others among them are left alone.

    Raises: typer.BadParameter: what is wrong with one, or with several together.
    """
    fields: dict[str, Any] = {}
    for part in PARTS_OF_PLAN:
        fields |= called(part, options)
    return Plan(**fields)


def called(one: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """What a function says of its own among options by name."""
    return one(**{name: options[name] for name in signature(one).parameters if name in options})


def with_options_of(
    *told: Callable[..., Any], without: Iterable[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that are the parameters of these functions; it is called with them by name."""
    parameters = {p.name: p for one in told for p in signature(one, eval_str=True).parameters.values()}
    options = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters.values() if p.name not in without]

    def give(command: Callable[..., None]) -> Callable[..., None]:
        vars(command)["__signature__"] = Signature(options)
        return command

    return give


def _as_lines(as_lines: Json = False) -> bool:
    """How ``collect`` tells of its sweeps; ``watch`` tells of runs alone."""
    return as_lines


@app.command("collect")
@with_options_of(*PARTS_OF_PLAN, _as_lines)
def collect_command(as_lines: bool, **options: Any) -> None:
    """Ask name servers and brokers who consumes what, again and again; read-only, no Java."""
    run_collector(plan_of(options), (lambda told: write_json([told])) if as_lines else None)


def _name_servers(text: str) -> tuple[str, ...]:
    addresses = tuple(dict.fromkeys(part.strip() for part in re.split("[;,]", text) if part.strip()))
    try:
        for address in addresses:
            split_address(address)
    except ValueError as error:
        raise typer.BadParameter(f"--name-server: {error}.") from None
    if not addresses:
        raise typer.BadParameter("--name-server names none.")
    return addresses


def _cluster(name: str) -> str:
    if not _CLUSTER.fullmatch(name) or set(name) == {"."}:
        raise typer.BadParameter(f"--cluster {name!r}: a name consists of letters, digits, '_', '.' and '-'.")
    return name


def _folder(landing: Path) -> Path:
    if "://" in str(landing) or ":/" in str(landing):
        raise typer.BadParameter("--landing is a folder on this machine; what lies there can be copied to a store.")
    return landing.absolute()


def _shard(text: str | None) -> Shard:
    try:
        return shard_of(text) if text is not None else Shard()
    except ValueError as error:
        raise typer.BadParameter(f"--shard: {error}.") from None


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(_text(name.strip()) for names in given or () for name in names.split(",") if name.strip())


def _text(name: str) -> str:
    if not name.isprintable():
        raise typer.BadParameter(f"{name!r} is no name.")
    return name


def _tls(wanted: bool, ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if not wanted:
        if ca or certificate or key:
            raise typer.BadParameter("--tls-ca, --tls-cert and --tls-key belong to --tls.")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = (
        False  # name servers tell addresses, which certificates seldom hold; Java's clients check neither
    )
    context.verify_mode = ssl.CERT_REQUIRED if ca else ssl.CERT_NONE
    try:
        if ca:
            context.load_verify_locations(ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise typer.BadParameter(f"--tls-ca, --tls-cert, --tls-key: {error}.") from None
    return context


def _credentials(file: Path | None) -> Credentials | None:
    told = {name: os.environ.get(variable) for name, variable in _ENVIRONMENT.items()}
    try:
        if file:
            return read_credentials(file.read_text(encoding="utf-8"))
        return credentials_of(**told) if any(told.values()) else None
    except CredentialsError as error:
        raise typer.BadParameter(f"{'--acl-file' if file else ', '.join(_ENVIRONMENT.values())}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--acl-file cannot be read: {type(error).__name__}.") from None
