"""What logs and rounds tell of one group, date by date, in; its rebalances, and the state that a date hands on, out.

A client's own log tells of each rebalance exactly; where it does, what rounds show of the same one is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.group_rows import to_ms
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.logged_shares import LoggedShares
from hindsight.udfs.rebalances.rebalance_event import (
    DIED,
    FORGOTTEN_MS,
    JOINED,
    LEFT,
    ROUTE,
    Rebalance,
    Sign,
    Signs,
    fill,
    tells,
)
from hindsight.udfs.rebalances.round_shares import Moved, RoundShares, ShareRound
from hindsight.udfs.rebalances.share_ledger import HEARD, REFUSED, RESULT, SWALLOWED, Line
from hindsight.udfs.values.columns import DAY_US, EPOCH, microseconds
from hindsight.udfs.values.kept_states import Kept, state_of, state_text

_ASSIGNED = "queues_assigned"
OF_GROUP = (*HEARD, _ASSIGNED)  # kinds of client_event that name a group
CREATED, STOPPED, CHANGED_ROUTE = "client_created", "client_stopped", "route_changed"
# Those that name none: of the groups whose clients write into the log.
OF_LOG = (CREATED, STOPPED, CHANGED_ROUTE, "rebalance_failed", "allocation_failed")
# ConsumerManager#scanNotActiveChannel: CHANNEL_EXPIRED_TIMEOUT 120 s (from 5.1.0 on a setting), looked at every 10 s.
EXPIRED_MS = 130_000
_HEARTBEAT_MS = 40_000  # sent every 30 s
_ONE_CHANGE_MS = 60_000  # brokers tell of one change each by itself


@dataclass
class Told:
    """What logs tell of groups on a date: lines and members by group; by log lines that name no group."""

    lines: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    nameless: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    memberships: dict[str, list[Membership]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of_rows(cls, day: date, of_groups: Iterable[pa.Table], of_logs: pa.Table, members: pa.Table) -> Told:
        """What rows tell whose line was written on a date, UTC.

        Args:
            of_groups: of clients' logs, with a group.
            of_logs: the same without one; each line once, whoever's bucket got it.
            members: of brokers' logs.
        """
        told = cls()
        for row in (row for rows in of_groups for row in _rows(rows, day)):
            # A refusal is written twice: by whoever asks for the lock, and by the rebalance that wanted the queue.
            if row.get("kind") != REFUSED or row["detail"] is not None:
                told.lines[row["consumer_group"]].append(_line(row))
        for line in map(_line, _rows(of_logs, day)):
            told.nameless[line.folder].append(line)
        for row in _rows(members, day):
            said = row["kind"], row["client_id"], row["address"], to_ms(row["last_update_at"])
            told.memberships[row["consumer_group"]].append(Membership(to_ms(row["logged_at"]) or 0, *said))
        return told

    def days(self, ends_at: int, rounds: Mapping[str, Mapping[str, Sequence[ShareRound]]]) -> dict[str, Day]:
        """By group; a line that names none is of each group of its log."""
        found = {}
        for group in sorted({*self.lines, *self.memberships, *rounds}):
            own = self.lines.get(group, [])
            beside = [line for log in sorted({line.folder for line in own}) for line in self.nameless.get(log, ())]
            found[group] = Day(
                ends_at,
                lines=[*own, *(line for line in beside if line.kind in SWALLOWED)],
                created=[(line.client_id, line.at) for line in beside if line.kind == CREATED and line.client_id],
                stopped=[(line.client_id, line.at) for line in beside if line.kind == STOPPED and line.client_id],
                routes=[(line.topic, line.at) for line in beside if line.kind == CHANGED_ROUTE and line.topic],
                memberships=self.memberships.get(group, ()),
                rounds=rounds.get(group, {}),
            )
        return found


def _rows(rows: pa.Table, day: date) -> Iterator[dict[str, Any]]:
    """Rows of a date with instants as whole numbers, epoch us, which cost less to read."""
    days = microseconds(rows, "logged_at") // DAY_US
    rows = rows.filter(pa.array(days == (day - EPOCH.date()).days))
    instants = [name for name in rows.column_names if pa.types.is_timestamp(rows.schema.field(name).type)]
    for name in instants:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pc.cast(rows[name], pa.timestamp("us", "UTC")).cast(pa.int64()))
    yield from rows.to_pylist()


def _line(row: Mapping[str, Any]) -> Line:
    queues = frozenset((queue["broker_name"], queue["queue_id"]) for queue in row["queues"] or ())
    place = to_ms(row["logged_at"]) or 0, row["source_file"], row["source_line"]
    return line_of(row, row.get("kind", RESULT), *place, log_of(row["source_file"]), queues)


def line_of(
    row: Mapping[str, Any], kind: str, at: int, file: str, number: int, log: str, queues: frozenset[tuple[str, int]]
) -> Line:
    """A line of a client's log; ``queues``: those of a result."""
    if kind not in (RESULT, _ASSIGNED) and row.get("broker_name") is not None and row.get("queue_id") is not None:
        queues = frozenset({(row["broker_name"], row["queue_id"])})
    return Line(
        at,
        file,
        number,
        RESULT if kind == _ASSIGNED else kind,
        log,
        row.get("client_id"),
        row.get("topic"),
        queues,
        row.get("queue_count"),
        row.get("member_count"),
        row.get("exception"),
        row.get("error"),
        row.get("consumer_group") is not None,
        row.get("offset"),
        row.get("new_offset"),
    )


