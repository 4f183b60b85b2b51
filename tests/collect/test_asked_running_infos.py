"""Running infos: one client at a time per broker, by a broker that lists it; silent ones are left out for a while."""

from __future__ import annotations

import asyncio

import pytest

from hindsight.jobs.collect import running_infos
from hindsight.jobs.collect.collector import Collector, Plan
from hindsight.jobs.collect.server import Manners
from tests.collect import virtual_time
from tests.collect.fake_servers import CONNECTIONS, INFO, FakeCluster, lines_of

QUICK = Manners(timeout_s=0.2)


@pytest.fixture
def quick_brokers(monkeypatch):
    """A broker waits 0.6 s for a client, and silent ones are left out for 1.5 s."""
    monkeypatch.setattr(running_infos, "_BROKER_WAITS_S", 0.6)
    monkeypatch.setattr(running_infos, "_MARGIN_S", 0.1)
    monkeypatch.setattr(running_infos, "LEFT_OUT_S", 1.5)


class Clients:
    """Answers 307 in a broker's place, after a while; what brokers hold at once is counted until they let go."""

    def __init__(self, silent=(), takes_s=0.01, waits_s=0.6):
        self.silent = set(silent)
        self.held = {"broker-a": 0, "broker-b": 0}
        self.most = dict(self.held)
        self._takes_s = takes_s
        self._waits_s = waits_s

    def __call__(self, name, request):
        return self._relay(name, request) if request.code == INFO else False

    async def _relay(self, name, request):
        self.held[name] += 1
        self.most[name] = max(self.most[name], self.held[name])
        is_silent = request.fields["clientId"] in self.silent
        await asyncio.sleep(self._waits_s if is_silent else self._takes_s)
        self.held[name] -= 1
        if is_silent:
            request.answer(code=207, remark="consumer Timeout")
        else:
            request.answer({"mqTable": {}, "properties": {}})


def collect(cluster, tmp_path, rounds=1, meanwhile=None, within_s=60.0, **more):
    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path, rounds=rounds, manners=QUICK, **more)
            both = [Collector(plan).run()] + ([meanwhile()] if meanwhile else [])
            async with asyncio.timeout(within_s):
                await asyncio.gather(*both)
            return lines_of(plan)

    lines = virtual_time.run(run())
    ends = [i for i, line in enumerate(lines) if line["kind"] == "sweepEnd"]
    return [lines[a + 1 : b] for a, b in zip([-1, *ends], ends, strict=False)]


def infos(lines):
    found = {line["subject"].split("|")[1]: line["error"] for line in lines if line["kind"] == "consumerRunningInfo"}
    assert len(found) == sum(line["kind"] == "consumerRunningInfo" for line in lines)
    return found


def test_a_broker_is_asked_for_one_client_at_a_time_and_brokers_share_the_work(tmp_path):
    clients = Clients()
    cluster = FakeCluster(members={"g": tuple(f"c{n}" for n in range(20))}, instead=clients)
    (lines,) = collect(cluster, tmp_path)
    assert infos(lines) == {f"c{n}": None for n in range(20)}
    assert clients.most == {"broker-a": 1, "broker-b": 1}
    asked = [name for name, _ in cluster.asked(INFO)]
    assert min(asked.count("broker-a"), asked.count("broker-b")) >= 5


def test_a_client_is_asked_for_through_a_broker_that_lists_it(tmp_path):
    def instead(name, request):
        if request.code != CONNECTIONS:
            return False
        return request.answer({"connectionSet": [{"clientId": f"at-{name}"}]})

    cluster = FakeCluster(instead=instead)
    (lines,) = collect(cluster, tmp_path)
    assert infos(lines).keys() == {"at-broker-a", "at-broker-b"}
    assert {(name, fields["clientId"]) for name, fields in cluster.asked(INFO)} == {
        (broker, f"at-{broker}") for broker in cluster.brokers
    }
    told = {line["broker"]: line["subject"] for line in lines if line["kind"] == "consumerRunningInfo"}
    assert told == {broker: f"g|at-{broker}" for broker in cluster.brokers}


def test_a_silent_client_holds_its_broker_s_lane_as_long_as_the_broker_waits(tmp_path, quick_brokers):
    """Its line comes with the time-out; the others are asked for by the other broker, or when the thread is free."""
    clients = Clients(silent=["c0", "c1"])
    cluster = FakeCluster(members={"g": tuple(f"c{n}" for n in range(8))}, instead=clients)
    (lines,) = collect(cluster, tmp_path, within_s=4)
    told = infos(lines)
    assert {c for c, error in told.items() if error} == {"c0", "c1"}
    assert "timeout, 200(ms)" in told["c0"] and "timeout, 200(ms)" in told["c1"]
    assert clients.most == {"broker-a": 1, "broker-b": 1}


def test_a_sweep_does_not_wait_for_a_thread_that_nobody_needs(tmp_path, quick_brokers):
    clients = Clients(silent=["c0"], waits_s=30)
    cluster = FakeCluster(members={"g": ("c0",)}, instead=clients)
    (lines,) = collect(cluster, tmp_path)
    assert "timeout, 200(ms)" in infos(lines)["c0"]
    assert sum(clients.held.values()) == 1  # when the sweep ends


