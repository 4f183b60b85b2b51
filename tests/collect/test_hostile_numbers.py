"""Servers that claim a great many topics, members or brokers: a sweep ends in time, and each is asked in its turn."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.collect import collector as collector_module
from hindsight.jobs.collect.collector import Collector, Plan
from hindsight.jobs.collect.server import Manners
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import GROUP_ROUND, SNAPSHOT_CAPTURE
from tests.collect import virtual_time
from tests.collect.fake_servers import (
    CLUSTER,
    CONNECTIONS,
    GROUPS,
    INFO,
    ROUTE,
    STATUS,
    TOPICS,
    WHO,
    FakeCluster,
    FakeServer,
    collected,
    compact,
    lines_of,
)
from tests.pipeline.local_runs import OF_CONSUMERS, run_here

SUBSCRIPTION = {
    "topic": "Orders",
    "subString": "*",
    "tagsSet": [],
    "codeSet": [],
    "subVersion": 1,
    "expressionType": "TAG",
}


def many_topics(count):
    body = compact({"topicList": [f"topic-{n:07}" for n in range(count)]})
    return FakeCluster(brokers=("broker-a",), instead=lambda _, r: r.answer(body) if r.code == TOPICS else False)


def many_members(count):
    clients = [{"clientId": f"10.0.0.9@{n}", "clientAddr": "10.0.0.9:1", "language": "JAVA"} for n in range(count)]
    body = compact({"connectionSet": clients, "subscriptionTable": {}, "messageModel": "CLUSTERING"})
    return FakeCluster(
        brokers=("broker-a",),
        groups={"g": ("broker-a",)},
        instead=lambda _, r: r.answer(body) if r.code == CONNECTIONS else False,
    )


def many_silent_brokers(count):
    """All at one address, which takes connections and says nothing; broker-a is well."""
    cluster = FakeCluster(brokers=("broker-a",))

    def instead(_name, request):
        if request.code != CLUSTER:
            return False
        at = {f"silent-{n}": cluster.servers["silent"].address for n in range(count)}
        at["broker-a"] = cluster.servers["broker-a"].address
        table = {name: {"brokerName": name, "brokerAddrs": {"0": address}} for name, address in at.items()}
        return request.answer({"brokerAddrTable": table, "clusterAddrTable": {}})

    cluster.instead = instead
    return cluster


def serve(make, count, told):
    async def run():
        cluster, silent = make(count), FakeServer(lambda _: None)
        async with cluster.run(), silent.run():
            cluster.servers["silent"] = silent
            told.put(cluster.name_server)
            await asyncio.sleep(600)

    asyncio.run(run())


@contextmanager
def served(make, count):
    """The address of a name server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    process = context.Process(target=serve, args=(make, count, told), daemon=True)
    process.start()
    try:
        yield told.get(timeout=300)
    finally:
        process.kill()
        process.join()


FEW = [(many_topics, 20_000), (many_members, 10_000), (many_silent_brokers, 800)]
MANY = [(many_topics, 200_000), (many_members, 100_000), (many_silent_brokers, 5_000)]


