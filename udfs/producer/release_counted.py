"""The fold of one process under one candidate in, what told against the candidate counted, out.

And how likely its first attempts are, as if each began at a random queue of the list: that is what a thread's counter
of unknown start is worth once its sends are mixed with others. Through 5.1.3 a queue that is not available hands its
turn on to the next one in the list; from 5.1.4 on the counter goes on itself, so that every available queue is as
likely. With the switch off all queues are. One attempt in ten may be misread (``release_counts``).

A list of broker-a, -b and -c with one queue each, broker-b held: through 5.1.3 broker-c is chosen twice as often as
broker-a, from 5.1.4 on as often.

>>> free = np.array([[True, False, True]] * 2)
>>> chosen, one_each = np.array([0, 2]), np.ones((2, 3), np.int64)
>>> [np.round(shares(chosen, one_each, free, rule), 2).tolist() for rule in ("next", "any", "all")]
[[0.33, 0.67], [0.5, 0.5], [0.33, 0.33]]

What is recorded of a producer process in; the releases, ladders and switches that it may have run under, out.

Families that give the same choices and windows are one candidate: what nobody can tell apart is not told apart.

>>> from hindsight.udfs.producer.producer_lives import Recorded
>>> [c.families for c in candidates_of(Recorded(latency_fault_enabled=True, detector_enabled=False), ())][:3]
[('P40', 'P43'), ('P48', 'P49a', 'P49b', 'P49b3', 'P49c', 'P500', 'P510'), ('P498',)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from hindsight.udfs.producer.attempt_columns import FAR, NEVER
from hindsight.udfs.producer.fault_fold import EXPIRED, Stretches, taken, within
from hindsight.udfs.producer.release_turns import LISTED_MS, MISREAD, NONE, Count, Looked, Reason, turns_of
from hindsight.udfs.producer.replay_rules import LONGEST_MS, Recorded, Rules, family_of
from hindsight.udfs.producer.weighed_samples import Weighed
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

DEFAULT_LADDER, RECORDED_LADDER, NO_LADDER = "default", "recorded", "none"
# What of a family shows in the brokers that its producers choose and avoid. How ties are broken does not: either of two
# equal items may be picked in every release.
_SHOWS_IN_CHOICES = (
    "latency_max_ms",
    "not_available_ms",
    "isolation_latency_ms",
    "extend_only",
    "has_reachable",
    "reachable_gates_availability",
    "last_broker_rule",
    "fallback_needs_write_perm",
    "mutates_queue_list",
    "client_exception_isolates",
)
Rule = Literal["next", "any", "all"]


class Ladder(NamedTuple):
    """A ladder that the settings name."""

    name: str
    latency_max_ms: tuple[int, ...]
    not_available_ms: tuple[int, ...]


class Candidate(NamedTuple):
    """One way in which a producer may have been set up.

    Attributes:
        families: ids of the families that give the same choices.
        profile: the first of them, with the ladder.
        ladder: its name; ``NO_LADDER``: the switch is off.
    """

    families: tuple[str, ...]
    profile: FaultProfile
    ladder: str
    latency_fault_enabled: bool
    detector_enabled: bool

    def rules(self, known: Recorded) -> Rules:
        """The rules by which a process of which this is known is replayed, if this is how it was set up."""
        on, own = self.latency_fault_enabled, self.profile
        settings = known._replace(
            latency_fault_enabled=on,
            detector_enabled=self.detector_enabled,
            latency_max_ms=own.latency_max_ms if on else known.latency_max_ms,
            not_available_ms=own.not_available_ms if on else known.not_available_ms,
        )
        verdict = "replayed" if on else "off"
        return Rules(settings, self.profile, "|".join(self.families), verdict, ())


def ladders_of(named: Sequence[Mapping[str, Any]]) -> tuple[Ladder, ...]:
    """The ladders of the settings (``[[replay.ladder]]``)."""
    return tuple(
        Ladder(entry["name"], tuple(entry["latency_max_ms"]), tuple(entry["not_available_ms"])) for entry in named
    )


@cache
def candidates_of(known: Recorded, ladders: tuple[Ladder, ...]) -> tuple[Candidate, ...]:
    """Every candidate that what is recorded leaves; none for a release that is stated but not known.

    A recorded ladder stands alone, else each family has its own and those that the settings name. A detector that is
    not recorded may run or not, in the releases that have one.
    """
    stated, _ = family_of(known.client_version)
    if stated is None and known.client_version is not None:
        return ()
    families = [stated] if stated is not None else list(PROFILES.values())
    found = []
    if known.latency_fault_enabled is not False:
        for alike in _alike(families):
            for ladder in _ladders_of(alike[0], known, ladders):
                found += [_switched_on(alike, ladder, detects) for detects in _detectors(alike[0], known)]
    if not known.latency_fault_enabled:
        ids = tuple(family.id for family in families)
        found.append(Candidate(ids, families[-1], NO_LADDER, latency_fault_enabled=False, detector_enabled=False))
    return tuple(found)


def _alike(families: Sequence[FaultProfile]) -> list[list[FaultProfile]]:
    groups: dict[tuple[object, ...], list[FaultProfile]] = {}
    for family in families:
        groups.setdefault(tuple(getattr(family, name) for name in _SHOWS_IN_CHOICES), []).append(family)
    return list(groups.values())


def _ladders_of(family: FaultProfile, known: Recorded, named: Sequence[Ladder]) -> Sequence[Ladder]:
    """What is left out of a recorded ladder is the family's; one that is too short makes the client throw."""
    if known.latency_max_ms is None and known.not_available_ms is None:
        return (Ladder(DEFAULT_LADDER, family.latency_max_ms, family.not_available_ms), *named)
    latency = family.latency_max_ms if known.latency_max_ms is None else known.latency_max_ms
    held = family.not_available_ms if known.not_available_ms is None else known.not_available_ms
    return (Ladder(RECORDED_LADDER, latency, held),)


