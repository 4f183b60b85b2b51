"""Recorded sends and a ladder in; for how long it avoids healthy brokers, and how many sends meet a sick one, out.

An open loop: what was recorded stays recorded, and a send that would have gone elsewhere has no latency there. So each
number has two bounds, under the premise that sends which the ladder does not move stay as they were:

- at most, a broker is avoided for the whole time after each recorded send to it, as if nothing ended a window early;
- at least, after those sends alone that no such window can have moved, and until the next send ends where a release
  lets every update replace the one before.

A broker is sick while sends are under way that fail or are slow, healthy while those are that are neither, and between
two of one kind that are near each other; else, and where both are under way at once, nobody knows. Times are ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from hindsight.udfs.not_available_duration import compute_not_available_duration
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.columns import BoolArray, IntArray

_FIRST_MS = (50, 100, 200, 550, 1_000, 2_000, 5_000)  # the latency that a ladder on trial begins to avoid a broker at
_SHORTEST_MS = (500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000)  # and for how long
_NOTHING = np.zeros(0, np.int64)


class Spans(NamedTuple):
    """n stretches of time that do not touch, in order: their starts, and their ends (exclusive)."""

    start: IntArray
    end: IntArray

    def has(self, at: IntArray) -> BoolArray:
        """Whether each instant lies in one."""
        place = np.searchsorted(self.start, at, side="right") - 1
        found: BoolArray = (place >= 0) & (at < self.end[place]) if len(self.start) else np.zeros(len(at), np.bool_)
        return found

    def within(self, other: Spans) -> int:
        """How much of them lies in the other ones."""
        if not len(self.start) or not len(other.start):
            return 0
        return int((other._before(self.end) - other._before(self.start)).sum())

    def length(self) -> int:
        """All together."""
        return int((self.end - self.start).sum())

    def _before(self, at: IntArray) -> IntArray:
        """How much of them (there are some) lies before each instant."""
        so_far = np.concatenate([[0], np.cumsum(self.end - self.start)])
        place = np.searchsorted(self.start, at, side="right") - 1
        last = np.clip(at - self.start[place], 0, self.end[place] - self.start[place])
        found: IntArray = np.where(place >= 0, so_far[place] + last, 0)
        return found


NEVER = Spans(_NOTHING, _NOTHING)


class Health(NamedTuple):
    """When a broker was sick and when healthy, as all its senders saw it."""

    sick: Spans
    healthy: Spans


class Sends(NamedTuple):
    """n attempts of one producer process to one broker, by their ends.

    Attributes:
        isolates: it failed so that its release isolates the broker; ``is_bad``: it failed, or was slow.
        updates: it told the fault table (a send to a queue that the application chose does not).
        elsewhere: instants at which the process began to send to other brokers, though the topic is on this one too.
    """

    begin: IntArray
    end: IntArray
    latency: IntArray
    isolates: BoolArray
    updates: BoolArray
    is_bad: BoolArray
    elsewhere: IntArray


class Effect(NamedTuple):
    """Of a ladder, at least and at most: ms for which healthy brokers are avoided, and sends that meet a sick one."""

    avoided_least: int = 0
    avoided_most: int = 0
    met_least: int = 0
    met_most: int = 0

    def plus(self, other: Effect) -> Effect:
        """Both together."""
        return Effect(*(a + b for a, b in zip(self, other, strict=True)))


def health_of(begin: IntArray, end: IntArray, is_bad: BoolArray, *, near_ms: int) -> Health:
    """When a broker was sick and healthy, by n sends of all producers, of which each tells how the broker was."""
    order = np.argsort(end, kind="stable")
    begin, end, is_bad = begin[order], np.maximum(end[order], begin[order] + 1), is_bad[order]
    # What is between two sends of one kind belongs to the later one.
    joins = np.concatenate([[False], (is_bad[1:] == is_bad[:-1]) & (begin[1:] - end[:-1] <= near_ms)])
    since = np.where(joins, np.minimum(begin, np.concatenate([[0], end[:-1]])), begin)
    sick, fine = (_union(since[which], end[which]) for which in (is_bad, ~is_bad))
    return Health(_minus(sick, fine), _minus(fine, sick))


def windows(sends: Sends, profile: FaultProfile) -> tuple[Spans, Spans, Spans]:
    """When the producer avoids the broker, at least and at most; and when no send to it can begin.

    In the ms in which a window begins, a send may have been chosen before.
    Raises: LadderTooShortError: where the client would throw.
    """
    begin, end = sends.begin[sends.updates], sends.end[sends.updates]
    lasts = compute_not_available_duration(sends.latency[sends.updates], sends.isolates[sends.updates], profile)
    if not lasts.any():
        return NEVER, NEVER, NEVER
    most = _union(end, end + lasts)
    until = end + lasts
    if not profile.extend_only and len(end):
        until = np.minimum(until, np.concatenate([end[1:], until[-1:]]))
    stays = ~most.has(begin)
    return _union(end[stays], until[stays]), most, _union(end[stays] + 1, until[stays])


def effect(sends: Sends, health: Health, profile: FaultProfile, own: Spans) -> Effect:
    """What a ladder does at one broker for one producer.

    Args:
        own: when the producer avoided the broker, or may have: sends of that time went elsewhere.
    """
    least, most, moved = windows(sends, profile)
    recorded = Spans(sends.begin[:1], sends.end[-1:])
    least, most = _both(least, recorded), _both(most, recorded)
    bad = sends.begin[sends.is_bad]
    could_come = own.has(sends.elsewhere) & ~moved.has(sends.elsewhere) & ~health.healthy.has(sends.elsewhere)
    return Effect(
        least.within(health.healthy),
        most.length() - most.within(health.sick),
        int((~most.has(bad)).sum()),
        int((~moved.has(bad)).sum() + could_come.sum()),
    )


def on_trial(profile: FaultProfile) -> Iterable[FaultProfile]:
    """Ladders of three rungs (1, 2 and 5 times the first) by the rules of a release; and one that avoids nothing."""
    yield replace(profile, latency_max_ms=(50,), not_available_ms=(0,))
    for first, shortest in product(_FIRST_MS, _SHORTEST_MS):
        rungs = tuple(first * times for times in (1, 2, 5))
        yield replace(profile, latency_max_ms=rungs, not_available_ms=tuple(shortest * times for times in (1, 2, 5)))


def defaults() -> dict[FaultProfile, str]:
    """The releases' own ladders, each once, with the releases that have it."""
    of: dict[tuple[object, ...], list[FaultProfile]] = {}
    for profile in PROFILES.values():
        key = profile.latency_max_ms, profile.not_available_ms, profile.isolation_latency_ms, profile.extend_only
        of.setdefault(key, []).append(profile)
    return {own[0]: "; ".join(profile.releases for profile in own) for own in of.values()}


