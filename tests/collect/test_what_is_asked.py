"""Which questions reach which server, and that nothing but reads ever does."""

from __future__ import annotations

import asyncio
from collections import Counter

from hindsight.jobs.collect import collector as collector_module
from hindsight.jobs.collect.cluster_view import Wanted
from hindsight.jobs.collect.collector import Collector, Plan
from hindsight.jobs.collect.questions import READS
from hindsight.jobs.collect.server import Manners
from hindsight.udfs.values.message_queues import REVIVE_GROUP
from tests.collect import virtual_time
from tests.collect.fake_servers import (
    CLUSTER,
    CONFIG,
    CONNECTIONS,
    GROUPS,
    IDS,
    INFO,
    MODES,
    PRODUCERS,
    ROUTE,
    STATS,
    STATUS,
    TOPICS,
    WHO,
    FakeCluster,
    FakeServer,
    collected,
    lines_of,
)


def sweep(cluster: FakeCluster, tmp_path, **more):
    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path, **{"rounds": 1, **more})
            return await collected(plan)

    return virtual_time.run(run())


def test_only_these_codes_can_be_asked_and_all_of_them_are_reads():
    assert {kind: read.code for kind, read in READS.items()} == {
        "clusterInfo": 106,
        "topicList": 206,
        "topicRoute": 105,
        "subscriptionGroups": 201,
        "messageRequestModes": 402,
        "brokerConfig": 26,
        "brokerRuntimeInfo": 28,
        "brokerHaStatus": 907,
        "topicConfig": 351,
        "topicConsumeByWho": 300,
        "topicStatus": 202,
        "consumerConnection": 203,
        "consumerIdList": 38,
        "consumeStats": 208,
        "consumerRunningInfo": 307,
        "producerConnection": 204,
    }


OF_BROKER = "subscriptionGroups", "messageRequestModes", "brokerConfig", "brokerRuntimeInfo"


def test_each_question_is_a_line_that_names_who_was_asked(tmp_path):
    cluster = FakeCluster()
    lines = sweep(cluster, tmp_path, wanted=Wanted(producers=("pg@Orders",)))
    assert (lines[0]["kind"], lines[0]["round"], lines[-1]["kind"]) == ("round", 0, "sweepEnd")
    told = Counter((line["kind"], line.get("broker", "name server"), line["subject"]) for line in lines[1:-1])
    each = ("broker-a", "broker-b")
    infos = {key: n for key, n in told.items() if key[0] == "consumerRunningInfo"}
    assert Counter({(kind, subject): n for (kind, _, subject), n in infos.items()}) == {
        ("consumerRunningInfo", "g|10.0.0.1@c1"): 1,
        ("consumerRunningInfo", "g|10.0.0.2@c2"): 1,
    }
    assert told - Counter(infos) == Counter(
        [("clusterInfo", "name server", ""), ("topicList", "name server", "")]
        + [("topicRoute", "name server", topic) for topic in ("Orders", "%RETRY%g")]
        + [(kind, b, "") for kind in (*OF_BROKER, "brokerHaStatus") for b in each]
        + [("consumeStats", broker, "CID_RMQ_SYS_REVIVE_GROUP") for broker in each]
        + [(kind, b, "Orders") for kind in ("topicStatus", "topicConfig", "topicConsumeByWho") for b in each]
        + [(kind, b, "g") for kind in ("consumerConnection", "consumerIdList", "consumeStats") for b in each]
        + [("producerConnection", broker, "pg@Orders") for broker in each]
    )
    assert {line["name_server"] for line in lines if "name_server" in line} == {cluster.name_server}
    assert all(line["error"] is None and line["ts"] <= line["ts_end"] for line in lines[1:-1])


def test_servers_are_sent_nothing_but_what_the_list_holds(tmp_path):
    cluster = FakeCluster()
    sweep(cluster, tmp_path, wanted=Wanted(producers=("pg",)), rounds=2, every_s=0.05, details_every_s=0)
    requests = [request for server in cluster.servers.values() for request in server.requests]
    assert {request.code for request in requests} == {read.code for read in READS.values()}
    assert {request.header["flag"] for request in requests} == {0}
    assert cluster.asked(CONFIG)[0][1] == {"topic": "Orders", "lo": "true"}
    assert cluster.asked(INFO)[0][1].keys() == {"consumerGroup", "clientId", "jstackEnable"}
    assert {fields["jstackEnable"] for _, fields in cluster.asked(INFO)} == {"false"}
    assert cluster.asked(PRODUCERS) == [
        (b, {"producerGroup": "pg"}) for b in ("broker-a", "broker-b") for _ in range(2)
    ]


