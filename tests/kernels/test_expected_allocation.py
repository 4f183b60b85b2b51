"""Group's expectation and members' claims: by strategy, parameters, release, and the lists that brokers gave."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hindsight.udfs.allocation import MessageQueue, allocate
from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.strategies.allocation_strategies import KNOWN_PROFILES

QUEUES = [("broker-a", q) for q in range(8)]


def rules(*members, strategy="AVG"):
    return [MemberRule(c, strategy, "P533") for c in dict.fromkeys(members)]


def expected(members, own=None, strategy="AVG", queues=QUEUES, model="CLUSTERING", **options):
    own = rules(*members) if own is None else own
    return expected_allocation(model, strategy, "P533", "T", queues, members, own, **options)


def owned(made, client_id):
    return [q for q, owner in enumerate(made.owners) if owner == client_id]


def claimed(made, client_id):
    return [q for q, claims in enumerate(made.claimants) if client_id in claims]


def test_members_under_one_rule_claim_what_the_group_expects():
    made = expected(["a", "b", "c"])
    assert [owned(made, c) for c in "abc"] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [claimed(made, c) for c in "abc"] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_repeated_id_leaves_its_second_share_to_nobody():
    made = expected(["a", "a", "b"])
    assert owned(made, "a") == [0, 1, 2] and owned(made, "b") == [6, 7]
    assert list(made.owners[3:6]) == [None] * 3


def test_a_member_under_another_rule_claims_by_it():
    made = expected(["a", "b"], [*rules("a"), *rules("b", strategy="AVG_BY_CIRCLE")])
    assert owned(made, "b") == [4, 5, 6, 7]
    assert claimed(made, "b") == [1, 3, 5, 7]


def test_a_member_without_a_known_rule_claims_nothing():
    assert claimed(expected(["a", "b"], rules("a")), "b") == []


def test_where_brokers_list_different_members_a_client_may_claim_by_either():
    made = expected(["a", "b"], views=(("a",), ("a", "b")))
    assert owned(made, "a") == [0, 1, 2, 3]
    assert claimed(made, "a") == list(range(8))
    assert claimed(made, "b") == [4, 5, 6, 7]


def test_virtual_nodes_from_settings_change_the_ring():
    few, many = (
        expected(["a", "b"], strategy="CONSISTENT_HASH", parameters=text)
        for text in ("", json.dumps({"virtual_node_count": 100}))
    )
    assert few.refusal is many.refusal is None and few.owners != many.owners


def test_machine_rooms_from_settings_leave_other_rooms_out():
    queues = [("r1@b", 0), ("r1@b", 1), ("r2@b", 0)]
    assert expected(["a"], strategy="MACHINE_ROOM", queues=queues).refusal is not None
    made = expected(["a"], strategy="MACHINE_ROOM", queues=queues, parameters='{"machine_rooms": ["r1"]}')
    assert made.owners == ("a", "a", None)


# Through 4.7.1 MACHINE_ROOM takes any queues of the list, as many as the rooms have.
ROOMS = [*(("r1@a", q) for q in range(4)), *(("r2@b", q) for q in range(4))]


def in_rooms(profile, rooms, own_profile="P533", queues=ROOMS):
    own = [MemberRule(c, "MACHINE_ROOM", own_profile) for c in ("c0", "c1", "c2")]
    parameters = json.dumps({"machine_rooms": rooms})
    members = ("c0", "c1", "c2")
    return expected_allocation("CLUSTERING", "MACHINE_ROOM", profile, "T", queues, members, own, parameters=parameters)


def test_what_releases_do_differently_is_not_expected_while_theirs_is_not_known():
    assert in_rooms("P40", ["r2"]).owners != in_rooms("P533", ["r2"]).owners
    assert in_rooms(None, ["r2"]).refusal == "MACHINE_ROOM depends on releases that are not known"
    assert in_rooms(None, ["r1", "r2"]).owners == in_rooms("P533", ["r1", "r2"]).owners
    assert expected_allocation("CLUSTERING", "AVG", None, "T", QUEUES, ["a"], rules("a")).owners == ("a",) * 8


def test_a_member_of_a_release_that_is_not_known_claims_what_any_release_would():
    old, new, either = (in_rooms("P533", ["r2"], own) for own in ("P40", "P533", None))
    assert claimed(old, "c0") != claimed(new, "c0")
    for client_id in ("c0", "c1", "c2"):
        assert claimed(either, client_id) == sorted({*claimed(old, client_id), *claimed(new, client_id)})


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_a_refusal_of_some_releases_is_none_of_a_release_that_is_not_known(blank):
    def answered(profile):
        parameters = json.dumps({"machine_rooms": ["r1"]})
        return expected_allocation(
            "CLUSTERING", "MACHINE_ROOM", profile, "T", ROOMS[:4], [blank], [], parameters=parameters
        )

    refusing = {profile for profile in KNOWN_PROFILES if answered(profile).refusal}
    assert refusing == {"P49b3"}
    assert answered(None).refusal == "MACHINE_ROOM depends on releases that are not known"


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM"])
@given(
    rooms=st.lists(st.sampled_from(["r1", "r2", ""]), max_size=2),
    members=st.lists(st.sampled_from(["a", "b", " ", "ä"]), min_size=1, max_size=4),
)
def test_a_member_whose_release_is_not_known_claims_what_some_release_gives_it(strategy, rooms, members):
    def claims(profile):
        own = [MemberRule(client_id, strategy, profile) for client_id in sorted(set(members))]
        parameters = json.dumps({"machine_rooms": rooms} if strategy == "MACHINE_ROOM" else {})
        arguments = ("CLUSTERING", strategy, "P533", "T", ROOMS, sorted(members), own)
        made = expected_allocation(*arguments, parameters=parameters)
        assume(made.refusal is None)
        return [set(claimants) for claimants in made.claimants]

    assert claims(None) == [set().union(*each) for each in zip(*map(claims, KNOWN_PROFILES), strict=True)]


def test_config_gives_each_client_its_own_list():
    parameters = json.dumps({"configured_queues": {"a*": ["broker-a:0"], "b*": ["broker-a:1", "broker-z:9"]}})
    made = expected(["a1", "b1", "c1"], strategy="CONFIG", parameters=parameters)
    assert made.owners[:3] == ("a1", "b1", None)


def test_rooms_that_application_code_computes_are_not_known_by_themselves():
    parameters = '{"machine_rooms": ["r1"]}'
    made = expected(["a"], strategy="MACHINE_ROOM_NEARBY-AVG", parameters=parameters)
    assert made.refusal == "MACHINE_ROOM_NEARBY-AVG depends on parameters that no record holds"


def in_named_rooms(brokers, clients):
    return json.dumps({"broker_rooms": brokers, "client_rooms": clients})


@pytest.mark.parametrize("inner", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY-AVG"])
@given(
    places=st.lists(st.sampled_from("xyz"), min_size=1, max_size=5),
    brokers=st.lists(st.sampled_from("xyz"), min_size=1, max_size=4),
)
def test_rooms_that_settings_name_share_as_the_client_would(inner, places, brokers):
    """Held against the kernel, which the vectors of the real class check."""
    strategy = f"MACHINE_ROOM_NEARBY-{inner}"
    members = sorted(f"{room}-{number}" for number, room in enumerate(places))
    queues = sorted((f"{room}{number}", q) for number, room in enumerate(brokers) for q in range(3))
    rooms = [[f"{room}*", room] for room in "xyz"]
    made = expected(members, own=[], strategy=strategy, queues=queues, parameters=in_named_rooms(rooms, rooms))
    functions = {"room_of_queue": lambda queue: queue.broker_name[0], "room_of_client": lambda cid: cid[0]}
    answers = allocate(strategy, [MessageQueue("T", *queue) for queue in queues], members, **functions)
    owners = {(q.broker_name, q.queue_id): client for client, own in answers.items() for q in own}
    assert made.owners == tuple(owners[queue] for queue in queues)


def test_the_first_pattern_of_a_room_counts():
    rooms = [["broker-a", "r1"], ["*", "r2"]]
    queues = [("broker-a", 0), ("broker-b", 0)]
    parameters = in_named_rooms(rooms, [["a*", "r1"], ["*", "r2"]])
    made = expected(["a1", "b1"], strategy="MACHINE_ROOM_NEARBY-AVG", queues=queues, parameters=parameters)
    assert made.owners == ("a1", "b1")


def test_a_member_or_broker_without_room_leaves_the_expectation_unknown():
    rooms = [["broker-a", "r1"]]
    for brokers, clients, nowhere in (([["x", "r1"]], [["*", "r1"]], "broker-a"), (rooms, [["a", "r1"]], "b")):
        parameters = in_named_rooms(brokers, clients)
        made = expected(["a", "b"], strategy="MACHINE_ROOM_NEARBY-AVG", parameters=parameters)
        assert made.refusal == f"MACHINE_ROOM_NEARBY-AVG: settings name no room of {nowhere}"


def test_config_inside_rooms_is_not_known():
    parameters = json.dumps({"broker_rooms": [["*", "r"]], "client_rooms": [["*", "r"]], "configured_queues": {}})
    made = expected(["a"], strategy="MACHINE_ROOM_NEARBY-CONFIG", parameters=parameters)
    assert made.refusal == "MACHINE_ROOM_NEARBY-CONFIG depends on parameters that no record holds"


def test_every_broadcasting_member_claims_every_queue():
    made = expected(["a", "b"], model="BROADCASTING")
    assert set(made.owners) == {None} and set(made.claimants) == {("a", "b")}
