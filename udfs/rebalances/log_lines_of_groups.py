"""Rows of ``rebalance_result``, ``client_event`` and ``membership_event`` in, what they tell of each group out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.group_rows import to_ms
from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.rebalance_fold import Day, Membership
from hindsight.udfs.rebalances.round_shares import ShareRound
from hindsight.udfs.rebalances.share_ledger import HEARD, REFUSED, RESULT, SWALLOWED, Line

_ASSIGNED = "queues_assigned"
OF_GROUP = (*HEARD, _ASSIGNED)  # kinds of client_event that name a group
CREATED, STOPPED, CHANGED_ROUTE = "client_created", "client_stopped", "route_changed"
# Those that name none: of the groups whose clients write into the log.
OF_LOG = (CREATED, STOPPED, CHANGED_ROUTE, "rebalance_failed", "allocation_failed")
_DAY_US = 86_400_000_000


@dataclass
class Told:
    """What logs tell of groups on a date: lines and members by group; by log lines that name no group."""

    lines: Mapping[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    nameless: Mapping[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    memberships: Mapping[str, list[Membership]] = field(default_factory=lambda: defaultdict(list))

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


def of_day(rows: pa.Table, day: date) -> pa.Table:
    """The rows whose line was written on a date, UTC."""
    days = microseconds(rows, "logged_at") // _DAY_US
    return rows.filter(pa.array(days == (day - date(1970, 1, 1)).days))


def lines_by_group(results: pa.Table, events: pa.Table) -> dict[str, list[Line]]:
    """Lines of clients' logs by consumer group."""
    found: dict[str, list[Line]] = defaultdict(list)
    for rows in (results, events):
        for row in _rows(rows):
            # A refusal is written twice: by whoever asks for the lock, and by the rebalance that wanted the queue.
            if row.get("kind") != REFUSED or row["detail"] is not None:
                found[row["consumer_group"]].append(_line(row))
    return found


def of_logs(events: pa.Table) -> dict[str, list[Line]]:
    """Lines that name no group, by log; each line once, whoever's bucket got it."""
    found: dict[str, list[Line]] = defaultdict(list)
    for row in _rows(events):
        line = _line(row)
        found[line.folder].append(line)
    return found


def memberships_by_group(rows: pa.Table) -> dict[str, list[Membership]]:
    """Lines of brokers' logs by consumer group."""
    found: dict[str, list[Membership]] = defaultdict(list)
    for row in _rows(rows):
        told = row["kind"], row["client_id"], row["address"], to_ms(row["last_update_at"])
        found[row["consumer_group"]].append(Membership(to_ms(row["logged_at"]) or 0, *told))
    return found


def _rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows with instants as whole numbers, epoch us, which cost less to read."""
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
    )
