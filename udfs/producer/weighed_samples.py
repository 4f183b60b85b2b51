"""A sample of attempts under a candidate in; the stretches and verdicts by which it is counted, and what is kept, out.

A sample grows as its date does. What was folded of it up to an instant is kept, and the next run goes on from there, as
long as what the choices before it were judged by is the same (``Belief``).
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import ATTEMPTS, encoded
from hindsight.udfs.producer.choice_fold import ChoiceJudge
from hindsight.udfs.producer.fault_fold import Stretches, joined, new_items, no_stretches
from hindsight.udfs.producer.kept_fold import belief_of
from hindsight.udfs.producer.producer_fold import END, State, first_state, fold
from hindsight.udfs.producer.release_turns import STRIKES_MS, Looked
from hindsight.udfs.producer.replayed_day import Day

_RANK = pa.field("rank", pa.int64())  # of an attempt among those of its process: the ones before it stay when more come
_SAMPLED = ATTEMPTS.append(_RANK)
_NO_STRETCHES = no_stretches(np.zeros(0, np.int64))


class Weighed(NamedTuple):
    """What was folded up to an instant.

    Attributes:
        rests_on: what it was judged by.
        verdicts: process, rank and verdict of each choice that was judged.
        removals: see ``ChoiceJudge``, as bytes.
    """

    rests_on: tuple[Any, ...]
    state: State
    held: Stretches
    down: Stretches
    verdicts: tuple[tuple[int, int, str], ...]
    removals: bytes


class Weighing:
    """What runs keep of a date's samples.

    ``told``: what an earlier one kept (``packed``); ``at``: the instants at which this one does, ms of the date.
    """

    def __init__(self, told: bytes | None = None, at: Sequence[int] = ()) -> None:
        self.until, self._before = -END, dict[Hashable, Weighed]()
        self.at, self._kept = at, {until: dict[Hashable, Weighed]() for until in at}
        if told is not None:
            self.until, self._before = pickle.loads(told)

    def before(self, key: Hashable) -> Weighed | None:
        """What was kept of a candidate and the processes that it was asked of."""
        return self._before.get(key)

    def keep(self, key: Hashable, until: int, weighed: Weighed) -> None:
        """Keep it."""
        carried = weighed.state.carried
        plain = None if carried is None else carried.cast(_SAMPLED)
        self._kept[until][key] = weighed._replace(state=weighed.state._replace(carried=plain))

    def packed(self) -> dict[int, bytes]:
        """What is kept, by instant, for the same build of hindsight to read."""
        return {until: pickle.dumps((until, kept)) for until, kept in self._kept.items()}


class Samples:
    """The sample of some processes, to be folded under their candidates."""

    def __init__(self, looked: Looked, weighing: Weighing) -> None:
        self._looked, self._weighing = looked, weighing
        process = looked.process
        self._starts = np.searchsorted(process, np.arange(process.max(initial=0) + 2))
        ranks = np.arange(len(process)) - self._starts[process]
        self._table = looked.attempts.table.append_column(_RANK, pa.array(ranks))
        self._first = looked.attempts.first_instant()
        self._beliefs: dict[Hashable, tuple[Any, ...]] = {}

    def folded(self, day: Day, processes: Sequence[int], key: Hashable) -> Weighed:
        """The sample of these processes under the rules that ``day`` has for them; ``key``: of what is kept.

        Verdicts by the row of the sample instead of the rank.
        """
        judge = ChoiceJudge(day, self._looked.routes, tolerance_ms=self._looked.tolerance_ms)
        nothing = first_state(day, new_items(np.zeros(0, np.int64)))
        told, since = Weighed((), nothing, _NO_STRETCHES, _NO_STRETCHES, (), b""), -END
        before = self._weighing.before(key)
        if before is not None and before.rests_on == self._rests_on(day, self._weighing.until):
            told, since, judge.removals = before, self._weighing.until, pickle.loads(before.removals)
            carried = told.state.carried
            told = told._replace(state=told.state._replace(carried=None if carried is None else encoded(carried)))
        for until in (*(at for at in self._weighing.at if at > since), END):
            told = self._with_part(told, day, judge, since, until)
            if until < END:
                kept = told._replace(rests_on=self._rests_on(day, until), removals=pickle.dumps(judge.removals))
                self._weighing.keep(key, until, kept)
            since = until
        rows = ((place, int(self._starts[processes[place]]) + rank, v) for place, rank, v in told.verdicts)
        return told._replace(verdicts=tuple(rows))

    def _with_part(self, told: Weighed, day: Day, judge: ChoiceJudge, since: int, until: int) -> Weighed:
        table = self._table.filter(pa.array((self._first >= since) & (self._first < until)))
        tolerance_ms = self._looked.tolerance_ms
        part, state = fold(day, judge, told.state, table, until, tolerance_ms=tolerance_ms, slow_ms=STRIKES_MS)
        ranks = part.attempts.table[_RANK.name].to_numpy()
        verdicts = ((int(part.process[v.row]), int(ranks[v.row]), v.verdict) for v in part.verdicts)
        return told._replace(
            state=state,
            held=joined(told.held, part.held),
            down=joined(told.down, part.down),
            verdicts=(*told.verdicts, *verdicts),
        )

    def _rests_on(self, day: Day, until: int) -> tuple[Any, ...]:
        """What choices before an instant are judged by; the same object for candidates of whom it is the same."""
        own = tuple((p.producer, p.life, p.recorded, p.gaps) for p in day.processes)
        key = own, day.replayed.tobytes(), until
        if key not in self._beliefs:
            belief = belief_of(day, self._looked.routes, until)._replace(processes=own)
            self._beliefs[key] = tuple(belief)
        return self._beliefs[key]
