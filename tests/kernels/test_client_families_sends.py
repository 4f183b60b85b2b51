"""Selectors, publish tables, balancers and whole sends of Go, C++ and gRPC clients versus what their own code did."""

import itertools

import pytest

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.turns.turn_rules import publish_queues
from hindsight.udfs.values.message_queues import MessageQueue
from tests.kernels.family_vectors import FOLDERS, profile_of, rows_of, vector_files
from tests.turns.cpp_publish import PublishTable
from tests.turns.family_sends import cpp_send, go_send
from tests.turns.go_selectors import RoundRobin, place_by_hash
from tests.turns.grpc_balancer import GrpcBalancer, siphash24


def named(path):
    return path.name


def queues_of(pairs, topic="T"):
    return [MessageQueue(topic, broker, queue_id) for broker, queue_id in pairs]


def scenarios(path):
    """Init row and steps of each scenario."""
    for _, rows in itertools.groupby(rows_of(path), key=lambda row: row["scenario"]):
        init, *steps = rows
        assert init["type"] == "init"
        yield init, steps


@pytest.mark.parametrize("path", vector_files("select_go"), ids=named)
def test_selectors_take_the_queues_that_gos_own_took(path):
    different, steps_seen = [], 0
    for init, steps in scenarios(path):
        selector = RoundRobin(profile_of(init))
        for step in steps:
            queues = queues_of(step["mq_list"], step["topic"])
            if init["selector"] == "hash":
                place = place_by_hash(step["shardingKey"], len(queues))
            else:
                place = selector.select(step["topic"], queues, step.get("last", ""))
            steps_seen += 1
            if place != step["pos"]:
                different.append((step, place))
    assert steps_seen
    assert different == []


@pytest.mark.parametrize("path", vector_files("send_go"), ids=named)
def test_go_producers_send_as_the_real_ones_did(path):
    rows = rows_of(path)
    different = []
    for row in rows:
        profile = profile_of(row)
        queues = publish_queues(row["queueDatas"], topic=row["topic"], profile=profile)
        selector = RoundRobin(profile)
        for send in row["sends"]:
            attempts, deliver = recorder(send)
            status = go_send(selector, queues, deliver, profile=profile, retries=row["retries"], mode=row["mode"])
            different += differences(send, attempts, status)
    assert rows
    assert different == []


@pytest.mark.parametrize("path", vector_files("send_cpp"), ids=named)
def test_cpp_producers_send_as_the_real_ones_did(path):
    rows = rows_of(path)
    different = []
    for row in rows:
        table = PublishTable(publish_queues(row["queueDatas"], topic=row["topic"], profile=profile_of(row)))
        for send in row["sends"]:
            attempts, deliver = recorder(send)
            status = cpp_send(table, deliver, attempts=1 + row["retries"], active=row["active"])
            different += differences(send, attempts, status)
    assert rows
    assert different == []


def recorder(send):
    """What was sent where, and the function that answers as the scripted broker did."""
    attempts, answers = [], iter(send["attempts"])

    def deliver(queue):
        attempts.append((queue.broker_name, queue.queue_id))
        answer = next(answers, {"answer": 0})["answer"]
        return None if answer == "close" else answer

    return attempts, deliver


def differences(send, attempts, status):
    expected = [(attempt["broker"], attempt["queueId"]) for attempt in send["attempts"]]
    result = "error" if status is None else str(status)
    return [] if (attempts, result) == (expected, send["result"]) else [(send, attempts, result)]


@pytest.mark.parametrize("path", vector_files("publish_cpp"), ids=named)
def test_cpps_publish_table_moves_as_the_real_one_did(path):
    different, steps_seen = [], 0
    for init, steps in scenarios(path):
        table = PublishTable(queues_of(init["mq_list"]))
        for step in steps:
            steps_seen += 1
            expected = step["non_service"]
            if step["op"] == "resume":
                table.resume(step["now"])
                found = table.non_service
            else:
                before = table.which
                queue, index = table.select(step["index_in"], step["last"], active=init["active"])
                if queue is not None and init["active"] and step["outcome"] != "ok":
                    table.fail(queue, step["now"])
                place = None if queue is None else (queue.broker_name, queue.queue_id)
                found = [before, place, index, table.which, table.non_service]
                given = None if step["queueId"] < 0 else (step["broker"], step["queueId"])
                expected = [step["which_before"], given, step["index_out"], step["which_after"], expected]
            if found != expected:
                different.append((step, found))
    assert steps_seen
    assert different == []


