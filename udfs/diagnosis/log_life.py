"""Instants at which somebody wrote in, the stretches in which nobody was silent for long out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

_MOST = 10_000  # stretches that are remembered; of a log that jumps about more often, what comes later is not known


class Stretch(NamedTuple):
    """From the first to the last word, epoch milliseconds, both inclusive."""

    start: int
    end: int


class Life:
    """The stretches of one writer, in bounded memory; ``silence_ms``: what is no longer a pause."""

    def __init__(self, silence_ms: int) -> None:
        self.silence_ms = silence_ms
        self._done: list[Stretch] = []
        self._start = self._end = -1
        self._is_full = False

    def hear(self, at: int) -> None:
        """Take in an instant; they come nearly in order."""
        if self._end < 0:
            self._start = self._end = at
        elif self._start - self.silence_ms <= at <= self._end + self.silence_ms:
            self._start, self._end = min(self._start, at), max(self._end, at)
        elif self._has_room():
            self._done.append(Stretch(self._start, self._end))
            self._start = self._end = at

    def stretches(self) -> list[Stretch]:
        """In order, with more than ``silence_ms`` between any two."""
        now = [Stretch(self._start, self._end)] if self._end >= 0 else []
        return joined([*self._done, *now], self.silence_ms)

    def _has_room(self) -> bool:
        if len(self._done) >= _MOST and not self._is_full:
            self._done = joined(self._done, self.silence_ms)
            self._is_full = len(self._done) > _MOST // 2
        return not self._is_full


def joined(stretches: Iterable[Stretch], silence_ms: int) -> list[Stretch]:
    """The stretches in order, those joined between which nobody was silent for longer."""
    found: list[Stretch] = []
    for one in sorted(stretches):
        if found and one.start - found[-1].end <= silence_ms:
            found[-1] = Stretch(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def stretch_at(stretches: list[Stretch], at: int) -> Stretch | None:
    """Which of them, in order and apart, holds an instant."""
    place = bisect_right(stretches, at, key=lambda one: one.start) - 1
    return stretches[place] if place >= 0 and at <= stretches[place].end else None
