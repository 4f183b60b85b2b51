"""What is recorded of a producer process in, the rules it is replayed under, or why it cannot be, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from hindsight.udfs.clients.client_kinds import why_not_replayed
from hindsight.udfs.release_profiles import FaultProfile, UnknownReleaseError, profile_for
from hindsight.udfs.values.message_queues import is_like

# Producers may be given any long as a duration, Long.MAX_VALUE for "never again" too. What lasts longer than this is
# told as lasting so long: no instant lies beyond what a timestamp holds, and no window has a row for each date to 9999.
LONGEST_MS = 366 * 86_400_000
_LADDER_TOO_SHORT = "not_available_ms is shorter than latency_max_ms: the client throws"
_SWITCH_UNKNOWN = "latency_fault_enabled is not recorded: taken as off"

Override = Mapping[str, Any]


class Recorded(NamedTuple):
    """What starts and lines say of a process; None: nothing."""

    client_version: str | None = None
    latency_fault_enabled: bool | None = None
    detector_enabled: bool | None = None
    latency_max_ms: tuple[int, ...] | None = None
    not_available_ms: tuple[int, ...] | None = None
    retry_times_sync: int | None = None
    retry_times_async: int | None = None
    retry_another_broker: bool | None = None
    send_timeout_ms: int | None = None

    def or_else(self, other: Recorded) -> Recorded:
        """What this says, and where it says nothing, the other."""
        said = {name: value for name, value in self._asdict().items() if value is not None}
        return other._replace(**said)


class Rules(NamedTuple):
    """The rules of a process on one date.

    Attributes:
        settings: what is recorded, or else what the settings say; ladders as in force, None: the release is unknown.
        profile: the release's family, with the producer's own ladders; None: unknown, or they are too short.
        family: id of the release's family.
        verdict: replayed; off: the switch is off; not_applicable: no client of its language has windows; unknown: see
            reasons.
    """

    settings: Recorded
    profile: FaultProfile | None
    family: str | None
    verdict: str
    reasons: tuple[str, ...]

    @property
    def detects(self) -> bool:
        """A detector may run unseen."""
        has_reachable = self.profile is not None and self.profile.has_reachable
        return has_reachable and bool(self.settings.detector_enabled)


@cache
def rules_of(known: Recorded) -> Rules:
    """The rules that follow from what is known; producers of one release and configuration share them."""
    other = why_not_replayed(known.client_version)
    if other is not None:
        nothing = known._replace(latency_max_ms=None, not_available_ms=None)
        return Rules(nothing, None, None, "not_applicable", (other,))
    family, problem = family_of(known.client_version)
    if family is None:
        ladders: dict[str, Any] = {"latency_max_ms": None, "not_available_ms": None}
    else:
        held = family.not_available_ms if known.not_available_ms is None else known.not_available_ms
        ladders = {
            "latency_max_ms": family.latency_max_ms if known.latency_max_ms is None else known.latency_max_ms,
            "not_available_ms": tuple(min(ms, LONGEST_MS) for ms in held),
        }
    too_short = family is not None and len(ladders["not_available_ms"]) < len(ladders["latency_max_ms"])
    unknown_switch = known.latency_fault_enabled is None
    told = (problem, _LADDER_TOO_SHORT if too_short else None, _SWITCH_UNKNOWN if unknown_switch else None)
    return Rules(
        known._replace(**ladders),
        None if family is None else replace(family, **ladders),
        None if family is None else family.id,
        _verdict(family is None, bool(known.latency_fault_enabled), too_short),
        tuple(reason for reason in told if reason is not None),
    )


def _verdict(no_release: bool, switched_on: bool, too_short: bool) -> str:
    if no_release:
        return "unknown"
    if not switched_on:
        return "off"
    return "unknown" if too_short else "replayed"


@cache
def family_of(client_version: str | None) -> tuple[FaultProfile | None, str | None]:
    """The family of a release, or why it is not known."""
    if client_version is None:
        return None, "client_version is not recorded"
    try:
        return profile_for(client_version), None
    except UnknownReleaseError as error:
        return None, str(error)


def under_premise(supposed: Recorded, known: Recorded) -> Recorded:
    """What would be known of a process if what is supposed were true of it.

    With another release go its default ladders, unless the process has ladders of its own: others than those of the
    release that it is known to run. No premise makes a Java client of one of another language.
    """
    if why_not_replayed(known.client_version) is not None:
        return known
    if supposed.client_version is not None:
        family, _ = family_of(known.client_version)
        own = known.latency_max_ms, known.not_available_ms
        if family is not None and own == (family.latency_max_ms, family.not_available_ms):
            known = known._replace(latency_max_ms=None, not_available_ms=None)
    return supposed.or_else(known)


def overridden(overrides: Sequence[Override], cluster: str, producer_group: str) -> Recorded:
    """What the settings say of a producer: of each setting, the first entry whose patterns match and that has it."""
    found = Recorded()
    for entry in overrides:
        if is_like(cluster, entry["cluster"]) and is_like(producer_group, entry["producer_group"]):
            found = found.or_else(Recorded(*(entry.get(name) for name in Recorded._fields)))
    return found
