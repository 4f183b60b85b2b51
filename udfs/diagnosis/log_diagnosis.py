"""What was found in logs in, all that they tell together out, and what they cannot tell, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from hindsight.udfs.diagnosis.log_findings import Event, LogFindings
from hindsight.udfs.diagnosis.log_limits import CannotTell, limits_of_logs, limits_of_sends
from hindsight.udfs.diagnosis.log_members import Member, SameId, members_of, of_nothing_said, same_ids, signs_of
from hindsight.udfs.diagnosis.log_processes import consumes_of, processes_of, unique
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
from hindsight.udfs.diagnosis.logged_rebalances import Rebalance, rebalances_of
from hindsight.udfs.diagnosis.logged_troubles import Subject, Tally, Troubles, of_other_clients, troubles_of
from hindsight.udfs.logs.broker_log_lines import broker_of

SILENCE_MS = 30_000  # a client that holds queues writes every 5 s, and brokers wait 120 s before they drop it


@dataclass
class Diagnosis:
    """All that the logs tell, each list in an order that does not depend on that of the files."""

    logs: list[LogFindings]
    members: list[Member]
    ownership: list[Ownership]
    held_by_two: list[HeldByTwo]
    same_ids: list[SameId]
    rebalances: list[Rebalance]
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
        )


def diagnosis_of(logs: Iterable[LogFindings], silence_ms: int = SILENCE_MS) -> Diagnosis:
    """Bring together what was found; copies of one line count once."""
    logs = sorted(logs, key=lambda log: log.path)
    consumes = consumes_of(logs)
    walks = [ProcessWalk(process, consumes, silence_ms).walk() for process in processes_of(logs, silence_ms)]
    memberships = _memberships(logs)
    members = members_of(walks, consumes, signs_of(memberships))
    known = [one for walk in walks for one in ownership_of(walk)]
    brokers = _brokers(logs)
    troubles = [troubles_of(walk.process, brokers) for walk in walks]
    return Diagnosis(
        logs,
        members,
        sorted([*_without_contradiction(known), *of_nothing_said(members, known)], key=_in_order),
        held_by_two(known, consumes),
        same_ids(walks),
        rebalances_of([walk.process for walk in walks], memberships),
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


def _in_order(one: Ownership) -> tuple[str, str, str, int, int, str]:
    key = one.key
    return key.consumer_group, key.topic, key.client_id or "", one.since, one.pid or 0, one.log
