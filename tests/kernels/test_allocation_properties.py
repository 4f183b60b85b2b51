"""What holds for every group: shares are a partition, leaving moves little, both entry points agree."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.allocation import (
    AllocationError,
    MessageQueue,
    allocate,
    allocate_for,
    sort_client_ids,
    sort_queues,
)
from hindsight.udfs.strategies.allocation_strategies import KNOWN_PROFILES

few = settings(max_examples=25, deadline=None, database=None, derandomize=True)

ROOMS = ["r1", "r2", "r3"]
PARAMETERS = {
    "virtual_node_count": 5,
    "machine_rooms": {"r1", "r3"},
    "room_of_queue": lambda mq: mq.broker_name[:2],
    "room_of_client": lambda cid: cid[:2],
    "configured_queues": [MessageQueue("T", "r1@broker-a", 0)],
}
PARTITIONING = [
    "AVG",
    "AVG_BY_CIRCLE",
    "CONSISTENT_HASH",
    "MACHINE_ROOM_NEARBY-AVG",
    "MACHINE_ROOM_NEARBY-CONSISTENT_HASH",
]
ANY_STRATEGY = [
    *PARTITIONING,
    "CONFIG",
    "MACHINE_ROOM",
    "MACHINE_ROOM_NEARBY-MACHINE_ROOM",
    "MACHINE_ROOM_NEARBY-CONFIG",
]

brokers = st.builds("{}@{}".format, st.sampled_from(ROOMS), st.sampled_from(["broker-a", "é", "～", "😀"]))
queue_lists = st.sets(st.builds(MessageQueue, st.just("T"), brokers, st.integers(0, 20)), min_size=1, max_size=24)
any_queues = st.lists(st.builds(MessageQueue, st.just("T"), brokers, st.integers(0, 3)), max_size=9)
client_ids = st.builds("{}{}".format, st.sampled_from(ROOMS[:2]), st.text("a1@#é～😀", max_size=3))
client_sets = st.sets(client_ids, min_size=1, max_size=8)
client_lists = st.lists(client_ids, max_size=8)
charsets = st.sampled_from(["UTF-8", "US-ASCII"])


@few
@given(st.sampled_from(PARTITIONING), queue_lists, client_sets)
def test_distinct_ids_share_every_queue_out_exactly_once(strategy, mq_set, cid_set):
    mq_all = sort_queues(mq_set)
    allocation = allocate(strategy, mq_all, sort_client_ids(cid_set), **PARAMETERS)
    assert set(allocation) == cid_set
    assert sort_queues(mq for share in allocation.values() for mq in share) == mq_all


@few
@given(st.sampled_from(["AVG", "AVG_BY_CIRCLE"]), queue_lists, client_sets)
def test_average_shares_differ_by_at_most_one(strategy, mq_set, cid_set):
    sizes = [len(share) for share in allocate(strategy, sort_queues(mq_set), sort_client_ids(cid_set)).values()]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@few
@given(queue_lists, client_sets, client_ids)
def test_a_client_that_leaves_a_hash_ring_moves_only_its_own_queues(mq_set, cid_set, leaving):
    mq_all = sort_queues(mq_set)
    before = allocate("CONSISTENT_HASH", mq_all, sort_client_ids(cid_set | {leaving}))
    after = allocate("CONSISTENT_HASH", mq_all, sort_client_ids(cid_set - {leaving}))
    for cid, kept in after.items():
        assert set(before[cid]) <= set(kept)
        assert set(kept) - set(before[cid]) <= set(before[leaving])


@few
@given(st.sampled_from(ANY_STRATEGY), any_queues, client_lists, st.sampled_from(KNOWN_PROFILES), charsets)
def test_allocate_answers_each_id_as_allocate_for_does(strategy, mq_all, cid_all, profile, charset):
    parameters = {**PARAMETERS, "profile": profile, "charset": charset}

    def own_answer(cid):
        return allocate_for(strategy, cid, mq_all, cid_all, **parameters)

    try:
        expected = {cid: own_answer(cid) for cid in cid_all}
    except AllocationError as error:
        expected = str(error)
    try:
        actual = allocate(strategy, mq_all, cid_all, **parameters)
    except AllocationError as error:
        actual = str(error)
    assert actual == expected