@pytest.mark.parametrize("path", vector_files("publish_grpc"), ids=named)
def test_grpc_producers_have_the_candidates_of_the_real_ones(path):
    different, steps_seen = [], 0
    for init, steps in scenarios(path):
        balancer = GrpcBalancer(init["version"], queues_of(init["mq_list"]), init["endpoints"])
        for step in steps:
            steps_seen += 1
            if step["op"] == "take":
                candidates = balancer.take(step["count"], step["isolated"])
            else:
                candidates = [balancer.of_group(step["message_group"])]
            if candidates != step["candidates"]:
                different.append((step, candidates))
    assert steps_seen
    assert different == []


@pytest.mark.parametrize("kind", ["select_go", "send_go", "send_cpp", "publish_cpp", "publish_grpc"])
def test_every_folder_holds_vectors_of_each_kind(kind):
    assert {path.parent for path in vector_files(kind)} == set(FOLDERS)


ROUTE = [
    {"brokerName": "broker-b", "writeQueueNums": 1, "perm": 6},
    {"brokerName": "broker-a", "writeQueueNums": 9, "perm": 4},
    {"brokerName": "broker-c", "writeQueueNums": 1, "perm": 2},
]


@pytest.mark.parametrize(
    ("profile", "brokers"),
    [("G1", "cb"), ("G2", "cb"), ("G3", "bc"), ("G4", "cb"), ("G5", "bc"), ("G6", "bc"), ("G7", "bc"), ("C1", "bc")],
)
def test_each_family_counts_brokers_in_its_own_order(profile, brokers):
    listed = publish_queues(ROUTE, topic="T", profile=profile)
    assert [mq.broker_name for mq in listed] == [f"broker-{letter}" for letter in brokers]
    by_name = publish_queues(ROUTE[::-1], topic="T", profile=profile)
    expected = brokers if CLIENT_FAMILIES[profile].publish_order == "by_name" else brokers[::-1]
    assert [mq.broker_name for mq in by_name] == [f"broker-{letter}" for letter in expected]


def test_a_broker_without_a_master_is_not_sent_to():
    assert publish_queues(ROUTE, topic="T", profile="C1", masters={"broker-c"}) == [MessageQueue("T", "broker-c", 0)]


def test_only_master_of_go_and_cpp_read_the_order_of_an_ordered_topic():
    listed = {p: publish_queues(ROUTE, topic="T", profile=p, order_topic_conf="broker-z:2") for p in ("G6", "G7", "C0")}
    assert listed["G7"] == listed["C0"] == queues_of([("broker-z", 0), ("broker-z", 1)])
    assert [mq.broker_name for mq in listed["G6"]] == ["broker-b", "broker-c"]


def test_an_order_that_nobody_has_seen_is_not_made_up():
    long = [{"brokerName": f"b{i:02}", "writeQueueNums": 1, "perm": 6} for i in range(13)]
    assert publish_queues(ROUTE, topic="T", profile="G0") is None
    assert publish_queues(long, topic="T", profile="G2") is None
    assert len(publish_queues(long[:12], topic="T", profile="G2")) == 12
    assert (
        len(publish_queues(long, topic="T", profile="G7")) == len(publish_queues(long, topic="T", profile="C1")) == 13
    )


@pytest.mark.parametrize(("profile", "turns_at", "places"), [("G2", 2**31, [1, 2, 1]), ("G3", 2**32, [0, 0, 1])])
def test_a_counter_that_runs_over_begins_anew(profile, turns_at, places):
    selector = RoundRobin(profile)
    selector._counts["T"] = turns_at - 2
    queues = queues_of([("a", 0), ("a", 1), ("a", 2)])
    assert [selector.select("T", queues) for _ in range(3)] == places


def test_oneway_sends_of_2_1_2_leave_out_the_broker_that_failed_and_sync_ones_do_not():
    queues = queues_of([("a", 0), ("b", 0), ("b", 1), ("b", 2)])

    def brokers(mode, profile):
        seen = []
        go_send(
            RoundRobin(profile), queues, lambda q: seen.append(q.broker_name), profile=profile, retries=1, mode=mode
        )
        return seen

    assert brokers("ONEWAY", "G6") == ["b", "a"] and brokers("SYNC", "G6") == ["b", "b"]
    assert brokers("SYNC", "G7") == ["b", "a"] and brokers("ONEWAY", "G5") == ["b", "b"]
    assert brokers("ASYNC", "G7") == ["b"]


def test_cpps_queues_10_of_a_and_0_of_a1_share_their_place_among_the_failed():
    table = PublishTable(queues_of([("a", 10), ("a1", 0), ("b", 0)]))
    table.fail(table.queues[0], 0)
    assert table.non_service == ["a10"]
    assert table.select(0, active=True) == (MessageQueue("T", "b", 0), 2)


def test_the_hashes_are_the_published_ones():
    assert siphash24(b"group-1") == 12609611073123188810
    assert place_by_hash("order-17", 8) == 6
