"""Members of small sets in, whole numbers with a bit for each out: many sets are compared and united at once.

>>> brokers = NumberedSets[str]()
>>> both = brokers.bits(["broker-a", "broker-b"])
>>> brokers.members(both & brokers.bits(["broker-b", "broker-c"]))
['broker-b']
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class NumberedSets(Generic[T]):
    """Gives each member that it meets the next free bit."""

    def __init__(self) -> None:
        self._bits: dict[T, int] = {}

    def bits(self, members: Iterable[T]) -> int:
        """The set of these members."""
        found = 0
        for member in members:
            found |= self._bits.setdefault(member, 1 << len(self._bits))
        return found

    def members(self, bits: int) -> list[T]:
        """Who is in the set, in the order in which they were met."""
        return [member for member, bit in self._bits.items() if bit & bits]
