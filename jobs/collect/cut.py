"""When a sweep ends, whatever is still to be asked: its time is over, or somebody said stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hindsight.jobs.collect.failures import NoAnswerError, not_asked


class Cut:
    """The end of one sweep; ``share``: of a step that may take the sweep so far, so that steps behind it have time."""

    def __init__(self, longest_s: float) -> None:
        self._begun = asyncio.get_running_loop().time()
        self._longest_s = longest_s
        self._stop_at = float("inf")
        self._running: set[asyncio.Timeout] = set()

    def stop(self, at: float) -> None:
        """End the sweep at an instant of the loop's clock: the collector is to end."""
        self._stop_at = at
        for timeout in self._running:
            timeout.reschedule(min(timeout.when() or at, at))

    def over(self, share: float = 1.0) -> bool:
        """Whether nothing more is asked in this step."""
        now = asyncio.get_running_loop().time()
        return now >= self._stop_at or now >= self._begun + share * self._longest_s

    @property
    def why(self) -> NoAnswerError:
        """Why what is left is not asked."""
        is_stopped = asyncio.get_running_loop().time() >= self._stop_at
        return not_asked("the collector was stopped" if is_stopped else f"a sweep is cut after {self._longest_s:.0f} s")

    @asynccontextmanager
    async def limited(self, share: float = 1.0) -> AsyncIterator[None]:
        """Break off what the block waits for when the time is over. Raises: TimeoutError."""
        at = min(self._begun + share * self._longest_s, self._stop_at)
        async with asyncio.timeout_at(at) as timeout:
            self._running.add(timeout)
            try:
                yield
            finally:
                self._running.discard(timeout)
