"""Who runs, on what, for which dates, and what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from structlog.contextvars import bound_contextvars

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.running.run_log import tell


class NoSuchDatesError(ExpectedError):
    """Raised where nothing is recorded of the dates asked for: that nothing was found says more than is known."""

    exit_code = WRONG_USAGE


class DateRange(NamedTuple):
    """UTC dates that a run was asked for, both ends included; None: no bound. Without bounds: whatever has changed."""

    first: date | None = None
    last: date | None = None

    @property
    def is_given(self) -> bool:
        """Whether dates were asked for, changed or not."""
        return (self.first or self.last) is not None

    def __contains__(self, day: object) -> bool:
        return isinstance(day, date) and (self.first or date.min) <= day <= (self.last or date.max)

    def ends_before(self, day: date) -> bool:
        """Whether a date lies after the range."""
        return self.last is not None and self.last < day

    def __str__(self) -> str:
        return f"{self.first or 'the first date'} to {self.last or 'the last'}"


EVERY_DATE = DateRange()


@dataclass
class Step:
    """A job of a run: what it did, in plain values by name."""

    job: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class IntakeResult:
    """What was read and what came of it, in lines; ``nothing_stored``: files of which no line is stored or known."""

    files: int = 0
    read: int = 0
    stored: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0
    nothing_stored: int = 0


@dataclass(frozen=True)
class PublicationResult:
    """What a derivation did: dates computed, rows written, and changed ones after those it was asked for."""

    dates: int = 0
    rows: int = 0
    dates_left: int = 0


class Landed(Protocol):
    """What stands under a landing root, as a ``Survey`` tells it."""

    @property
    def files(self) -> Sequence[Any]:
        """The files that a job knows."""

    @property
    def at_rest(self) -> Mapping[str, int]:
        """Folders in which nothing new is to be expected, and when they last changed (ns)."""

    @property
    def unnamed(self) -> Sequence[str]:
        """Files in folders that are sealed, whose seal does not name them."""


@dataclass(frozen=True)
class RunContext:
    """One run: its id, its landing root, the dates it was asked for, and the instant that lineage columns carry.

    ``landed``: what stood under the landing root when the run began; None: nobody has looked yet.
    ``confirm`` is called before each write, and raises where the lake is no longer this run's.
    """

    landing: str
    dates: DateRange = EVERY_DATE
    run_id: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}")
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    landed: Landed | None = field(default=None, compare=False)
    confirm: Callable[[], None] = field(default=lambda: None, compare=False)

    @contextmanager
    def step(self, job: str) -> Iterator[Step]:
        """Log that a job begins, how it ends and after how many seconds; what it tells meanwhile names run and job."""
        begun = time.monotonic()
        step = Step(job)
        with bound_contextvars(run_id=self.run_id, job=job):
            tell("begins")
            try:
                yield step
            except BaseException as error:
                tell("fails", error=type(error).__name__, seconds=seconds_since(begun))
                raise
            step.facts["seconds"] = seconds_since(begun)
            tell("ends", **step.facts)

    def told(self, step: Step) -> dict[str, Any]:
        """What a job of the run did, for a machine."""
        return {"run_id": self.run_id, "job": step.job, **step.facts}


def seconds_since(begun: float) -> float:
    """Seconds since an instant of the monotonic clock, to a tenth."""
    return round(time.monotonic() - begun, 1)
