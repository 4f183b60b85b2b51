"""Doubtful choices and what is recorded around them in, a verdict on each out, and what the fallback forgot by it.

Each choice is judged by itself, in order, because a fallback may forget a broker that later choices depend on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hindsight.udfs.fault_tolerance import FaultItem
from hindsight.udfs.producer.attempt_columns import NEVER
from hindsight.udfs.producer.choice_readings import (
    BrokerRecord,
    NearUpdate,
    Other,
    Removal,
    Removals,
    item_readings,
    other_readings,
    route_readings,
    unlisted_readings,
    unseen_readings,
)
from hindsight.udfs.producer.choice_surroundings import (
    Around,
    Pairs,
    is_in_use,
    is_used_elsewhere,
    items_of,
    may_be_several,
    pairs_of,
)
from hindsight.udfs.producer.recorded_routes import RecordedRoutes, Route
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.send_verdicts import (
    Board,
    Choice,
    ItemReading,
    Judgement,
    Options,
    Rank,
    RouteReading,
    bit_of,
    names_of,
)
from hindsight.udfs.producer.unseen_life import FORGOTTEN, longest_ms
from hindsight.udfs.release_profiles import FaultProfile
from hindsight.udfs.values.columns import IntArray

# How the client's list is known to have a broker.
_SURE, _LIKELY, _ELSEWHERE = range(3)
# A broker's kind is a number, equal where it was the same thing: with these remainders by what the fallback did.
_KINDS, _GONE, _PERHAPS_GONE, _SEVERAL = 3, 1, 2, -1  # several: it may have been more than one thing
NO_SWITCH = "latency_fault_enabled is not recorded: with the switch off the choice would be impossible"

# Readings of a broker's item and of its route.
_More = tuple[tuple[ItemReading, ...], tuple[RouteReading, ...]]
NOTHING_MORE: Mapping[str, _More] = {}


class Verdict(NamedTuple):
    """What is said of the attempt at ``row``; None: not known."""

    row: int
    admissible: list[str] | None
    rule: str | None
    verdict: str
    reason: str | None


class ChoiceJudge:
    """Judges the doubtful choices of a date, given part by part in the order in which they began.

    ``removals``: what they made clients forget, by process.
    """

    def __init__(self, day: Day, routes: RecordedRoutes, *, tolerance_ms: int) -> None:
        self._day, self._routes, self._tolerance_ms = day, routes, tolerance_ms
        self.removals: dict[int, Removals] = {}
        self._names = [*day.brokers]  # by place; brokers that only routes name come last
        self._sets: dict[int, frozenset[str]] = {}
        self._listings: dict[tuple[Any, ...], tuple[RouteReading, ...]] = {}
        self._options: dict[tuple[Any, ...], dict[int, Options]] = {}

    def judged(self, rows: IntArray, around: Around) -> tuple[list[Verdict], list[tuple[int, Removal]]]:
        """Verdicts on the choices at these rows, and what they (perhaps) made clients forget: process, removal."""
        pairs = pairs_of(rows, around, self._day, tolerance_ms=self._tolerance_ms)
        edges = np.searchsorted(pairs.choice, np.arange(len(rows) + 1)).tolist()
        columns = _Columns(rows, pairs, around, self._day, self._tolerance_ms)
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
        settings = self._day.processes[process].rules.settings
        enabled, choice, topic = bool(settings.latency_fault_enabled), columns.choices[n], columns.topics[n]
        removals = self.removals.setdefault(process, Removals(self._tolerance_ms))
        judgement = self._first(n, process, own, columns)
        if judgement.verdict == "impossible" and enabled:
            judgement = self._with_unseen(n, process, own, columns) or judgement
        removals.note_rule(judgement, choice, topic)
        fresh = []
        for pair in own if judgement.removable else ():
            if (name := columns.names[pair]) in judgement.removable:
                # An update close to the choice may have come after it.
                surely = name == judgement.surely_removed and not columns.near(n, pair)
                removal = Removal(name, choice.now_ms, surely=surely)
                fresh += [removal] if removals.note(removal, columns.updated[pair]) else []
        if judgement.verdict == "impossible" and settings.latency_fault_enabled is None:
            # The client may have been switched on, and gone by a table of which no update is known.
            return Verdict(row, None, None, "unknown", NO_SWITCH), ()
        verdict = Verdict(row, sorted(judgement.admissible), judgement.rule, judgement.verdict, judgement.reason)
        return verdict, fresh

    def _first(
        self, n: int, process: int, own: range, columns: _Columns, more: Mapping[str, _More] = NOTHING_MORE
    ) -> Judgement:
        """The judgement by what lines show. Objects are made only for items that may have been several things.

        ``more``: what brokers may have been besides, the likelier first.
        """
        choice, held = columns.choices[n], self._routes.held(columns.topics[n], columns.choices[n].now_ms)
        profile = self._day.profile_of(process)
        enabled = bool(self._day.processes[process].rules.settings.latency_fault_enabled)
        removals, chosen = self.removals[process], bit_of(columns.brokers[n])
        only = _only_routed(held, {columns.names[pair] for pair in own}) if held else ()
        size = len(self._names) + len(only)
        board = Board(choice, chosen, profile, enabled=enabled, tolerance_ms=self._tolerance_ms, brokers=size)
        # What a broker of a kind was found to be at an earlier choice that has these in common with this one.
        found = self._options.setdefault((board.common, profile.mutates_queue_list, *map(id, held)), {})
        for pair in own:
            name, bit, (kind, rank) = columns.names[pair], columns.bits[pair], columns.kind(pair, removals)
            is_common = kind != _SEVERAL and name != choice.last_broker_name and name not in more
            if is_common and kind in found:
                board.add_again(bit, rank, found[kind])
                continue
            if kind == _SEVERAL:
                readings = board.ranked(self._items(columns.record(n, pair, enabled=enabled), process, choice))
            else:
                readings = [(rank, columns.reachable[pair], None)]
                readings += [(None, True, FORGOTTEN)] if kind % _KINDS == _PERHAPS_GONE else []
            routes = self._listing(held, name, columns.listings[pair], profile)
            if name in more:
                readings, routes = [*readings, *board.ranked(more[name][0])], (*routes, *more[name][1])
            options = board.add(bit, name, readings, routes)
            if is_common:
                found[kind] = options
        for name in only:
            items, routes = more.get(name, ((), ()))
            routes = (*self._listing(held, name, _LIKELY, profile), *routes)
            board.add(bit_of(self._place_of(name)), name, board.ranked((ItemReading(None), *items)), routes)
        return board.judgement(self._named)

    def _with_unseen(self, n: int, process: int, own: range, columns: _Columns) -> Judgement | None:
        """What is said of a choice once all is read too that lines do not show, or not surely; None: there is none."""
        profile, topic, tolerance_ms = self._day.profile_of(process), columns.topics[n], self._tolerance_ms
        now, chosen = columns.choices[n].now_ms, columns.choices[n].broker_name
        held, coming = self._routes.held(topic, now), self._routes.coming(topic, now)
        fell_back = self.removals[process].fell_back(topic)
        lasts_ms = longest_ms(profile) + tolerance_ms
        gaps = [gap for gap in self._day.processes[process].gaps if gap.bears_on(now, now, lasts_ms)]
        more: dict[str, _More] = {}
        for pair in own:
            name, others = columns.names[pair], columns.others(pair)
            items: tuple[ItemReading, ...] = ()
            if others or gaps:
                record = columns.record(n, pair, enabled=True)
                items = (
                    *other_readings(record, now, others, tolerance_ms=tolerance_ms),
                    *unseen_readings(record, now, profile, gaps, tolerance_ms=tolerance_ms),
                )
            before = columns.used_before(pair)
            is_rewritten = fell_back is not None and before is not None and fell_back >= before
            routes = () if name == chosen else self._unlisted(held, name, coming, is_rewritten, profile)
            if items or routes:
                more[name] = items, routes
        for name in _only_routed(held, {columns.names[pair] for pair in own}) if held else ():
            record = BrokerRecord(name, None, None, (), None, None)
            items = unseen_readings(record, now, profile, gaps, tolerance_ms=tolerance_ms)
            more[name] = items, () if name == chosen else self._unlisted(held, name, coming, False, profile)
        return self._first(n, process, own, columns, more) if any(map(any, more.values())) else None

    def _items(self, record: BrokerRecord, process: int, choice: Choice) -> tuple[ItemReading, ...]:
        return item_readings(
            record,
            choice.now_ms,
            self._day.profile_of(process),
            tolerance_ms=self._tolerance_ms,
            detector_enabled=bool(self._day.processes[process].rules.settings.detector_enabled),
            removal=self.removals[process].last(record.broker_name),
        )

    def _listing(self, held: Sequence[Route], name: str, how: int, profile: FaultProfile) -> tuple[RouteReading, ...]:
        """``route_readings``, once for what is equal; ``how``: see ``_Columns.listings``."""
        # The routes are the same objects all day.
        key = (how, profile.mutates_queue_list, *((name, *map(id, held)) if held else ()))
        if key not in self._listings:
            entries = tuple(route.entry(name) for route in held) or None
            record = BrokerRecord(name, None, 0 if how == _ELSEWHERE else None, (), None, None, entries)
            self._listings[key] = route_readings(record, Choice(name if how == _SURE else "", None, 0), profile)
        return self._listings[key]

    def _unlisted(
        self, held: Sequence[Route], name: str, coming: Route | None, is_rewritten: bool, profile: FaultProfile
    ) -> tuple[RouteReading, ...]:
        """``unlisted_readings`` of a broker that was not chosen, once for what is equal.

        ``is_rewritten``: the fallback may have taken it out of the list since its last use.
        """
        if not is_rewritten and coming is None:
            return ()
        key = ("unlisted", is_rewritten, profile.mutates_queue_list, name, id(coming), *map(id, held))
        if key not in self._listings:
            entries, used = tuple(route.entry(name) for route in held) or None, 0 if is_rewritten else None
            record, entry = BrokerRecord(name, None, None, (), used, None, entries), coming and coming.entry(name)
            self._listings[key] = unlisted_readings(record, Choice("", None, 0), profile, used, entry)
        return self._listings[key]

    def _place_of(self, name: str) -> int:
        """Where the broker stands among the names; one that no attempt names is put at their end."""
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    def _named(self, found: int) -> frozenset[str]:
        if found not in self._sets:
            self._sets[found] = names_of(found, self._names)
        return self._sets[found]


def _only_routed(routes: Sequence[Route], known: set[str]) -> list[str]:
    """The brokers that only the routes name."""
    return sorted({name for route in routes for name in route.brokers()} - known)


class _Columns:
    """The pairs of choices and brokers as the values that kernels take, instants in epoch ms."""

    def __init__(self, rows: IntArray, pairs: Pairs, around: Around, day: Day, tolerance_ms: int) -> None:
        self._day, self._around, self._midnight = day, around, day.midnight_ms
        a, u = around.attempts, around.updates
        texts = a.strings(rows, "last_broker_name", "topic", "thread", "msg_id").values()
        self.last, self.topics, self.threads, self.msg_ids = (column.to_pylist() for column in texts)
        self.attempts = np.maximum(a.attempt[rows], 0).tolist()
        self.begins, self.brokers = a.begin[rows].tolist(), around.broker[rows].tolist()
        told = zip(self.brokers, self.last, self.begins, strict=True)
        self.choices = [Choice(day.brokers[broker], last, begin + self._midnight) for broker, last, begin in told]
        place = pairs.item % max(len(day.brokers), 1)
        self.places, self._of_items = place.tolist(), pairs.item.tolist()
        self.names = [day.brokers[code] for code in self.places]
        self.low, self.high = (each.tolist() for each in pairs.near)
        self._used_before, self._used_after = pairs.used_before.tolist(), pairs.used_after.tolist()  # ms of the date
        process, now = around.process[rows][pairs.choice], a.begin[rows][pairs.choice]
        items, is_sure = items_of(pairs, around), (place == around.broker[rows][pairs.choice]) | is_in_use(pairs, now)
        is_elsewhere = is_used_elsewhere(pairs, items, now, day)
        # How it is known where no route is recorded that the broker is in the client's list.
        how = np.where(is_sure, _SURE, np.where(is_elsewhere, _ELSEWHERE, _LIKELY))
        self._is_there, self._latency, self._start, self.reachable, _, self._doubted = (c.tolist() for c in items)
        updated = zip(self._is_there, (items.updated + self._midnight).tolist(), strict=True)
        self.updated = [at if is_there else None for is_there, at in updated]
        is_on = np.array([bool(p.rules.settings.latency_fault_enabled) for p in day.processes], np.bool_)[process]
        is_held = (items.start > now) | (~items.reachable & day.gated[process])
        start = np.where(items.start == NEVER, 0, items.start + self._midnight)
        ranks, counts = zip(is_held.tolist(), self._latency, start.tolist(), strict=True), items.is_there & is_on
        self._ranks = [rank if one else None for rank, one in zip(ranks, counts.tolist(), strict=True)]
        several = is_on & may_be_several(pairs, items, process, now, day, tolerance_ms=tolerance_ms)
        state = np.where(counts, 1 + is_held, 0) * 2 + items.reachable
        self._kinds = np.where(several, _SEVERAL, ((place * 3 + how) * 6 + state) * _KINDS).tolist()
        self.listings, self.bits = how.tolist(), list(map(bit_of, self.places))
        near = _places_within(*pairs.near)
        facts = (
            u.at[near], a.begin[around.row[near]], np.maximum(a.attempt[around.row[near]], 0), around.phase[near],
            u.latency[near], u.isolation[near], u.reachable[near],
        )  # fmt: skip
        whose = (column.to_pylist() for column in a.strings(around.row[near], "thread", "msg_id").values())
        rows_of_near = zip(*whose, *(each.tolist() for each in facts), strict=True)
        self._updates = dict(zip(near.tolist(), rows_of_near, strict=True))

    def kind(self, pair: int, removals: Removals) -> tuple[int, Rank | None]:
        """What the pair's broker was, as far as ``removals`` leave it: its kind, and its item's rank."""
        kind, rank = self._kinds[pair], self._ranks[pair]
        gone = removals.of(self.names[pair], self.updated[pair] or 0) if rank and kind != _SEVERAL else None
        if gone is None:
            return kind, rank
        return (kind + _GONE, None) if gone.surely else (kind + _PERHAPS_GONE, rank)

    def record(self, n: int, pair: int, *, enabled: bool) -> BrokerRecord:
        """What is recorded of one broker around the n-th choice."""
        doubted, name = self._epoch(self._doubted[pair]), self.names[pair]
        before, after = self.used_before(pair), self._epoch(self._used_after[pair])
        near = self.near(n, pair) if enabled else ()
        item, updated = None, self.updated[pair]
        if self._is_there[pair] and enabled:
            item = FaultItem(self._latency[pair], self._epoch(self._start[pair]), self.reachable[pair])
        removal = None if doubted is None else Removal(name, doubted, surely=False)
        return BrokerRecord(name, item, updated, near, before, after, None, removal)

    def used_before(self, pair: int) -> int | None:
        """When the pair's broker was last used for the topic, epoch ms; None: it was not."""
        return self._epoch(self._used_before[pair])

    def others(self, pair: int) -> list[Other]:
        """What the pair's item may have been otherwise, in epoch ms."""
        own = self._around.others.get(self._of_items[pair], ())
        return [one._replace(at=one.at + self._midnight, start=one.start + self._midnight) for one in own]

    def _epoch(self, ms: int) -> int | None:
        return None if ms == NEVER else ms + self._midnight

    def near(self, n: int, pair: int) -> tuple[NearUpdate, ...]:
        """The updates near the n-th choice that it may have seen: not its own, nor those of later attempts of its send.

        A callback runs on another thread than the one that its line names. Two rows that tell the same are one.
        """
        own, seen = [], set()
        for place in range(self.low[pair], self.high[pair]):
            told = thread, msg_id, at, begin, attempt, phase, latency, isolation, reachable = self._updates[place]
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
