"""Facts of a date, recorded starts and what the date before handed over in; the producer processes of the date out.

A producer's time is cut into lives: one begins at each start, at the midnight of a date with attempts after more than
``carry_days`` without any, and at the midnight of the first date whose lines tell another release or switch than
before, where no start is on record. A process is told by the instant it began as one life; its fault table is empty
then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from hindsight.udfs.producer.attempt_facts import Cuts
from hindsight.udfs.producer.replay_rules import (
    Override,
    Recorded,
    Rules,
    family_of,
    overridden,
    rules_of,
    under_premise,
)
from hindsight.udfs.producer.unseen_life import (
    LOST_LINES,
    SETTINGS_CHANGED,
    TWO_PROCESSES,
    UNSEEN_RETRIES,
    Gap,
    longest_ms,
    merged_gaps,
)
from hindsight.udfs.values.columns import DAY_MS, EPOCH

Producer = tuple[str, str]
_T = TypeVar("_T")


class Start(NamedTuple):
    """A recorded start, epoch ms, and what it says."""

    at_ms: int
    says: Recorded


class HandedOver(NamedTuple):
    """A process as an earlier date left it (a row of producer_replay); instants in epoch ms."""

    started_ms: int | None
    says: Recorded
    last_attempt_ms: int
    partly_seen: bool
    gaps: tuple[Gap, ...] = ()


class Life(NamedTuple):
    """When a process began, epoch ms; ``began_ms`` None: before all that is known; ``started_ms`` None: no start."""

    began_ms: int | None
    started_ms: int | None


UNSEEN = Life(None, None)


class Activity(NamedTuple):
    """What a process did on a date; instants in epoch ms. ``gaps``: what its attempts hide."""

    attempts: int
    last_attempt_ms: int
    partly_seen: bool
    sources: tuple[str, ...]
    says: Recorded
    gaps: tuple[Gap, ...] = ()


class Process(NamedTuple):
    """A producer process that is alive on a date.

    Attributes:
        ends_ms: when the next one began, epoch ms; None: it is the last.
        recorded: what its start and lines say, before settings and defaults fill in.
        certainty: of its windows, as far as it alone decides.
        last_attempt_ms: its last recorded instant up to the date.
        gaps: what is not known of it and bears on the date, one for each reason.
        doubts: reasons for which something on the date is not certain.
    """

    producer: Producer
    life: Life
    ends_ms: int | None
    recorded: Recorded
    rules: Rules
    certainty: str
    attempts: int
    sources: tuple[str, ...]
    last_attempt_ms: int
    gaps: tuple[Gap, ...] = ()
    doubts: tuple[str, ...] = ()


class Past(NamedTuple):
    """What is known of a cluster's producers beside a date's attempts.

    Attributes:
        losses: when a recorder told that it had lost lines, epoch ms; it may have lost them at any time before that.
        gaps: what else is not known of producers, whichever of their processes it is of.
    """

    starts: Mapping[Producer, Sequence[Start]]
    handed_over: Mapping[Producer, Sequence[HandedOver]]
    losses: Mapping[Producer, Sequence[int]] = MappingProxyType({})
    gaps: Mapping[Producer, Sequence[Gap]] = MappingProxyType({})

    def cuts(self, midnight_ms: int) -> Cuts:
        """Per producer the instants, ms of the date, at which a process may begin."""
        found: dict[Producer, set[int]] = defaultdict(lambda: {0})
        for producer, starts in self.starts.items():
            found[producer].update(start.at_ms - midnight_ms for start in starts)
        for producer, rows in self.handed_over.items():
            found[producer].update(row.started_ms - midnight_ms for row in rows if row.started_ms is not None)
        return {producer: sorted(instants) for producer, instants in found.items()}


class Settings(NamedTuple):
    """How processes are told apart, what is said of those that say nothing themselves, and premises, which win."""

    cluster: str
    carry_days: int
    overrides: Sequence[Override] = ()
    supposed: Sequence[Override] = ()


class _Days:
    """One producer on one date."""

    def __init__(self, producer: Producer, past: Past, midnight_ms: int, settings: Settings) -> None:
        self.producer, self.midnight_ms, self.carry_days = producer, midnight_ms, settings.carry_days
        self.starts = past.starts.get(producer, ())
        self.handed_over = past.handed_over.get(producer, ())
        self.losses = past.losses.get(producer, ())
        self.gaps = past.gaps.get(producer, ())
        self.otherwise = overridden(settings.overrides, settings.cluster, producer[0])
        self.supposed = overridden(settings.supposed, settings.cluster, producer[0])
        started = {start.at_ms for start in self.starts}
        started.update(row.started_ms for row in self.handed_over if row.started_ms is not None)
        self.lives = [Life(at, at) for at in sorted(started)]

    def with_silence(self) -> None:
        """Add the life that begins as the producer sends again after its table was forgotten."""
        active = {row.last_attempt_ms // DAY_MS for row in self.handed_over}
        active.update(start.at_ms // DAY_MS for start in self.starts)
        today = self.midnight_ms // DAY_MS
        before = max((day for day in active if day < today), default=today)
        if today - before > self.carry_days:
            self._add_midnight()

    def with_change(self, said: Recorded) -> bool:
        """Add the life that begins as lines tell of another process than before; whether there is one."""
        before = next((row for row in self.handed_over if row.started_ms is None), None)
        if before is None:
            return False
        known, now = (self._told(says) for says in (before.says, said.or_else(before.says)))
        changes = any(a != b for a, b in zip(known, now, strict=True) if a is not None and b is not None)
        if changes:
            self._add_midnight()
        return changes

    def _told(self, says: Recorded) -> tuple[str | None, bool | None]:
        known = says.or_else(self.otherwise)
        family, _ = family_of(known.client_version)
        return known.client_version if family is None else family.id, known.latency_fault_enabled

    def _add_midnight(self) -> None:
        self.lives = sorted(
            [Life(self.midnight_ms, None), *self.lives], key=lambda life: (life.began_ms, life.started_ms is not None)
        )

    def life_at(self, at_ms: int | None) -> Life:
        """The last life begun by then; None: before all cuts."""
        begun = [
            life for life in self.lives if at_ms is not None and life.began_ms is not None and life.began_ms <= at_ms
        ]
        return begun[-1] if begun else UNSEEN

    def processes(self, active: Mapping[Life, Activity]) -> Iterable[Process]:
        """Those alive on the date."""
        own = {row.started_ms: row for row in self.handed_over}
        starts = {start.at_ms: start for start in self.starts}
        lives = {*active, *(Life(at, at) if at is not None else UNSEEN for at in (*own, *starts))}
        begun = sorted(life.began_ms for life in lives if life.began_ms is not None)
        for life in sorted(
            lives, key=lambda life: (life.began_ms is not None, life.began_ms, life.started_ms is not None)
        ):
            ends = next((at for at in begun if life.began_ms is None or at > life.began_ms), None)
            before = own.get(life.started_ms) if life in (UNSEEN, Life(life.started_ms, life.started_ms)) else None
            made = self._process(life, ends, before, starts.get(life.started_ms or -1), active.get(life))
            superseded = ends is not None and ends <= self.midnight_ms
            silent = (self.midnight_ms - made.last_attempt_ms // DAY_MS * DAY_MS) // DAY_MS
            if not superseded and silent <= self.carry_days:
                yield made

    def _process(
        self, life: Life, ends_ms: int | None, before: HandedOver | None, start: Start | None, does: Activity | None
    ) -> Process:
        earlier = before.says if before else Recorded()
        today = (start.says if start else Recorded()).or_else(does.says if does else Recorded())
        recorded = today.or_else(earlier) if life.started_ms is None else earlier.or_else(today)
        rules = rules_of(under_premise(self.supposed, recorded.or_else(self.otherwise)))
        partly_seen = bool(before and before.partly_seen) or bool(does and does.partly_seen)
        instants = [start.at_ms if start else None, before and before.last_attempt_ms, does and does.last_attempt_ms]
        gaps = merged_gaps(
            gap
            for gap in (*self._handed_over(before, does), *(does.gaps if does else ()), *self._lost(life), *self.gaps)
            if gap.bears_on(self.midnight_ms, self.midnight_ms + DAY_MS, longest_ms(rules.profile))
        )
        return Process(
            self.producer,
            life,
            ends_ms,
            recorded,
            rules,
            "partial" if partly_seen else "possible" if rules.detects else "certain",
            does.attempts if does else 0,
            does.sources if does else (),
            max(at for at in instants if at is not None),
            gaps,
        )

    def _handed_over(self, before: HandedOver | None, does: Activity | None) -> list[Gap]:
        """What the date before did not know; what lasted until the process's last attempt lasts on with it."""
        gaps = list(before.gaps) if before else []
        if not before or not does:
            return gaps
        return [
            gap._replace(until_ms=does.last_attempt_ms)
            if gap.reason in (TWO_PROCESSES, SETTINGS_CHANGED) and gap.until_ms >= before.last_attempt_ms
            else gap
            for gap in gaps
        ]

    def _lost(self, life: Life) -> list[Gap]:
        return [Gap(life.began_ms, at, LOST_LINES) for at in self.losses if self.life_at(at) == life]