def test_clients_that_wait_for_a_held_broker_are_taken_over_by_another(tmp_path, quick_brokers, monkeypatch):
    monkeypatch.setattr(running_infos, "_BROKER_WAITS_S", 30.0)
    cluster = FakeCluster(members={"g": ("c0", *(f"c{n}" for n in range(1, 9)))}, instead=Clients(["c0"], waits_s=30))
    (lines,) = collect(cluster, tmp_path, within_s=3)
    assert {c for c, error in infos(lines).items() if error} == {"c0"}


def test_clients_that_answer_again_are_asked_for_in_every_sweep_as_before(tmp_path, quick_brokers, monkeypatch):
    monkeypatch.setattr(running_infos, "LEFT_OUT_S", 0.05)
    monkeypatch.setattr(running_infos, "_BROKER_WAITS_S", 0.25)
    clients = Clients(["c0", "c1"], waits_s=0.25)
    cluster = FakeCluster(brokers=("broker-a",), groups={"g": ("broker-a",)}, instead=clients)
    cluster.topics, cluster.members = {}, {"g": ("c0", "c1")}

    async def answer_again():
        await asyncio.sleep(0.8)
        clients.silent.clear()

    sweeps = collect(cluster, tmp_path, rounds=5, every_s=1.0, meanwhile=answer_again)
    answered = [sum(error is None for error in infos(lines).values()) for lines in sweeps]
    assert answered == [0, 1, 2, 2, 2]


def test_a_silent_client_is_left_out_for_a_while_and_told_of_in_each_sweep(tmp_path, quick_brokers):
    clients = Clients(silent=["c0"])
    cluster = FakeCluster(brokers=("broker-a",), groups={"g": ("broker-a",)}, instead=clients)
    cluster.topics, cluster.members = {}, {"g": ("c0", "c1")}

    async def answers_again():
        await asyncio.sleep(0.9)
        clients.silent.clear()

    sweeps = collect(cluster, tmp_path, rounds=7, every_s=0.5, meanwhile=answers_again)
    told = [infos(lines) for lines in sweeps]
    assert [one["c1"] for one in told] == [None] * 7
    kinds = [
        "answers" if e is None else "left out" if e.startswith("not asked: ") else "silent"
        for e in (t["c0"] for t in told)
    ]
    asked = sum(fields["clientId"] == "c0" for _, fields in cluster.asked(INFO))
    assert kinds[0] == "silent" and kinds[-1] == "answers"
    assert kinds[1:3] == ["left out", "left out"]
    assert "timeout, 200(ms)" in told[1]["c0"]
    assert asked == kinds.count("silent") + kinds.count("answers")


def test_of_known_silent_clients_a_broker_is_asked_for_one_a_sweep(tmp_path, quick_brokers, monkeypatch):
    monkeypatch.setattr(running_infos, "LEFT_OUT_S", 0.05)
    monkeypatch.setattr(running_infos, "_BROKER_WAITS_S", 0.25)
    silent = [f"c{n}" for n in range(4)]
    clients = Clients(silent=silent, waits_s=0.25)
    cluster = FakeCluster(brokers=("broker-a",), groups={"g": ("broker-a",)}, instead=clients)
    cluster.topics, cluster.members = {}, {"g": tuple(silent)}
    first, *later = collect(cluster, tmp_path, rounds=4, every_s=0.9)
    assert [e.startswith("not asked") for e in infos(first).values()] == [False] * 4
    for lines in later:
        assert sorted(e.startswith("not asked") for e in infos(lines).values()) == [False, True, True, True]


def test_a_client_that_left_is_forgotten(tmp_path, quick_brokers):
    async def run():
        silent = running_infos.SilentClients({("g", "c0"): 1.0, ("g", "c1"): 1.0}, {("g", "c0"): "why"}, {"a:1": 2.0})
        silent.forget_all_but([("g", "c1")], [])
        assert (silent.until, silent.why, silent.thread_free_at) == ({("g", "c1"): 1.0}, {}, {})

    virtual_time.run(run())


CHANNEL_FAILS = (
    "invoke consumer <g> <c0> Exception: org.apache.rocketmq.remoting.exception.RemotingSendRequestException"
)


@pytest.mark.parametrize("dead", [("broker-a",), ("broker-b",), ("broker-a", "broker-b")])
def test_a_client_that_a_broker_does_not_reach_is_asked_for_through_the_others_that_list_it(tmp_path, dead):
    def instead(name, request):
        if request.code != INFO:
            return False
        if name in dead and request.fields["clientId"] == "c0":
            return request.answer(code=1, remark=CHANNEL_FAILS)
        return request.answer({"mqTable": {}, "properties": {}})

    (lines,) = collect(FakeCluster(members={"g": ("c0", "c1")}, instead=instead), tmp_path)
    told = {(line["subject"], line["broker"]): line["error"] for line in lines if line["kind"] == "consumerRunningInfo"}
    of_c0 = {broker: error for (subject, broker), error in told.items() if subject == "g|c0"}
    assert {broker for broker, error in of_c0.items() if error} <= set(dead)
    # Through each of them, if need be; and no further than to who answers.
    assert (None in of_c0.values()) == (len(dead) == 1) and (len(dead) == 1 or len(of_c0) == 2)
    assert sum(subject == "g|c1" for subject, _ in told) == 1
