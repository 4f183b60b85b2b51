"""Where the fold of a date's producers is cut: what its part up to there gave out, and in again.

The part holds as long as the later ones leave what was believed of the producers as it was (``Belief``): who they are,
by which rules they go, which brokers and topics they use, and what routes they may have held up to the cut. Of a
producer that is told by its whole date (``set_apart``) nothing is kept.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import ATTEMPTS, encoded, instants
from hindsight.udfs.producer.attempt_facts import Cuts
from hindsight.udfs.producer.choice_fold import ChoiceJudge
from hindsight.udfs.producer.fault_fold import Stretches, joined
from hindsight.udfs.producer.found_gaps import ClockSteps
from hindsight.udfs.producer.minute_counts import MinuteCounts
from hindsight.udfs.producer.producer_fold import State
from hindsight.udfs.producer.producer_lives import Producer
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import Gap

_TOLD_BY_PARTS = ("replayed", "off")


class CannotGoOnError(Exception):
    """The date of these producers is to be folded as a whole: later rows change what was said before the cut."""


class Looked(NamedTuple):
    """What the attempts up to an instant show that must be known of the whole date."""

    facts: pa.Table
    traces: pa.Table
    clocks: ClockSteps


class Belief(NamedTuple):
    """What the choices up to a cut were judged by. ``held``: by topic, the routes from each instant on."""

    processes: Sequence[tuple[Any, ...]]
    cuts: Cuts
    brokers: Sequence[str]
    topics: Sequence[str]
    uses: Sequence[int]
    known: Sequence[int]
    held: Sequence[Any]


class Told(NamedTuple):
    """What the fold has told so far, part by part; ``longest``: the stretches ``held`` as they are at most, or they."""

    held: list[Stretches]
    down: list[Stretches]
    longest: list[Stretches]
    verdicts: list[pa.Table]
    counts: MinuteCounts

    def as_one(self) -> Told:
        """The same, what came part by part as one."""
        held = joined(*self.held)
        is_same = all(one is other for one, other in zip(self.held, self.longest, strict=True))
        longest = held if is_same else joined(*self.longest)
        return Told([held], [joined(*self.down)], [longest], [pa.concat_tables(self.verdicts)], self.counts)


class Kept(NamedTuple):
    """A date's fold up to an instant ``until``, ms of the date.

    Attributes:
        gaps: of each process, as they were when the parts before it were folded.
        sent: the attempts of sends with a row.
        removals: see ``ChoiceJudge``.
    """

    until: int
    belief: Belief
    gaps: Sequence[Sequence[Gap]]
    looked: Looked
    state: State
    told: Told
    sent: pa.Table
    removals: Mapping[int, Any]

    def packed(self) -> bytes:
        """As bytes, for the same build of hindsight to read."""
        carried = self.state.carried
        state = self.state._replace(carried=None if carried is None else carried.cast(ATTEMPTS))
        return pickle.dumps(self._replace(state=state))

    @classmethod
    def of(cls, told: bytes) -> Kept:
        """And back."""
        kept: Kept = pickle.loads(told)
        carried = kept.state.carried
        return kept._replace(state=kept.state._replace(carried=None if carried is None else encoded(carried)))


def kept_at(
    until: int,
    day: Day,
    routes: RecordedRoutes,
    looked: Looked,
    judge: ChoiceJudge,
    state: State,
    told: Told,
    sent: pa.Table,
) -> bytes:
    """What is kept of a fold whose next part begins with ``until``."""
    told = told.as_one()
    told = told._replace(verdicts=[told.verdicts[0].combine_chunks()])
    begun = instants(sent["begin_at"], day.midnight_ms) < until
    gaps = [process.gaps for process in day.processes]
    belief = belief_of(day, routes, until)
    return Kept(until, belief, gaps, looked, state, told, sent.filter(pa.array(begun)), judge.removals).packed()


def belief_of(day: Day, routes: RecordedRoutes, until: int) -> Belief:
    """What the choices before an instant are judged by."""
    return Belief(
        [(p.producer, p.life, p.recorded, p.rules, p.certainty) for p in day.processes],
        {producer: tuple(instants) for producer, instants in day.cuts.items()},
        day.brokers,
        day.topics,
        day.uses.tolist(),
        day.known.tolist(),
        [routes.told_before(topic, until + day.midnight_ms) for topic in day.topics],
    )


def check_belief(kept: Kept, day: Day, routes: RecordedRoutes) -> None:
    """Look whether the part before the cut still holds.

    A gap may reach farther than it did where it reached beyond all that was judged.
    Raises: CannotGoOnError: it does not.
    """
    judged_ms = kept.state.judged_until + day.midnight_ms
    same = len(kept.gaps) == len(day.processes) and all(
        _still_holds(before, process.gaps, judged_ms) for before, process in zip(kept.gaps, day.processes, strict=True)
    )
    if not same or belief_of(day, routes, kept.until) != kept.belief:
        raise CannotGoOnError


def _still_holds(before: Sequence[Gap], now: Sequence[Gap], judged_ms: int) -> bool:
    return len(before) == len(now) and all(
        (a.reason, a.since_ms) == (b.reason, b.since_ms) and (a.until_ms == b.until_ms or a.until_ms >= judged_ms)
        for a, b in zip(before, now, strict=True)
    )


def set_apart(day: Day, doubted: Iterable[int], unnumbered: pa.Table, clocks: ClockSteps) -> frozenset[Producer]:
    """The producers that are told by their whole date: whose rules nobody recorded, who take queues in their turn, of
    whom something is ``doubted`` (places), whose attempts of one send nothing numbers, whose clocks seem to step."""
    found = {
        process.producer
        for place, process in enumerate(day.processes)
        if process.attempts and (process.rules.verdict not in _TOLD_BY_PARTS or day.by_turns[place])
    }
    found |= {day.processes[place].producer for place in doubted}
    names = (unnumbered[name].cast(pa.string()).to_pylist() for name in ("producer_group", "client_id"))
    return frozenset(found | {*zip(*names, strict=True)} | clocks.doubtful())


def begun_from(attempts: pa.Table, since: int, midnight_ms: int) -> pa.Table:
    """The attempts that began then, ms of the date, or later."""
    return attempts.filter(pa.array(instants(attempts["begin_at"], midnight_ms) >= since))
