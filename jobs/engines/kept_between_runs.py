"""What the runs of one process hand to the next: workers, the lake with its open tables, when the page is due."""

from __future__ import annotations

import gc
import time
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from hindsight.conf.failure import ExpectedError
from hindsight.schemas import INGESTED_FILE

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake
    from hindsight.jobs.engines.local_runner import Workers

_DEAR_CPU_S = 2.0  # a page that costs less is made in each run
_REST = 10  # a dear one then waits so many times as long as it cost

_KEPT: ContextVar[KeptBetweenRuns | None] = ContextVar("kept between runs", default=None)


def kept_between_runs() -> KeptBetweenRuns | None:
    """What runs here share, if they do."""
    return _KEPT.get()


class LakeGoneError(ExpectedError):
    """Raised where a run of this process finds no lake where an earlier one has left it."""


class KeptBetweenRuns:
    """Use it as a context: runs within it share these, and at its end the workers are gone.

    Workers that a run did not need end with it, and what a run that failed had open is opened anew.

    Attributes:
        owes_page: the page was not due in the last run.
        page_cpu_s: what the last page cost.
    """

    def __init__(self) -> None:
        self.owes_page = False
        self.page_cpu_s = 0.0
        self._page_due_at = 0.0
        self._lake: LocalLake | None = None
        self._left_at: str | None = None  # the root of a lake with tables
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
        """The lake and the workers of the run before, if it was on the same lake; else these. A run gives them back.

        Raises: LakeGoneError: its tables are gone. A lake made anew would tell everybody of all incidents once more.
        """
        kept, self._lake = self._lake, None
        if lake.root == self._left_at and not lake.exists(INGESTED_FILE):
            raise LakeGoneError(
                f"the lake {lake.root}, to which this process has written, has no tables any more: it was moved or "
                "removed, or its disk is not there. Bring it back, or start anew: that makes one of what has landed."
            )
        if kept is None or (kept.root, kept.retention_days) != (lake.root, lake.retention_days):
            kept = lake
        self._workers = self._workers or workers
        self._workers.worked = False
        return kept, self._workers

    def give_back(self, lake: LocalLake) -> None:
        """A run went well: the next may go on with its lake, and with workers if it needed them.

        All rows of the page stand in a cycle of its template's, which Python alone would leave for many runs.
        """
        gc.collect()
        self._lake = lake
        self._left_at = lake.root if lake.exists(INGESTED_FILE) else None
        if self._workers is not None and not self._workers.worked:
            self._workers.end(at_once=False)

    def page_is_due(self) -> bool:
        """Whether the page, which is made of all that it shows each time, may be made anew; where not, it is owed."""
        self.owes_page = time.monotonic() < self._page_due_at
        return not self.owes_page

    def page_made(self, cpu_s: float) -> None:
        """The page cost so many seconds of CPU."""
        self.page_cpu_s = cpu_s
        self._page_due_at = time.monotonic() + (_REST * cpu_s if cpu_s > _DEAR_CPU_S else 0)
