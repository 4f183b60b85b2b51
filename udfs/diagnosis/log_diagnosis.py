"""What was found in logs in; all that it tells together out, rebalances too, and what it cannot tell, with reasons.

The fold that makes the table ``rebalance_event`` makes its rows here, date by date, so both say the same. Rows of one
group and cause, each soon after the one before, are a wave: a client that is not told of a change finds it at its next
timer, 20 s later.
Source: RebalanceService, ClientRemotingProcessor#notifyConsumerIdsChanged, MQClientInstance#rebalanceImmediately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import BOTH, NEITHER, Event, LogFindings
from hindsight.udfs.diagnosis.log_members import Member, SameId, members_of, of_nothing_said, same_ids, signs_of
from hindsight.udfs.diagnosis.log_processes import Process, consumes_of, processes_of, unique
from hindsight.udfs.diagnosis.logged_by_brokers import ByBrokers, by_brokers
from hindsight.udfs.diagnosis.logged_ownership import (
    OWNED,
    SHARED,
    HeldByTwo,
    Key,
    Ownership,
    ProcessWalk,
    held_by_two,
    ownership_of,
)
from hindsight.udfs.diagnosis.logged_troubles import Subject, Tally, Troubles, of_other_clients, troubles_of
from hindsight.udfs.logs.broker_log_lines import broker_of, is_server_s
from hindsight.udfs.rebalances.rebalance_event import APPLIED, BY_NOTICE, JOINED, REACTS_WITHIN_MS, START, UNKNOWN, WENT
from hindsight.udfs.rebalances.rebalance_event import Rebalance as OfClient
from hindsight.udfs.rebalances.rebalance_fold import HOW, OF_GROUP, OF_LOG, Membership, RebalanceFold, Told, line_of
from hindsight.udfs.rebalances.share_ledger import REFUSED

SILENCE_MS = 30_000  # a client that holds queues writes every 5 s, and brokers wait 120 s before they drop it
_ISOLATIONS_FROM = "V5_1_4"
NOT_SAID = "not_said"
_DAY_MS = 86_400_000
_KINDS = frozenset((*OF_LOG, *OF_GROUP, "rebalance_result"))
_OF_MEMBERS = (START, JOINED, *WENT, UNKNOWN)


@dataclass
class Diagnosis:
    """All that the logs tell, each list in an order that does not depend on that of the files."""

    logs: list[LogFindings]
    members: list[Member]
    ownership: list[Ownership]
    held_by_two: list[HeldByTwo]
    same_ids: list[SameId]
    rebalances: list[Rebalance]
    moved_begins: list[MovedBegin]
    troubles: list[Troubles]
    by_brokers: ByBrokers
    other_clients: dict[Subject, Tally]
    cannot_tell: list[CannotTell]

    def of_groups(self, pattern: str) -> Diagnosis:
        """The same, of consumer groups only those whose names match a shell pattern."""
        return replace(
            self,
            members=[one for one in self.members if fnmatchcase(one.consumer_group, pattern)],
            ownership=[one for one in self.ownership if fnmatchcase(one.key.consumer_group, pattern)],
            held_by_two=[one for one in self.held_by_two if fnmatchcase(one.consumer_group, pattern)],
            same_ids=[one for one in self.same_ids if any(fnmatchcase(name, pattern) for name in one.consumer_groups)],
            rebalances=[one for one in self.rebalances if fnmatchcase(one.consumer_group, pattern)],
            moved_begins=[one for one in self.moved_begins if fnmatchcase(one.consumer_group, pattern)],
        )


def diagnosis_of(logs: Iterable[LogFindings], silence_ms: int = SILENCE_MS) -> Diagnosis:
    """Bring together what was found; copies of one line count once."""
    logs = sorted(logs, key=lambda log: log.path)
    consumes = consumes_of(logs)
    walks = [ProcessWalk(process, consumes, silence_ms).walk() for process in processes_of(logs, silence_ms)]
    memberships = _memberships(logs)
    members = members_of(walks, consumes, signs_of(memberships))
    known = [one for walk in walks for one in ownership_of(walk)]
    shares = shares_of([walk.process for walk in walks], memberships)
    brokers = _brokers(logs)
    troubles = [troubles_of(walk.process, brokers) for walk in walks]
    return Diagnosis(
        logs,
        members,
        sorted(
            [*_without_contradiction(known), *of_nothing_said(members, known)],
            key=lambda one: (*one.key[:2], one.key.client_id or "", one.since, one.pid or 0, one.log),
        ),
        held_by_two(known, consumes),
        same_ids(walks),
        rebalances_of(shares),
        moved_begins_of(shares),
        troubles,
        by_brokers(memberships),
        of_other_clients(unique(event for log in logs for event in log.others)),
        [
            *limits_of_logs(logs, {path for walk in walks if walk.process.events for path in walk.process.paths}),
            *limits_of_sends(troubles),
        ],
    )


def _brokers(logs: list[LogFindings]) -> dict[str, str]:
    """The broker's name at each address that has one name in all logs."""
    named: dict[str, set[str]] = {}
    for log in logs:
        for address, names in log.brokers.items():
            named.setdefault(address, set()).update(names)
    return {address: min(names) for address, names in named.items() if len(names) == 1}


