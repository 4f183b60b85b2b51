"""Show from client and broker logs alone who owned which queues, why that changed, and what failed: in seconds."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.command_options import Json, SettingsFile
from hindsight.jobs.diagnosis.diagnosis_told import told
from hindsight.jobs.landing.landing_lines import ReadOptions, read_options
from hindsight.jobs.running.terminal import say, write
from hindsight.udfs.diagnosis.log_diagnosis import SILENCE_MS, Diagnosis, diagnosis_of
from hindsight.udfs.diagnosis.log_findings import BROKER_LOG, CLIENT_LOG, LogFindings, LogKind, find_in_log
from hindsight.udfs.diagnosis.log_members import Member
from hindsight.udfs.diagnosis.logged_by_brokers import ByBrokers
from hindsight.udfs.diagnosis.logged_ownership import UNKNOWN, Ownership, Queues
from hindsight.udfs.diagnosis.logged_troubles import LoggedCall, Subject, Tally, Troubles
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.limits.door import judged
from hindsight.udfs.lines.bounded_lines import Form, Line, Refusal, read_lines
from hindsight.udfs.lines.zipped_lines import read_zip_lines
from hindsight.udfs.logs.log_layouts import encoding_of, layout_of
from hindsight.udfs.logs.log_wrappers import masked

_INSTANTS = {name: name for name in ("at", "began_at", "ended_at", "released_at", "started_at", "stopped_at")}
_INSTANTS |= {"since": "since_at", "until": "until_at"}


def as_json(diagnosis: Diagnosis, left_alone: Iterable[str]) -> Iterator[str]:
    """Everything, one JSON object a line; ``kind`` says what a line is about, the last one is ``total``."""
    for log in diagnosis.logs:
        yield from _log(log)
    yield from (_line("left_alone", path=path) for path in left_alone)
    yield from map(_member, diagnosis.members)
    yield from map(_ownership, diagnosis.ownership)
    yield from (_line("held_by_two", **_facts(one, queues=_queues(one.queues))) for one in diagnosis.held_by_two)
    for same in diagnosis.same_ids:
        processes = [{"log": log, "pid": pid} for log, pid in same.processes]
        yield _line("same_client_id", **_facts(same, processes=processes))
    yield from (_line("rebalance", **_facts(one)) for one in diagnosis.rebalances)
    yield from (_line("moved_begin", **_facts(one)) for one in diagnosis.moved_begins)
    for troubles in diagnosis.troubles:
        yield from _troubles(troubles)
    yield from _of_brokers(diagnosis.by_brokers)
    names = ("language", "what", "consumer_group", "topic", "client_id", "broker_name", "broker_address", "queue_id")
    yield from _tallies(
        "other_client", (*names, "response_code", "reason"), diagnosis.other_clients, {}, "latency_ms_max"
    )
    yield from (_line("cannot_tell", **one._asdict()) for one in diagnosis.cannot_tell)
    yield _line(
        "total",
        logs=len(diagnosis.logs),
        lines=sum(log.lines for log in diagnosis.logs),
        refused=sum(log.refused.total() for log in diagnosis.logs),
    )


def instant(ms: int | None) -> str | None:
    """An instant as text."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(kind: str, **facts: object) -> str:
    return json.dumps({"kind": kind, **facts})


def _log(log: LogFindings) -> Iterator[str]:
    wrote = log.wrote()
    yield _line(
        "log",
        path=log.path,
        log_kind=log.kind,
        lines=log.lines,
        refused=log.refused.total(),
        reasons=dict(sorted(log.refused.items())),
        first_at=instant(wrote and wrote[0]),
        last_at=instant(wrote and wrote[1]),
        zone_assumed=log.zone_assumed,
        client_ids=sorted(log.clients()),
    )
    for one in log.first_refused.values():
        yield _line("refused_line", path=log.path, **one._asdict())


def _facts(one: Any, *without: str, **more: object) -> dict[str, object]:
    """The fields of a named tuple: instants as text, how often and when of a tally; ``more``: instead, or besides."""
    found: dict[str, object] = {}
    for name, value in one._asdict().items():
        if name in _INSTANTS:
            found[_INSTANTS[name]] = instant(value)
        elif isinstance(value, Tally):
            found |= {"count": value.count, "first_at": instant(value.first), "last_at": instant(value.last)}
        elif name not in without:
            found[name] = value
    return {**found, **more}


def _member(one: Member) -> str:
    signs = [_facts(sign, "consumer_group", "client_id") for sign in one.signs]
    first, last = map(instant, one.wrote or (None, None))
    return _line("member", **_facts(one, "wrote", "signs", first_at=first, last_at=last, at_brokers=signs))


def _ownership(one: Ownership) -> str:
    is_known, queues = one.state != UNKNOWN, _queues(one.queues)
    named = {**one.key._asdict(), "topic": one.key.topic or None, "log": one.log or None}
    held = {"queues": queues if is_known else None, "last_said": None if is_known else queues}
    return _line("ownership", **_facts(one, "key", **named, **held))


def _queues(queues: Queues) -> list[dict[str, object]]:
    return [{"broker_name": broker_name, "queue_id": queue_id} for broker_name, queue_id in queues]


