"""The rebalances of a bucket's groups, date by date: lines of logs and rounds in, rows of two tables out.

Python's search for objects that refer to each other in circles, held back while a kernel makes many that last.

The search looks at all objects that are alive, again and again: a fifth of the time of a fold that remembers something
of every queue.

Kernel that brings lines of clients' logs which name no group to the workers that fold the groups of the log.

Such a line is copied to each bucket of whose groups a line of the same log tells.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.drift_cut import (
    CLIENT_EVENT_COLUMNS,
    LOGGED_SCHEMA,
    columns_of,
    cut_schema,
    logged_lines,
    of_clusters,
)
from hindsight.jobs.drift.drift_tables import plain_rows
from hindsight.jobs.drift.group_split import Cutting
from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.runner import Blob, Given
from hindsight.jobs.lake.cluster_dates import DAY_MS, midnight_of
from hindsight.schemas import CLIENT_EVENT, MEMBERSHIP_EVENT, REBALANCE_EVENT, REBALANCE_RESULT, REBALANCE_STATE, Table
from hindsight.udfs.consumer.group_rows import to_instant, to_ms
from hindsight.udfs.consumer.rows_of_rounds import near, on_dates
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.rebalance_event import event_row
from hindsight.udfs.rebalances.rebalance_fold import (
    OF_LOG,
    Day,
    RebalanceFold,
    Told,
    lines_by_group,
    memberships_by_group,
    of_day,
    of_logs,
)
from hindsight.udfs.rebalances.round_shares import ShareRound

Shares = Mapping[tuple[str, str], Sequence[ShareRound]]  # by group and collector
_NEW_OBJECTS = 100_000  # until the youngest are looked at; Python's own: 700
NAMELESS = "lines of no group"
LOGGED_NAMELESS = "logged lines of no group"
NAMELESS_SCHEMA = columns_of(CLIENT_EVENT, CLIENT_EVENT_COLUMNS)


class Rebalances:
    """The folds of a bucket's groups."""

    def __init__(self, cluster: str, given: Given, opening: Sequence[Mapping[str, Any]], carry_days: int) -> None:
        """``opening``: rows of ``rebalance_state``; a group of which nothing is told is kept for ``carry_days``."""
        self._cluster, self._carry_days = cluster, carry_days
        self._results, self._events, self._members = (
            pa.concat_tables([cut_schema(table.name).empty_table(), *given.tables(table.name)])
            for table in (REBALANCE_RESULT, CLIENT_EVENT, MEMBERSHIP_EVENT)
        )
        self._nameless = pa.concat_tables([NAMELESS_SCHEMA.empty_table(), *given.tables(NAMELESS)])
        self._folds = {row["consumer_group"]: RebalanceFold.of_json(row["state"]) for row in opening}
        self._told_at = {row["consumer_group"]: to_ms(row["last_told_at"]) or 0 for row in opening}

    def of_date(self, day: date, shares: Shares) -> Iterator[tuple[Table, pa.Table]]:
        """Rows of a date, and the state in which it closes."""
        place = {"cluster": self._cluster, "event_date": day}
        days = self._days(day, shares)
        made = []
        for group, of_group in sorted(days.items()):
            fold = self._folds.setdefault(group, RebalanceFold())
            named = {**place, "consumer_group": group}
            made += [event_row({**named, "collector": collector}, one) for collector, one in fold.walk(of_group)]
            told = self._told_at.get(group, 0)
            self._told_at[group] = max(told, _last(of_group))
        yield REBALANCE_EVENT, plain_rows(REBALANCE_EVENT, made)
        yield REBALANCE_STATE, plain_rows(REBALANCE_STATE, [*self._states(place, day)])

    def _states(self, place: Mapping[str, Any], day: date) -> Iterator[dict[str, Any]]:
        kept_from = midnight_of(day) - self._carry_days * DAY_MS
        for group, fold in sorted(self._folds.items()):
            if self._told_at[group] < kept_from:
                continue
            fold.forget(kept_from)
            told_at: datetime | None = to_instant(self._told_at[group])
            yield {**place, "consumer_group": group, "state": fold.to_json(), "last_told_at": told_at}
        self._folds = {group: fold for group, fold in self._folds.items() if self._told_at[group] >= kept_from}

    def _days(self, day: date, shares: Shares) -> dict[str, Day]:
        """What is told of each group on a date."""
        told = Told(
            lines_by_group(of_day(self._results, day), of_day(self._events, day)),
            of_logs(of_day(self._nameless, day)),
            memberships_by_group(of_day(self._members, day)),
        )
        rounds: dict[str, dict[str, Sequence[ShareRound]]] = defaultdict(dict)
        for (group, collector), of_collector in shares.items():
            rounds[group][collector] = of_collector
        return told.days(midnight_of(day) + DAY_MS, rounds)


def _last(day: Day) -> int:
    """The last instant that anything tells of."""
    told = [line.at for line in day.lines] + [line.at for line in day.memberships]
    return max([*told, *(one.at for rounds in day.rounds.values() for one in rounds)], default=0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Few searches inside."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class EventFile(NamedTuple):
    """A file of ``client_event``; ``wants``: by cluster and log, the keys that get copies of its nameless lines."""

    folder: TableFolder
    file: DataFile
    by: Cutting
    wants: Mapping[str, Mapping[str, Collection[int]]]


def cut_logs(task: EventFile) -> Iterator[Blob]:
    """Lines that name no group, by bucket (``NAMELESS``)."""
    for cluster, rows in of_clusters(task, ("event_date", *CLIENT_EVENT_COLUMNS, *LOGGED_SCHEMA.names[:-2])):
        wants = task.wants.get(cluster, {})
        lines = rows.filter(pc.field("consumer_group").is_null())
        lines = logged_lines(lines, near(task.by.dates[cluster], (-1, 0)))
        of_logs = [wants.get(log_of(file), ()) for file in lines["source_file"].to_pylist()]
        for key in sorted({next(iter(of)) for of in of_logs if len(of) == 1}):  # whose it is, no other bucket doubts
            yield Blob(LOGGED_NAMELESS, key, 0, lines.filter(pa.array([[*of] == [key] for of in of_logs], pa.bool_())))
        own = rows.filter(pc.field("kind").isin(list(OF_LOG)) & pc.field("consumer_group").is_null())
        own = own.filter(pa.array(on_dates(own, task.by.dates[cluster]))).select(list(CLIENT_EVENT_COLUMNS))
        keys = [wants.get(log_of(file), ()) for file in own["source_file"].to_pylist()]
        for key in sorted({key for of in keys for key in of}):
            yield Blob(NAMELESS, key, 0, own.filter(pa.array([key in of for of in keys], pa.bool_())))
