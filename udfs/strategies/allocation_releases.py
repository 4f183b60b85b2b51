"""A profile id in, what the allocation strategies of those releases do out: read off ``PROFILES``."""

from functools import cache

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.release_profiles import PROFILES, FaultProfile

KNOWN_PROFILES = tuple(PROFILES)


def require_known_profile(profile: str) -> None:
    """Refuse a profile id that is neither one of Java's nor one of the other clients'.

    Raises: ValueError: naming the ids that are known.
    """
    if profile not in PROFILES and profile not in CLIENT_FAMILIES:
        raise ValueError(
            f"profile {profile!r} has no allocation rules (known: {', '.join((*KNOWN_PROFILES, *CLIENT_FAMILIES))}). "
            "Pass the id of the client's release, or add the new family to PROFILES in udfs/release_profiles.py or "
            "to CLIENT_FAMILIES in udfs/client_families.py."
        )


def machine_room_hands_out_any_queue(profile: str) -> bool:
    """Whether MACHINE_ROOM counts the room's queues but takes them from the whole list: a bug through 4.7.1.

    Source: AllocateMessageQueueByMachineRoom#allocate, 4.7.1 and 4.8.0.
    """
    return not PROFILES[profile].machine_room_fixed


def machine_room_checks_arguments(profile: str) -> bool:
    """Whether MACHINE_ROOM refuses empty arguments: since 4.9.3 and 5.0.0-ALPHA; before, nobody got anything.

    Source: AllocateMessageQueueByMachineRoom#allocate, 4.9.2 and 4.9.3.
    """
    return PROFILES[profile].machine_room_check != "none"


def machine_room_refuses_blank_ids(profile: str) -> bool:
    """Whether MACHINE_ROOM counts a client id of blanks as empty: 4.9.3 and 5.0.0-ALPHA alone.

    Source: AllocateMessageQueueByMachineRoom#allocate, 4.9.3 (isBlank) and 4.9.4 (isEmpty in the base class).
    """
    return PROFILES[profile].machine_room_check == "blank"


def hashes_in_platform_charset(profile: str) -> bool:
    """Whether CONSISTENT_HASH hashes the bytes of the JVM's default charset; always UTF-8 since 5.0.0.

    Source: ConsistentHashRouter.MD5Hash#hash, 4.9.8 and 5.0.0.
    """
    return PROFILES[profile].hash_charset == "platform"


@cache
def profiles_that_differ(strategy: str) -> tuple[str, ...]:
    """One profile for each rule that the releases have for a strategy; of most strategies they have one.

    Whoever does not know a client's release asks them all. Which charset a JVM has by default no record tells: with
    UTF-8 CONSISTENT_HASH is the same in all of them.
    """

    def rule(profile: FaultProfile) -> tuple[object, ...]:
        return (profile.machine_room_fixed, profile.machine_room_check) if strategy == "MACHINE_ROOM" else ()

    return tuple({rule(profile): name for name, profile in PROFILES.items()}.values())