def _troubles(one: Troubles) -> Iterator[str]:
    whose = {"log": one.process.log, "pid": one.process.pid}
    sends = ("broker_name", "response_code", "exception", "arguments_lost")
    yield from _tallies("send_failed", sends, one.sends, whose, "latency_ms_max")
    yield from (_call(call, whose) for call in one.calls)
    retried = ("broker_name", "broker_address", "response_code", "exception", "next_broker_name")
    yield from _tallies("send_retried", retried, one.retried, whose)
    yield from _tallies("member_not_listed", ("consumer_group", "client_id"), one.not_listed, whose, "listed_max")
    yield from _tallies("lock_failed", ("consumer_group", "topic", "broker_name", "queue_id"), one.locks, whose)
    yield from _tallies("failure", ("what", "consumer_group", "topic", "exception"), one.failures, whose)
    yield from _tallies("send_given_up", ("topic", "brokers_sent", "detail"), one.given_up, whose, "cost_ms_max")
    names = ("what", "consumer_group", "topic", "broker_name", "response_code", "exception", "detail")
    yield from _tallies("consuming", names, one.consuming, whose, "reconsume_times_max")
    yield from (_line("offset_set", **_facts(offset, "kind", what=offset.kind, **whose)) for offset in one.offsets)
    yield from (_line("isolation", **_facts(isolation, **whose)) for isolation in one.isolations)
    yield from _tallies("members_changed", ("consumer_group",), one.notices, whose)


def _of_brokers(told: ByBrokers) -> Iterator[str]:
    yield from (_line("subscription_changed", **_facts(one)) for one in told.subscriptions)
    yield from (_line("lock_refused", **_facts(one)) for one in told.locks)
    yield from (_line("client_gone", **_facts(one)) for one in told.gone)
    yield from (_line("at_name_server", **_facts(one)) for one in told.at_name_servers)
    yield from (_line("proxy_isolation", **_facts(one, proxy=proxy)) for proxy, one in told.isolations)


def _call(call: LoggedCall, whose: Mapping[str, object]) -> str:
    return _line("send_call", **_facts(call, attempts=[_facts(one) for one in call.attempts], **whose))


def _tallies(
    kind: str, names: tuple[str, ...], tallies: dict[Subject, Tally], whose: Mapping[str, object], most: str = ""
) -> Iterator[str]:
    for subject, tally in tallies.items():
        figure = {most: tally.most} if most else {}
        yield _line(
            kind,
            **dict(zip(names, subject, strict=True)),
            count=tally.count,
            first_at=instant(tally.first),
            last_at=instant(tally.last),
            **figure,
            **whose,
        )


STANDARD_INPUT = "-"
_CHUNK_BYTES = 1 << 20
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


class NamedLogs(NamedTuple):
    """Logs to read, in order, and what a folder holds that by its name is none."""

    paths: list[str]
    left_alone: list[str]


def logs_named(places: Iterable[str]) -> NamedLogs:
    """The logs that are meant, each once.

    Raises: OSError: there is no such file, or a folder cannot be listed.
    """
    found: list[str] = []
    others: list[str] = []
    for place in places:
        if place == STANDARD_INPUT or not Path(place).is_dir():
            if place != STANDARD_INPUT:
                Path(place).stat()
            found.append(place)
            continue
        for path in _below(place):
            (found if FORMATS["client_log"].takes(Path(path).name) else others).append(path)
    return NamedLogs(list(dict.fromkeys(found)), others)


def read_log(
    path: str, options: ReadOptions, *, cluster: str, zone: str | None, kind: LogKind | None, silence_ms: int
) -> LogFindings:
    """What one log holds; one that cannot be read to its end is taken as far as it goes, and says so."""
    layout = layout_of(options.layouts, cluster, path)
    form = Form(options.max_line_bytes, encoding_of(options.encodings, layout, cluster, "client_log", path))
    own_zone = zone or options.zones.get(cluster, options.default_zone)
    return find_in_log(
        _lines(path, form),
        path="stdin" if path == STANDARD_INPUT else path,
        zone=ZoneInfo(own_zone),
        silence_ms=silence_ms,
        layout=layout,
        kind=kind,
        judge=partial(judged, severity_of=options.severities, flagged_tables=()),
        look=None if path == STANDARD_INPUT else partial(_lines, path, form),
    )


def _lines(path: str, form: Form) -> Iterator[Line]:
    """The lines of a file; keys that stand in client ids are masked, as at the door of a lake."""
    return masked(_as_written(path, form))


def _as_written(path: str, form: Form) -> Iterator[Line]:
    number = 0
    try:
        with _opened(path) as stream:
            first = stream.read(_CHUNK_BYTES)
            chunks = chain((first,), iter(partial(stream.read, _CHUNK_BYTES), b""))
            for line in _unpacked(first, chunks, form):
                number = line.number
                yield line
    except OSError as error:
        yield Line(number + 1, 0, 0, "", Refusal("NOT_READABLE", error.strerror or type(error).__name__))


def _unpacked(first: bytes, chunks: Iterator[bytes], form: Form) -> Iterator[Line]:
    if first.startswith(_ZIP):
        return read_zip_lines(chunks, takes=lambda name: True, **form._asdict())
    return read_lines(chunks, gzipped=first.startswith(_GZIP), **form._asdict())


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
    else:
        with Path(path).open("rb") as stream:
            yield stream


def _below(folder: str) -> list[str]:
    """The files below a folder in order; links are not followed, hidden files are left out."""
    found = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        paths = (Path(place, name) for name in sorted(names) if not name.startswith("."))
        found += [str(path) for path in paths if path.is_file() and not path.is_symlink()]
    return found


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
    (write if as_lines else say)((as_json if as_lines else told)(diagnosis, named.left_alone))


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
