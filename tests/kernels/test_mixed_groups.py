"""Groups of Java, Go and C++ members: which pairs of families share a topic out exactly, and how the others fail."""

from collections import Counter

import pytest

from hindsight.udfs.allocation import AllocationError, MessageQueue
from hindsight.udfs.consumer.client_balance import queues_pulled

PARAMETERS = {
    "machine_rooms": ["r2"],
    "virtual_node_count": 10,
    "configured_queues": [MessageQueue("T", "a", 0)],
    "room_of_queue": lambda mq: mq.broker_name.split("-")[0],
    "room_of_client": lambda cid: cid.split("-")[0],
}
TWO_BROKERS = {"a": 4, "b": 4}
ONE_BROKER = {"broker-a": 8}
JAVA, OLD_JAVA = "P533", "P43"


def pulls(brokers, members, strategies="AVG"):
    """What each member pulls; ``members``: family by id, ``strategies``: one for all, or by family."""
    route = [{"brokerName": name, "readQueueNums": count, "perm": 6} for name, count in brokers.items()]
    return {
        client_id: queues_pulled(
            route,
            sorted(members, reverse=True),
            client_id,
            strategies if isinstance(strategies, str) else strategies[profile],
            topic="T",
            profile=profile,
            **PARAMETERS,
        )
        for client_id, profile in members.items()
    }


def owners(brokers, members, strategies="AVG"):
    """How many members pull each queue, as ``broker:queueId``; 1 each is a group that agrees."""
    taken = Counter(mq for queues in pulls(brokers, members, strategies).values() for mq in queues or ())
    return {f"{name}:{i}": taken[MessageQueue("T", name, i)] for name, count in brokers.items() for i in range(count)}


def agrees(brokers, members, strategies="AVG"):
    return set(owners(brokers, members, strategies).values()) == {1}


def two(first, second):
    return {"10.0.0.1@1": first, "10.0.0.2@1": second}


@pytest.mark.parametrize("other", ["G2", "G3", "G4", "G5", "G6", "G7", "C0", "C1"])
@pytest.mark.parametrize("java", ["P40", JAVA])
def test_java_agrees_with_go_from_rc2_on_and_with_cpp_under_avg(java, other):
    assert agrees(TWO_BROKERS, two(java, other))
    assert agrees(TWO_BROKERS, two(other, java))


@pytest.mark.parametrize("go", ["G2", "G7"])
def test_java_agrees_with_go_under_circle(go):
    assert agrees(TWO_BROKERS, two(go, JAVA), "AVG_BY_CIRCLE")


@pytest.mark.parametrize("go", ["G1", "G6"])
def test_java_agrees_with_go_on_what_is_configured(go):
    """Whoever is asked takes the queues that are configured, in either language."""
    shares = pulls({"a": 2}, two(go, JAVA), "CONFIG")
    assert list(shares.values()) == [{MessageQueue("T", "a", 0)}] * 2


@pytest.mark.parametrize(("profile", "ids"), [("G1", {"10.0.0.1@DEFAULT"}), ("G6", {"10.0.0.1@7"})])
def test_members_of_one_id_both_take_its_share_and_the_lists_look_whole(profile, ids):
    """The broker lists the id once: of three processes two are one member."""
    everybody = {*ids, "10.0.0.9@1"}
    shares = [pulls(TWO_BROKERS, dict.fromkeys(everybody, profile))[client_id] for client_id in (*ids, *ids)]
    assert shares[0] == shares[1] and len(shares[0]) == 4
    assert agrees(TWO_BROKERS, dict.fromkeys(everybody, profile))


@pytest.mark.parametrize("go", ["G0", "G1"])
def test_go_through_rc1_shares_brokers_from_the_last_to_the_first_and_so_disagrees_for_ever(go):
    assert owners(TWO_BROKERS, two(go, JAVA)) == {**{f"a:{i}": 0 for i in range(4)}, **{f"b:{i}": 2 for i in range(4)}}
    assert agrees(TWO_BROKERS, two(go, go))


@pytest.mark.parametrize("go", ["G0", "G1"])
def test_on_one_broker_there_is_no_order_of_brokers_to_disagree_on(go):
    assert agrees(ONE_BROKER, two(go, JAVA))


def test_go_and_java_hash_on_different_rings():
    members = {"10.0.0.1@1": "G6", "10.0.0.2@1": JAVA, "10.0.0.3@1": JAVA}
    found = owners(ONE_BROKER, members, "CONSISTENT_HASH")
    assert [found[f"broker-a:{i}"] for i in range(8)] == [0, 1, 1, 1, 0, 1, 2, 0]
    assert agrees(ONE_BROKER, dict.fromkeys(members, "G1"), "CONSISTENT_HASH")


def test_the_shares_of_gos_ring_are_those_of_the_real_client():
    members = {f"10.0.0.{i}@1": "G2" for i in (1, 2, 3)}
    ids = [sorted(mq.queue_id for mq in share) for share in pulls(ONE_BROKER, members, "CONSISTENT_HASH").values()]
    assert ids == [[6], [0, 1, 3], [2, 4, 5, 7]]


ROOMS = {"r1@a": 4, "r2@b": 4}


