"""What was found in logs in, all that they tell together out, and what they cannot tell, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from udfs.broker_log_lines import broker_of
from udfs.log_findings import BOTH, NEITHER, Event, LogFindings
from udfs.log_processes import Process, consumes_of, processes_of, unique
from udfs.logged_ownership import (
    NO_CLIENT_LOG,
    OWNED,
    SHARED,
    STOPPED,
    UNKNOWN,
    Consumes,
    Key,
    Ownership,
    ProcessWalk,
    ownership_of,
)
from udfs.logged_rebalances import Rebalance, Sign, rebalances_of, signs_of
from udfs.logged_troubles import Troubles, troubles_of

SILENCE_MS = 30_000  # a client that holds queues writes every 5 s, and brokers wait 120 s before they drop it
NO_RESULT = "NO_RESULT"
_ISOLATIONS_FROM = "V5_1_4"


class Member(NamedTuple):
    """A client in a group. ``log`` None: none of its own logs is there; ``wrote``: first and last word of its process.

    ``signs``: when it came and went, as brokers' logs tell.
    """

    consumer_group: str
    client_id: str
    consume_type: str | None
    message_model: str | None
    client_version: str | None
    log: str | None
    pid: int | None
    wrote: tuple[int, int] | None
    started_at: int | None
    stopped_at: int | None
    signs: tuple[Sign, ...]


class CannotTell(NamedTuple):
    """What no log tells: a code, whom or what it is about, and a sentence that says why, and what to do."""

    code: str
    subject: str
    sentence: str


@dataclass
class Diagnosis:
    """All that the logs tell, each list in an order that does not depend on that of the files."""

    logs: list[LogFindings]
    members: list[Member]
    ownership: list[Ownership]
    rebalances: list[Rebalance]
    troubles: list[Troubles]
    cannot_tell: list[CannotTell]

    def of_groups(self, pattern: str) -> Diagnosis:
        """The same, of consumer groups only those whose names match a shell pattern."""
        return replace(
            self,
            members=[one for one in self.members if fnmatchcase(one.consumer_group, pattern)],
            ownership=[one for one in self.ownership if fnmatchcase(one.key.consumer_group, pattern)],
            rebalances=[one for one in self.rebalances if fnmatchcase(one.consumer_group, pattern)],
        )


def diagnosis_of(logs: Iterable[LogFindings], silence_ms: int = SILENCE_MS) -> Diagnosis:
    """Bring together what was found; copies of one line count once."""
    logs = sorted(logs, key=lambda log: log.path)
    consumes = consumes_of(logs)
    walks = [ProcessWalk(process, consumes).walk() for process in processes_of(logs, silence_ms)]
    memberships = _memberships(logs)
    members = _members(walks, consumes, signs_of(memberships))
    known = [one for walk in walks for one in ownership_of(walk)]
    troubles = [troubles_of(walk.process) for walk in walks]
    return Diagnosis(
        logs,
        members,
        sorted([*_without_contradiction(known), *_of_nothing_said(members, known)], key=_in_order),
        rebalances_of(walks, memberships),
        troubles,
        [*_of_logs(logs), *_of_sends(troubles)],
    )


def _memberships(logs: list[LogFindings]) -> list[tuple[str, Event]]:
    """What brokers' logs tell, with the broker's name, each line once."""
    named = [(broker_of(log.path), event) for log in logs for event in log.memberships]
    first: dict[bytes, str] = {}
    for broker_name, event in named:
        first.setdefault(event.identity, broker_name)
    events = unique(event for _, event in sorted(named, key=lambda one: (one[1].at, one[0], one[1].line)))
    return [(first[event.identity], event) for event in events]


def _members(walks: list[ProcessWalk], consumes: Consumes, signs: list[Sign]) -> list[Member]:
    pairs = {(group, client_id) for client_id, group in consumes}
    pairs |= {(sign.consumer_group, sign.client_id) for sign in signs}
    pairs |= {(key.consumer_group, key.client_id) for walk in walks for key in walk.said if key.client_id}
    home: dict[str, ProcessWalk] = {}
    for walk in walks:
        for client_id in _named(walk):
            home[client_id] = walk  # of several the last: the order is by log and process id
    return [_member(*pair, home.get(pair[1]), consumes, signs) for pair in sorted(pairs)]


def _named(walk: ProcessWalk) -> set[str]:
    return {str(one.row["client_id"]) for one in walk.process.events if one.row.get("client_id")}


def _member(group: str, client_id: str, walk: ProcessWalk | None, consumes: Consumes, signs: list[Sign]) -> Member:
    consume_type, message_model = consumes.get((client_id, group), (None, None))
    own = tuple(sign for sign in signs if (sign.consumer_group, sign.client_id) == (group, client_id))
    if walk is None:
        return Member(group, client_id, consume_type, message_model, None, None, None, None, None, None, own)
    process, lives = walk.process, walk.process.lives_of(client_id)
    wrote = (lives[0].start, lives[-1].end) if lives else None
    return Member(
        group,
        client_id,
        consume_type,
        message_model,
        _version(process, client_id),
        process.log,
        process.pid,
        wrote,
        walk.created.get(client_id),
        _stopped_at(walk, group, client_id),
        own,
    )


def _stopped_at(walk: ProcessWalk, group: str, client_id: str) -> int | None:
    said = [all_said[-1] for key, all_said in walk.said.items() if (key[0], key[2]) == (group, client_id)]
    if said and all(one.state == STOPPED for one in said):
        return max(one.at for one in said)
    return walk.stopped.get(client_id)


def _version(process: Process, client_id: str) -> str | None:
    told = [one.row.get("client_version") for one in process.events if one.kind == "client_created"]
    of_client = [
        one.row.get("client_version")
        for one in process.events
        if one.kind == "client_created" and one.row["client_id"] == client_id
    ]
    return next((version for version in reversed(of_client or told) if version), None)


def _of_nothing_said(members: list[Member], known: list[Ownership]) -> list[Ownership]:
    """Members of which no line tells any queue."""
    told = {(one.key.consumer_group, one.key.client_id) for one in known}
    found = []
    for member in members:
        if (member.consumer_group, member.client_id) in told:
            continue
        since = min([sign.at for sign in member.signs] + ([member.wrote[0]] if member.wrote else []), default=None)
        if since is not None:
            key = Key(member.consumer_group, "", member.client_id)
            reason = NO_RESULT if member.log else NO_CLIENT_LOG
            found.append(Ownership(key, since, None, UNKNOWN, (), reason, member.log or "", member.pid))
    return found


def _without_contradiction(known: list[Ownership]) -> list[Ownership]:
    """What one process leaves unknown, without the stretches in which another one of the same client id tells."""
    firm: dict[Key, list[Ownership]] = {}
    for one in known:
        if one.state in (OWNED, SHARED):
            firm.setdefault(one.key, []).append(one)
    found = []
    for one in known:
        others = [other for other in firm.get(one.key, ()) if (other.log, other.pid) != (one.log, one.pid)]
        found += [one] if one.state in (OWNED, SHARED) or not others else _cut(one, others)
    return found


def _cut(one: Ownership, others: list[Ownership]) -> list[Ownership]:
    parts, since = [], one.since
    for other in sorted(others, key=lambda other: other.since):
        if other.until is None or other.until <= since or (one.until is not None and other.since >= one.until):
            continue
        if other.since > since:
            parts.append(one._replace(since=since, until=other.since))
        since = other.until
    if one.until is None or since < one.until:
        parts.append(one._replace(since=since))
    return parts


def _of_logs(logs: list[LogFindings]) -> list[CannotTell]:
    found = []
    for log in logs:
        if log.kind == NEITHER:
            said = "no line tells of queues, members or sends: it is no log of RocketMQ's client or broker at level INFO"
            if log.refused:
                said = "its lines could not be read; [[ingest.client_log_layout]] of the settings can declare their layout"
            found.append(CannotTell("NOTHING_FOUND", log.path, said))
        if log.kind == BOTH:
            said = "holds lines of clients and of a broker, and was read as both; --client-log or --broker-log says which"
            found.append(CannotTell("KIND_UNCLEAR", log.path, said))
        if log.refused:
            codes = ", ".join(f"{code} {count:,}" for code, count in sorted(log.refused.items()))
            found.append(CannotTell("REFUSED_LINES", log.path, f"lines that could not be read: {codes}"))
        if log.zone_assumed and log.kind != NEITHER:
            said = "its lines name no time zone: --zone, or the settings, say which it is"
            found.append(CannotTell("ZONE_ASSUMED", log.path, said))
    return found


def _of_sends(troubles: list[Troubles]) -> list[CannotTell]:
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
    return "which brokers its producers avoided: no isolation is printed, as by clients before 5.1.4 or with the switch off"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("V").split("_") if part.isdigit())


def _in_order(one: Ownership) -> tuple[str, str, str, int, int, str]:
    key = one.key
    return key.consumer_group, key.topic, key.client_id or "", one.since, one.pid or 0, one.log
