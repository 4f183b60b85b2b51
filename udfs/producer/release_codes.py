"""A sample of attempts in; how its sends went on after broker errors that some releases retry and others do not, out.

SYSTEM_BUSY is retried from 5.3.0 on and GO_AWAY from 5.3.1 on. Before 4.9.2 the codes are fixed, so that a retry after
one of these rules a family out; later ones may be told to retry more codes, but never fewer, so that a send which ends
rules out those that retry it, if it had attempts and time left: as many of both as another send of the process used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from hindsight.udfs.producer.attempt_columns import SYNC, Attempts
from hindsight.udfs.producer.release_counts import NONE, Count
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.arrays import IntArray

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
