"""Which family each release belongs to, under every spelling and number that clients send."""

import dataclasses
from itertools import pairwise

import pytest

from hindsight.udfs.release_profiles import PROFILES, UnknownReleaseError, profile_for

FAMILIES = {
    "P40": ("4.0.0-incubating", "4.1.0-incubating", "4.2.0"),
    "P43": ("4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.0", "4.5.1", "4.5.2", "4.6.0", "4.6.1", "4.7.0", "4.7.1"),
    "P48": ("4.8.0",),
    "P49a": ("4.9.0", "4.9.1", "5.0.0-PREVIEW"),
    "P49b": ("4.9.2",),
    "P49b3": ("4.9.3", "5.0.0-ALPHA"),
    "P49c": ("4.9.4", "4.9.5", "4.9.6", "4.9.7"),
    "P498": ("4.9.8",),
    "P500": ("5.0.0",),
    "P510": ("5.1.0",),
    "P511": ("5.1.1", "5.1.2", "5.1.3"),
    "P514": ("5.1.4",),
    "P520": ("5.2.0",),
    "P530": ("5.3.0",),
    "P531": ("5.3.1", "5.3.2"),
    "P533": ("5.3.3", "5.3.4", "5.4.0", "5.5.0"),
}
# MQVersion.CURRENT_VERSION of the release itself.
NUMBERS = {
    212: "4.0.0",
    232: "4.1.0",
    252: "4.2.0",
    273: "4.3.0",
    293: "4.4.0",
    313: "4.5.0",
    315: "4.5.1",
    333: "4.6.0",
    355: "4.7.1",
    373: "4.8.0",
    393: "4.9.0",
    395: "4.9.1",
    397: "4.9.2",
    399: "4.9.3",
    401: "4.9.4",
    403: "4.9.5",
    405: "4.9.6",
    407: "4.9.7",
    409: "4.9.8",
    413: "5.0.0",
    415: "5.0.0-ALPHA",
    433: "5.1.0",
    435: "5.1.1",
    441: "5.1.4",
    453: "5.2.0",
    473: "5.3.0",
    475: "5.3.1",
    477: "5.3.2",
    479: "5.3.3",
    493: "5.4.0",
    513: "5.5.0",
}


@pytest.mark.parametrize(("family", "release"), [(f, r) for f, releases in FAMILIES.items() for r in releases])
def test_a_release_belongs_to_its_family_in_every_spelling(family: str, release: str) -> None:
    name = "V" + release.replace(".", "_").replace("-", "_")
    for spelling in (release, release.upper(), release.lower(), name, f" {name}\n"):
        assert profile_for(spelling) is PROFILES[family]


@pytest.mark.parametrize(("number", "release"), NUMBERS.items())
def test_a_number_is_the_release_that_sends_it(number: int, release: str) -> None:
    assert profile_for(number) is profile_for(release)
    assert profile_for(str(number)) is profile_for(release)


def family_or_none(client_version: str | int) -> str | None:
    try:
        return profile_for(client_version).id
    except UnknownReleaseError:
        return None


def test_numbers_count_snapshot_and_release_of_every_version_from_4_0_0_to_5_9_9() -> None:
    names = [
        f"V{major}_{minor}_{patch}{suffix}"
        for major in (4, 5)
        for minor in range(10)
        for patch in range(10)
        for suffix in ("_SNAPSHOT", "")
    ]
    by_name = [family_or_none(name) for name in names]
    assert [family_or_none(number) for number in range(212, 612)] == by_name
    known = {name for name, family in zip(names, by_name, strict=True) if family and "SNAPSHOT" not in name}
    releases = {release.removesuffix("-incubating") for family in FAMILIES.values() for release in family}
    numbered = {f"V{release.replace('.', '_')}" for release in releases if "-" not in release}
    assert known == {*numbered, "V5_0_1"}


def test_a_snapshot_is_taken_as_the_release_it_led_to() -> None:
    assert profile_for("V4_1_0_SNAPSHOT").id == profile_for(232).id == "P40"
    assert profile_for("V5_1_4_SNAPSHOT").id == profile_for(440).id == "P514"


def test_an_alpha_client_is_known_by_a_number_that_no_later_release_took() -> None:
    assert profile_for(415).id == profile_for("V5_0_1").id == "P49b3"
    with pytest.raises(UnknownReleaseError):
        profile_for("5.0.1")


@pytest.mark.parametrize(
    "client_version",
    [
        *(-1, 0, 211, 257, 411, 417, 443, 483, 515, 611, 612, 9999),
        *("", "4", "4.9", "4.9.9", "5.0.0-BETA", "5.6.0", "6.0.0", "3.6.2", "V3_9_9", "HIGHER_VERSION", "latest"),
    ],
)
def test_an_unknown_release_is_refused_with_what_is_known(client_version: str | int) -> None:
    with pytest.raises(UnknownReleaseError) as refusal:
        profile_for(client_version)
    assert f"client version {client_version!r} is no known release (known: 4.0.0, 4.1.0" in str(refusal.value)
    assert "udfs/release_profiles.py" in str(refusal.value)


@pytest.mark.parametrize("language", ["CPP", "GO", "PYTHON", "DOTNET", "OTHER", ""])
def test_a_client_in_another_language_is_refused(language: str) -> None:
    with pytest.raises(UnknownReleaseError, match="only Java clients implement these rules"):
        profile_for(409, language)
    assert profile_for(409, "java").id == "P498"


def test_profiles_carry_their_key_and_complete_ladders() -> None:
    assert list(PROFILES) == list(FAMILIES)
    for profile_id, profile in PROFILES.items():
        assert profile.id == profile_id
        assert len(profile.latency_max_ms) == len(profile.not_available_ms) == 7


DIFFERENCES = {  # from the family above it, besides id and releases
    "P43": {"attempts_share_timeout": True},
    "P48": {"last_broker_rule": "none", "machine_room_fixed": True},
    "P49a": {},
    "P49b": {"retry_codes_configurable": True},
    "P49b3": {"machine_room_check": "blank", "async_throws_first_failure": False},
    "P49c": {"machine_room_check": "full", "pick_ties": "map_order"},
    "P498": {"fallback_needs_write_perm": True, "mutates_queue_list": False},
    "P500": {"fallback_needs_write_perm": False, "mutates_queue_list": True, "hash_charset": "utf-8"},
    "P510": {},
    "P511": {"last_broker_rule": "not_equal"},
    "P514": {
        "latency_max_ms": (50, 100, 550, 1800, 3000, 5000, 15000),
        "not_available_ms": (0, 0, 2000, 5000, 6000, 10000, 30000),
        "isolation_latency_ms": 10000,
        "extend_only": True,
        "has_reachable": True,
        "reachable_gates_availability": True,
        "last_broker_rule": "filter",
        "mutates_queue_list": False,
        "pick_ties": "shuffle",
        "client_exception_isolates": False,
    },
    "P520": {"reachable_gates_availability": False},
    "P530": {"retry_response_codes": (1, 2, 14, 16, 17, 204, 205)},
    "P531": {"retry_response_codes": (1, 2, 14, 16, 17, 204, 205, 1500)},
    "P533": {},
}


def test_each_family_differs_from_the_one_before_it_as_the_releases_did() -> None:
    facts = {profile_id: dataclasses.asdict(profile) for profile_id, profile in PROFILES.items()}
    ids = list(PROFILES)
    for before, after in pairwise(ids):
        changed = {
            name: value
            for name, value in facts[after].items()
            if value != facts[before][name] and name not in ("id", "releases")
        }
        assert changed == DIFFERENCES[after], after
