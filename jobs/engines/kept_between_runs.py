"""What the runs of one process hand to the next: workers, and the lake with its open tables."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake
    from hindsight.jobs.engines.local_runner import Workers


_KEPT: ContextVar[KeptBetweenRuns | None] = ContextVar("kept between runs", default=None)


def kept_between_runs() -> KeptBetweenRuns | None:
    """What runs here share, if they do."""
    return _KEPT.get()


class KeptBetweenRuns:
    """Use it as a context: runs within it share these, and at its end the workers are gone.

    Workers that a run did not need end with it, and what a run that failed had open is opened anew.
    """

    def __init__(self) -> None:
        self._lake: LocalLake | None = None
        self._workers: Workers | None = None

    def __enter__(self) -> KeptBetweenRuns:
        self._token = _KEPT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _KEPT.reset(self._token)
        if self._workers is not None:
            self._workers.end(at_once=kind is not None)

    def taken(self, lake: LocalLake, workers: Workers) -> tuple[LocalLake, Workers]:
        """The lake and the workers of the run before, if it was on the same lake; else these. A run gives them back."""
        kept, self._lake = self._lake, None
        if kept is None or (kept.root, kept.retention_days) != (lake.root, lake.retention_days):
            kept = lake
        self._workers = self._workers or workers
        self._workers.worked = False
        return kept, self._workers

    def give_back(self, lake: LocalLake) -> None:
        """A run went well: the next may go on with its lake, and with workers if it needed them."""
        self._lake = lake
        if self._workers is not None and not self._workers.worked:
            self._workers.end(at_once=False)