@pytest.mark.parametrize(
    ("make", "count", "longest_s"),
    [(*few, 3) for few in FEW] + [pytest.param(*many, 110, marks=pytest.mark.soak) for many in MANY],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_sweep_is_bounded_in_time_memory_and_lines(make, count, longest_s, tmp_path, monkeypatch):
    monkeypatch.setattr(collector_module, "LONGEST_SWEEP_S", longest_s)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with served(make, count) as name_server:
        begun = time.monotonic()
        plan = Plan((name_server,), "c", tmp_path, rounds=1)
        lines = asyncio.run(collected(plan))
        seconds = time.monotonic() - begun
    left = {line.get("broker", "name server"): line for line in lines if line["kind"] == "notAsked"}
    end = lines[-1]
    assert seconds < longest_s * 1.1 + 2 and end["seconds"] < longest_s * 1.1 + 2
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 300 * 1024  # kB
    assert len(lines) < 500 * longest_s + 2 * count * (make is many_silent_brokers) + 10_100
    assert end["is_cut"] and end["left_out"] == sum(sum(line["questions"].values()) for line in left.values()) > 0
    assert len(left) == sum(line["kind"] == "notAsked" for line in lines)
    if make is not many_silent_brokers:
        assert len(left) <= 2
    # However many there are, the broker that is well is asked who consumes what.
    assert any(line["kind"] == "consumerConnection" and line["broker"] == "broker-a" for line in lines)


@pytest.mark.parametrize("stalled_s", [30, 60, 90])
def test_steps_behind_one_that_lasted_too_long_get_some_of_the_time(stalled_s, tmp_path):
    """A busy machine lets a step last longer than it may: the seconds go by while the brokers tell their groups."""
    stalls = [stalled_s]

    def instead(_name, request):
        if request.code == GROUPS and stalls:
            virtual_time.stall(stalls.pop())
        return False

    async def run():
        async with FakeCluster(instead=instead).run() as cluster:
            return await collected(Plan((cluster.name_server,), "c", tmp_path, rounds=1))

    lines = virtual_time.run(run())
    answered = Counter(line["kind"] for line in lines if not line.get("error"))
    behind = ("topicRoute", "topicStatus", "topicConsumeByWho", "consumerConnection", "consumerRunningInfo")
    assert all(answered[kind] >= 2 for kind in behind), answered


@pytest.mark.parametrize("per_second", [15, 20, 25, 37, 60])
def test_what_one_sweep_leaves_is_asked_in_the_next_ones(per_second, tmp_path, monkeypatch):
    """Topics, their details, and members of one group: each once before one is asked a third time."""
    monkeypatch.setattr(collector_module, "LONGEST_SWEEP_S", 1.0)
    topics = {f"topic-{n:03}": ("broker-a",) for n in range(40)}
    members = {"g": tuple(f"10.0.0.9@{n}" for n in range(60))}
    cluster = FakeCluster(brokers=("broker-a",), topics=topics, groups={"g": ("broker-a",)}, members=members)

    def asked(code, name):
        return [fields[name] for _, fields in cluster.asked(code) if fields[name] != "%RETRY%g"]

    def are_all_asked():
        return set(asked(INFO, "clientId")) == {*members["g"]} and set(asked(WHO, "topic")) == set(topics)

    async def run():
        async with cluster.run():
            manners = Manners(per_second=per_second)
            plan = Plan((cluster.name_server,), "c", tmp_path, rounds=200, every_s=0.1, manners=manners)
            collector = Collector(plan)
            collecting = asyncio.create_task(collector.run())
            while not (are_all_asked() or collecting.done()):
                await asyncio.sleep(0.2)
            collector.stop()
            collector.stop()
            await collecting
            return lines_of(plan)

    lines = virtual_time.run(run())
    assert are_all_asked()
    for code, name in ((ROUTE, "topic"), (STATUS, "topic"), (INFO, "clientId")):
        counts, before_a_third = Counter(), set()
        for subject in asked(code, name):
            counts[subject] += 1
            if counts[subject] == 3:
                break
            before_a_third.add(subject)
        assert len(before_a_third) == (60 if code == INFO else 40), code
    sweeps = sum(line["kind"] == "sweepEnd" for line in lines)
    assert sum(line["kind"] == "notAsked" for line in lines) <= 2 * sweeps


def test_of_a_server_that_is_left_alone_so_many_questions_have_a_line_and_the_rest_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("hindsight.jobs.collect.line_maker.MOST_UNSENT", 30)
    groups = {f"g{n:02}": ("broker-a", "broker-b") for n in range(60)}
    cluster = FakeCluster(groups=groups, members={}, instead=lambda name, r: name == "broker-b")

    async def run():
        async with cluster.run():
            return await collected(Plan((cluster.name_server,), "c", tmp_path, rounds=1, manners=Manners(0.2)))

    lines = virtual_time.run(run())
    of_dead = [line for line in lines if line.get("broker") == "broker-b" and line["kind"] != "notAsked"]
    (left,) = [line for line in lines if line["kind"] == "notAsked"]
    assert left["broker"] == "broker-b" and not lines[-1]["is_cut"]
    assert left["error"].startswith("not asked: of what cannot be asked ")
    assert sum("next try in" in line["error"] for line in of_dead) == 30
    asked = sum(line["kind"] == "consumeStats" and line["subject"] in groups for line in of_dead)
    assert asked + left["questions"]["consumeStats"] == len(groups)
    assert all(line["error"] is None for line in lines if line.get("broker") == "broker-a" and "stats" in line["kind"])


@pytest.fixture(scope="module")
def cut_landing(tmp_path_factory):
    """Two sweeps in which there was no time for running infos; the lists, routes and offsets are there.

    Recorded of it: tests/golden/captures/cut_sweeps.jsonl, of which Spark says the same (test_change_of_engine.py).
    """
    landing = tmp_path_factory.mktemp("cut")

    def instead(_name, request):
        if request.code == INFO:
            return True  # no answer
        if request.code == CONNECTIONS:
            clients = [{"clientId": f"10.0.0.{n}@c", "clientAddr": "10.0.0.9:1", "language": "JAVA"} for n in (1, 2)]
            of_group = {"subscriptionTable": {"Orders": SUBSCRIPTION}, "messageModel": "CLUSTERING"}
            return request.answer({"connectionSet": clients, **of_group})
        return False

    cluster = FakeCluster(instead=instead)

    async def run():
        async with cluster.run():
            return await collected(Plan((cluster.name_server,), "c", landing, rounds=2, every_s=0.1))

    def now_ms():
        return 1_795_252_800_000 + round(asyncio.get_running_loop().time() * 1000)  # 2026-11-21 09:20

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(collector_module, "LONGEST_SWEEP_S", 2.0)
        for module in ("collector", "line_maker"):
            patched.setattr(f"hindsight.jobs.collect.{module}.now_ms", now_ms)
        lines = virtual_time.run(run())
    left = [line for line in lines if line["kind"] == "notAsked"]
    assert len(left) >= 2 and not any(line["kind"] == "consumerRunningInfo" for line in lines)
    return landing


def test_a_round_without_what_was_not_asked_is_unknown_and_says_so(cut_landing, tmp_path):
    run_here(load_settings(None), cut_landing, tmp_path, OF_CONSUMERS)
    lake = LocalLake(str(tmp_path), retention_days=7)
    rounds = [row for row in lake.rows(GROUP_ROUND).to_pylist() if row["topic"] == "Orders"]
    assert [(row["consumer_group"], row["verdict"]) for row in rounds] == [("g", "unknown")] * 2
    assert all("running infos: not asked for: the sweep was cut" in row["missing_inputs"] for row in rounds)
    told = [row for row in lake.rows(SNAPSHOT_CAPTURE).to_pylist() if row["kind"] == "notAsked"]
    assert {row["broker_name"] for row in told} <= {"broker-a", "broker-b"} and told
    assert {(row["answered"], row["subject"]) for row in told} == {(False, "consumerRunningInfo")}
    assert {row["round_at"] for row in told} == {row["round_at"] for row in rounds}
