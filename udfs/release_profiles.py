"""A client's version in, how that release judges brokers and allocates queues out.

Sixteen families of releases differ. Numbers do not order behaviour: 5.0.0-PREVIEW and 5.0.0-ALPHA are older than
4.9.4, and 4.9.5 to 4.9.8 are back-ports made after 5.1.x, so every release is listed with its family.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")  # SendStatus
RESPONSE_CODE = re.compile(r"CODE: (-?\d{1,9})\b")  # in the text of an MQBrokerException
_FIRST_NUMBER = 212  # of V4_0_0_SNAPSHOT; ten patches of two numbers for each minor, ten minors for each major
_SINCE_NUMBER = 4, 200, 20, 2  # the first number's major; how many numbers a major, a minor and a patch have


@dataclass(frozen=True)
class FaultProfile:
    """How the releases of one family behave; ``dataclasses.replace`` gives a producer its own ladders.

    Attributes:
        id: name of the family.
        releases: the releases that it was read from.
        latency_max_ms: inclusive lower bounds of the ladder's rungs, in the order the client holds them.
        not_available_ms: how long a broker is shunned, by rung.
        isolation_latency_ms: latency that stands for a failed send's own on the ladder.
        extend_only: an update may lengthen a window, never end or shorten it; else every update replaces it.
        has_reachable: fault items carry a reachable flag, and a detector may run.
        reachable_gates_availability: an unreachable broker is not available either, whatever its window.
        last_broker_rule: on a retry in latency mode a broker must be the one that failed ("equals") or another
            ("not_equal"), or either ("none"); "filter": another, available ones first, then reachable ones.
        fallback_needs_write_perm: the fallback counts the write queues of writable brokers only.
        mutates_queue_list: the fallback overwrites an entry of the producer's queue list with its own choice.
        pick_ties: what decides between equal fault items; neither is in any log.
        client_exception_isolates: a failure inside the client (broker name not known) is held against the broker.
        retry_response_codes: codes of broker errors after which a SYNC send is tried again, unless configured.
        retry_codes_configurable: retryResponseCodes is a setting of the producer; else the codes are fixed.
        attempts_share_timeout: one time-out covers all attempts; else each attempt has the whole of it.
        async_throws_first_failure: what an ASYNC send's first invokeAsync throws ends the send; else it is tried again.
        machine_room_fixed: MACHINE_ROOM hands out the queues of its own rooms only; through 4.7.1 it counts these, but
            takes them from the whole list (AllocateMessageQueueByMachineRoom#allocate, 4.7.1 and 4.8.0).
        machine_room_check: MACHINE_ROOM's refusals: none (nobody gets anything), of blank arguments (4.9.3: isBlank),
            or as the other strategies (4.9.4: isEmpty in the base class).
        hash_charset: bytes that CONSISTENT_HASH hashes: the JVM's default charset ("platform") or always UTF-8
            (ConsistentHashRouter.MD5Hash#hash, 4.9.8 and 5.0.0).
    """

    id: str
    releases: str
    latency_max_ms: tuple[int, ...]
    not_available_ms: tuple[int, ...]
    isolation_latency_ms: int
    extend_only: bool
    has_reachable: bool
    reachable_gates_availability: bool
    last_broker_rule: Literal["equals", "none", "not_equal", "filter"]
    fallback_needs_write_perm: bool
    mutates_queue_list: bool
    pick_ties: Literal["shuffle", "map_order"]
    client_exception_isolates: bool
    retry_response_codes: tuple[int, ...]
    retry_codes_configurable: bool
    attempts_share_timeout: bool
    async_throws_first_failure: bool
    machine_room_fixed: bool
    machine_room_check: Literal["none", "blank", "full"]
    hash_charset: Literal["platform", "utf-8"]


class UnknownReleaseError(ValueError):
    """A client version, or a client's language, whose behaviour is not known."""


# Each family is the one it was made from, with what its releases changed. Sources: MQFaultStrategy,
# LatencyFaultToleranceImpl, TopicPublishInfo, DefaultMQProducerImpl#sendDefaultImpl, DefaultMQProducer,
# AllocateMessageQueueByMachineRoom and ConsistentHashRouter of the releases named.
_P40 = FaultProfile(
    id="P40",
    releases="4.0.0-incubating to 4.2.0",
    latency_max_ms=(50, 100, 550, 1000, 2000, 3000, 15000),
    not_available_ms=(0, 0, 30000, 60000, 120000, 180000, 600000),
    isolation_latency_ms=30000,
    extend_only=False,
    has_reachable=False,
    reachable_gates_availability=False,
    last_broker_rule="equals",
    fallback_needs_write_perm=False,
    mutates_queue_list=True,
    pick_ties="shuffle",
    client_exception_isolates=True,
    # SYSTEM_ERROR, SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST, NO_BUYER_ID, NOT_IN_CURRENT_UNIT
    retry_response_codes=(1, 14, 16, 17, 204, 205),
    retry_codes_configurable=False,
    attempts_share_timeout=False,
    async_throws_first_failure=True,
    machine_room_fixed=False,
    machine_room_check="none",
    hash_charset="platform",
)
_P43 = replace(_P40, id="P43", releases="4.3.0 to 4.7.1", attempts_share_timeout=True)
_P48 = replace(_P43, id="P48", releases="4.8.0", last_broker_rule="none", machine_room_fixed=True)
# No field shows what 4.9.0 (ThreadLocalIndex) changed.
_P49A = replace(_P48, id="P49a", releases="4.9.0, 4.9.1, 5.0.0-PREVIEW")
_P49B = replace(_P49A, id="P49b", releases="4.9.2", retry_codes_configurable=True)
_P49B3 = replace(
    _P49B, id="P49b3", releases="4.9.3, 5.0.0-ALPHA", async_throws_first_failure=False, machine_room_check="blank"
)
_P49C = replace(_P49B3, id="P49c", releases="4.9.4 to 4.9.7", pick_ties="map_order", machine_room_check="full")
_P498 = replace(_P49C, id="P498", releases="4.9.8", fallback_needs_write_perm=True, mutates_queue_list=False)
# The back-port 4.9.8 is no ancestor of 5.0.0.
_P500 = replace(_P49C, id="P500", releases="5.0.0", hash_charset="utf-8")
_P510 = replace(_P500, id="P510", releases="5.1.0")  # overflow of ThreadLocalIndex: in no log
_P511 = replace(_P510, id="P511", releases="5.1.1 to 5.1.3", last_broker_rule="not_equal")
_P514 = replace(
    _P511,
    id="P514",
    releases="5.1.4",
    latency_max_ms=(50, 100, 550, 1800, 3000, 5000, 15000),
    not_available_ms=(0, 0, 2000, 5000, 6000, 10000, 30000),
    isolation_latency_ms=10000,
    extend_only=True,
    has_reachable=True,
    reachable_gates_availability=True,
    last_broker_rule="filter",
    mutates_queue_list=False,
    pick_ties="shuffle",
    client_exception_isolates=False,
)
_P520 = replace(_P514, id="P520", releases="5.2.0", reachable_gates_availability=False)
_P530 = replace(  # + SYSTEM_BUSY
    _P520, id="P530", releases="5.3.0", retry_response_codes=(1, 2, 14, 16, 17, 204, 205)
)
_P531 = replace(  # + GO_AWAY
    _P530, id="P531", releases="5.3.1, 5.3.2", retry_response_codes=(1, 2, 14, 16, 17, 204, 205, 1500)
)
_P533 = replace(_P531, id="P533", releases="5.3.3 to 5.5.0")  # + sendMsgMaxTimeoutPerRequest, off by default

PROFILES: Mapping[str, FaultProfile] = {
    profile.id: profile
    for profile in (
        *(_P40, _P43, _P48, _P49A, _P49B, _P49B3, _P49C, _P498),
        *(_P500, _P510, _P511, _P514, _P520, _P530, _P531, _P533),
    )
}

_RELEASES_OF: Mapping[str, str] = {
    "P40": "4.0.0 4.1.0 4.2.0",
    "P43": "4.3.0 4.3.1 4.3.2 4.4.0 4.5.0 4.5.1 4.5.2 4.6.0 4.6.1 4.7.0 4.7.1",
    "P48": "4.8.0",
    "P49a": "4.9.0 4.9.1 5.0.0-PREVIEW",
    "P49b": "4.9.2",
    "P49b3": "4.9.3 5.0.0-ALPHA",
    "P49c": "4.9.4 4.9.5 4.9.6 4.9.7",
    "P498": "4.9.8",
    "P500": "5.0.0",
    "P510": "5.1.0",
    "P511": "5.1.1 5.1.2 5.1.3",
    "P514": "5.1.4",
    "P520": "5.2.0",
    "P530": "5.3.0",
    "P531": "5.3.1 5.3.2",
    "P533": "5.3.3 5.3.4 5.4.0 5.5.0",
}
_PROFILE_OF_RELEASE: Mapping[str, str] = {
    release: profile for profile, releases in _RELEASES_OF.items() for release in releases.split()
}
# The number of V5_0_1 was sent by 5.0.0-ALPHA alone: there is no release 5.0.1. The number of V5_0_0 was sent by
# 5.0.0-PREVIEW too, but the final release is what people run: a PREVIEW client has to be named by its text.
_SENDER_OF_NAME: Mapping[str, str] = {"V5_0_1": "5.0.0-ALPHA"}
_RELEASE_TEXT = re.compile(r"V?(\d+)[._](\d+)[._](\d+)(?:[-_](ALPHA|PREVIEW|INCUBATING|SNAPSHOT))?")
# 4.0.0 to 4.2.0 were released under their SNAPSHOT numbers, so a snapshot is taken as the release it led to.
_SAME_RELEASE = (None, "INCUBATING", "SNAPSHOT")


def profile_for(client_version: str | int, language: str = "JAVA") -> FaultProfile:
    """The family that a client's release belongs to.

    Args:
        client_version: a release ("4.9.8", "5.0.0-ALPHA"), a name of MQVersion.Version ("V4_9_8", also with
            _SNAPSHOT), or its number as connections carry it (409, also as text). 413 is taken as 5.0.0, which
            shares it with 5.0.0-PREVIEW; 415 is 5.0.0-ALPHA.
        language: the client's language code as connections carry it.

    Raises: UnknownReleaseError: for another language, whose clients do not implement these rules, and for releases
        that are not listed here; nothing is derived from neighbours.
    Source: MQVersion, rocketmq-common 4.0.0-incubating to 5.5.0.
    """
    if language.strip().upper() != "JAVA":
        raise UnknownReleaseError(
            f"client of language {language!r} (version {client_version!r}) cannot be replayed: only Java clients "
            "implement these rules. Leave it out, or replay it under a profile that the settings name for it."
        )
    release = _release(client_version)
    if release not in _PROFILE_OF_RELEASE:
        raise UnknownReleaseError(
            f"client version {client_version!r} is no known release (known: {', '.join(_PROFILE_OF_RELEASE)}). "
            "Name a known one for this producer in the settings, or add the release to its family in "
            "udfs/release_profiles.py."
        )
    return PROFILES[_PROFILE_OF_RELEASE[release]]


def profile_named(ids: str) -> FaultProfile:
    """The family of an id; of several that say the same of a producer ("P514|P520") the first."""
    return PROFILES[ids.partition("|")[0]]


def _release(client_version: str | int) -> str:
    text = str(client_version).strip().upper()
    if text.isdecimal():
        text = _name_of_number(int(text))
    if text in _SENDER_OF_NAME:
        return _SENDER_OF_NAME[text]
    found = _RELEASE_TEXT.fullmatch(text)
    if found is None:
        return text
    major, minor, patch, qualifier = found.groups()
    number = f"{int(major)}.{int(minor)}.{int(patch)}"
    return number if qualifier in _SAME_RELEASE else f"{number}-{qualifier}"


def stated_number(client_version: str) -> int:
    """The number that clients of a release (``4.9.8``) carry in their connections: an ordinal of MQVersion.Version.

    Raises: UnknownReleaseError: the release is not listed here.
    """
    profile_for(client_version)
    release = _release(client_version)
    if release in _SENDER_OF_NAME.values():
        release = next(name for name, sender in _SENDER_OF_NAME.items() if sender == release)
    found = _RELEASE_TEXT.fullmatch(release)
    assert found is not None, "a listed release is a number"
    first_major, per_major, per_minor, per_patch = _SINCE_NUMBER
    major, minor, patch = map(int, found.groups()[:3])
    return _FIRST_NUMBER + (major - first_major) * per_major + minor * per_minor + patch * per_patch + 1


def _name_of_number(number: int) -> str:
    """Name of an ordinal of MQVersion.Version, as all releases since 4.1.0 count them; beyond 4.x and 5.x of none."""
    first_major, per_major, per_minor, per_patch = _SINCE_NUMBER
    major, rest = divmod(number - _FIRST_NUMBER, per_major)
    minor, rest = divmod(rest, per_minor)
    patch, released = divmod(rest, per_patch)
    return f"V{first_major + major}_{minor}_{patch}{'' if released else '_SNAPSHOT'}"
