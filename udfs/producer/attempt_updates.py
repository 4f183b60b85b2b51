"""Send attempts in, what each told its producer's fault table out: the calls of updateFaultItem.

An attempt that the client itself chose tells its end; an ASYNC one tells twice, when it is handed over and when its
callback runs, and its callback tells of a pinned queue too. Whatever was thrown decides the rest, so each distinct
(mode, phase, exception, error) is judged once, however many attempts ended so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hindsight.udfs.not_available_duration import compute_not_available_duration
from hindsight.udfs.producer.attempt_columns import NEVER, ONEWAY, SYNC, Attempts, Texts
from hindsight.udfs.producer.send_outcome import fault_update
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.arrays import BoolArray, IntArray

FINE = -1  # the outcome of an update whose attempt threw nothing


class Calls(NamedTuple):
    """m calls of updateFaultItem, in no order.

    Attributes:
        row: place of the attempt.
        at: when it was made, ms of the date.
        phase: 1: by an ASYNC callback; 0: by the sending thread.
        outcome: what the attempt threw, as a place in ``outcomes``; ``FINE``: nothing.
    """

    row: IntArray
    at: IntArray
    phase: IntArray
    outcome: IntArray
    outcomes: tuple[Outcome, ...]

    def taken(self, which: Any) -> Calls:
        """These calls alone."""
        return Calls(self.row[which], self.at[which], self.phase[which], self.outcome[which], self.outcomes)


class Outcome(NamedTuple):
    """How an attempt ended that threw something."""

    mode: str
    phase: str
    exception: str
    error: str | None

    def told(self, profile: FaultProfile, *, detector_enabled: bool) -> tuple[bool, bool] | None:
        """(isolation, reachable) of the update under this release; None: there is none."""
        return fault_update(profile, **self._asdict(), detector_enabled=detector_enabled)


def calls_of(a: Attempts) -> Calls:
    """Every call that the attempts made, of those whose broker is known.

    An attempt without mode (a trace) tells of the broker's answer only. An attempt after whose end no release updates
    its table makes no call.
    """
    named = a.texts("broker_name").codes >= 0
    own = np.flatnonzero(named & ~a.is_async & ~a.pinned)
    submitted = np.flatnonzero(named & a.is_async & ~a.pinned & (a.submit_end != NEVER))
    called_back = np.flatnonzero(named & a.is_async & (a.callback_end != NEVER))
    row = np.concatenate([own, submitted, called_back])
    sizes = len(own), len(submitted), len(called_back)
    phase = np.repeat([0, 0, 1], sizes)
    outcome, outcomes = _outcomes(a, row, phase, np.repeat([True, False, True], sizes))
    calls = Calls(
        row,
        np.concatenate([a.end[own], a.submit_end[submitted], a.callback_end[called_back]]),
        phase,
        outcome,
        outcomes,
    )
    # Whether there is an update at all is the same in every release.
    silent = [o.told(PROFILES["P40"], detector_enabled=False) is None for o in outcomes]
    return calls.taken(~np.array([*silent, False], dtype=np.bool_)[outcome]) if any(silent) else calls


def _outcomes(
    a: Attempts, row: IntArray, phase: IntArray, may_throw: BoolArray
) -> tuple[IntArray, tuple[Outcome, ...]]:
    exceptions, errors, modes = (a.texts(name) for name in ("exception", "error", "mode"))
    threw = np.flatnonzero(may_throw & (exceptions.codes[row] >= 0))
    of = row[threw]
    ends = np.stack([phase[threw], modes.codes[of], exceptions.codes[of], errors.codes[of]], axis=1)
    distinct, place = np.unique(ends, axis=0, return_inverse=True)
    outcome = np.full(len(row), FINE, dtype=np.int64)
    outcome[threw] = place.ravel()
    return outcome, tuple(_outcome(each, modes, exceptions, errors) for each in distinct.tolist())


def _outcome(codes: list[int], modes: Texts, exceptions: Texts, errors: Texts) -> Outcome:
    phase, mode, exception, error = codes
    name = modes.values[mode] if mode >= 0 else SYNC
    of_phase = "callback" if phase else "submit" if name == ONEWAY else "result"
    return Outcome(name, of_phase, exceptions.values[exception], errors.values[error] if error >= 0 else None)


class Judged(NamedTuple):
    """What m calls told, and for how long the broker is shunned after each, ms.

    ``longest``: for how long it is if the client measured a little longer than the hook; ``duration`` itself where that
    is the same for all.
    """

    latency: IntArray
    isolation: BoolArray
    reachable: BoolArray
    duration: IntArray
    longest: IntArray


def judged(
    calls: Calls, latency: IntArray, rule_of: IntArray, rules: list[tuple[FaultProfile, bool]], *, tolerance_ms: int
) -> Judged:
    """The calls under their clients' rules.

    Args:
        latency: of each call, ms, as the hook measured it; ``tolerance_ms``: how much longer the client may have.
        rule_of: for each call its place in ``rules``: a release with the producer's own ladders, and whether its
            detector runs.

    Few calls are slow or failed, and only they go to the ladder.
    Raises: LadderTooShortError: where the client would throw.
    """
    flags = [[*(_flags(outcome, *rule) for outcome in calls.outcomes), (False, True)] for rule in rules]
    told = np.array(flags, dtype=np.bool_).reshape(len(rules), len(calls.outcomes) + 1, 2)
    isolation, reachable = (told[rule_of, calls.outcome, n] for n in (0, 1))
    duration, longest = (np.zeros(len(latency), dtype=np.int64) for _ in range(2))
    slow = np.array([least_slow_ms(profile) for profile, _ in rules], dtype=np.int64)
    striking = np.flatnonzero(isolation | (latency >= slow[rule_of] - tolerance_ms))
    for rule in np.unique(rule_of[striking]).tolist():
        own = striking[rule_of[striking] == rule]
        seen, more = (
            compute_not_available_duration(latency[own] + ms, isolation[own], rules[rule][0])
            for ms in (0, tolerance_ms)
        )
        duration[own], longest[own] = seen, np.maximum(seen, more)
    if np.array_equal(duration, longest):
        longest = duration
    return Judged(latency, isolation, reachable, duration, longest)


def _flags(outcome: Outcome, profile: FaultProfile, detector_enabled: bool) -> tuple[bool, bool]:
    told = outcome.told(profile, detector_enabled=detector_enabled)
    return (False, True) if told is None else told


def least_slow_ms(profile: FaultProfile) -> int:
    """The least latency, ms, for which the ladder holds a broker back; what is quicker is not looked up on it."""
    rungs = zip(profile.latency_max_ms, profile.not_available_ms, strict=False)
    return min((lowest for lowest, held in rungs if held > 0), default=np.iinfo(np.int64).max)