def frontier(effects: Sequence[Effect]) -> Collection[int]:
    """Places of those that no other one beats in both, at most: of equal ones the first."""
    best: list[int] = []
    fewest: int | None = None
    for place in sorted(range(len(effects)), key=lambda at: (effects[at].avoided_most, effects[at].met_most, at)):
        if fewest is None or effects[place].met_most < fewest:
            best.append(place)
            fewest = effects[place].met_most
    return best


def _union(start: IntArray, end: IntArray) -> Spans:
    lasts = end > start
    order = np.argsort(start[lasts], kind="stable")
    start, end = start[lasts][order], end[lasts][order]
    if not len(start):
        return NEVER
    reached = np.maximum.accumulate(end)
    begins = np.concatenate([[True], start[1:] > reached[:-1]])
    return Spans(start[begins], reached[np.concatenate([begins[1:], [True]])])


def _minus(one: Spans, other: Spans) -> Spans:
    """What lies in the one and not in the other."""
    low, high = (
        np.concatenate([[np.iinfo(np.int64).min], other.end]),
        np.concatenate([other.start, [np.iinfo(np.int64).max]]),
    )
    return _both(one, Spans(low, high))


def _both(one: Spans, other: Spans) -> Spans:
    """What lies in both."""
    if not len(one.start) or not len(other.start):
        return NEVER
    cuts = np.unique(np.concatenate([*one, *other]))
    inside = one.has(cuts) & other.has(cuts)
    if not inside.any():
        return NEVER
    place = np.flatnonzero(inside)
    return _union(cuts[place], cuts[place + 1])
