"""Rows of ``rebalance_result``, ``client_event`` and ``membership_event`` in, what they tell of each group out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.group_rows import to_ms
from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.diagnosis.log_processes import log_of
from hindsight.udfs.rebalances.client_lines import HEARD, REFUSED, RESULT, SWALLOWED, Line
from hindsight.udfs.rebalances.rebalance_fold import Membership

_ASSIGNED = "queues_assigned"
OF_GROUP = (*HEARD, _ASSIGNED)  # kinds of client_event that name a group
CREATED, STOPPED, CHANGED_ROUTE = "client_created", "client_stopped", "route_changed"
# Those that name none: of the groups whose clients write into the log.
OF_LOG = (CREATED, STOPPED, CHANGED_ROUTE, "rebalance_failed", "allocation_failed")
_DAY_US = 86_400_000_000


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


def of_logs(events: pa.Table) -> dict[str, list[Mapping[str, Any]]]:
    """Rows of lines that name no group, by log; each line once, whoever's bucket got it."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in _rows(events):
        found[log_of(row["source_file"])].append(row)
    return found


def nameless_line(row: Mapping[str, Any]) -> Line | None:
    """An exception that names no group, as a line of any group of the log; None: it is none."""
    return _line(row)._replace(names_group=False) if row["kind"] in SWALLOWED else None


def instant_of(row: Mapping[str, Any]) -> int:
    """When the line was written, epoch ms."""
    return to_ms(row["logged_at"]) or 0


def memberships_by_group(rows: pa.Table) -> dict[str, list[Membership]]:
    """Lines of brokers' logs by consumer group."""
    found: dict[str, list[Membership]] = defaultdict(list)
    for row in _rows(rows):
        told = row["kind"], row["client_id"], row["address"], to_ms(row["last_update_at"])
        found[row["consumer_group"]].append(Membership(instant_of(row), *told))
    return found


def _rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows with instants as whole numbers, epoch us, which cost less to read."""
    instants = [name for name in rows.column_names if pa.types.is_timestamp(rows.schema.field(name).type)]
    for name in instants:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pc.cast(rows[name], pa.timestamp("us", "UTC")).cast(pa.int64()))
    yield from rows.to_pylist()


def _line(row: Mapping[str, Any]) -> Line:
    kind = row.get("kind", RESULT)
    queues = frozenset((queue["broker_name"], queue["queue_id"]) for queue in row["queues"] or ())
    if kind not in (RESULT, _ASSIGNED) and row["broker_name"] is not None and row["queue_id"] is not None:
        queues = frozenset({(row["broker_name"], row["queue_id"])})
    return Line(
        instant_of(row),
        row["source_file"],
        row["source_line"],
        RESULT if kind == _ASSIGNED else kind,
        log_of(row["source_file"]),
        row["client_id"],
        row["topic"],
        queues,
        row.get("queue_count"),
        row.get("member_count"),
        row.get("exception"),
        row.get("error"),
    )
