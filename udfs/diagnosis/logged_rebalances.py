"""Walked processes and what brokers saw in, the rebalances of each group out: rows of ``rebalance_event`` in waves.

The fold that makes the table makes them, date by date, so both say the same. Rows of one group and cause, each soon
after the one before, are a wave: a client that is not told of a change finds it at its next timer, 20 s later.
Source: RebalanceService, ClientRemotingProcessor#notifyConsumerIdsChanged, MQClientInstance#rebalanceImmediately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import Event
from hindsight.udfs.diagnosis.log_processes import Process
from hindsight.udfs.rebalances.client_lines import REFUSED
from hindsight.udfs.rebalances.log_lines_of_groups import OF_GROUP, OF_LOG, Told, line_of
from hindsight.udfs.rebalances.rebalance_event import APPLIED
from hindsight.udfs.rebalances.rebalance_event import Rebalance as OfClient
from hindsight.udfs.rebalances.rebalance_fold import HOW, Membership, RebalanceFold
from hindsight.udfs.rebalances.rebalance_triggers import BY_NOTICE, JOINED, REACTS_WITHIN_MS, START, UNKNOWN, WENT

NOT_SAID = "not_said"
_DAY_MS = 86_400_000
_KINDS = frozenset((*OF_LOG, *OF_GROUP, "rebalance_result"))
_OF_MEMBERS = (START, JOINED, *WENT, UNKNOWN)


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


def rebalances_of(processes: Iterable[Process], memberships: Iterable[tuple[str, Event]]) -> list[Rebalance]:
    """All rebalances in order; ``memberships``: broker's name and what its log tells."""
    folds: dict[str, RebalanceFold] = defaultdict(RebalanceFold)
    rows: dict[str, list[OfClient]] = defaultdict(list)
    for day, told in sorted(_told(processes, memberships).items()):
        for group, of_day in told.days((day + 1) * _DAY_MS, {}).items():
            rows[group] += [one for _, one in folds[group].walk(of_day) if one.outcome == APPLIED]
    found = [_rebalance(group, wave) for group, of_group in rows.items() for wave in _waves(of_group)]
    return sorted(found, key=lambda one: (one.began_at, one.consumer_group, one.ended_at, one.topics))


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
