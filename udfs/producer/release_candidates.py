"""What is recorded of a producer process in; the releases, ladders and switches that it may have run under, out.

Families that give the same choices and windows are one candidate: what nobody can tell apart is not told apart.

>>> from hindsight.udfs.producer.replay_rules import Recorded
>>> [c.families for c in candidates_of(Recorded(latency_fault_enabled=True, detector_enabled=False), ())][:3]
[('P40', 'P43'), ('P48', 'P49a', 'P49b', 'P49b3', 'P49c', 'P500', 'P510'), ('P498',)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from hindsight.udfs.producer.replay_rules import LONGEST_MS, Recorded, Rules, family_of
from hindsight.udfs.release_profiles import PROFILES, FaultProfile

DEFAULT_LADDER, RECORDED_LADDER, NO_LADDER = "default", "recorded", "none"
# What of a family shows in the brokers that its producers choose and avoid. How ties are broken does not: either of two
# equal items may be picked in every release.
_SHOWS_IN_CHOICES = (
    "latency_max_ms",
    "not_available_ms",
    "isolation_latency_ms",
    "extend_only",
    "has_reachable",
    "reachable_gates_availability",
    "last_broker_rule",
    "fallback_needs_write_perm",
    "mutates_queue_list",
    "client_exception_isolates",
)


class Ladder(NamedTuple):
    """A ladder that the settings name."""

    name: str
    latency_max_ms: tuple[int, ...]
    not_available_ms: tuple[int, ...]


class Candidate(NamedTuple):
    """One way in which a producer may have been set up.

    Attributes:
        families: ids of the families that give the same choices.
        profile: the first of them, with the ladder.
        ladder: its name; ``NO_LADDER``: the switch is off.
    """

    families: tuple[str, ...]
    profile: FaultProfile
    ladder: str
    latency_fault_enabled: bool
    detector_enabled: bool

    def rules(self, known: Recorded) -> Rules:
        """The rules by which a process of which this is known is replayed, if this is how it was set up."""
        on, own = self.latency_fault_enabled, self.profile
        settings = known._replace(
            latency_fault_enabled=on,
            detector_enabled=self.detector_enabled,
            latency_max_ms=own.latency_max_ms if on else known.latency_max_ms,
            not_available_ms=own.not_available_ms if on else known.not_available_ms,
        )
        verdict = "replayed" if on else "off"
        return Rules(settings, self.profile, "|".join(self.families), verdict, ())


def ladders_of(named: Sequence[Mapping[str, Any]]) -> tuple[Ladder, ...]:
    """The ladders of the settings (``[[replay.ladder]]``)."""
    return tuple(
        Ladder(entry["name"], tuple(entry["latency_max_ms"]), tuple(entry["not_available_ms"])) for entry in named
    )


@cache
def candidates_of(known: Recorded, ladders: tuple[Ladder, ...]) -> tuple[Candidate, ...]:
    """Every candidate that what is recorded leaves; none for a release that is stated but not known.

    A recorded ladder stands alone, else each family has its own and those that the settings name. A detector that is
    not recorded may run or not, in the releases that have one.
    """
    stated, _ = family_of(known.client_version)
    if stated is None and known.client_version is not None:
        return ()
    families = [stated] if stated is not None else list(PROFILES.values())
    found = []
    if known.latency_fault_enabled is not False:
        for alike in _alike(families):
            for ladder in _own(alike[0], known) or (_default(alike[0]), *ladders):
                found += [_switched_on(alike, ladder, detects) for detects in _detectors(alike[0], known)]
    if not known.latency_fault_enabled:
        ids = tuple(family.id for family in families)
        found.append(Candidate(ids, families[-1], NO_LADDER, latency_fault_enabled=False, detector_enabled=False))
    return tuple(found)


def _alike(families: Sequence[FaultProfile]) -> list[list[FaultProfile]]:
    groups: dict[tuple[object, ...], list[FaultProfile]] = {}
    for family in families:
        groups.setdefault(tuple(getattr(family, name) for name in _SHOWS_IN_CHOICES), []).append(family)
    return list(groups.values())


def _default(family: FaultProfile) -> Ladder:
    return Ladder(DEFAULT_LADDER, family.latency_max_ms, family.not_available_ms)


def _own(family: FaultProfile, known: Recorded) -> tuple[Ladder, ...]:
    """The ladder that is recorded, what it leaves out by default; one that is too short makes the client throw."""
    if known.latency_max_ms is None and known.not_available_ms is None:
        return ()
    latency = family.latency_max_ms if known.latency_max_ms is None else known.latency_max_ms
    held = family.not_available_ms if known.not_available_ms is None else known.not_available_ms
    return (Ladder(RECORDED_LADDER, latency, held),)


def _switched_on(alike: Sequence[FaultProfile], ladder: Ladder, detects: bool) -> Candidate:
    held = tuple(min(ms, LONGEST_MS) for ms in ladder.not_available_ms)
    profile = replace(alike[0], latency_max_ms=ladder.latency_max_ms, not_available_ms=held)
    return Candidate(tuple(family.id for family in alike), profile, ladder.name, True, detects)


def _detectors(family: FaultProfile, known: Recorded) -> tuple[bool, ...]:
    if not family.has_reachable:
        return (False,)
    return (False, True) if known.detector_enabled is None else (known.detector_enabled,)


def is_whole(candidate: Candidate) -> bool:
    """Whether its ladder has a duration for each rung."""
    return len(candidate.profile.not_available_ms) >= len(candidate.profile.latency_max_ms)
