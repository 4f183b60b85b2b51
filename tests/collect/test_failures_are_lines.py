"""Whatever a server does instead of answering: a line that says so, in time, and the others as ever."""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hindsight.jobs.collect import server as server_module
from hindsight.jobs.collect.cluster_view import Wanted
from hindsight.jobs.collect.collector import Collector, Plan, run_collector
from hindsight.jobs.collect.failures import CollectError, NoAnswerError
from hindsight.jobs.collect.server import Manners
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.lines.bounded_lines import read_lines
from tests.collect import virtual_time
from tests.collect.fake_servers import (
    CLUSTER,
    CONFIG,
    CONNECTIONS,
    GROUPS,
    IDS,
    INFO,
    ROUTE,
    STATS,
    STATUS,
    TOPICS,
    WHO,
    FakeCluster,
    collected,
    frame_of,
    lines_of,
)

CLIENT, REMOTING = "org.apache.rocketmq.client.exception", "org.apache.rocketmq.remoting.exception"
QUICK = Manners(timeout_s=0.3)
ONE_BY_ONE = Manners(timeout_s=0.3, in_flight=1)


def sweep(instead, tmp_path, *, manners=ONE_BY_ONE, **more):
    """The lines of a sweep over two brokers; ``instead`` answers the members' question at broker-b."""
    cluster = FakeCluster(
        instead=lambda name, r: instead(r) if (name, r.code) == ("broker-b", CONNECTIONS) else False, **more
    )

    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path, rounds=1, manners=manners)
            async with asyncio.timeout(8):
                return cluster, await collected(plan)

    return virtual_time.run(run())


def of_members(lines):
    """By broker the one line about members."""
    found = {line["broker"]: line for line in lines if line["kind"] == "consumerConnection"}
    assert len(found) == sum(line["kind"] == "consumerConnection" for line in lines)
    return found


def nothing(_request):
    return True


def body(text: bytes):
    return lambda request: request.answer(text)


def sent(make):
    return lambda request: request.send(make(request))


def close(request):
    request.writer.transport.abort()


def half_then_close(request):
    request.send(request.frame({"connectionSet": []})[:-5])
    request.writer.close()


async def drip(request):
    for byte in request.frame({"connectionSet": []}):
        request.send(bytes([byte]))
        await asyncio.sleep(0.05)


def is_about(error, *words):
    return all(word in error for word in words)


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        (
            lambda r: r.answer(code=1, remark="why not\nSee FAQ"),
            ("MQBrokerException: CODE: 1  DESC: why not BROKER: 127.",),
        ),
        (lambda r: r.answer(code=-3), ("MQBrokerException: CODE: -3  DESC:  BROKER: 127.",)),
        (nothing, ("RemotingTimeoutException: wait response on the channel <127.", "> timeout, 300(ms)")),
        (drip, ("RemotingTimeoutException: ", "300(ms)")),
        (close, ("RemotingSendRequestException: send request to <127.", "failed: the server closed the connection")),
        (half_then_close, ("RemotingSendRequestException: ", "the server closed the connection")),
        (sent(lambda r: struct.pack(">ii", 2**30, 99)), ("RemotingCommandException: ", "1,073,741,824 bytes")),
        (sent(lambda r: struct.pack(">ii", -7, 99)), ("RemotingCommandException: ", "a frame of -7 bytes")),
        (sent(lambda r: struct.pack(">ii", 20, 99)), ("RemotingCommandException: ", "a header of 99 bytes")),
        (
            sent(lambda r: struct.pack(">ii", 8, 4) + b"{no}"),
            ("RemotingCommandException: ", "a header that is no JSON"),
        ),
        (
            sent(lambda r: b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            ("RemotingCommandException: ", "a frame of 1,213,486,160"),
        ),
        (body(b'{"connectionSet":['), ("RemotingCommandException: ", "at character 18, of 18 bytes")),
        (body(b"[" * 100_000), ("RemotingCommandException: ", "nested too deeply")),
        (body(b"[]"), ("RemotingCommandException: ", "a JSON list, expected an object")),
        (body(b""), ("RemotingCommandException: ", "of 0 bytes")),
        (body(b'{"a":"\xff"}'), ("RemotingCommandException: ", "no UTF-8 at byte 6")),
        (body(b'{"a":"' + b"x" * 9_000_000 + b'"}'), ("RemotingCommandException: ", "which may have 8,388,608")),
    ],
    ids=lambda v: None if callable(v) else v[-1],
)
def test_what_went_wrong_is_in_the_line_and_the_other_broker_s_line_is_there(instead, words, tmp_path):
    _, lines = sweep(instead, tmp_path)
    told = of_members(lines)
    assert is_about(told["broker-b"]["error"], *words), told["broker-b"]["error"]
    assert told["broker-b"]["raw"] is None
    assert told["broker-a"]["error"] is None and "10.0.0.1@c1" in told["broker-a"]["raw"]
    assert lines[-1]["kind"] == "sweepEnd" and lines[-1]["errors"] == sum(bool(line.get("error")) for line in lines)


