"""MACHINE_ROOM and MACHINE_ROOM_NEARBY: worked examples, the releases' argument checks, queues without a room."""

import pytest

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate, allocate_for
from hindsight.udfs.strategies.allocation_strategies import KNOWN_PROFILES

FIXED_MACHINE_ROOM = [profile for profile in KNOWN_PROFILES if profile not in ("P40", "P43")]
UNCHECKED_MACHINE_ROOM = ["P40", "P43", "P48", "P49a", "P49b"]


def queues(broker_name, count):
    return [MessageQueue("T", broker_name, queue_id) for queue_id in range(count)]


def clients(count):
    return [f"c{place}" for place in range(count)]


def names_by_client(allocation):
    return {cid: [f"{mq.broker_name}:{mq.queue_id}" for mq in share] for cid, share in allocation.items()}


def refusal(strategy, current_cid, mq_all, cid_all, **parameters):
    with pytest.raises(AllocationError) as refused:
        allocate_for(strategy, current_cid, mq_all, cid_all, **parameters)
    return str(refused.value)


TWO_ROOMS = queues("r1@a", 4) + queues("r2@b", 4)


@pytest.mark.parametrize("profile", FIXED_MACHINE_ROOM)
def test_machine_room_shares_the_queues_of_the_room_since_4_8_0(profile):
    allocation = allocate("MACHINE_ROOM", TWO_ROOMS, clients(3), profile=profile, machine_rooms={"r2"})
    assert names_by_client(allocation) == {"c0": ["r2@b:0", "r2@b:3"], "c1": ["r2@b:1"], "c2": ["r2@b:2"]}


@pytest.mark.parametrize("profile", ["P40", "P43"])
def test_machine_room_hands_out_queues_of_other_rooms_through_4_7_1(profile):
    allocation = allocate("MACHINE_ROOM", TWO_ROOMS, clients(3), profile=profile, machine_rooms={"r2"})
    assert names_by_client(allocation) == {"c0": ["r1@a:0", "r2@b:3"], "c1": ["r1@a:1"], "c2": ["r1@a:2"]}


def test_a_broker_stands_in_a_room_only_with_exactly_two_parts():
    mq_all = [MessageQueue("T", name, 0) for name in ("r1@", "@a", "r1@b@", "r1@b@c", "r1", "", "@", "r1@@c", "r1@b")]
    allocation = allocate("MACHINE_ROOM", mq_all, ["c0"], machine_rooms=["r1", ""])
    assert names_by_client(allocation) == {"c0": ["@a:0", "r1@b@:0", "r1@b:0"]}


@pytest.mark.parametrize("profile", KNOWN_PROFILES)
@pytest.mark.parametrize(
    ("current_cid", "mq_all", "cid_all", "message"),
    [
        ("", TWO_ROOMS, ["c0"], "currentCID is empty"),
        ("c0", [], ["c0"], "mqAll is null or mqAll empty"),
        ("c0", TWO_ROOMS, [], "cidAll is null or cidAll empty"),
    ],
)
def test_machine_room_refuses_empty_arguments_since_4_9_3(profile, current_cid, mq_all, cid_all, message):
    arguments = ("MACHINE_ROOM", current_cid, mq_all, cid_all)
    if profile in UNCHECKED_MACHINE_ROOM:
        assert allocate_for(*arguments, profile=profile, machine_rooms={"r2"}) == []
    else:
        expected = f"IllegalArgumentException: {message}"
        assert refusal(*arguments, profile=profile, machine_rooms={"r2"}) == expected


def test_machine_room_takes_a_blank_id_for_an_empty_one_in_4_9_3_only():
    refused = []
    for profile in KNOWN_PROFILES:
        try:
            allocate_for("MACHINE_ROOM", " \u3000", TWO_ROOMS, ["c0", " \u3000"], profile=profile, machine_rooms={"r2"})
        except AllocationError as error:
            refused.append((profile, error.message))
    assert refused == [("P49b3", "currentCID is empty")]


def test_machine_rooms_never_set_fail_at_the_first_broker_that_stands_in_one():
    assert refusal("MACHINE_ROOM", "c0", TWO_ROOMS, ["c0"]) == "NullPointerException: null"
    assert allocate_for("MACHINE_ROOM", "c0", queues("broker-a", 4), ["c0"]) == []


