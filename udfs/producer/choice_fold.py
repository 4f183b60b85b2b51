"""Doubtful choices and what is recorded around them in, a verdict on each out, and what the fallback forgot by it.

Each choice is judged by itself, in order, because a fallback may forget a broker that later choices depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.fault_tolerance import FaultItem
from hindsight.udfs.producer.attempt_columns import NEVER
from hindsight.udfs.producer.choice_readings import (
    BrokerRecord,
    NearUpdate,
    Removal,
    Removals,
    item_readings,
    route_readings,
    unseen_readings,
)
from hindsight.udfs.producer.choice_surroundings import Around, Pairs, pairs_of
from hindsight.udfs.producer.recorded_routes import RecordedRoutes, Route
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.send_verdicts import Choice, Judgement, KnownBroker, judge
from hindsight.udfs.values.arrays import IntArray

NO_SWITCH = "latency_fault_enabled is not recorded: with the switch off the choice would be impossible"


class Verdict(NamedTuple):
    """What is said of the attempt at ``row``; None: not known."""

    row: int
    admissible: list[str] | None
    rule: str | None
    verdict: str
    reason: str | None


class ChoiceJudge:
    """Judges the doubtful choices of a date, given part by part in the order in which they began."""

    def __init__(self, day: Day, routes: RecordedRoutes, *, tolerance_ms: int) -> None:
        self._day, self._routes, self._tolerance_ms = day, routes, tolerance_ms
        self._removals: dict[int, Removals] = {}

    def judged(self, rows: IntArray, around: Around) -> tuple[list[Verdict], list[tuple[int, Removal]]]:
        """Verdicts on the choices at these rows, and what they (perhaps) made clients forget: process, removal."""
        pairs = pairs_of(rows, around, self._day, tolerance_ms=self._tolerance_ms)
        edges = np.searchsorted(pairs.choice, np.arange(len(rows) + 1)).tolist()
        columns = _Columns(rows, pairs, around, self._day)
        verdicts, removals = [], []
        for n, row in enumerate(rows.tolist()):
            process = int(around.process[row])
            verdict, fresh = self._judge(n, row, process, range(edges[n], edges[n + 1]), columns)
            verdicts.append(verdict)
            removals += [(process, removal) for removal in fresh]
        return verdicts, removals

    def _judge(
        self, n: int, row: int, process: int, own: range, columns: _Columns
    ) -> tuple[Verdict, Sequence[Removal]]:
        day = self._day
        rules = day.processes[process].rules
        profile, enabled = day.profile_of(process), bool(rules.settings.latency_fault_enabled)
        choice = columns.choice(n)
        removals = self._removals.setdefault(process, Removals(self._tolerance_ms))
        records = [columns.record(n, pair, enabled=enabled) for pair in own]
        records = _with_routes(records, self._routes.held(columns.topics[n], choice.now_ms))
        known = [
            KnownBroker(
                record.broker_name,
                item_readings(
                    record if enabled else record._replace(item=None, near=()),
                    choice.now_ms,
                    profile,
                    tolerance_ms=self._tolerance_ms,
                    detector_enabled=bool(rules.settings.detector_enabled),
                    removal=removals.last(record.broker_name),
                ),
                route_readings(record, choice, profile),
            )
            for record in records
        ]
        judgement = judge(choice, known, profile, enabled=enabled, tolerance_ms=self._tolerance_ms)
        if judgement.verdict == "impossible" and enabled:
            judgement = self._with_unseen(choice, process, records, known) or judgement
        fresh = removals.note(judgement, choice, records)
        if judgement.verdict == "impossible" and rules.settings.latency_fault_enabled is None:
            # The client may have been switched on, and gone by a table of which no update is known.
            return Verdict(row, None, None, "unknown", NO_SWITCH), ()
        return _verdict(row, judgement), fresh

    def _with_unseen(
        self, choice: Choice, process: int, records: Sequence[BrokerRecord], known: Sequence[KnownBroker]
    ) -> Judgement | None:
        """What is said of a choice once updates that no line shows are read too; None: nothing hides any."""
        profile, gaps = self._day.profile_of(process), self._day.processes[process].gaps
        if not gaps:
            return None
        tolerance_ms = self._tolerance_ms
        unseen = [unseen_readings(r, choice.now_ms, profile, gaps, tolerance_ms=tolerance_ms) for r in records]
        if not any(unseen):
            return None
        both = [k._replace(items=(*k.items, *more)) for k, more in zip(known, unseen, strict=True)]
        return judge(choice, both, profile, enabled=True, tolerance_ms=tolerance_ms)


def _verdict(row: int, judgement: Judgement) -> Verdict:
    return Verdict(row, sorted(judgement.admissible), judgement.rule, judgement.verdict, judgement.reason)


def _with_routes(records: list[BrokerRecord], routes: Sequence[Route]) -> list[BrokerRecord]:
    """The records with what the routes say of their brokers, and those of brokers that only a route names."""
    if not routes:
        return records
    routed = {name for route in routes for name in route.brokers()} - {record.broker_name for record in records}
    more = [BrokerRecord(name, None, None, (), None, None) for name in sorted(routed)]
    return [
        record._replace(routes=tuple(route.entry(record.broker_name) for route in routes))
        for record in (*records, *more)
    ]


class _Columns:
    """The pairs of choices and brokers as the values that kernels take, instants in epoch ms."""

    def __init__(self, rows: IntArray, pairs: Pairs, around: Around, day: Day) -> None:
        self._day, self._around, self._midnight = day, around, day.midnight_ms
        a, u = around.attempts, around.updates
        of_choices = a.table.select(["last_broker_name", "topic", "thread", "msg_id"]).take(pa.array(rows))
        self.last, self.topics, self.threads, self.msg_ids = (
            c.cast(pa.string()).to_pylist() for c in of_choices.columns
        )
        self.attempts = np.maximum(a.attempt[rows], 0).tolist()
        self.begins, self.brokers = a.begin[rows].tolist(), around.broker[rows].tolist()
        self.names = [day.brokers[code] for code in (pairs.item % max(len(day.brokers), 1)).tolist()]
        self.items = self._items(pairs)
        self.low, self.high = (each.tolist() for each in pairs.near)
        self.used = [[None if ms == NEVER else ms + self._midnight for ms in each.tolist()] for each in pairs[5:]]
        near = _places_within(*pairs.near)
        whose = a.table.select(["thread", "msg_id"]).take(pa.array(around.row[near]))
        facts = (
            u.at[near], a.begin[around.row[near]], np.maximum(a.attempt[around.row[near]], 0), around.phase[near],
            u.latency[near], u.isolation[near], u.reachable[near],
        )  # fmt: skip
        texts = (column.cast(pa.string()).to_pylist() for column in whose.columns)
        rows_of_near = zip(*texts, *(each.tolist() for each in facts), strict=True)
        self.near = dict(zip(near.tolist(), rows_of_near, strict=True))

    def choice(self, n: int) -> Choice:
        """The n-th choice."""
        return Choice(self._day.brokers[self.brokers[n]], self.last[n], self.begins[n] + self._midnight)

    def record(self, n: int, pair: int, *, enabled: bool) -> BrokerRecord:
        """What is recorded of one broker around the n-th choice."""
        item, updated, doubted = self.items[pair]
        name, before, after = self.names[pair], self.used[0][pair], self.used[1][pair]
        near = self._near(n, self.low[pair], self.high[pair]) if self.low[pair] < self.high[pair] else ()
        removal = None if doubted is None else Removal(name, doubted, surely=False)
        return BrokerRecord(name, item, updated, near, before, after, None, removal)

    def _items(self, pairs: Pairs) -> list[tuple[FaultItem | None, int | None, int | None]]:
        """Of each pair the item before the choice, when it was last updated, and from when on it may be gone."""
        u, heads = self._around.updates, self._around.items
        fresh = pairs.update >= 0
        there = fresh | (pairs.head >= 0)

        def column(of_update: Any, of_head: Any) -> Any:
            value = np.zeros(len(fresh), of_head.dtype)
            value[fresh] = of_update[pairs.update[fresh]]
            old = ~fresh & there
            value[old] = of_head[pairs.head[old]]
            return value.tolist()

        never = np.full(len(u.at), NEVER)
        columns = (
            column(u.latency, heads.latency),
            column(self._around.start, heads.start),
            column(u.reachable, heads.reachable),
            column(u.at, heads.updated),
            column(never, heads.doubted),
        )
        found: list[tuple[FaultItem | None, int | None, int | None]] = []
        for exists, latency, start, reachable, updated, doubted in zip(there.tolist(), *columns, strict=True):
            if exists:
                item = FaultItem(latency, self._epoch(start), reachable)
                found.append((item, updated + self._midnight, self._epoch(doubted)))
            else:
                found.append((None, None, None))
        return found

    def _epoch(self, ms: int) -> int | None:
        return None if ms == NEVER else ms + self._midnight

    def _near(self, n: int, low: int, high: int) -> tuple[NearUpdate, ...]:
        """The updates near the n-th choice that it may have seen: not its own, nor those of later attempts of its send.

        A callback runs on another thread than the one that its line names. Two rows that tell the same are one.
        """
        own, seen = [], set()
        for place in range(low, high):
            told = thread, msg_id, at, begin, attempt, phase, latency, isolation, reachable = self.near[place]
            if told in seen or (msg_id == self.msg_ids[n] and attempt >= self.attempts[n]):
                continue
            seen.add(told)
            earlier = begin < self.begins[n] and at <= self.begins[n]
            sure = thread is not None and thread == self.threads[n] and earlier and phase == 0
            own.append(NearUpdate(at + self._midnight, latency, isolation, reachable, sure))
        return tuple(own)


def _places_within(low: IntArray, high: IntArray) -> IntArray:
    """The places between any of the edges, in order."""
    wide = np.flatnonzero(high > low)
    none = np.zeros(0, np.int64)
    return np.unique(np.concatenate([none, *map(np.arange, low[wide].tolist(), high[wide].tolist())]))
