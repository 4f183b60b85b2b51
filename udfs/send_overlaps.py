"""Attempts of one producer in order of their begin in, which of them may have chosen in another order out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from udfs.turn_rules import Rule, Sent


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


def windows_of(sends: Sequence[Sent], rule: Rule, size: int, tolerance_ms: int) -> list[Window]:
    """For each attempt, which are given in order of their begin; ``size``: of the list."""
    windows = [Window(0, 0, set()) for _ in sends]
    steps = [size if rule.looks_on(sent) else 1 for sent in sends]
    running: list[int] = []
    for place, sent in enumerate(sends):
        running = [n for n in running if sends[n].chosen_ms + tolerance_ms >= sent.begin_ms]
        for n in running:
            if _may_swap(sends[n], sent, tolerance_ms):
                may_skip = steps[n] > 1 or steps[place] > 1 or not _is_one_thread(sends[n], sent)
                windows[place] = windows[place].widened(steps[n], 0, None if may_skip else sends[n].queue)
                windows[n] = windows[n].widened(0, steps[place], None if may_skip else sent.queue)
        running.append(place)
    return windows


def _is_one_thread(first: Sent, second: Sent) -> bool:
    return first.thread is not None and first.thread == second.thread


def _may_swap(first: Sent, second: Sent, tolerance_ms: int) -> bool:
    """Whether the second, which did not begin earlier, may have chosen earlier: they overlap, or nearly so."""
    if second.is_retry and first.send == second.send:
        return False
    threads_differ = None not in (first.thread, second.thread) and first.thread != second.thread
    near = threads_differ and first.chosen_ms + tolerance_ms >= second.begin_ms
    return near or first.chosen_ms > second.begin_ms or first.begin_ms == second.begin_ms
