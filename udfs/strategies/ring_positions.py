"""Where ids and queues stand on CONSISTENT_HASH's ring, where that is given and not hashed from their names.

Whoever replays with other names than those that clients had gives the positions of the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

HashFunction = Callable[[str], int]
# Name of the hash, the hash itself, and the text that it is asked for: the position.
Positions = Callable[[str, HashFunction, str], int]
F = TypeVar("F", bound=Callable[..., Any])

_given: list[Positions] = []
_kept: list[Callable[[], None]] = []


def hash_or_given(name: str, own: HashFunction) -> HashFunction:
    """The hash itself, or what is given in its place."""
    if not _given:
        return own
    positions = _given[-1]
    return lambda text: positions(name, own, text)


@contextmanager
def given_positions(positions: Positions) -> Iterator[None]:
    """Let rings be built by these positions, in this process; answers that were kept are forgotten before and after."""
    _forget()
    _given.append(positions)
    try:
        yield
    finally:
        _given.pop()
        _forget()


def kept_answers(most: int) -> Callable[[F], F]:
    """``lru_cache`` for what may rest on a ring."""

    def keeping(answer: F) -> F:
        kept = lru_cache(maxsize=most)(answer)
        _kept.append(kept.cache_clear)
        return kept  # type: ignore[return-value]

    return keeping


def _forget() -> None:
    for clear in _kept:
        clear()