def test_machine_rooms_given_as_one_text_are_refused():
    with pytest.raises(ValueError, match="machine_rooms is the text 'r1'"):
        allocate("MACHINE_ROOM", TWO_ROOMS, ["c0"], machine_rooms="r1")


THREE_ROOMS = queues("IDC1-a", 4) + queues("IDC2-b", 4) + queues("IDC3-c", 2)
ROOM_FUNCTIONS = {
    "room_of_queue": lambda mq: mq.broker_name.split("-")[0],
    "room_of_client": lambda cid: cid.split("-")[0],
}


@pytest.mark.parametrize("strategy", ["MACHINE_ROOM_NEARBY-AVG", "MACHINE_ROOM_NEARBY-MACHINE_ROOM_NEARBY-AVG"])
def test_nearby_shares_each_room_among_its_clients_and_empty_rooms_among_all(strategy):
    allocation = allocate(strategy, THREE_ROOMS, ["IDC1-1", "IDC1-2", "IDC2-1"], **ROOM_FUNCTIONS)
    assert names_by_client(allocation) == {
        "IDC1-1": ["IDC1-a:0", "IDC1-a:1", "IDC3-c:0"],
        "IDC1-2": ["IDC1-a:2", "IDC1-a:3", "IDC3-c:1"],
        "IDC2-1": ["IDC2-b:0", "IDC2-b:1", "IDC2-b:2", "IDC2-b:3"],
    }


def test_nearby_visits_empty_rooms_in_utf_16_order():
    mq_all = [MessageQueue("T", name, 0) for name in ("～-x", "😀-x", "IDC1-a")]
    allocation = allocate("MACHINE_ROOM_NEARBY-AVG", mq_all, ["IDC1-1"], **ROOM_FUNCTIONS)
    assert names_by_client(allocation) == {"IDC1-1": ["IDC1-a:0", "😀-x:0", "～-x:0"]}


def test_nearby_gives_nothing_of_a_room_whose_clients_stand_elsewhere_than_its_queues():
    allocation = allocate("MACHINE_ROOM_NEARBY-AVG", queues("IDC1-a", 2), ["IDC1-1", "IDC2-1"], **ROOM_FUNCTIONS)
    assert names_by_client(allocation) == {"IDC1-1": ["IDC1-a:0", "IDC1-a:1"], "IDC2-1": []}


@pytest.mark.parametrize(
    ("broker_name", "cid", "message"),
    [
        ("-b", "-1", "Machine room is null for mq MessageQueue [topic=T, brokerName=-b, queueId=0]"),
        ("IDC1-b", "-1", "Machine room is null for consumer id -1"),
    ],
)
def test_nearby_refuses_queues_and_then_clients_without_a_room(broker_name, cid, message):
    text = refusal("MACHINE_ROOM_NEARBY-AVG", cid, queues(broker_name, 2), [cid], **ROOM_FUNCTIONS)
    assert text == f"IllegalArgumentException: {message}"


def test_nearby_around_a_config_without_a_list_fails():
    text = refusal("MACHINE_ROOM_NEARBY-CONFIG", "IDC1-1", THREE_ROOMS, ["IDC1-1"], **ROOM_FUNCTIONS)
    assert text == "NullPointerException: null"


def test_nearby_without_room_functions_is_refused():
    with pytest.raises(ValueError, match="without room_of_queue and room_of_client"):
        allocate("MACHINE_ROOM_NEARBY-AVG", THREE_ROOMS, ["IDC1-1"], room_of_queue=ROOM_FUNCTIONS["room_of_queue"])


def test_nearby_asks_the_room_of_a_queue_once_for_all_clients():
    asked = []

    def room_of_queue(mq):
        asked.append(mq)
        return "IDC1"

    allocate(
        "MACHINE_ROOM_NEARBY-AVG",
        THREE_ROOMS,
        clients(20),
        room_of_queue=room_of_queue,
        room_of_client=lambda _: "IDC1",
    )
    assert asked == THREE_ROOMS
