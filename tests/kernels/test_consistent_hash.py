"""CONSISTENT_HASH: worked examples, the ring of repeated and colliding ids, charsets."""

import pytest

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate, allocate_for
from hindsight.udfs.strategies import consistent_hash
from hindsight.udfs.strategies.allocation_strategies import KNOWN_PROFILES
from hindsight.udfs.strategies.consistent_hash import hash_ring, md5_hash

UTF_8_ONLY = ["P500", "P510", "P511", "P514", "P520", "P530", "P531", "P533"]
HASHED_CLIENTS = ["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"]


def queues(broker_name, count):
    return [MessageQueue("T", broker_name, queue_id) for queue_id in range(count)]


def ids_by_client(allocation):
    return [[mq.queue_id for mq in share] for share in allocation.values()]


@pytest.mark.parametrize(
    ("virtual_node_count", "expected"),
    [(10, [[0, 4, 7], [1, 6], [2, 3, 5]]), (1, [[0, 1, 6, 7], [3, 4], [2, 5]]), (0, [[], [], []])],
)
def test_consistent_hash_gives_a_queue_to_the_next_client_on_the_ring(virtual_node_count, expected):
    allocation = allocate(
        "CONSISTENT_HASH", queues("broker-a", 8), HASHED_CLIENTS, virtual_node_count=virtual_node_count
    )
    assert ids_by_client(allocation) == expected


def test_ten_virtual_nodes_are_the_default():
    assert ids_by_client(allocate("CONSISTENT_HASH", queues("broker-a", 8), HASHED_CLIENTS))[1] == [1, 6]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("MessageQueue [topic=T, brokerName=broker-a, queueId=0]", 1630488180), ("10.0.0.1@1-0", 2998294157)],
)
def test_the_hash_is_the_first_four_bytes_of_md5(text, expected):
    assert md5_hash("UTF-8")(text) == expected


def points_of(places):
    """A hash function that says what it is told, to put ids where a test wants them."""
    return places.__getitem__


def test_a_repeated_id_goes_on_counting_its_virtual_nodes():
    ring = hash_ring(["a", "a"], 2, points_of({"a-0": 10, "a-1": 20, "a-2": 30, "a-3": 40}))
    assert ring == ([10, 20, 30, 40], ["a", "a", "a", "a"])


def test_a_point_hit_twice_belongs_to_the_later_id():
    ring = hash_ring(["a", "b"], 1, points_of({"a-0": 10, "b-0": 10}))
    assert ring == ([10], ["b"])


def test_a_repeated_id_does_not_count_a_point_it_lost():
    places = {"a-0": 10, "a-1": 20, "b-0": 10, "b-1": 30, "a-2": 40}
    ring = hash_ring(["a", "b", "a"], 2, points_of(places))
    assert ring == ([10, 20, 30, 40], ["b", "a", "b", "a"])


def test_a_queue_on_the_very_point_belongs_to_its_holder_and_past_the_end_to_the_first():
    ring = hash_ring(["a", "b"], 1, points_of({"a-0": 10, "b-0": 20}))
    assert [ring.holder_of(point) for point in (0, 10, 11, 20, 21)] == ["a", "a", "b", "b", "a"]


def test_the_platform_charset_matters_before_5_0_0_only():
    mq_all = queues("broker-a", 64)
    cid_all = ["10.0.0.1@中", "10.0.0.2@文"]
    in_utf_8 = allocate("CONSISTENT_HASH", mq_all, cid_all, profile="P533")
    unlike = [
        profile
        for profile in KNOWN_PROFILES
        if allocate("CONSISTENT_HASH", mq_all, cid_all, profile=profile, charset="US-ASCII") != in_utf_8
    ]
    assert unlike == [profile for profile in KNOWN_PROFILES if profile not in UTF_8_ONLY]


def test_a_charset_that_python_does_not_know_is_refused():
    with pytest.raises(ValueError, match="charset 'x-none' is not known"):
        allocate("CONSISTENT_HASH", queues("broker-a", 2), ["c0"], profile="P498", charset="x-none")


@pytest.mark.parametrize("strategy", ["CONSISTENT_HASH", "MACHINE_ROOM_NEARBY-CONSISTENT_HASH"])
def test_a_negative_number_of_virtual_nodes_is_refused_before_the_arguments_are_looked_at(strategy):
    with pytest.raises(AllocationError, match=r"^IllegalArgumentException: illegal virtualNodeCnt :-1$"):
        allocate_for(strategy, "", [], [], virtual_node_count=-1)


def test_the_ring_is_built_once_for_all_clients(monkeypatch):
    rings = []

    def counted(*arguments):
        rings.append(arguments)
        return hash_ring(*arguments)

    monkeypatch.setattr(consistent_hash, "hash_ring", counted)
    allocate("CONSISTENT_HASH", queues("broker-a", 16), HASHED_CLIENTS)
    assert len(rings) == 1