def test_answers_out_of_order_and_frames_nobody_asked_for_are_told_apart(tmp_path):
    held = []

    def late(request):
        asks_something = frame_of({"code": 40, "flag": 0, "opaque": request.header["opaque"], "extFields": {}})
        unknown = frame_of({"code": 0, "flag": 1, "opaque": 77_777}, b'{"connectionSet":"nobody\'s"}')
        held.append(asks_something + unknown + request.frame({"connectionSet": [], "for": request.fields}))
        if len(held) == 3:
            request.send(b"".join(reversed(held)))

    groups = {f"g{n}": ("broker-b",) for n in range(3)}
    _, lines = sweep(late, tmp_path, groups=groups, manners=Manners(in_flight=9))
    raws = {line["subject"]: json.loads(line["raw"])["for"] for line in lines if line["kind"] == "consumerConnection"}
    assert raws == {group: {"consumerGroup": group} for group in groups}


def test_a_broker_that_refuses_is_a_line_for_each_question_and_is_soon_left_alone(tmp_path):
    cluster = FakeCluster()

    async def run():
        async with cluster.run():
            async with asyncio.timeout(5):
                closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
                cluster.servers["broker-b"].port = closed.sockets[0].getsockname()[1]
                closed.close()
                await closed.wait_closed()
                return await collected(Plan((cluster.name_server,), "c", tmp_path, rounds=1))

    told = [line for line in virtual_time.run(run()) if line.get("broker") == "broker-b"]
    assert {line["kind"] for line in told} >= {
        "subscriptionGroups",
        "topicStatus",
        "consumerConnection",
        "consumeStats",
    }
    errors = [line["error"] for line in told]
    assert all(e.startswith(f"{REMOTING}.RemotingConnectException: connect to <127.0.0.1:") for e in errors)
    assert errors[0].endswith("failed: Connection refused") and "next try in 0." in errors[-1]


def test_a_sweep_that_begins_tries_a_server_anew_however_long_it_is_left_alone(monkeypatch):
    async def run():
        server, told = server_module.Server("127.0.0.1:1", Manners(), {}), []
        server._failures = 6  # it has failed so often that it is left alone for many sweeps
        for anew_s in (None, None, 1000.0, 0.0):
            if anew_s is not None:
                monkeypatch.setattr(server_module, "_ANEW_S", anew_s)
                server.begin_sweep()
            with pytest.raises(NoAnswerError) as failure:
                await server.ask(1, {})
            told.append("next try in" not in str(failure.value))
        return told

    assert asyncio.run(run()) == [True, False, False, True]


def test_a_broker_that_answers_nothing_at_all_does_not_hold_the_sweep_for_long(tmp_path):
    """40 groups, 3 questions each, 0.3 s each, 4 at once: 9 s, were it not left alone."""
    cluster = FakeCluster(
        groups={f"g{n}": ("broker-a", "broker-b") for n in range(40)}, instead=lambda name, r: name == "broker-b"
    )

    async def run():
        async with cluster.run():
            return await collected(Plan((cluster.name_server,), "c", tmp_path, rounds=1, manners=QUICK))

    lines = virtual_time.run(run())
    assert lines[-1]["seconds"] < 3
    by_broker = [line["broker"] for line in lines if line["kind"] == "consumerConnection"]
    assert (by_broker.count("broker-a"), by_broker.count("broker-b")) == (40, 40)


