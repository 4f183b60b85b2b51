"""A clock that stands still while anything can be done: waits cost no time, and a slow machine changes nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Where nothing is ready, time goes on at once to what is due next.

    Only for servers and clients in one loop: what goes over a socket here is ready as soon as it is sent.
    """

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; with no timeout (a thread is at work) it waits as ever."""
        ready = super().select(timeout and 0)
        if not ready and timeout:
            self.now += max(timeout, 1e-6)  # less may be lost in rounding, and time stand still
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def stall(self, seconds: float) -> None:
        self._virtual.now += seconds


def stall(seconds: float) -> None:
    """Let time go on while the running loop does nothing, as it does on a busy machine."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.stall(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, in virtual time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
