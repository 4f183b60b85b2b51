"""Worked examples of AVG, AVG_BY_CIRCLE and CONFIG, and what every strategy refuses."""

import pickle

import pytest

from hindsight.udfs.allocation import (
    STRATEGIES,
    AllocationError,
    MessageQueue,
    UnknownStrategyError,
    allocate,
    allocate_for,
)
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.strategies.allocation_strategies import KNOWN_PROFILES

CHECKED = ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY-AVG"]
ROOM_FUNCTIONS = {"room_of_queue": lambda mq: mq.broker_name, "room_of_client": lambda _: "broker-a"}


def queues(broker_name, count):
    return [MessageQueue("T", broker_name, queue_id) for queue_id in range(count)]


def clients(count):
    return [f"c{place}" for place in range(count)]


def ids_by_client(allocation):
    return [[mq.queue_id for mq in share] for share in allocation.values()]


def refusal(strategy, current_cid, mq_all, cid_all, **parameters):
    with pytest.raises(AllocationError) as refused:
        allocate_for(strategy, current_cid, mq_all, cid_all, **parameters)
    return str(refused.value)


@pytest.mark.parametrize(
    ("queue_count", "expected"),
    [
        (8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (10, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (4, [[0], [1], [2], [3], []]),
        (1, [[0], [], []]),
        (5, [[0], [1], [2], [3], [4]]),
        (7, [[0, 1, 2, 3], [4, 5, 6]]),
        (6, [[0, 1], [2, 3], [4, 5]]),
        (4, [[0, 1], [2, 3]]),
        (4, [[0, 1], [2], [3]]),
    ],
)
def test_avg_cuts_blocks_and_the_first_clients_take_one_more(queue_count, expected):
    allocation = allocate("AVG", queues("broker-a", queue_count), clients(len(expected)))
    assert ids_by_client(allocation) == expected


@pytest.mark.parametrize(
    ("queue_count", "expected"),
    [
        (8, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (10, [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (4, [[0], [1], [2], [3], []]),
        (6, [[0, 3], [1, 4], [2, 5]]),
    ],
)
def test_avg_by_circle_deals_queues_like_cards(queue_count, expected):
    allocation = allocate("AVG_BY_CIRCLE", queues("broker-a", queue_count), clients(len(expected)))
    assert ids_by_client(allocation) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("AVG", {"a": [0, 1, 2], "b": [6, 7]}), ("AVG_BY_CIRCLE", {"a": [0, 3, 6], "b": [2, 5]})],
)
def test_a_repeated_id_leaves_queues_to_nobody(strategy, expected):
    allocation = allocate(strategy, queues("broker-a", 8), ["a", "a", "b"])
    assert {cid: [mq.queue_id for mq in share] for cid, share in allocation.items()} == expected


def test_lists_are_used_in_the_order_given():
    mq_all = [MessageQueue("T", "broker-a", queue_id) for queue_id in (3, 0, 2, 1)]
    assert ids_by_client(allocate("AVG", mq_all, ["c1", "c0"])) == [[3, 0], [2, 1]]


def test_config_gives_every_client_the_configured_list_whatever_the_group_looks_like():
    elsewhere = [MessageQueue("Other", "broker-z", 7)]
    assert allocate("CONFIG", queues("broker-a", 4), clients(2), configured_queues=elsewhere) == {
        "c0": elsewhere,
        "c1": elsewhere,
    }
    assert allocate_for("CONFIG", "", [], [], configured_queues=elsewhere) == elsewhere


def test_config_without_a_list_answers_none_and_with_an_empty_one_nothing():
    assert allocate_for("CONFIG", "c0", queues("broker-a", 4), ["c0"], configured_queues=None) is None
    assert allocate_for("CONFIG", "c0", queues("broker-a", 4), ["c0"], configured_queues=[]) == []


@pytest.mark.parametrize("strategy", CHECKED)
@pytest.mark.parametrize(
    ("current_cid", "mq_all", "cid_all", "message"),
    [
        ("", [], [], "currentCID is empty"),
        ("c0", [], [], "mqAll is null or mqAll empty"),
        ("c0", queues("broker-a", 1), [], "cidAll is null or cidAll empty"),
    ],
)
def test_empty_arguments_are_refused_in_this_order(strategy, current_cid, mq_all, cid_all, message):
    text = refusal(strategy, current_cid, mq_all, cid_all, **ROOM_FUNCTIONS)
    assert text == f"IllegalArgumentException: {message}"


@pytest.mark.parametrize("strategy", CHECKED)
def test_a_client_that_the_list_leaves_out_gets_nothing(strategy):
    assert allocate_for(strategy, "c9", queues("broker-a", 4), ["c0"], **ROOM_FUNCTIONS) == []


def test_allocate_refuses_when_one_of_the_clients_would():
    with pytest.raises(AllocationError, match="currentCID is empty"):
        allocate("AVG", queues("broker-a", 4), ["c0", ""])


def test_allocate_over_no_ids_is_empty():
    assert allocate("AVG", queues("broker-a", 4), []) == {}


def test_an_unknown_strategy_is_refused_with_what_is_known():
    with pytest.raises(UnknownStrategyError, match=r"'MINE' has no kernel .known: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"):
        allocate("MACHINE_ROOM_NEARBY-MINE", queues("broker-a", 4), ["c0"], **ROOM_FUNCTIONS)


def test_an_unknown_profile_is_refused_with_what_is_known():
    with pytest.raises(ValueError, match=r"profile 'P99' has no allocation rules .known: P40, P43"):
        allocate("AVG", queues("broker-a", 4), ["c0"], profile="P99")


def test_an_unknown_parameter_is_refused_with_what_is_known():
    with pytest.raises(ValueError, match=r"parameters \['virtual_nodes'\].*known: virtual_node_count"):
        allocate("CONSISTENT_HASH", queues("broker-a", 4), ["c0"], virtual_nodes=10)


def test_an_allocation_error_crosses_processes_whole():
    error = pickle.loads(pickle.dumps(AllocationError("IllegalArgumentException", "currentCID is empty")))
    assert (str(error), error.message) == ("IllegalArgumentException: currentCID is empty", "currentCID is empty")


def test_the_strategies_are_those_of_the_client():
    assert set(STRATEGIES) == {"AVG", "AVG_BY_CIRCLE", "CONFIG", "CONSISTENT_HASH", "MACHINE_ROOM"}


def test_every_release_profile_has_allocation_rules():
    assert set(KNOWN_PROFILES) == set(PROFILES)
