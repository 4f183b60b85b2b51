"""How often something told against a candidate, of how many chances, in; whether that rules it out, out.

A record is never known to be whole: a hook measures a little later than its client, a line is lost, a route is stale.
So one impossible choice proves nothing. A candidate is ruled out when so many of its chances went wrong as a record
would show only once in ten thousand times if one chance in ten was misread; real records misread fewer than one in a
hundred. Four wrong chances of four are not enough, five are:

>>> Count(4, 4).rules_out(), Count(5, 5).rules_out(), Count(5, 300).rules_out()
(False, True, False)
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

MISREAD = 0.1
_LEVEL = 1e-4
_MANY = 1_000


class Count(NamedTuple):
    """Chances that a candidate had, and those that went against it."""

    against: int
    chances: int

    def plus(self, other: Count) -> Count:
        """Both together."""
        return Count(self.against + other.against, self.chances + other.chances)

    def rules_out(self) -> bool:
        """Whether misread chances do not explain it."""
        return not self.is_misread() and _tail(self) < _LEVEL

    def is_misread(self) -> bool:
        """Whether no more went wrong than may be misread anyway."""
        return self.against <= MISREAD * self.chances


NONE = Count(0, 0)


def _tail(count: Count) -> float:
    """How likely at least so many of the chances are misread."""
    against, chances = count
    if chances > _MANY:  # many more than misread ones explain: the share alone decides
        return 0.0 if against > 2 * MISREAD * chances else 1.0
    return sum(comb(chances, k) * MISREAD**k * (1 - MISREAD) ** (chances - k) for k in range(against, chances + 1))