def test_a_server_has_one_connection_and_a_bounded_number_of_questions_at_once(tmp_path):
    async def slowly(_name, request):
        await asyncio.sleep(0.002)
        request.answer({"connectionSet": []})

    groups = {f"g{n}": ("broker-a", "broker-b") for n in range(40)}
    cluster = FakeCluster(
        groups=groups, instead=lambda name, r: slowly(name, r) if r.code in (CONNECTIONS, IDS, STATS) else False
    )
    sweep(cluster, tmp_path, manners=Manners(in_flight=3))
    assert [server.connections for server in cluster.servers.values()] == [1, 1, 1]
    assert [cluster.servers[name].most_at_once for name in cluster.brokers] == [3, 3]


def test_a_server_is_asked_no_faster_than_the_rate(tmp_path):
    cluster = FakeCluster(brokers=("broker-a",), groups={f"g{n}": ("broker-a",) for n in range(100)})
    (end,) = [line for line in sweep(cluster, tmp_path, manners=Manners(per_second=100)) if line["kind"] == "sweepEnd"]
    asked = len(cluster.servers["broker-a"].requests)
    # A second's worth may be made up for, then it is the rate's turn.
    assert (asked - 100) / 100 - 0.05 <= end["seconds"] <= (asked - 100) / 100 + 3
    assert end["requests"] == sum(len(server.requests) for server in cluster.servers.values())
    assert abs(end["requests_per_second"] - end["requests"] / end["seconds"]) < 1


def test_of_a_brokers_settings_only_what_hands_out_queues_is_written(tmp_path):
    lines = sweep(FakeCluster(), tmp_path)
    raws = {line["raw"] for line in lines if line["kind"] == "brokerConfig"}
    assert raws == {'{"defaultMessageRequestMode":"PULL","defaultPopShareQueueNum":"-1"}'}
    raws = {line["raw"] for line in lines if line["kind"] == "brokerRuntimeInfo"}
    assert raws == {'{"table":{"scheduleMessageOffset_3":"5,9"}}'}
    assert "secret" not in str(lines)


def test_modes_of_handing_out_are_read_in_each_sweep_and_what_else_changes_seldom_is_not(tmp_path):
    lines = sweep(FakeCluster(), tmp_path, rounds=3, every_s=0.05, details_every_s=3_600)
    told = Counter((line["kind"], line["broker"]) for line in lines if line["kind"] in (*OF_BROKER, "brokerHaStatus"))
    often = Counter({("messageRequestModes", broker): 2 for broker in ("broker-a", "broker-b")})
    assert told == Counter((kind, broker) for kind, broker in told) + often


def test_a_broker_without_pop_is_asked_for_no_revives(tmp_path):
    def instead(name, request):
        if name == "broker-a" and request.code == MODES:
            return request.answer(code=3, remark=" request type 402 not supported")
        return False

    cluster = FakeCluster(instead=instead)
    sweep(cluster, tmp_path, rounds=2, every_s=0.01, details_every_s=0)
    revives = [name for name, fields in cluster.asked(STATS) if fields["consumerGroup"] == REVIVE_GROUP]
    assert revives == ["broker-b"] * 2


def test_what_a_group_popped_in_vain_is_counted_where_it_comes_back(tmp_path):
    topics = {"Orders": ("broker-a", "broker-b"), "%RETRY%g+Orders": ("broker-b",)}
    cluster = FakeCluster(topics=topics)
    sweep(cluster, tmp_path)
    asked = sorted((name, fields["topic"]) for name, fields in cluster.asked(STATUS))
    assert asked == [("broker-a", "Orders"), ("broker-b", "%RETRY%g+Orders"), ("broker-b", "Orders")]


def test_a_group_is_asked_for_where_it_is_known(tmp_path):
    """By its configuration (201), its retry topic's route (105), or its offsets of a topic (300); else nowhere."""

    def instead(name, request):
        if request.code == WHO and name == "broker-b":
            return request.answer({"groupList": ["g_by_offsets"]})
        if request.code == GROUPS:
            own = ["g_by_config"] if name == "broker-a" else []
            return request.answer({"subscriptionGroupTable": {g: {} for g in own}})
        return False

    cluster = FakeCluster(groups={"g_by_retry": ("broker-b",)}, members={}, instead=instead)
    sweep(cluster, tmp_path)
    assert sorted((name, fields["consumerGroup"]) for name, fields in cluster.asked(CONNECTIONS)) == [
        ("broker-a", "g_by_config"),
        ("broker-b", "g_by_offsets"),
        ("broker-b", "g_by_retry"),
    ]


