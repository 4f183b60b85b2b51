"""A sample of attempts and the candidates of its processes in; what told against each candidate, out.

The date's own fold replays the sample under each candidate, for all processes that have it at once. Then four things
are counted of each process (``release_counts``), by which a candidate is ruled out:

- ``choices``: stretches in which it held a broker, and those in which the broker was chosen all the same;
- ``retries``: retries, and those to a broker that its rule does not take;
- ``turns``: laps of a thread in which a broker had to come, and those in which it did not (``release_turns``);
- ``response_codes``: broker errors after which its loop goes on, or ends, and those after which the send did not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import DAY_MS, NEVER, Attempts
from hindsight.udfs.producer.attempt_updates import least_slow_ms
from hindsight.udfs.producer.choice_fold import ChoiceJudge
from hindsight.udfs.producer.doubtful_choices import not_available
from hindsight.udfs.producer.fault_fold import EXPIRED, Stretches, new_items, taken
from hindsight.udfs.producer.producer_fold import END, Part, first_state, fold
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.release_candidates import Candidate, is_whole
from hindsight.udfs.producer.release_counts import NONE, Count
from hindsight.udfs.producer.release_likelihood import log_likelihood
from hindsight.udfs.producer.release_sample import Sample
from hindsight.udfs.producer.release_turns import LISTED_MS, Reason, Series, Turns, series_of, turns_of
from hindsight.udfs.producer.replayed_day import Day, day_of
from hindsight.udfs.values.arrays import BoolArray, IntArray

# A choice so close to an edge of a window may have been made on its other side.
DEEP_MS = 50
_STRIKES_MS = 550  # with the switch off: an attempt that every family's own ladder holds against its broker
_FAR = 1 << 40


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


class Process(NamedTuple):
    """The rows of one process in the sample, in order, as the counts need them.

    Attributes:
        rows: their places in the sample.
        series: of its threads and topics.
    """

    rows: IntArray
    series: Sequence[Series]


class Looked(NamedTuple):
    """A sample as all candidates look at it.

    Attributes:
        routes: of the date.
    """

    day: Day
    facts: pa.Table
    sample: Sample
    attempts: Attempts
    broker: IntArray
    strikes: BoolArray
    first: BoolArray
    of_process: Mapping[int, Process]
    routes: RecordedRoutes
    tolerance_ms: int

    def listed(self, topic: str, broker: int, at: int) -> bool | None:
        """Whether the recorded routes list a broker at an instant of the date; None: none is recorded."""
        held = self.routes.held(topic, at + self.day.midnight_ms)
        return all(route.entry(self.day.brokers[broker]).is_listed() for route in held) if held else None


def looked_at(
    day: Day, facts: pa.Table, sample: Sample, a: Attempts, routes: RecordedRoutes, tolerance_ms: int
) -> Looked:
    """The sample with what does not depend on a candidate."""
    broker = a.texts("broker_name").in_order_of(day.brokers)
    has_last = np.asarray(a.table["last_broker_name"].is_valid())
    outcome = a.texts("outcome")
    first = (a.attempt <= 0) & ~has_last & ~a.pinned
    took = np.where(a.end == NEVER, 0, a.end - a.begin)
    texts = {name: a.table[name].cast(pa.string()).to_pylist() for name in ("topic", "thread")}
    queue = a.table["queue_id"].fill_null(0).to_numpy()
    found = {}
    for process in np.unique(sample.process).tolist():
        rows = np.flatnonzero((sample.process == process) & ~a.pinned)
        own = {name: [values[row] for row in rows.tolist()] for name, values in texts.items()}
        series = series_of(a.begin[rows], broker[rows], own["topic"], own["thread"], ~first[rows], queue[rows])
        found[process] = Process(rows, series)
    strikes = ~outcome.are("SEND_OK", "SUBMITTED", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
    return Looked(day, facts, sample, a, broker, strikes | (took >= _STRIKES_MS), first, found, routes, tolerance_ms)


def evidence_of(looked: Looked, candidates: Mapping[int, Sequence[Candidate]]) -> dict[tuple[int, Candidate], Evidence]:
    """What told against each candidate of each process (by place) with attempts in the sample."""
    asked = defaultdict(list)
    for process, own in candidates.items():
        for candidate in own:
            if process in looked.of_process and is_whole(candidate):
                asked[candidate].append(process)
    found = {}
    for candidate, processes in asked.items():
        day = _under(looked, candidate, processes)
        judge = ChoiceJudge(day, looked.routes, tolerance_ms=looked.tolerance_ms)
        state = first_state(day, new_items(np.zeros(0, np.int64)))
        tolerance_ms = looked.tolerance_ms
        part, _ = fold(day, judge, state, looked.sample.table, END, tolerance_ms=tolerance_ms, slow_ms=_STRIKES_MS)
        held = not_available(part.held, part.down, day)
        for place, process in enumerate(processes):
            found[process, candidate] = _Counted(looked, part, held, place, process, candidate).evidence()
    return found


def slow_ms_of(candidates: Sequence[Candidate]) -> int:
    """The least latency for which one of them holds a broker back."""
    return min((least_slow_ms(c.profile) for c in candidates if c.latency_fault_enabled), default=_STRIKES_MS)


def _under(looked: Looked, candidate: Candidate, processes: Sequence[int]) -> Day:
    """The date with these processes alone, set up like the candidate."""
    day = looked.day
    own = [day.processes[process] for process in processes]
    place_of = {process: place for place, process in enumerate(processes)}
    places = {key: place_of[process] for key, process in day.places.items() if process in place_of}
    return day_of(
        looked.facts,
        [process._replace(rules=candidate.rules(process.rules.settings)) for process in own],
        places,
        cluster=day.cluster,
        midnight_ms=day.midnight_ms,
        cuts=day.cuts,
        more_brokers=day.brokers,
    )


class _Counted:
    """One process under one candidate: its fold, counted."""

    def __init__(
        self, looked: Looked, part: Part, held: Stretches, place: int, process: int, candidate: Candidate
    ) -> None:
        self.looked, self.part, self.candidate, self.place = looked, part, candidate, place
        self.process = looked.of_process[process]
        self.a, self.size = looked.attempts, len(looked.day.brokers)
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
        self.impossible = [v.row for v in part.verdicts if v.verdict == "impossible" and part.process[v.row] == place]

    def evidence(self) -> Evidence:
        choices, in_window = self._choices()
        retries, again = self._retries()
        turns = self._turns()
        is_sure = not (self.candidate.latency_fault_enabled and self.candidate.profile.mutates_queue_list)
        counts = {"choices": choices, "retries": retries, "turns": turns.laps if is_sure else NONE}
        first = {"choices": in_window, "retries": again, "turns": turns.row}
        return Evidence(
            counts,
            {name: row for name, row in first.items() if row is not None},
            turns.laps,
            self._log_likelihood(),
            self._says(),
        )

    def _choices(self) -> tuple[Count, int | None]:
        """Updates that held their broker, and those after which it was chosen all the same; the first such choice.

        Choices after the same update rest on the same line of the record: they are one.
        """
        wrong, rows = set(), []
        for row in self.impossible:
            broker, begin = int(self.looked.broker[row]), int(self.a.begin[row])
            since, until = self.sure.get(broker, (_NONE, _NONE))
            place = int(np.searchsorted(since, begin - DEEP_MS, side="right")) - 1
            if self.looked.first[row] and place >= 0 and begin < until[place]:
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
        ends = self._ends(broker)
        place = np.searchsorted(since, ends, side="right") - 1
        return int(((place >= 0) & (ends + 2 * DEEP_MS < until[np.maximum(place, 0)])).sum())

    def _retries(self) -> tuple[Count, int | None]:
        """Retries to a broker that the candidate does not take, of all; and the first."""
        rows = self.process.rows
        every = rows[~self.looked.first[rows] & np.asarray(self.a.table["last_broker_name"].is_valid())[rows]]
        wrong = sorted((int(self.a.begin[row]), row) for row in set(self.impossible) & set(every.tolist()))
        return Count(len(wrong), len(every)), wrong[0][1] if wrong else None

    def _turns(self) -> Turns:
        return turns_of(self.process.series, self._reasons(), self.looked.listed)

    def _reasons(self) -> list[Reason]:
        """When brokers are to get their turn again."""
        if not self.candidate.latency_fault_enabled:
            rows = self.process.rows[self.looked.strikes[self.process.rows]]
            return [Reason(int(self.looked.broker[row]), int(self.a.end[row]), _FAR) for row in rows.tolist()]
        found = []
        for broker, (since, until) in self.held.items():
            following = np.append(since[1:], _FAR)
            found += [
                Reason(broker, int(at), int(next_)) for at, next_ in zip(until, following, strict=True) if at < DAY_MS
            ]
        return found

    def _log_likelihood(self) -> float:
        rows = self.process.rows[self.looked.first[self.process.rows]]
        topics = self.a.texts("topic").codes[rows]
        profile, on = self.candidate.profile, self.candidate.latency_fault_enabled
        rule: Any = "all" if not on else "any" if profile.last_broker_rule == "filter" else "next"
        queue = self.a.table["queue_id"].fill_null(0).to_numpy()
        total = 0.0
        for topic in np.unique(topics).tolist():
            own = rows[topics == topic]
            brokers, chosen = np.unique(self.looked.broker[own], return_inverse=True)
            queues = np.array([int(queue[own[chosen == n]].max()) + 1 for n in range(len(brokers))])
            at = self.a.begin[own]
            listed = np.stack([_is_used_around(at[chosen == n], at) for n in range(len(brokers))], axis=1)
            held = np.stack([self._is_held(code, at) for code in brokers.tolist()], axis=1)
            total += log_likelihood(chosen, listed * queues, ~held, rule)
        return total

    def _is_held(self, broker: int, at: IntArray) -> BoolArray:
        since, until = self.held.get(broker, (_NONE, _NONE))
        if not len(since):
            return np.zeros(len(at), np.bool_)
        place = np.searchsorted(since, at, side="right") - 1
        found: BoolArray = (place >= 0) & (at < until[np.maximum(place, 0)])
        return found

    def _says(self) -> tuple[object, ...]:
        """The switch, every stretch, and every verdict that is not consistent."""
        stretches = tuple(
            column[own.item // self.size == self.place].tobytes()
            for own in (self.part.held, self.part.down)
            for column in (own.item % self.size, own.since, own.until)
        )
        told = tuple(
            (v.row, v.verdict)
            for v in self.part.verdicts
            if v.verdict != "consistent" and self.part.process[v.row] == self.place
        )
        return (self.candidate.latency_fault_enabled, stretches, told)


def _is_used_around(uses: IntArray, at: IntArray) -> BoolArray:
    """Whether a broker was used within a route poll around each instant, so that it was listed; ``uses``: in order."""
    after = np.searchsorted(uses, at)
    inside = (after > 0) & (after < len(uses))
    gap = uses[np.minimum(after, len(uses) - 1)] - uses[np.maximum(after - 1, 0)]
    found: BoolArray = np.isin(at, uses) | (inside & (gap < LISTED_MS))
    return found


_NONE = np.zeros(0, np.int64)
