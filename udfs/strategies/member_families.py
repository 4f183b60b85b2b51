"""A member's families, as one text, in; the ones that share queues differently, and the strategy it truly has, out.

Records often tell a set of families only. Such a member's ``profile`` names them all, ``G1|G2``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from hindsight.udfs.client_families import CLIENT_FAMILIES, families_of
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.values.message_queues import is_like

_OR = "|"
_NEARBY = "MACHINE_ROOM_NEARBY"


class Declared(NamedTuple):
    """What settings say of a member; None: nothing."""

    family: str | None = None
    strategy: str | None = None


def profile_of_member(
    language: str | None,
    version: int | None,
    client_version: str | None,
    client_id: str,
    declared: Declared | None = None,
) -> str | None:
    """All families that a member may be of, as one text; None: nothing is known. Arguments as of ``families_of``.

    ``declared``: by it alone, where it names a family.
    """
    if declared is not None and declared.family is not None:
        return declared.family
    return _OR.join(families_of(language, version, client_version, client_id)) or None


class Declaration(NamedTuple):
    """An entry of the settings; ``cluster``, ``consumer_group`` and ``client_id`` are shell patterns."""

    cluster: str
    consumer_group: str
    client_id: str
    family: str | None
    strategy: str | None


def declared_of(entries: Sequence[Declaration], cluster: str, consumer_group: str, client_id: str) -> Declared:
    """What settings say of a member: of each, the first entry whose patterns match and that has it."""
    own = [
        entry
        for entry in entries
        if is_like(cluster, entry.cluster)
        and is_like(consumer_group, entry.consumer_group)
        and is_like(client_id, entry.client_id)
    ]
    given = (next((v for e in own if (v := getattr(e, name)) is not None), None) for name in Declared._fields)
    return Declared(*given)


def check_family(family: str) -> None:
    """Raises: ValueError: there is no such family."""
    known = [*CLIENT_FAMILIES, *PROFILES]
    if family not in known:
        near = difflib.get_close_matches(family.upper(), known, n=2) or list(CLIENT_FAMILIES)
        raise ValueError(f"no family {family!r:.80} of clients is known; near it: {', '.join(near)}")


@cache
def alternatives(profile: str) -> tuple[str, ...]:
    """Of a member's families one for each way of sharing queues, the newest of each; one of Java's is itself."""
    ways = {}
    for name in profile.split(_OR):
        family = CLIENT_FAMILIES.get(name)
        ways[name if family is None else (family.strategies, family.brokers_descending)] = name
    return tuple(ways.values())


@cache
def is_of_other_language(profile: str | None) -> bool:
    """Whether a member of this profile is no Java client; one that nothing is known of is taken for one."""
    return profile is not None and profile.split(_OR)[0] in CLIENT_FAMILIES


def has_no_choice(profile: str | None) -> bool:
    """Whether members of this profile share by AVG, whatever their application asks for."""
    return _strategies(profile) <= {"average", "all_average"}


def own_strategy(profile: str | None, told: str | None) -> str | None:
    """The strategy that a member goes by, as ``allocate`` knows it; None: not known, or the server assigns.

    ``told``: what is seen or declared of it. Of Go's clients nothing tells it; AVG is the default in every release.
    MACHINE_ROOM_NEARBY is AVG there.
    """
    if not is_of_other_language(profile):
        return told
    if _strategies(profile) == {"none"}:
        return None
    goes_by_avg = has_no_choice(profile) or told is None or told.startswith(_NEARBY)
    return "AVG" if goes_by_avg else told


def words(profile: str) -> str:
    """A profile as a reader knows it: ``Go 2.0.0-alpha3, 2.0.0-rc1 (G1)``."""
    names = profile.split(_OR)
    if names[0] not in CLIENT_FAMILIES:
        return f"Java ({profile})"
    languages = {"GO": "Go", "CPP": "C++", "GRPC": "gRPC"}
    releases = " or ".join(CLIENT_FAMILIES[name].releases for name in names)
    return f"{languages[CLIENT_FAMILIES[names[0]].language]} {releases} ({' or '.join(names)})"


def _strategies(profile: str | None) -> frozenset[str]:
    """What the families say of their strategies; of Java's nothing."""
    return frozenset(_strategies_of((profile or "").split(_OR)))


def _strategies_of(names: Iterable[str]) -> Iterable[str]:
    return (CLIENT_FAMILIES[name].strategies if name in CLIENT_FAMILIES else "java" for name in names)
