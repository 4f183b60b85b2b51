"""What was found in logs in, what they cannot tell out: each with its reason, and with what to do."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import BOTH, NEITHER, LogFindings
from hindsight.udfs.diagnosis.logged_troubles import Troubles
from hindsight.udfs.logs.broker_log_lines import is_server_s

_ISOLATIONS_FROM = "V5_1_4"


class CannotTell(NamedTuple):
    """What no log tells: a code, whom or what it is about, and a sentence that says why, and what to do."""

    code: str
    subject: str
    sentence: str


_NOTHING_FOUND = "no line tells of queues, members or sends; a client's log does at level INFO"
_OF_A_SERVER = "a log that a broker, proxy, name server or controller writes; none of its lines answers a question here"
_FOREIGN = "lines of a Go client in a layout that is not its own, which is not read"
_OTHER = "a log of a Go, C++ or gRPC client: what it owned from when to when is not told here; a run has its rows"
_UNKNOWN_LAYOUT = "no line could be read; [[ingest.client_log_layout]] of the settings can declare their layout"
_KIND_UNCLEAR = "lines of clients and of a broker, read as both; --client-log or --broker-log says which it is"
_ZONE_ASSUMED = "times without a zone, taken to be in that of the settings (UTC unless set); --zone gives another"


def limits_of_logs(logs: list[LogFindings], told: Container[str]) -> list[CannotTell]:
    """Logs of which little or nothing could be taken in, or not for certain; ``told``: paths of logs that tell."""
    found = []
    for log in logs:
        if log.kind == NEITHER and log.path not in told:
            found.append(CannotTell("NOTHING_FOUND", log.path, _why_nothing(log)))
        elif log.refused:
            codes = ", ".join(f"{code} {count:,}" for code, count in sorted(log.refused.items()))
            found.append(CannotTell("REFUSED_LINES", log.path, f"lines that could not be read: {codes}"))
        if log.others:
            found.append(CannotTell("OTHER_CLIENT", log.path, _OTHER))
        if log.kind == BOTH:
            found.append(CannotTell("KIND_UNCLEAR", log.path, _KIND_UNCLEAR))
        if log.zone_assumed and log.kind != NEITHER:
            found.append(CannotTell("ZONE_ASSUMED", log.path, _ZONE_ASSUMED))
    return found


def _why_nothing(log: LogFindings) -> str:
    if not log.refused:
        return _OF_A_SERVER if is_server_s(log.path) else _NOTHING_FOUND
    return _FOREIGN if "FOREIGN_CLIENT_LOG" in log.refused else _UNKNOWN_LAYOUT


def limits_of_sends(troubles: list[Troubles]) -> list[CannotTell]:
    """What the lines of failed sends leave out."""
    found = []
    for one in troubles:
        process = one.process
        versions = {event.row.get("client_version") for event in process.events if event.kind == "client_created"}
        if one.sends and any(subject[-1] for subject in one.sends):
            said = "some failed sends name no broker: clients 5.1.0 to 5.2.0 print the line without its arguments"
            found.append(CannotTell("ARGUMENTS_LOST", process.log, said))
        if one.sends and not one.isolations:
            found.append(CannotTell("NO_ISOLATION_LINES", process.log, _why_no_isolations(versions)))
    return found


def _why_no_isolations(versions: set[str | None]) -> str:
    told = sorted(version for version in versions if version)
    if told and all(_number(version) < _number(_ISOLATIONS_FROM) for version in told):
        return f"which brokers its producers avoided: clients before 5.1.4 ({', '.join(told)}) print no isolation"
    return "which brokers its producers avoided: it prints no isolation, as clients before 5.1.4 or with the switch off"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("V").split("_") if part.isdigit())
