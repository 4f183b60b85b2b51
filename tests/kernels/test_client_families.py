"""Who is who: what connections, running infos and ids tell of a client's family, and what its family can be asked."""

import pytest

from hindsight.udfs.allocation import AllocationError, MessageQueue, UnknownStrategyError, allocate, allocate_for
from hindsight.udfs.client_families import CLIENT_FAMILIES, families_of, family_of_release

ALL_GO = ("G1", "G2", "G3", "G4", "G5", "G6", "G7")


@pytest.mark.parametrize(
    ("language", "version", "stated", "client_id", "families"),
    [
        ("JAVA", 317, None, "10.0.0.1@1", ("P43",)),
        ("JAVA", 333, "V4_6_0", "10.0.0.1@1", ("P43",)),
        ("JAVA", None, "V5_3_3", "10.0.0.1@1", ("P533",)),
        ("JAVA", 1, None, "10.0.0.1@1", ()),
        ("GO", 137, None, "10.0.0.1@DEFAULT", ("G0",)),
        ("GO", 317, None, "10.0.0.1@7", ALL_GO),
        ("GO", 317, "v2.0.0-alpha3", "10.0.0.1@DEFAULT", ("G1", "G2")),
        ("GO", 317, "v2.0.0", "10.0.0.1@7", ("G2",)),
        ("GO", 317, "v2.1.0", "10.0.0.1@7", ("G2", "G3", "G4")),
        ("GO", 317, "v2.1.1", "10.0.0.1@7", ("G5", "G6", "G7")),
        (None, None, "v2.1.1", "10.0.0.1@7", ("G5", "G6", "G7")),
        ("go", 400, "v9.9.9", "10.0.0.1@7", ("G0", *ALL_GO)),
        ("CPP", 63, None, "4242-10.0.0.1@DEFAULT", ("C0",)),
        ("CPP", None, None, "4242-10.0.0.1@DEFAULT", ("C0",)),
        ("CPP", 333, "V4_6_0", "10.0.0.1@4242#DEFAULT", ("C1",)),
        ("CPP", 400, None, "10.0.0.1@4242#DEFAULT", ("C0", "C1")),
        ("JAVA", 477, None, "host@7@0@vprfruck", ("R",)),
        ("GO", 477, None, "host@7@0@vprfruck", ("R",)),
        ("GO", 317, "G6", "10.0.0.1@7", ("G6",)),
        ("DOTNET", 317, None, "10.0.0.1@7", ()),
        (None, None, None, "10.0.0.1@7", ()),
    ],
)
def test_a_client_is_told_by_all_that_is_recorded_of_it(language, version, stated, client_id, families):
    assert families_of(language, version, stated, client_id) == families


def ways_to_share(*families):
    """The rules of an allocation that differ between families."""
    known = [CLIENT_FAMILIES[name] for name in families]
    return {(family.strategies, family.brokers_descending, family.error_drops_topic) for family in known}


def test_only_go_releases_with_both_orders_of_brokers_cannot_be_told_apart_for_allocation():
    assert len(ways_to_share("G1", "G2")) == 2
    assert len(ways_to_share("G2", "G3", "G4")) == len(ways_to_share("G5", "G6", "G7")) == 1
    assert "P533" not in CLIENT_FAMILIES  # nothing is shared with Java's profiles


def test_a_release_is_not_what_its_running_info_states():
    go = {release: family_of_release("GO", release) for release in ("v2.1.1", "2.1.2", "2.1.2.rc1", "2.0.0-rc1")}
    assert go == {"v2.1.1": "G4", "2.1.2": "G6", "2.1.2.rc1": "G5", "2.0.0-rc1": "G1"}
    assert [family_of_release("CPP", r) for r in ("1.2.4", "2.2.0", "2.1.2")] == ["C0", "C1", None]


def test_each_family_names_itself_and_its_sources():
    assert list(CLIENT_FAMILIES) == ["G0", *ALL_GO, "C0", "C1", "R"]
    assert all(name == family.id and family.source and family.releases for name, family in CLIENT_FAMILIES.items())


QUEUES = [MessageQueue("T", "a", i) for i in range(4)]


def test_only_go_has_a_bare_nearby_and_only_java_one_around_another():
    assert allocate("MACHINE_ROOM_NEARBY", QUEUES, ["c"], profile="G6") == {"c": QUEUES}
    for strategy, profile in (("MACHINE_ROOM_NEARBY", "P533"), ("MACHINE_ROOM_NEARBY-AVG", "G6"), ("CONFIG", "C1")):
        with pytest.raises(UnknownStrategyError):
            allocate(strategy, QUEUES, ["c"], profile=profile)


def test_the_proxy_assigns_to_grpc_clients():
    with pytest.raises(AllocationError, match="do not allocate"):
        allocate_for("AVG", "c", QUEUES, ["c"], profile="R")


def test_an_unknown_profile_is_refused_with_all_that_are_known():
    with pytest.raises(ValueError, match="P533, G0, G1"):
        allocate("AVG", QUEUES, ["c"], profile="G9")


def test_a_machine_room_named_twice_counts_twice_and_may_end_in_a_panic():
    queues = [MessageQueue("T", "r2@b", i) for i in range(4)]
    rooms = {"machine_rooms": ["r2", "r2"], "profile": "G6"}
    assert allocate_for("MACHINE_ROOM", "c0", queues, ["c0", "c1"], **rooms) == queues
    with pytest.raises(AllocationError, match=r"^panic: runtime error: index out of range \[4\] with length 4$"):
        allocate_for("MACHINE_ROOM", "c1", queues, ["c0", "c1"], **rooms)


def test_go_splits_broker_names_with_their_empty_ends():
    queues = [MessageQueue("T", name, 0) for name in ("@a", "a@b@", "a@b@c", "r1@")]
    rooms = {"machine_rooms": ["r1", "", "a"]}
    go = allocate_for("MACHINE_ROOM", "c", queues, ["c"], profile="G6", **rooms)
    assert len(go) == 2 and len(allocate_for("MACHINE_ROOM", "c", queues, ["c"], profile="P533", **rooms)) == 2
    java = allocate_for("MACHINE_ROOM", "c", queues, ["c"], profile="P533", **rooms)
    assert {mq.broker_name for mq in java} == {"@a", "a@b@"}