def _memberships(logs: list[LogFindings]) -> list[tuple[str, Event]]:
    """What brokers' logs tell, with the broker's name, each line once."""
    named = [(broker_of(log.path), event) for log in logs for event in log.memberships]
    first: dict[bytes, str] = {}
    for broker_name, event in named:
        first.setdefault(event.identity, broker_name)
    events = unique(event for _, event in sorted(named, key=lambda one: (one[1].at, one[0], one[1].line)))
    return [(first[event.identity], event) for event in events]


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


class Rebalance(NamedTuple):
    """``began_at``: of what set it off, else of the first result; ``ended_at``: of the last. ``moved``: queues gained.

    ``took_ms`` None: no line tells when it was set off. ``also``: what matches too, or what it may have been.
    ``members_before`` and ``members_after``: as the clients counted. ``joined``, ``left``: whom a log names.
    """

    consumer_group: str
    topics: tuple[str, ...]
    began_at: int
    ended_at: int
    took_ms: int | None
    took_at_least_ms: int
    triggers: tuple[str, ...]
    also: tuple[str, ...]
    woken_by: str
    members_before: int | None
    members_after: int | None
    joined: tuple[str, ...]
    left: tuple[str, ...]
    clients: tuple[str, ...]
    moved: int


class MovedBegin(NamedTuple):
    """A queue that a client took and began to read elsewhere than where who had it before stored its offset.

    ``at``: of the result; ``skipped``: offsets between, where it had been given up before; ``read_again``: the same, of
    what was stored before it was taken or after.
    """

    at: int
    consumer_group: str
    topic: str
    broker_name: str
    queue_id: int
    client_id: str
    from_client_id: str | None
    released_at: int | None
    stored_offset: int
    began_offset: int
    skipped: int
    read_again: int


Shares = Mapping[str, Sequence[OfClient]]  # by consumer group


def shares_of(processes: Iterable[Process], memberships: Iterable[tuple[str, Event]]) -> Shares:
    """The rebalances of clients; ``memberships``: broker's name and what its log tells."""
    folds: dict[str, RebalanceFold] = defaultdict(RebalanceFold)
    rows: dict[str, list[OfClient]] = defaultdict(list)
    for day, told in sorted(_told(processes, memberships).items()):
        for group, of_day in told.days((day + 1) * _DAY_MS, {}).items():
            rows[group] += [one for _, one in folds[group].walk(of_day) if one.outcome == APPLIED]
    return rows


def rebalances_of(shares: Shares) -> list[Rebalance]:
    """All rebalances in order."""
    found = [_rebalance(group, wave) for group, of_group in shares.items() for wave in _waves(of_group)]
    return sorted(found, key=lambda one: (one.began_at, one.consumer_group, one.ended_at, one.topics))


