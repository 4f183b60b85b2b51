"""What a sweep has no time for, the next one asks first: so everything is asked in turn, whatever servers claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from hindsight.jobs.collect.questions import Question
from hindsight.jobs.collect.server import Server


class Turn:
    """Questions to a server about some subjects, one subject after the other, until ``is_over``.

    ``about`` gives the questions of a subject, of the same kinds for each.
    """

    def __init__(
        self,
        subjects: Sequence[str],
        about: Callable[[str], Sequence[Question]],
        is_over: Callable[[], bool],
        begin: int = 0,
    ) -> None:
        self._subjects, self._about, self._is_over = subjects, about, is_over
        self._begin, self._done = begin, 0

    def __iter__(self) -> Iterator[Question]:
        while self._done < len(self._subjects) and not self._is_over():
            subject = self._next()
            self._done += 1
            yield from self._about(subject)

    @property
    def left(self) -> Counter[str]:
        """How many questions of each kind it did not come to."""
        left = len(self._subjects) - self._done
        return Counter({question.kind: left for question in self._about(self._next())}) if left else Counter()

    @property
    def next_subject(self) -> str | None:
        """The first that it did not come to."""
        return self._next() if self._done < len(self._subjects) else None

    def _next(self) -> str:
        return self._subjects[(self._begin + self._done) % len(self._subjects)]


class Turns:
    """Kept from sweep to sweep: the subject with which each server's next turn begins, and the server of each step."""

    def __init__(self) -> None:
        self._subjects: WeakKeyDictionary[Server, dict[str, str]] = WeakKeyDictionary()
        self._servers: dict[str, str] = {}

    def of(
        self,
        server: Server,
        step: str,
        subjects: Sequence[str],
        about: Callable[[str], Sequence[Question]],
        is_over: Callable[[], bool],
    ) -> Turn:
        """A turn that begins with the subject that the last one of the step left; with the first if that is gone."""
        return Turn(subjects, about, is_over, begin_of(subjects, self._subjects.get(server, {}).get(step)))

    def ended(self, server: Server, step: str, next_subject: str | None) -> None:
        """Note where the next turn of the step begins; None: with the first subject."""
        if next_subject is not None:
            self._subjects.setdefault(server, {})[step] = next_subject
        elif server in self._subjects:
            self._subjects[server].pop(step, None)

    def owes(self, server: Server, step: str) -> bool:
        """Whether the last turn of the step left something."""
        return step in self._subjects.get(server, {})

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
    if name is None:
        return 0
    try:
        return names.index(name)
    except ValueError:
        return 0
