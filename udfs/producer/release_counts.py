"""How often something told against a candidate, of how many chances, in; whether that rules it out, out.

A record is never known to be whole: a hook measures a little later than its client, a line is lost, a route is stale.
So one impossible choice proves nothing. A candidate is ruled out when so many of its chances went wrong as a record
would show only once in ten thousand times if one chance in ten was misread; real records misread fewer than one in a
hundred. Four wrong chances of four are not enough, five are:

>>> Count(4, 4).rules_out(), Count(5, 5).rules_out(), Count(5, 300).rules_out()
(False, True, False)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import comb
from typing import NamedTuple

import numpy as np

from hindsight.udfs.producer.attempt_columns import SYNC, Attempts
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.arrays import IntArray

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


_RETRIED = [frozenset(profile.retry_response_codes) for profile in PROFILES.values()]
_NOT_RETRIED_BY_ALL = sorted(frozenset.union(*_RETRIED) - frozenset.intersection(*_RETRIED))


class AfterCode(NamedTuple):
    """How SYNC sends of a process went on after a code: rows of attempts that were retried, and that ended theirs."""

    retried: tuple[int, ...]
    ended: tuple[int, ...]


def after_codes(a: Attempts, rows: IntArray) -> dict[int, AfterCode]:
    """By code; ``rows``: those of one process."""
    code = a.table["response_code"].fill_null(0).to_numpy()
    own = rows[a.texts("mode").are(SYNC)[rows] & (a.attempt[rows] >= 0) & ~a.pinned[rows]]
    if not np.isin(code[own], _NOT_RETRIED_BY_ALL).any():
        return {}
    ids = a.table["msg_id"].to_pylist()
    sends: dict[str, dict[int, int]] = defaultdict(dict)
    for row in own.tolist():
        sends[ids[row]][int(a.attempt[row])] = row
    begun = {msg_id: int(a.begin[attempts[0]]) for msg_id, attempts in sends.items() if 0 in attempts}
    most = max((max(attempts) for attempts in sends.values()), default=0)
    spent = max((int(a.begin[max(sends[m].values())]) - at for m, at in begun.items()), default=0)
    found: dict[int, AfterCode] = {}
    for msg_id, attempts in sends.items():
        for number, row in sorted(attempts.items()):
            if int(code[row]) not in _NOT_RETRIED_BY_ALL or msg_id not in begun:
                continue
            known = found.get(int(code[row]), AfterCode((), ()))
            if number + 1 in attempts:
                known = known._replace(retried=(*known.retried, row))
            elif number < most and int(a.end[row]) - begun[msg_id] < spent:
                known = known._replace(ended=(*known.ended, row))
            found[int(code[row])] = known
    return found


def count_of(family: FaultProfile, after: Mapping[int, AfterCode]) -> tuple[Count, int | None]:
    """What tells against a family, of all sends that could; and the first such attempt."""
    count = NONE
    wrong: list[int] = []
    for code, told in after.items():
        if code in family.retry_response_codes:
            against = told.ended
        elif not family.retry_codes_configurable:
            against = told.retried
        else:
            continue
        count = count.plus(Count(len(against), len(told.retried) + len(told.ended)))
        wrong += against
    return count, min(wrong, default=None)
