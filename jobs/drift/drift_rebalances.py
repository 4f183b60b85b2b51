"""The rebalances of a bucket's groups, date by date: lines of logs and rounds in, rows of two tables out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from hindsight.jobs.drift.drift_cut import NAMELESS, NAMELESS_SCHEMA, cut_schema
from hindsight.jobs.drift.drift_tables import plain_rows
from hindsight.jobs.engines.runner import Given
from hindsight.jobs.lake.cluster_dates import DAY_MS, midnight_of
from hindsight.schemas import CLIENT_EVENT, MEMBERSHIP_EVENT, REBALANCE_EVENT, REBALANCE_RESULT, REBALANCE_STATE, Table
from hindsight.udfs.consumer.group_rows import to_instant, to_ms
from hindsight.udfs.rebalances.rebalance_event import event_row
from hindsight.udfs.rebalances.rebalance_fold import Day, RebalanceFold, Told
from hindsight.udfs.rebalances.round_shares import ShareRound

Shares = Mapping[tuple[str, str], Sequence[ShareRound]]  # by group and collector


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
        told = Told.of_rows(day, (self._results, self._events), self._nameless, self._members)
        rounds: dict[str, dict[str, Sequence[ShareRound]]] = defaultdict(dict)
        for (group, collector), of_collector in shares.items():
            rounds[group][collector] = of_collector
        return told.days(midnight_of(day) + DAY_MS, rounds)


def _last(day: Day) -> int:
    """The last instant that anything tells of."""
    told = [line.at for line in day.lines] + [line.at for line in day.memberships]
    return max([*told, *(one.at for rounds in day.rounds.values() for one in rounds)], default=0)
