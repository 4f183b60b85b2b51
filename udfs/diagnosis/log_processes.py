"""What was found in several logs in, the processes that wrote them out: files of one log joined, copies told once.

Files belong to one log where a rotation named them so, where they hold the same line, and where they name the same
client one after the other; those that do so side by side are of two processes. A process is told by its id
where the layout writes one. Where it writes none, and the clients of a log show that several processes share it (all
those of a user on one machine do), a client lives by its own lines alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hindsight.udfs.diagnosis.log_findings import BROKER_LOG, Event, LogFindings, Stretch, clients_named, joined
from hindsight.udfs.logs.log_wrappers import log_of

_OVERLAP_MS = 1000  # of parts that follow each other: threads write out of order, and stamps may be of whole seconds
STAMPS_ERR_MS = 2000
_OF_PID = re.compile(r"(?P<address>[^@]+)@(?P<pid>[0-9]+)(?:#[0-9]+)?(?:@.*)?")


@dataclass
class Process:
    """One writer. ``log``: the smallest path of its files; ``events`` in order, each once.

    ``lives``: when it wrote. ``spans``: within which no file is missing. ``own_lives``: of clients, where several
    processes share the log, else empty.
    """

    log: str
    pid: int | None
    paths: list[str]
    events: list[Event]
    lives: list[Stretch]
    spans: list[Stretch]
    own_lives: dict[str, list[Stretch]] = field(default_factory=dict)

    def lives_of(self, client_id: str | None) -> list[Stretch]:
        """When a client of it is known to have run."""
        return self.own_lives.get(client_id or "", []) if self.own_lives else self.lives


def processes_of(logs: Iterable[LogFindings], silence_ms: int) -> list[Process]:
    """The processes whose clients wrote the logs, in an order that does not depend on that of the files."""
    found = []
    for group in _joined(log for log in logs if log.kind != BROKER_LOG):
        # By time; those of one instant as their files have them, and the files in the order given.
        of_log = ((one.at, rank, one.line, one) for rank, log in enumerate(group) for one in log.events)
        events = unique(one[3] for one in sorted(of_log, key=lambda one: one[:3]))
        for pid in sorted({pid for log in group for pid in log.lives}, key=lambda pid: pid or -1):
            found.append(_process(pid, group, [one for one in events if one.pid == pid], silence_ms))
    return sorted(found, key=lambda process: (process.log, process.pid or -1))


def unique(events: Iterable[Event]) -> list[Event]:
    """The events of one order, copies left out."""
    first: dict[bytes, Event] = {}
    for one in events:
        first.setdefault(one.identity, one)
    return list(first.values())


def _process(pid: int | None, logs: list[LogFindings], events: list[Event], silence_ms: int) -> Process:
    lives = joined((one for log in logs if pid in log.lives for one in log.lives[pid].stretches()), silence_ms)
    spans = joined((_span(log) for log in logs if log.lives), silence_ms)
    process = Process(min(log.path for log in logs), pid, sorted({log.path for log in logs}), events, lives, spans)
    if pid is None and _is_shared(events):
        own: dict[str, list[Stretch]] = defaultdict(list)
        for log in logs:
            for client_id, life in log.own_lives.items():
                own[client_id] += life.stretches()
        process.own_lives = {client_id: joined(stretches, silence_ms) for client_id, stretches in own.items()}
    return process


def _span(log: LogFindings) -> Stretch:
    return Stretch(*(log.wrote() or (0, 0)))


def _is_shared(events: list[Event]) -> bool:
    """Whether clients of several processes wrote: a process numbers its clients from 0, and ids may hold its number."""
    named = clients_named(events)
    of_pid = {(found["address"], found["pid"]) for name in named if (found := _OF_PID.fullmatch(name))}
    return len(of_pid) > 1 or any(_is_of_a_second(one, events) for one in events if one.row.get("is_first_of_process"))


def _is_of_a_second(first: Event, events: list[Event]) -> bool:
    """Whether a process began, with its first client, when there had been another."""
    others = (one for one in events if one.row.get("client_id") not in (None, first.row["client_id"]))
    return any(one.at < first.at - STAMPS_ERR_MS or one.row.get("is_first_of_process") for one in others)


def _joined(logs: Iterable[LogFindings]) -> list[list[LogFindings]]:
    """Logs that are parts or copies of one, each in order of beginning."""
    groups: list[_OneLog] = []
    for log in sorted(logs, key=_beginning):
        mine = _OneLog(log)
        others = [one for one in groups if one.is_of(mine)]
        for one in others:
            mine.take(one)
        groups = [one for one in groups if one not in others]
        groups.append(mine)
    return [sorted(group.logs, key=_beginning) for group in groups]


def _beginning(log: LogFindings) -> tuple[tuple[int, int], str]:
    return _span(log), log.path


class _OneLog:
    """Files that are one log, as far as is known."""

    def __init__(self, log: LogFindings) -> None:
        self.logs = [log]
        self.names = {log_of(log.path)}
        self.clients = log.clients()
        self.told = {one.identity for one in log.events if _is_its_own(one)}
        self.spans = [_span(log)] if log.lives else []

    def is_of(self, other: _OneLog) -> bool:
        """By name, as copies; or as parts that name the same client, one after the other: not two side by side."""
        if not self.names.isdisjoint(other.names) or not self.told.isdisjoint(other.told):
            return True
        return not self.clients.isdisjoint(other.clients) and all(
            one.end <= two.start + _OVERLAP_MS or two.end <= one.start + _OVERLAP_MS
            for one in self.spans
            for two in other.spans
        )

    def take(self, other: _OneLog) -> None:
        """Make one of two."""
        self.logs += other.logs
        self.names |= other.names
        self.clients |= other.clients
        self.told |= other.told
        self.spans += other.spans


def _is_its_own(one: Event) -> bool:
    """Whether no other process can have written an equal line: it names its client, or a send's random number."""
    is_sent = one.kind == "send_failed" and not one.row.get("arguments_lost")
    return one.row.get("client_id") is not None or is_sent


def consumes_of(logs: Iterable[LogFindings]) -> Mapping[tuple[str, str], tuple[str, str]]:
    """By client id and group, consume type and message model, as clients and brokers say; the last by name wins."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for log in logs:
        found |= {(client, group): (of, model) for client, group, of, model in sorted(log.consumes)}
        for event in log.memberships:
            if event.kind == "consumer_connected":
                row = event.row
                found[row["client_id"], row["client_group"]] = (row["consume_type"], row["message_model"])
    return found