class Membership(NamedTuple):
    """A line of a broker's log about a group's member. ``heard_at``: its last heartbeat by then; None: not told."""

    at: int
    kind: str
    client_id: str | None
    address: str | None
    heard_at: int | None


class Day(NamedTuple):
    """What is told of a group on a date; ``ends_at``: the midnight after it, epoch ms.

    Attributes:
        created: clients that were created, and when.
        rounds: by collector, rounds that show something new.
    """

    ends_at: int
    lines: Sequence[Line] = ()
    created: Sequence[tuple[str, int]] = ()
    stopped: Sequence[tuple[str, int]] = ()
    routes: Sequence[tuple[str, int]] = ()
    memberships: Sequence[Membership] = ()
    rounds: Mapping[str, Sequence[ShareRound]] = {}


HOW = {
    "consumer_connected": JOINED,
    "consumer_unregistered": LEFT,
    "consumer_channel_closed": DIED,
    "consumer_channel_expired": DIED,
}


@dataclass
class RebalanceFold(Kept):
    """One group. ``signs``: those of the end of the date before; ``addresses``: whose a channel is."""

    logged: LoggedShares = field(default_factory=LoggedShares)
    rounds: dict[str, RoundShares] = field(default_factory=dict)
    signs: list[Sign] = field(default_factory=list)
    created: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def walk(self, day: Day) -> Iterator[tuple[str, Rebalance]]:
        """The rebalances of a date, each with the collector whose rounds showed it; '': a client's log told it."""
        started: dict[str, list[int]] = defaultdict(list)
        for client_id, at in (*self.created.items(), *day.created):
            started[client_id].append(at)
        ends, told = self._told(day)
        moved: list[tuple[str, Moved]] = []
        shown: list[Sign] = []
        for collector, rounds in sorted(day.rounds.items()):
            of_collector = self.rounds.setdefault(collector, RoundShares())
            for group in rounds:
                signs, found = of_collector.take(group)
                shown += signs
                moved += [(collector, one) for one in found]
            of_collector.close_date()
        every = Signs([*self.signs, *told, *shown])
        last = dict(self.logged.last)
        logged = [*self.logged.walk(day.lines, every, started, ends)]
        by_client: dict[str, list[Rebalance]] = defaultdict(list)
        for one in logged:
            by_client[one.client_id].append(one)
        for collector, move in moved:
            made = move.rebalance(every)
            telling = [one for one in by_client[made.client_id] if tells(one, made)]
            for one in telling:
                fill(one, made)
            if not telling and last.get(made.client_id, -1) < (made.after or made.at) - 1_000:
                yield collector, made
        yield from (("", one) for one in logged)
        self.signs = [sign for sign in every if sign.at >= day.ends_at - FORGOTTEN_MS]
        self.created |= dict(day.created)

    def _told(self, day: Day) -> tuple[list[Sign], list[Sign]]:
        """Members that went, and all signs that logs tell; of what several brokers tell, the first."""
        clients = {line.client_id for line in day.lines} | self.logged.last.keys()
        topics = {line.topic for line in day.lines} | {topic for _, topic in self.logged.shared}
        told = [Sign(at, LEFT, client_id) for client_id, at in day.stopped if client_id in clients]
        heard: dict[tuple[int, str], int] = {}
        for line in sorted(day.memberships, key=lambda line: line.at):
            if line.client_id is not None and line.address is not None:
                self.addresses[line.address] = line.client_id
            subject = line.client_id or self.addresses.get(line.address or "") or line.address
            if subject is not None:
                told.append(Sign(line.at, HOW[line.kind], subject))
                if HOW[line.kind] != JOINED:
                    self.addresses.pop(line.address or "", None)
                silent_since = _silent_since(line)
                if silent_since is not None:
                    heard[line.at, subject] = silent_since
        first = list(_first(told))
        routes = [Sign(at, ROUTE, topic) for topic, at in day.routes if topic in topics]
        # Of one that was silent before nobody may have read the queues since its last heartbeat.
        ends = [s._replace(after=heard.get((s.at, s.subject))) for s in first if s.kind != JOINED]
        return ends, [*first, *routes]

    def forget(self, before: int) -> None:
        """Forget clients of whose queues nothing was told since an instant, and starts of no use any more."""
        self.logged.forget(before)
        known = self.logged.last.keys()
        self.created = {c: at for c, at in self.created.items() if c in known or at >= before}

    def to_json(self) -> str:
        """The state; equal folds give equal texts."""
        return state_text(self.to_state())

    @classmethod
    def of_json(cls, text: str) -> RebalanceFold:
        """The fold that ``to_json`` wrote."""
        return cls.of_state(state_of(text))


def _silent_since(line: Membership) -> int | None:
    """When a member that went had its last heartbeat, if it missed one: its process may have stood still since."""
    if HOW[line.kind] != DIED:
        return None
    if line.heard_at is None:
        return line.at - EXPIRED_MS if line.kind == "consumer_channel_expired" else None
    return line.heard_at if line.at - line.heard_at > _HEARTBEAT_MS else None


def _first(signs: Iterable[Sign]) -> Iterator[Sign]:
    """Of signs of one kind and member that follow each other soon, the first."""
    last: dict[tuple[str, str], int] = {}
    for sign in sorted(signs):
        key = sign.kind, sign.subject
        if sign.at - last.get(key, -_ONE_CHANGE_MS) >= _ONE_CHANGE_MS:
            yield sign
        last[key] = sign.at
