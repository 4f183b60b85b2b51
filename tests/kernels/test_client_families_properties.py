"""What holds for every group of one family: members share a topic out exactly; and the two entry points agree."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.allocation import AllocationError, allocate, allocate_for
from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.consumer.client_balance import queues_pulled, readable_queues
from hindsight.udfs.strategies.member_families import alternatives, own_strategy

few = settings(max_examples=60, deadline=None, database=None, derandomize=True)

names = st.text("ab1@～😀é中", min_size=1, max_size=4)
routes = st.dictionaries(names, st.integers(1, 5), min_size=1, max_size=4)
members = st.lists(names, min_size=1, max_size=6, unique=True)
SHARING = [
    (name, strategy)
    for name, family in CLIENT_FAMILIES.items()
    for strategy in ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY")
    if family.strategies == "go" or (family.strategies == "average" and strategy == "AVG")
]


def route(counts):
    return [{"brokerName": name, "readQueueNums": count, "perm": 6} for name, count in counts.items()]


@few
@given(st.sampled_from(SHARING), routes, members, st.randoms(use_true_random=False))
def test_members_of_one_family_pull_every_queue_exactly_once_in_whatever_order_servers_answer(how, counts, ids, rng):
    profile, strategy = how
    taken = Counter()
    for client_id in ids:
        queue_datas, listed = route(counts), [*ids]
        rng.shuffle(queue_datas)
        rng.shuffle(listed)
        given = {"topic": "T", "profile": profile, "virtual_node_count": 3}
        taken.update(queues_pulled(queue_datas, listed, client_id, strategy, **given))
    every = {(name, number) for name, count in counts.items() for number in range(count)}
    assert {(mq.broker_name, mq.queue_id): n for mq, n in taken.items()} == dict.fromkeys(every, 1)


@few
@given(
    st.sampled_from([f for f in CLIENT_FAMILIES if f != "R"]), routes, st.lists(names, max_size=5), st.integers(-1, 3)
)
def test_allocate_answers_each_id_as_allocate_for_does(profile, counts, ids, nodes):
    queues = readable_queues(route(counts), "T")
    for strategy in ("AVG", "CONSISTENT_HASH") if profile.startswith("G") else ("AVG",):
        parameters = {"profile": profile, "virtual_node_count": nodes}

        def told(answer):
            try:
                return answer()
            except AllocationError as error:
                return str(error)

        def own(cid, strategy=strategy, parameters=parameters):
            return allocate_for(strategy, cid, queues, ids, **parameters)

        everybody = told(lambda s=strategy, p=parameters: allocate(s, queues, ids, **p))
        one_by_one = {cid: told(lambda cid=cid: own(cid)) for cid in dict.fromkeys(ids)}
        refused = [answer for answer in one_by_one.values() if isinstance(answer, str)]
        assert everybody == (refused[0] if refused else one_by_one)


@few
@given(st.lists(st.sampled_from([f for f in CLIENT_FAMILIES if f != "R"]), min_size=1, max_size=5), routes, members)
def test_alternatives_stand_for_all_the_families_that_they_were_taken_from(families, counts, ids):
    def pulled(profile):
        try:
            name = own_strategy(profile, None)
            return queues_pulled(route(counts), ids, ids[0], name, topic="T", profile=profile)
        except AllocationError as error:
            return str(error)

    kept = alternatives("|".join(families))
    assert all(any(pulled(name) == pulled(other) for other in kept) for name in families)
