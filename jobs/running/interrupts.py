"""How a process is told to stop: SIGTERM is what Ctrl-C is, a ``KeyboardInterrupt`` in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT)
Handler = Callable[[int, FrameType | None], Any]


class TerminatedError(KeyboardInterrupt):
    """Raised by SIGTERM: also where Ctrl-C only breaks off what was typed, the process ends."""


_heard: list[int] = []


def listen() -> None:
    """Take both for an interrupt, whatever they meant before.

    To the first process of a container a signal means nothing that it has not asked for, and to one that a script
    starts in the background Ctrl-C means nothing: what the script did with its terminal stays so.
    """
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)


def was_interrupted() -> bool:
    """Whether a signal came: libraries make errors of their own of an interrupt."""
    return bool(_heard)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Hand the signals to somebody else while the block runs; the main thread's own affair."""
    before = {number: signal.signal(number, handler) for number in STOPPING}
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let a signal wait until the block has ended: it is short, and what it left half done nobody would end."""
    if current_thread() is not main_thread():
        yield
        return
    waiting: list[int] = []
    with handled_by(lambda number, _frame: waiting.append(number)):
        yield
    for number in waiting:
        signal.raise_signal(number)


@contextmanager
def kept() -> Iterator[None]:
    """Give the signals back after the block to whom they belong: in it a library may take them for itself."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    if current_thread() is main_thread():
        _restore(before)


def interrupt(number: int, _frame: FrameType | None) -> None:
    """What a signal means; the main thread's own affair. Raises: KeyboardInterrupt."""
    _heard.append(number)
    raise TerminatedError if number == signal.SIGTERM else KeyboardInterrupt


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