def test_a_group_that_is_named_and_known_nowhere_is_asked_for_everywhere(tmp_path):
    cluster = FakeCluster(groups={"g": ("broker-a",), "h": ("broker-a",)})
    lines = sweep(cluster, tmp_path, wanted=Wanted(groups=("g", "g_never")))
    assert sorted((name, fields["consumerGroup"]) for name, fields in cluster.asked(CONNECTIONS)) == [
        ("broker-a", "g"),
        ("broker-a", "g_never"),
        ("broker-b", "g_never"),
    ]
    assert [fields["topic"] for fields in cluster.servers[""].asked(ROUTE)] == ["Orders", "%RETRY%g"]
    errors = {
        line["error"] for line in lines if line.get("subject") == "g_never" and line["kind"] == "consumerConnection"
    }
    assert errors == {
        "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 206  DESC: the consumer group[g_never] not "
        f"online BROKER: {cluster.servers[broker].address}"
        for broker in cluster.brokers
    }


def test_what_changes_seldom_is_asked_for_seldom_and_of_a_new_broker_at_once(tmp_path):
    cluster = FakeCluster(brokers=("broker-a",), topics={"Orders": ("broker-a", "broker-b")})

    async def run():
        async with cluster.run():
            later = FakeServer(lambda request: cluster._answer("broker-b", request))
            async with later.run():
                plan = Plan((cluster.name_server,), "c", tmp_path, every_s=0.4, rounds=4)
                task = asyncio.create_task(Collector(plan).run())
                await asyncio.sleep(0.6)
                cluster.servers["broker-b"] = later
                await task

    virtual_time.run(run())
    asked = Counter((name, code) for code in (GROUPS, STATUS, CLUSTER, TOPICS) for name, _ in cluster.asked(code))
    assert asked == {
        ("broker-a", GROUPS): 1,
        ("broker-b", GROUPS): 1,
        ("broker-a", STATUS): 4,
        ("broker-b", STATUS): 2,
        ("", CLUSTER): 4,
        ("", TOPICS): 4,
    }


def test_a_sweep_without_end_is_cut_and_the_next_begins_with_what_it_left(tmp_path, monkeypatch):
    monkeypatch.setattr(collector_module, "LONGEST_SWEEP_S", 0.6)

    async def slowly(request):
        await asyncio.sleep(0.05)
        request.answer({"connectionSet": []})

    groups = {f"g{n:02}": ("broker-a",) for n in range(15)}
    cluster = FakeCluster(
        brokers=("broker-a",), groups=groups, instead=lambda _name, r: slowly(r) if r.code == CONNECTIONS else False
    )
    lines = sweep(cluster, tmp_path, rounds=3, every_s=0.2, manners=Manners(in_flight=1))
    ends = [line for line in lines if line["kind"] == "sweepEnd"]
    assert [(end["is_cut"], end["seconds"] < 1.0) for end in ends] == [(True, True)] * 3
    asked = [fields["consumerGroup"] for _, fields in cluster.asked(CONNECTIONS)]
    assert asked[0] == "g00" and set(asked[:20]) == set(groups)  # each is asked before one is asked a third time
    told = [line for line in lines if line["kind"] == "consumerConnection"]
    left = [line for line in lines if line["kind"] == "notAsked"]
    assert [line["broker"] for line in left] == ["broker-a"] * 3
    assert {line["error"].partition(" (")[0] for line in left} == {"not asked: a sweep is cut after 1 s"}
    assert len(told) + sum(line["questions"]["consumerConnection"] for line in left) == 3 * len(groups)
    assert [sum(line["questions"].values()) for line in left] == [end["left_out"] for end in ends]


def test_name_servers_are_asked_each_and_their_brokers_joined(tmp_path):
    one, other = FakeCluster(brokers=("broker-a",)), FakeCluster(brokers=("broker-b",), topics={"Other": ("broker-b",)})

    async def run():
        async with one.run(), other.run():
            return await collected(Plan((one.name_server, other.name_server), "c", tmp_path, rounds=1))

    lines = virtual_time.run(run())
    routes = {(line["name_server"], line["subject"]) for line in lines if line["kind"] == "topicRoute"}
    topics = ("Orders", "Other", "%RETRY%g")
    assert routes == {(server, topic) for server in (one.name_server, other.name_server) for topic in topics}
    assert {line["broker"] for line in lines if line["kind"] == "consumerConnection"} == {"broker-a", "broker-b"}


def test_a_broker_that_died_is_told_of_though_no_name_server_lists_it_any_more(tmp_path):
    cluster = FakeCluster()

    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path, every_s=0.5, rounds=2)
            task = asyncio.create_task(Collector(plan).run())
            await asyncio.sleep(0.3)
            gone = cluster.servers.pop("broker-b")
            gone.answer = lambda request: request.writer.transport.abort()
            gone.drop_connections()
            await task
            return lines_of(plan)

    lines = virtual_time.run(run())
    second = lines[[i for i, line in enumerate(lines) if line["kind"] == "round"][1] :]
    told = [line for line in second if line.get("broker") == "broker-b"]
    assert {line["kind"] for line in told} >= {"consumerConnection", "consumerIdList", "consumeStats"}
    assert all(line["error"] for line in told)