def moved_begins_of(shares: Shares) -> list[MovedBegin]:
    """Where logs of both clients tell it, in order; the rule is that of the view ``queue_hand_over``."""
    taken = ((group, one, hand) for group, of_group in shares.items() for one in of_group for hand in one.gained)
    found = []
    for group, one, hand in taken:
        began = hand.began_offset if hand.sent_on_to is None else hand.sent_on_to
        if began is None or hand.stored_offset is None:
            continue
        skipped = max(0, began - hand.stored_offset) if hand.released_at is not None else 0
        again = max(0, hand.stored_offset - began)
        who = one.client_id, hand.from_client_id, hand.released_at
        if skipped or again:
            found.append(MovedBegin(one.at, group, *hand.queue, *who, hand.stored_offset, began, skipped, again))
    return sorted(found, key=lambda one: one[:5])


def _told(processes: Iterable[Process], memberships: Iterable[tuple[str, Event]]) -> dict[int, Told]:
    """What is told on each day since 1970."""
    found: dict[int, Told] = defaultdict(Told)
    for process in processes:
        log = f"{process.log} {process.pid}"
        for number, event in enumerate(process.events):
            row, told = event.row, found[event.at // _DAY_MS]
            group = row.get("consumer_group")
            is_told_twice = event.kind == REFUSED and "detail" not in row  # by whoever asks for the lock, too
            if event.kind not in _KINDS or is_told_twice:
                continue
            line = line_of(row, event.kind, event.at, log, number, log, frozenset(row.get("queues", ())))
            (told.nameless[log] if group is None else told.lines[group]).append(line)
    for _, event in memberships:
        if event.kind in HOW:
            named = (event.row.get(name) for name in ("client_id", "address", "last_update_at"))
            member = Membership(event.at, event.kind, *named)
            found[event.at // _DAY_MS].memberships[event.row["client_group"]].append(member)
    return found


def _waves(rows: Iterable[OfClient]) -> list[list[OfClient]]:
    """Rows of a group, by what set them off: each soon after the one before."""
    found: list[list[OfClient]] = []
    current: dict[tuple[object, ...], list[OfClient]] = {}
    for one in sorted(rows, key=lambda row: (row.began_at, row.at, row.client_id)):
        kind, count = one.trigger.kind, one.members[1]
        of = ("members", count) if kind in _OF_MEMBERS and count is not None else (kind, *one.topics)
        wave = current.get(of)
        if wave is None or one.began_at - max(row.at for row in wave) > REACTS_WITHIN_MS:
            wave = current[of] = []
            found.append(wave)
        wave.append(one)
    return found


def _rebalance(group: str, wave: list[OfClient]) -> Rebalance:
    triggers = [one.trigger for one in wave]
    kinds = {one.kind for one in triggers}
    told = [one.at for one in triggers if one.at is not None]
    began, ended = min([*told, *(one.began_at for one in wave)]), max(one.at for one in wave)
    woken = {one.woken_by for one in wave}
    before = [one.members[0] for one in wave if one.members[0] is not None]
    after = [one.members[1] for one in wave if one.members[1] is not None]
    return Rebalance(
        group,
        tuple(sorted({topic for one in wave for topic in one.topics})),
        began,
        ended,
        ended - began if told else None,
        ended - began,
        tuple(sorted(kinds)),
        tuple(sorted({kind for one in triggers for kind in one.also} - kinds)),
        BY_NOTICE if BY_NOTICE in woken else max((by for by in woken if by), default=NOT_SAID),
        before[0] if before else None,
        after[-1] if after else None,
        tuple(sorted({name for one in triggers if one.kind in (START, JOINED) for name in one.subjects})),
        tuple(sorted({name for one in triggers if one.kind in WENT for name in one.subjects})),
        tuple(sorted({one.client_id for one in wave})),
        len({hand.queue for one in wave for hand in one.gained}),
    )
