"""Attempts of one producer in order of their begin in, which of them may have chosen in another order out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from hindsight.udfs.turns.turn_rules import Rule, Sent


class Window(NamedTuple):
    """The attempts that may have chosen against the order in which they began.

    Attributes:
        before, after: how many steps of the counter earlier, and later, than in its turn the attempt may have come.
        taken: the queues of those attempts, where all are of its thread and one millisecond: one of them then has the
            queue whose turn it was; None: they are not.
    """

    before: int
    after: int
    taken: set[tuple[str, int]] | None

    def widened(self, before: int, after: int, queue: tuple[str, int] | None) -> Window:
        """With one attempt more."""
        taken = None if queue is None or self.taken is None else {*self.taken, queue}
        return Window(self.before + before, self.after + after, taken)


class Overlaps:
    """Finds the window of an attempt; most are never asked for."""

    def __init__(self, sends: Sequence[Sent], rule: Rule, size: int, tolerance_ms: int) -> None:
        """``sends``: in order of their begin; ``size``: of the list."""
        self._sends, self._rule, self._size, self._tolerance_ms = sends, rule, size, tolerance_ms
        # Before a place, the latest instant until which any attempt chose: no farther back is one that overlaps.
        self._latest = list(accumulate((sent.chosen_ms for sent in sends), max))

    def window(self, place: int) -> Window:
        """The window of the attempt at this place."""
        sends, own, near = self._sends, self._sends[place], self._tolerance_ms
        found = Window(0, 0, set())
        for n in range(place - 1, -1, -1):
            if self._latest[n] + near < own.begin_ms:
                break
            if _may_swap(sends[n], own, near):
                found = found.widened(self._steps(sends[n]), 0, self._taken(sends[n], own))
        for n in range(place + 1, len(sends)):
            if own.chosen_ms + near < sends[n].begin_ms:
                break
            if _may_swap(own, sends[n], near):
                found = found.widened(0, self._steps(sends[n]), self._taken(sends[n], own))
        return found

    def _steps(self, sent: Sent) -> int:
        return self._size if self._rule.looks_on(sent) else 1

    def _taken(self, other: Sent, own: Sent) -> tuple[str, int] | None:
        may_skip = self._rule.looks_on(other) or self._rule.looks_on(own) or not _is_one_thread(other, own)
        return None if may_skip else other.queue


def _is_one_thread(first: Sent, second: Sent) -> bool:
    return first.thread is not None and first.thread == second.thread


def _may_swap(first: Sent, second: Sent, tolerance_ms: int) -> bool:
    """Whether the second, which did not begin earlier, may have chosen earlier: they overlap, or nearly so."""
    if second.is_retry and first.send == second.send:
        return False
    threads_differ = None not in (first.thread, second.thread) and first.thread != second.thread
    near = threads_differ and first.chosen_ms + tolerance_ms >= second.begin_ms
    return near or first.chosen_ms > second.begin_ms or first.begin_ms == second.begin_ms