def test_go_keeps_the_machine_room_defect_that_java_lost_in_4_8_0():
    members = {"c0": "G6", "c1": "G6", "c2": "G6"}
    go = {f"{mq.broker_name}:{mq.queue_id}" for mq in pulls(ROOMS, members, "MACHINE_ROOM")["c0"]}
    assert go == {"r1@a:0", "r2@b:3"}
    assert pulls(ROOMS, members, "MACHINE_ROOM") == pulls(ROOMS, dict.fromkeys(members, OLD_JAVA), "MACHINE_ROOM")
    mixed = {"c0": "G6", "c1": JAVA, "c2": JAVA}
    of_rooms = {queue: count for queue, count in owners(ROOMS, mixed, "MACHINE_ROOM").items() if queue[:2] == "r2"}
    assert of_rooms == {"r2@b:0": 0, "r2@b:1": 1, "r2@b:2": 1, "r2@b:3": 1}


def test_java_before_4_8_0_shares_rooms_as_go_does_but_for_names_that_end_in_at():
    members = {"c0": "G6", "c1": OLD_JAVA, "c2": "G6"}
    assert pulls(ROOMS, members, "MACHINE_ROOM") == pulls(ROOMS, dict.fromkeys(members, "G6"), "MACHINE_ROOM")
    odd = {"r2@": 2, "r2@b": 2}
    shares = {profile: pulls(odd, {"c0": profile}, "MACHINE_ROOM")["c0"] for profile in ("G6", OLD_JAVA)}
    assert shares["G6"] != shares[OLD_JAVA]


def test_gos_nearby_is_plain_avg():
    zones = {"IDC1-a": 4, "IDC2-b": 4}
    members = {"IDC1-1": JAVA, "IDC1-2": JAVA, "IDC2-1": "G6"}
    strategies = {JAVA: "MACHINE_ROOM_NEARBY-AVG", "G6": "MACHINE_ROOM_NEARBY"}
    found = owners(zones, members, strategies)
    assert {queue for queue, count in found.items() if count == 0} == {"IDC2-b:0", "IDC2-b:1"}
    assert pulls(zones, members, strategies)["IDC2-1"] == pulls(zones, members)["IDC2-1"]


def test_cpp_knows_nothing_but_avg_so_agrees_with_no_other_strategy():
    assert not agrees(TWO_BROKERS, two(JAVA, "C1"), {JAVA: "AVG_BY_CIRCLE", "C1": "AVG"})
    assert not agrees(ONE_BROKER, two(JAVA, "C1"), {JAVA: "CONSISTENT_HASH", "C1": "AVG"})


TILDE, SMILE = "10.0.0.1@～", "10.0.0.1@😀"


@pytest.mark.parametrize("other", ["G6", "C1"])
def test_bytes_and_utf_16_order_ids_beyond_the_basic_plane_differently(other):
    assert owners({"a": 4}, {TILDE: other, SMILE: JAVA}) == {"a:0": 2, "a:1": 2, "a:2": 0, "a:3": 0}
    assert owners({"a": 4}, {TILDE: JAVA, SMILE: other}) == {"a:0": 0, "a:1": 0, "a:2": 2, "a:3": 2}
    assert agrees({"a": 4}, {TILDE: other, SMILE: other})


def test_brokers_beyond_the_basic_plane_are_ordered_differently_too():
    brokers = {"b～": 2, "b😀": 2}
    assert not agrees(brokers, two("G6", JAVA))
    assert agrees(brokers, two("G6", "C1"))


def test_without_a_list_go_drops_the_topic_and_the_others_keep_what_they_have():
    route = [{"brokerName": "a", "readQueueNums": 2, "perm": 6}]
    held = {MessageQueue("T", "a", 1)}
    for ids in (None, []):
        answers = {
            profile: queues_pulled(route, ids, "c", "AVG", topic="T", profile=profile, held=held)
            for profile in ("G1", "G6", "C0", "C1", "P40", JAVA)
        }
        assert answers == {"G1": None, "G6": None, "C0": held, "C1": held, "P40": held, JAVA: held}


def test_java_keeps_its_queues_without_a_list_whatever_its_strategy_makes_of_an_empty_one():
    route = [{"brokerName": "r2@a", "readQueueNums": 2, "perm": 6}]
    held = {MessageQueue("T", "r2@a", 1)}
    given = {"topic": "T", "profile": OLD_JAVA, "held": held, "machine_rooms": ["r2"]}
    assert queues_pulled(route, None, "c", "MACHINE_ROOM", **given) == held
    assert queues_pulled(route, [], "c", "MACHINE_ROOM", **given) == set()


def test_whoever_the_list_leaves_out_drops_the_topic():
    route = [{"brokerName": "a", "readQueueNums": 2, "perm": 6}]
    out = {p: queues_pulled(route, ["other"], "c", "AVG", topic="T", profile=p) for p in ("G6", "C1", JAVA)}
    assert out == {"G6": None, "C1": set(), JAVA: set()}


def test_only_readable_queues_are_shared():
    route = [{"brokerName": "a", "readQueueNums": 2, "perm": 2}, {"brokerName": "b", "readQueueNums": 1, "perm": 4}]
    for profile in ("G6", "C1", JAVA):
        assert queues_pulled(route, ["c"], "c", "AVG", topic="T", profile=profile) == {MessageQueue("T", "b", 0)}


def test_a_go_client_that_panics_and_a_grpc_client_are_refused():
    route = [{"brokerName": "a", "readQueueNums": 4, "perm": 6}]
    with pytest.raises(AllocationError, match="makeslice"):
        queues_pulled(route, ["1", "2", "3", "4", "5"], "5", "AVG", topic="T", profile="G0")
    for ids in (None, ["c"]):
        with pytest.raises(AllocationError, match="do not allocate"):
            queues_pulled(route, ids, "c", "AVG", topic="T", profile="R")