def processes_of(
    facts: Iterable[Mapping[str, Any]], past: Past, midnight_ms: int, settings: Settings
) -> tuple[list[Process], dict[tuple[Producer, int], int]]:
    """The processes alive on the date, and by producer and segment of its time the place of its process.

    Args:
        facts: rows of ``attempt_facts.FACTS`` with attempts, instants in epoch ms, segments by the cuts of ``past``.
    """
    found: list[Process] = []
    places: dict[tuple[Producer, int], int] = {}
    cuts = past.cuts(midnight_ms)
    of_producers: dict[Producer, list[Mapping[str, Any]]] = defaultdict(list)
    for row in facts:
        of_producers[row["producer_group"], row["client_id"]].append(row)
    for producer in sorted({*of_producers, *past.starts, *past.handed_over}):
        days = _Days(producer, past, midnight_ms, settings)
        own = of_producers.get(producer, [])
        if own:
            days.with_silence()
        begins = [None, *(at + midnight_ms for at in cuts.get(producer, (0,)))]
        active = _by_life(own, days, begins)
        if UNSEEN in active and days.with_change(active[UNSEEN].says):
            active = _by_life(own, days, begins)
        place_of = {}
        for process in days.processes(active):
            place_of[process.life] = len(found)
            found.append(process)
        for segment, at_ms in enumerate(begins):
            place = place_of.get(days.life_at(at_ms))
            if place is not None:
                places[producer, segment] = place
    return found, places