def _switched_on(alike: Sequence[FaultProfile], ladder: Ladder, detects: bool) -> Candidate:
    held = tuple(min(ms, LONGEST_MS) for ms in ladder.not_available_ms)
    profile = replace(alike[0], latency_max_ms=ladder.latency_max_ms, not_available_ms=held)
    return Candidate(tuple(family.id for family in alike), profile, ladder.name, True, detects)


def _detectors(family: FaultProfile, known: Recorded) -> tuple[bool, ...]:
    if not family.has_reachable:
        return (False,)
    return (False, True) if known.detector_enabled is None else (known.detector_enabled,)


def is_whole(candidate: Candidate) -> bool:
    """Whether its ladder has a duration for each rung."""
    return len(candidate.profile.not_available_ms) >= len(candidate.profile.latency_max_ms)


def shares(chosen: IntArray, queues: IntArray, available: BoolArray, rule: Rule) -> Any:
    """How likely each chosen broker was.

    Args:
        chosen: of each of n attempts, a place among the m brokers in the list's order.
        queues: how many queues each broker has in the list then, n x m.
        available: which brokers were, n x m.
        rule: ``next``: through 5.1.3; ``any``: from 5.1.4 on; ``all``: with the switch off.
    """
    rows, size = np.arange(len(chosen)), queues.shape[1]
    every, free = np.maximum(queues.sum(axis=1), 1), (queues * available).sum(axis=1)
    own = queues[rows, chosen]
    if rule == "all":
        return own / every
    if rule == "any":
        among = available[rows, chosen] * own / np.maximum(free, 1)
    else:
        weight, passes = own.copy(), np.ones(len(chosen), np.bool_)
        for step in range(1, size):
            before = (chosen - step) % size
            passes &= ~available[rows, before]
            weight += queues[rows, before] * passes
        among = available[rows, chosen] * weight / every
    return np.where(free == 0, own / every, among)


# A choice so close to an edge of a window may have been made on its other side.
DEEP_MS = 50


class Evidence(NamedTuple):
    """What told against a candidate of a process.

    Attributes:
        counts: by what was looked at.
        first: of each, the row of the sample that first went against the candidate.
        turns: laps in which a broker did not come back as the candidate says, of all, whether they rule it out or not.
        log_likelihood: of the brokers of the first attempts.
        says: what the replay would say of the sample, to be compared with what other candidates say.
    """

    counts: Mapping[str, Count]
    first: Mapping[str, int]
    turns: Count
    log_likelihood: float
    says: tuple[object, ...]