def test_a_pause_between_tries_doubles_up_to_30_s_and_ends_with_the_first_answer(monkeypatch, tmp_path):
    monkeypatch.setattr(server_module.random, "uniform", lambda low, high: high)
    pauses = []

    async def run():
        one = server_module.Server("127.0.0.1:1", QUICK, {})
        loop = asyncio.get_running_loop()
        for _ in range(9):
            one._left_alone_until = 0.0
            with pytest.raises(Exception, match="Connection refused"):
                await one.ask(CLUSTER, {})
            pauses.append(round(one._left_alone_until - loop.time(), 1))
        cluster = FakeCluster()
        async with cluster.run():
            one.address, one._left_alone_until = cluster.name_server, 0.0
            await one.ask(CLUSTER, {})
            assert one._failures == 0

    virtual_time.run(run())
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_connection_that_idled_is_opened_anew_before_the_server_closes_it(monkeypatch, tmp_path):
    cluster = FakeCluster()

    async def run():
        async with cluster.run():
            one = server_module.Server(cluster.name_server, QUICK, {})
            await one.ask(CLUSTER, {})
            await one.ask(CLUSTER, {})
            assert cluster.servers[""].connections == 1
            await asyncio.sleep(server_module._IDLE_S + 1)
            await one.ask(CLUSTER, {})
            assert cluster.servers[""].connections == 2
            one.close()

    virtual_time.run(run())


def test_a_server_that_closed_the_connection_between_sweeps_is_asked_on_a_new_one(tmp_path):
    cluster = FakeCluster()

    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path, every_s=1.0, rounds=2)
            task = asyncio.create_task(Collector(plan).run())
            await asyncio.sleep(0.5)
            for server in cluster.servers.values():
                server.drop_connections()
            await task
            return lines_of(plan)

    lines = virtual_time.run(run())
    assert [line for line in lines if line.get("error")] == []
    assert [server.connections for server in cluster.servers.values()] == [2, 2, 2]


def test_no_name_server_is_an_error_after_the_lines_are_written(tmp_path):
    plan = Plan(("127.0.0.1:1", "[::1]:1"), "c", tmp_path, rounds=1)
    with pytest.raises(CollectError, match=r"no name server of 127\.0\.0\.1:1, \[::1\]:1 ever answered"):
        run_collector(plan)
    assert [line["kind"] for line in lines_of(plan)] == ["round", *["clusterInfo"] * 2, *["topicList"] * 2, "sweepEnd"]


def test_a_dead_name_server_is_told_of_and_the_other_is_enough(tmp_path):
    cluster = FakeCluster()

    async def run():
        async with cluster.run():
            return await collected(Plan(("127.0.0.1:1", cluster.name_server), "c", tmp_path, rounds=1))

    lines = virtual_time.run(run())
    of_dead = [line for line in lines if line.get("name_server") == "127.0.0.1:1"]
    assert [(line["kind"], bool(line["error"])) for line in of_dead] == [
        (kind, True) for kind in ("clusterInfo", "topicList", "topicRoute", "topicRoute")
    ]
    assert of_members(lines).keys() == {"broker-a", "broker-b"}


def test_when_every_name_server_dies_the_brokers_that_were_known_are_still_asked(tmp_path):
    cluster = FakeCluster()

    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path, every_s=0.6, rounds=2, manners=QUICK)
            task = asyncio.create_task(Collector(plan).run())
            await asyncio.sleep(0.3)
            cluster.servers[""].answer = lambda request: request.writer.transport.abort()
            await task
            return lines_of(plan)

    lines = virtual_time.run(run())
    second = lines[[i for i, line in enumerate(lines) if line["kind"] == "round"][1] :]
    assert {line["error"] is None for line in of_members(second).values()} == {True}
    assert [line["error"] is None for line in second if line["kind"] == "clusterInfo"] == [False]
    assert [line["error"] is None for line in second if line["kind"] == "topicStatus"] == [True, True]


INT32 = st.integers(-(2**31), 2**31 - 1)
SHORT = st.binary(max_size=30)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
NAMES = st.sampled_from(["connectionSet", "clientId", "consumerIdList", "offsetTable", "x"])


def framed(head: bytes, rest: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(head) + len(rest), len(head)) + head + rest


