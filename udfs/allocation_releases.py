"""A profile id in, what the allocation strategies of those releases do out.

The ids are those of ``PROFILES`` in ``udfs/release_profiles.py``. Release numbers are not ordered by behaviour:
5.0.0-PREVIEW behaves as 4.9.1 (P49a) and 5.0.0-ALPHA as 4.9.3 (P49b3), so each rule lists its profiles.
"""

_BEFORE_4_8_0 = ("P40", "P43")
_FROM_4_8_0_BEFORE_4_9_3 = ("P48", "P49a", "P49b")
_4_9_3_AND_ALPHA = ("P49b3",)
_FROM_4_9_4_BEFORE_5_0_0 = ("P49c", "P498")
_FROM_5_0_0 = ("P500", "P510", "P511", "P514", "P520", "P530", "P531", "P533")

KNOWN_PROFILES = _BEFORE_4_8_0 + _FROM_4_8_0_BEFORE_4_9_3 + _4_9_3_AND_ALPHA + _FROM_4_9_4_BEFORE_5_0_0 + _FROM_5_0_0


def require_known_profile(profile: str) -> None:
    """Refuse a profile id whose rules are not written here.

    Raises: ValueError: naming the ids that are known.
    """
    if profile not in KNOWN_PROFILES:
        raise ValueError(
            f"profile {profile!r} has no allocation rules (known: {', '.join(KNOWN_PROFILES)}). Pass the id of "
            "the client's release, or add the new id to its group in udfs/allocation_releases.py."
        )


def machine_room_hands_out_any_queue(profile: str) -> bool:
    """Whether MACHINE_ROOM counts the room's queues but takes them from the whole list: a bug through 4.7.1.

    Source: AllocateMessageQueueByMachineRoom#allocate, 4.7.1 and 4.8.0.
    """
    return profile in _BEFORE_4_8_0


def machine_room_checks_arguments(profile: str) -> bool:
    """Whether MACHINE_ROOM refuses empty arguments: since 4.9.3 and 5.0.0-ALPHA; before, nobody got anything.

    Source: AllocateMessageQueueByMachineRoom#allocate, 4.9.2 and 4.9.3.
    """
    return profile not in _BEFORE_4_8_0 + _FROM_4_8_0_BEFORE_4_9_3


def machine_room_refuses_blank_ids(profile: str) -> bool:
    """Whether MACHINE_ROOM counts a client id of blanks as empty: 4.9.3 and 5.0.0-ALPHA alone.

    Source: AllocateMessageQueueByMachineRoom#allocate, 4.9.3 (isBlank) and 4.9.4 (isEmpty in the base class).
    """
    return profile in _4_9_3_AND_ALPHA


def hashes_in_platform_charset(profile: str) -> bool:
    """Whether CONSISTENT_HASH hashes the bytes of the JVM's default charset; always UTF-8 since 5.0.0.

    Source: ConsistentHashRouter.MD5Hash#hash, 4.9.8 and 5.0.0.
    """
    return profile not in _FROM_5_0_0
