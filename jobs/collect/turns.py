"""When a sweep ends, whatever is still to be asked: its time is over, or somebody said stop.

What it has no time for, the next one asks first: so everything is asked in turn, whatever servers claim.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from hindsight.jobs.collect.failures import NoAnswerError, not_asked
from hindsight.jobs.collect.questions import Question
from hindsight.jobs.collect.server import Server


class Cut:
    """The end of one sweep; ``share``: of a step that may take the sweep so far, so that steps behind it have time."""

    def __init__(self, longest_s: float) -> None:
        self._begun = asyncio.get_running_loop().time()
        self._longest_s = longest_s
        self._ends: dict[float, float] = {}  # by share, of the steps that have begun
        self._stop_at = float("inf")
        self._running: set[asyncio.Timeout] = set()

    def stop(self, at: float) -> None:
        """End the sweep at an instant of the loop's clock: the collector is to end."""
        self._stop_at = at
        for timeout in self._running:
            timeout.reschedule(min(timeout.when() or at, at))

    def begin_step(self, share: float) -> None:
        """Give a step its part of the time that is left, where those before it lasted longer than they may."""
        if share not in self._ends:
            now, before = asyncio.get_running_loop().time(), max(self._ends, default=0)
            left = self._begun + self._longest_s - now
            part = (share - before) / (1 - before)
            self._ends[share] = max(self._begun + share * self._longest_s, now + part * left)

    def over(self, share: float = 1.0) -> bool:
        """Whether nothing more is asked in this step."""
        return asyncio.get_running_loop().time() >= self._end_of(share)

    @property
    def why(self) -> NoAnswerError:
        """Why what is left is not asked."""
        is_stopped = asyncio.get_running_loop().time() >= self._stop_at
        return not_asked("the collector was stopped" if is_stopped else f"a sweep is cut after {self._longest_s:.0f} s")

    @asynccontextmanager
    async def limited(self, share: float = 1.0) -> AsyncIterator[None]:
        """Break off what the block waits for when the time is over. Raises: TimeoutError."""
        async with asyncio.timeout_at(self._end_of(share)) as timeout:
            self._running.add(timeout)
            try:
                yield
            finally:
                self._running.discard(timeout)

    def _end_of(self, share: float) -> float:
        return min(self._ends.get(share, self._begun + share * self._longest_s), self._stop_at)


# Where a turn goes on: the subject, and which of its questions.
Place = tuple[str, int]


class Turn:
    """Questions to a server about some subjects, one subject after the other, until ``is_over``.

    ``about`` gives the questions of a subject, of the same kinds for each. A question counts as asked once it is taken.
    """

    def __init__(
        self,
        subjects: Sequence[str],
        about: Callable[[str], Sequence[Question]],
        is_over: Callable[[], bool],
        begin: Place | None = None,
    ) -> None:
        self._subjects, self._about, self._is_over = subjects, about, is_over
        self._kinds = len(about(subjects[0])) if subjects else 0
        self._begin = 0  # where its place stands among all questions; that of a subject which is gone is the first
        if begin is not None and begin[0] in subjects:
            self._begin = subjects.index(begin[0]) * self._kinds + begin[1] % self._kinds
        self._left = len(subjects) * self._kinds

    def __iter__(self) -> Iterator[Question]:
        while self._left and not self._is_over():
            subject, which = self._next()
            self._left -= 1
            yield self._about(subject)[which]

    @property
    def left(self) -> Counter[str]:
        """How many questions of each kind it did not come to."""
        if not self._left:
            return Counter()
        subject, which = self._next()
        kinds = [question.kind for question in self._about(subject)]
        of_each, more = divmod(self._left, self._kinds)
        return Counter(kinds * of_each + (kinds[which:] + kinds)[:more])

    @property
    def next_place(self) -> Place | None:
        """The first that it did not come to."""
        return self._next() if self._left else None

    def _next(self) -> Place:
        index = (self._begin - self._left) % (len(self._subjects) * self._kinds)
        return self._subjects[index // self._kinds], index % self._kinds


class Turns:
    """Kept from sweep to sweep: where each server's next turn begins, and the server of each step."""

    def __init__(self) -> None:
        self._places: WeakKeyDictionary[Server, dict[str, Place]] = WeakKeyDictionary()
        self._servers: dict[str, str] = {}

    def of(
        self,
        server: Server,
        step: str,
        subjects: Sequence[str],
        about: Callable[[str], Sequence[Question]],
        is_over: Callable[[], bool],
    ) -> Turn:
        """A turn that begins where the last one of the step ended; with the first subject if that one is gone."""
        return Turn(subjects, about, is_over, self._places.get(server, {}).get(step))

    def ended(self, server: Server, step: str, next_place: Place | None) -> None:
        """Note where the next turn of the step begins; None: with the first subject."""
        if next_place is not None:
            self._places.setdefault(server, {})[step] = next_place
        elif server in self._places:
            self._places[server].pop(step, None)

    def owes(self, server: Server, step: str) -> bool:
        """Whether the last turn of the step left something."""
        return step in self._places.get(server, {})

    def in_turn(self, step: str, servers: Iterable[Server]) -> list[Server]:
        """The servers of a step, from the one on that had no turn the last time."""
        ordered = list(servers)
        begin = begin_of([server.address for server in ordered], self._servers.get(step))
        return ordered[begin:] + ordered[:begin]

    def servers_left(self, step: str, first: Server | None) -> None:
        """Note which server of a step had no turn; None: every one had."""
        if first is None:
            self._servers.pop(step, None)
        else:
            self._servers[step] = first.address


def begin_of(names: Sequence[str], name: str | None) -> int:
    """Where a name stands; 0: it is none of them."""
    return names.index(name) if name in names else 0