ANSWERS = (
    st.binary(max_size=60)
    | st.builds(lambda size, mark, rest: struct.pack(">ii", size, mark) + rest, INT32, INT32, SHORT)
    | st.builds(framed, SHORT, SHORT)
)
BODIES = SHORT | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANSWERS.map(lambda data: (False, data)) | BODIES.map(lambda data: (True, data)), st.booleans())
def test_no_answer_whatever_breaks_a_sweep_or_a_reader_of_lines(tmp_path_factory, answer, closes):
    """The line is there once, and the lines around it are complete JSON that says what happened."""

    def instead(name, request):
        if name != "broker-b" or request.code not in (CONNECTIONS, IDS, STATS):
            return False
        is_body, data = answer
        if is_body:
            request.answer(data)
        else:
            request.send(data)
        if closes:
            request.writer.close()
        return True

    cluster = FakeCluster(instead=instead)

    async def run():
        async with cluster.run():
            landing, wanted = tmp_path_factory.mktemp("l"), Wanted(groups=("g",))
            plan = Plan((cluster.name_server,), "c", landing, rounds=1, wanted=wanted, manners=Manners(0.5))
            return await collected(plan)

    lines = virtual_time.run(run())
    told = of_members(lines)
    assert told.keys() == {"broker-a", "broker-b"}
    assert (told["broker-b"]["error"] is None) != (told["broker-b"]["raw"] is None)
    assert lines[-1]["lines"] == len(lines)


CODES = (CLUSTER, TOPICS, ROUTE, GROUPS, CONFIG, WHO, STATUS, CONNECTIONS, IDS, STATS, INFO)
MEMBERS = st.sampled_from(
    [
        *("brokerAddrTable", "brokerAddrs", "clusterAddrTable", "topicList", "queueDatas", "brokerName", "groupList"),
        *("subscriptionGroupTable", "connectionSet", "clientId", "0", "broker-a", "\ud800"),
    ]
)
SHAPES = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "\ud800", "g\x00", "broker-a", "127.0.0.1:1", ":", "a" * 300]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(MEMBERS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(CODES), SHAPES, min_size=1, max_size=4))
def test_no_answer_of_any_shape_ends_the_collector(tmp_path_factory, shapes):
    def instead(_name, request):
        return request.answer(json.dumps(shapes[request.code]).encode()) if request.code in shapes else False

    cluster = FakeCluster(instead=instead)

    async def run():
        async with cluster.run():
            plan = Plan((cluster.name_server,), "c", tmp_path_factory.mktemp("l"), rounds=1, manners=Manners(0.1))
            with suppress(CollectError):  # the name server's own answer was none
                await Collector(plan).run()
            return lines_of(plan)

    lines = virtual_time.run(run())
    assert lines[-1]["kind"] == "sweepEnd"
    assert all((line["error"] is None) != (line["raw"] is None) for line in lines if "subject" in line)


def test_a_connection_that_breaks_once_costs_the_questions_that_were_under_way(tmp_path):
    broken = []

    def instead(name, request):
        if (name, request.code) != ("broker-b", STATS) or broken:
            return False
        broken.append(request)
        return close(request)

    cluster = FakeCluster(groups={f"g{n}": ("broker-a", "broker-b") for n in range(30)}, instead=instead)

    async def run():
        async with cluster.run():
            return await collected(Plan((cluster.name_server,), "c", tmp_path, rounds=1))

    lines = virtual_time.run(run())
    failed = [line for line in lines if line.get("error") and line["kind"] == "consumeStats"]
    assert 1 <= len(failed) <= 4
    assert cluster.servers["broker-b"].connections == 2


def refused(path):
    parsed = parse_admin_snapshots(read_lines([path.read_bytes()], gzipped=False, max_line_bytes=8_388_608))
    return [p for p in parsed if p.refusal]


def test_lines_of_failures_are_taken_in(tmp_path):
    for number, instead in enumerate((nothing, close, body(b"{"), lambda r: r.answer(code=1, remark="\x1b[31m\ufeff"))):
        sweep(instead, tmp_path / str(number))
    files = list(tmp_path.rglob("*.jsonl"))
    assert len(files) == 4
    assert [refused(file) for file in files] == [[]] * 4
