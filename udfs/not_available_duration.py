"""A send's latency in, for how long its producer shuns the broker out: the ladder, for many sends or for one."""

from __future__ import annotations

import numpy as np

from hindsight.udfs.release_profiles import FaultProfile
from hindsight.udfs.values.columns import BoolArray, IntArray


class LadderTooShortError(ValueError):
    """A latency stands on a rung of latency_max_ms for which not_available_ms has no entry.

    The client does not check its ladders either: its send call ends in an ArrayIndexOutOfBoundsException.
    """


def compute_not_available_duration(latency_ms: IntArray, isolation: BoolArray, profile: FaultProfile) -> IntArray:
    """Milliseconds for which a broker is shunned after each of n sends.

    Args:
        latency_ms: n whole numbers; below the ladder's lowest rung (negative ones too) the broker is not shunned.
        isolation: n flags; where set, the profile's substitute stands for the latency, longer or shorter.
        profile: gives the ladder, taken as it stands: the last rung that the latency reaches counts, sorted or not.

    Returns: n durations.
    Raises:
        LadderTooShortError: where the client would throw, if only for one of the sends.
        TypeError: for latencies that are not whole numbers.
    Source: MQFaultStrategy#computeNotAvailableDuration, 4.2.0 to 5.3.3.
    """
    given = np.asarray(latency_ms)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"latency_ms holds {given.dtype} values; pass whole milliseconds, and leave out missing ones.")
    judged = np.where(np.asarray(isolation, dtype=np.bool_), profile.isolation_latency_ms, given.astype(np.int64))
    rung = np.full(judged.shape, -1, dtype=np.int64)
    for position, lower_bound in enumerate(profile.latency_max_ms):
        rung[judged >= lower_bound] = position
    beyond = rung >= len(profile.not_available_ms)
    if beyond.any():
        raise _ladder_too_short(int(judged[beyond][0]), int(rung[beyond][0]), profile)
    # Below the lowest rung the index is -1: the 0 put at the end.
    return np.array((*profile.not_available_ms, 0), dtype=np.int64)[rung]


def not_available_duration(latency_ms: int, isolation: bool, profile: FaultProfile) -> int:
    """Milliseconds for which a broker is shunned after one send: ``compute_not_available_duration`` of a single one.

    A replay has one at a time, and numpy takes longer than all the rest of an update.
    Raises: LadderTooShortError: where the client would throw.
    Source: MQFaultStrategy#computeNotAvailableDuration, 4.2.0 to 5.3.3.
    """
    judged = profile.isolation_latency_ms if isolation else latency_ms
    for rung in reversed(range(len(profile.latency_max_ms))):
        if judged >= profile.latency_max_ms[rung]:
            if rung >= len(profile.not_available_ms):
                raise _ladder_too_short(judged, rung, profile)
            return profile.not_available_ms[rung]
    return 0


def _ladder_too_short(judged_ms: int, rung: int, profile: FaultProfile) -> LadderTooShortError:
    return LadderTooShortError(
        f"latency {judged_ms} ms is on rung {rung} of latency_max_ms={profile.latency_max_ms}, and "
        f"not_available_ms={profile.not_available_ms} ends before it (profile {profile.id}): the client would throw an "
        "ArrayIndexOutOfBoundsException. Correct the producer's ladders in the settings, or in its start record."
    )