class Counted:
    """One process under one candidate: its fold, counted."""

    def __init__(
        self, looked: Looked, folded: Weighed, held: Stretches, place: int, process: int, candidate: Candidate
    ) -> None:
        self.looked, self.folded, self.candidate, self.place = looked, folded, candidate, place
        self.process = looked.of_process[process]
        self.a, self.size = looked.attempts, len(looked.day.brokers)
        self.topics = self.a.texts("topic")
        on, lengths = candidate.latency_fault_enabled, candidate.profile.not_available_ms
        self.shortest_ms = min([LISTED_MS, *(ms for ms in lengths if on and ms > 0)])
        own = held.item // self.size == place
        order = np.lexsort((held.since[own], held.item[own]))
        mine = taken(taken(held, own), order)
        broker, until = mine.item % self.size, np.minimum(mine.until, DAY_MS)
        # An update may end a stretch, the choice's own too; how long the ladder holds a broker is less sure.
        sure = until - np.where(mine.reason == EXPIRED, DEEP_MS, 0)
        self.held, self.sure = (
            {code: (mine.since[broker == code], ends[broker == code]) for code in np.unique(broker).tolist()}
            for ends in (until, sure)
        )
        self.verdicts = [(row, verdict) for of, row, verdict in folded.verdicts if of == place]
        self.impossible = [row for row, verdict in self.verdicts if verdict == "impossible"]

    def evidence(self) -> Evidence:
        """All that told against the candidate."""
        choices, in_window = self._choices()
        retries, again = self._retries()
        turns, late = turns_of(self.process.series, self.process.uses, self._reasons(), self.looked.listed)
        is_sure = not (self.candidate.latency_fault_enabled and self.candidate.profile.mutates_queue_list)
        counts = {"choices": choices, "retries": retries, "turns": turns if is_sure else NONE}
        first = {"choices": in_window, "retries": again, "turns": late}
        return Evidence(
            counts,
            {name: row for name, row in first.items() if row is not None},
            turns,
            self._log_likelihood(),
            self._says(),
        )

    def _had_another(self, row: int) -> bool:
        """Whether other brokers were there to be taken: some that are not held were used just before and after.

        A lost line may hide that all others were held: then none of them was used for as long as a window lasts.
        """
        topic, begin = self.topics.values[self.topics.codes[row]], int(self.a.begin[row])
        before, after = NEVER, FAR
        for (of, broker), uses in self.process.uses.items():
            if of != topic or broker == self.looked.broker[row] or self._is_held(broker, np.array([begin]))[0]:
                continue
            place = int(np.searchsorted(uses, begin, side="right"))
            before = max(before, int(uses[place - 1]) if place else NEVER)
            after = min(after, int(uses[place]) if place < len(uses) else FAR)
        return after - before < self.shortest_ms

    def _choices(self) -> tuple[Count, int | None]:
        """Updates that held their broker, and those after which it was chosen all the same; the first such choice.

        Choices after the same update rest on the same line of the record: they are one.
        """
        wrong, rows = set(), []
        for row in self.impossible:
            broker, begin = int(self.looked.broker[row]), int(self.a.begin[row])
            since, until = self.sure.get(broker, (_NONE, _NONE))
            place = int(np.searchsorted(since, begin - DEEP_MS, side="right")) - 1
            is_inside = self.looked.first[row] and place >= 0 and begin < until[place]
            if is_inside and self._had_another(row):
                wrong.add((broker, int(np.searchsorted(self._ends(broker), begin - DEEP_MS, side="right"))))
                rows.append((begin, row))
        every = sum(self._holding(broker, *held) for broker, held in self.held.items())
        return Count(len(wrong), max(every, len(wrong))), min(rows)[1] if rows else None

    def _ends(self, broker: int) -> IntArray:
        """When the attempts to a broker ended, in order."""
        rows = self.process.rows
        return np.sort(self.a.end[rows[self.looked.broker[rows] == broker]])

    def _holding(self, broker: int, since: IntArray, until: IntArray) -> int:
        """How many attempts to the broker ended in a stretch, before its last moment."""
        return int(within(since, until - 2 * DEEP_MS, self._ends(broker)).sum())

    def _retries(self) -> tuple[Count, int | None]:
        """Retries to a broker that the candidate does not take, of all; and the first."""
        rows = self.process.rows
        every = rows[~self.looked.first[rows] & np.asarray(self.a.table["last_broker_name"].is_valid())[rows]]
        wrong = sorted((int(self.a.begin[row]), row) for row in set(self.impossible) & set(every.tolist()))
        return Count(len(wrong), len(every)), wrong[0][1] if wrong else None

    def _reasons(self) -> list[Reason]:
        """When brokers are to get their turn again."""
        if not self.candidate.latency_fault_enabled:
            rows = self.process.rows[self.looked.strikes[self.process.rows]]
            return [Reason(int(self.looked.broker[row]), int(self.a.end[row]), FAR) for row in rows.tolist()]
        found = []
        for broker, (since, until) in self.held.items():
            following = np.append(since[1:], FAR)
            found += [
                Reason(broker, int(at), int(next_)) for at, next_ in zip(until, following, strict=True) if at < DAY_MS
            ]
        return found

    def _log_likelihood(self) -> float:
        profile, on = self.candidate.profile, self.candidate.latency_fault_enabled
        rule: Any = "all" if not on else "any" if profile.last_broker_rule == "filter" else "next"
        total = 0.0
        for of in self.process.chosen:
            held = np.stack([self._is_held(code, of.begin) for code in of.brokers.tolist()], axis=1)
            share = shares(of.chosen, of.listed * of.queues, ~held, rule)
            total += float(np.log((1 - MISREAD) * share + MISREAD / len(of.brokers)).sum())
        return total

    def _is_held(self, broker: int, at: IntArray) -> BoolArray:
        return within(*self.held.get(broker, (_NONE, _NONE)), at)

    def _says(self) -> tuple[object, ...]:
        """The switch, every stretch, and every verdict that is not consistent, in their order."""
        stretches = []
        for every in (self.folded.held, self.folded.down):
            own = taken(every, every.item // self.size == self.place)
            columns = own.item % self.size, own.since, own.until
            order = np.lexsort(columns[::-1])
            stretches += [column[order].tobytes() for column in columns]
        told = sorted(each for each in self.verdicts if each[1] != "consistent")
        return (self.candidate.latency_fault_enabled, *stretches, *told)


_NONE = np.zeros(0, np.int64)