def _by_life(facts: Iterable[Mapping[str, Any]], days: _Days, begins: Sequence[int | None]) -> dict[Life, Activity]:
    found: dict[Life, list[Mapping[str, Any]]] = defaultdict(list)
    for row in facts:
        found[days.life_at(begins[row["segment"]])].append(row)
    return {life: _activity(rows) for life, rows in found.items()}


def _activity(facts: Sequence[Mapping[str, Any]]) -> Activity:
    """What a process did; of what its lines say the last counts."""
    said = ((row["last_begin"], row["client_version"]) for row in facts if row["client_version"] is not None)
    on, off = (max((r[name] for r in facts if r[name] is not None), default=None) for name in ("said_on", "said_off"))
    switch = None if on is None and off is None else off is None or (on is not None and on > off)
    hidden = (row for row in facts if row["unseen_since"] is not None)
    return Activity(
        sum(row["attempts"] for row in facts),
        max(row["last_at"] for row in facts),
        any(row["partly_seen"] for row in facts),
        tuple(sorted({row["source"] for row in facts if row["source"] is not None})),
        Recorded(max(said, default=(0, None))[1], switch),
        merged_gaps(Gap(row["unseen_since"], row["unseen_until"], UNSEEN_RETRIES) for row in hidden),
    )


# -- rows of tables ---------------------------------------------------------------------------------------------------


def past_of(starts: pa.Table, replay: pa.Table, losses: pa.Table) -> Past:
    """What rows of producer_instance, of producer_replay of the date before, and of lost_lines tell."""
    return Past(
        _by_producer(starts, lambda row: Start(row["started_at"], _recorded(row)), "started_at"),
        _by_producer(replay, _handed_over, "started_at", "last_attempt_at"),
        _by_producer(losses, lambda row: int(row["told_at"]), "told_at"),
    )


def _by_producer(rows: pa.Table, of: Callable[[dict[str, Any]], _T], *instants: str) -> dict[Producer, list[_T]]:
    found: dict[Producer, list[_T]] = defaultdict(list)
    for row in with_epoch_ms(rows, *instants):
        found[row["producer_group"], row["client_id"]].append(of(row))
    return found


def _handed_over(row: Mapping[str, Any]) -> HandedOver:
    gaps = tuple(map(_gap, row.get("unseen") or ()))
    is_partly_seen = row["certainty"] == "partial"
    return HandedOver(row["started_at"], _recorded(row["recorded"]), row["last_attempt_at"], is_partly_seen, gaps)


def with_epoch_ms(rows: pa.Table, *names: str) -> list[dict[str, Any]]:
    """Rows as dicts, these instants of them in epoch ms."""
    for name in names:
        us = rows[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        rows = rows.set_column(rows.schema.get_field_index(name), name, us)
    return [row | {n: None if row[n] is None else row[n] // 1000 for n in names} for row in rows.to_pylist()]


def _recorded(row: Mapping[str, Any]) -> Recorded:
    said: dict[str, Any] = {name: row.get(name) for name in Recorded._fields}
    for name in ("latency_max_ms", "not_available_ms"):
        said[name] = None if said[name] is None else tuple(said[name])
    return Recorded(**said)


_MS = timedelta(milliseconds=1)


def _gap(told: Mapping[str, Any]) -> Gap:
    since, until = (None if told[name] is None else (told[name] - EPOCH) // _MS for name in ("since", "until"))
    return Gap(since, until or 0, told["reason"])
