"""Sweeps of real clusters, replayed frame by frame: lines hold what was answered, and the pipeline takes them in."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hindsight.jobs.collect import running_infos
from hindsight.jobs.collect import server as server_module
from hindsight.jobs.collect.cluster_view import Wanted
from hindsight.jobs.collect.collector import Plan
from hindsight.jobs.collect.server import Manners
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.values.message_queues import is_system_topic
from tests.collect import virtual_time
from tests.collect.fake_servers import FakeServer, collected
from tests.collect.record_frames import OPAQUE

GOLDEN = Path(__file__).parent.parent / "golden" / "remoting"
RELEASES = ("4.3.0", "4.9.4", "5.3.3", "5.5.0")
GROUPS = {"g_push", "g_orderly", "g_bcast", "g_left_a_b"}
TABLES = {"collection_round", "snapshot_capture", "topic_route", "consumer_heartbeat", "queue_ownership"}


def exchanges(release):
    lines = map(json.loads, gzip.decompress((GOLDEN / f"{release}.jsonl.gz").read_bytes()).splitlines())
    return [(line["address"], line["code"], line["fields"], base64.b64decode(line["frame"])) for line in lines]


def for_opaque(frame: bytes, opaque: int) -> bytes:
    """The frame as the server would have sent it to another question."""
    size, mark = int.from_bytes(frame[:4], "big"), int.from_bytes(frame[4:8], "big")
    header, body = frame[8 : 8 + mark], frame[8 + mark :]
    assert header.count(str(OPAQUE).encode()) == 1 and size == len(frame) - 4
    header = header.replace(str(OPAQUE).encode(), str(opaque).encode())
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


async def replayed(release, landing, monkeypatch):
    """The lines of a sweep over servers that answer as those of that release did; what was not recorded: in silence."""
    recorded = exchanges(release)
    answers = {(address, code, json.dumps(fields, sort_keys=True)): f for address, code, fields, f in recorded}
    servers: dict[str, FakeServer] = {}

    def answering(address):
        def answer(request):
            frame = answers.get((address, request.code, json.dumps(request.fields, sort_keys=True)))
            if frame is not None:
                request.send(for_opaque(frame, request.header["opaque"]))

        return answer

    name_servers = tuple(dict.fromkeys(address for address, code, _, _ in recorded if code == 106))
    monkeypatch.setattr(running_infos, "_BROKER_WAITS_S", 0.0)
    monkeypatch.setattr(server_module, "split_address", lambda address: ("127.0.0.1", servers[address].port))
    async with AsyncExitStack() as stack:
        for address in dict.fromkeys(address for address, *_ in recorded):
            servers[address] = await stack.enter_async_context(FakeServer(answering(address)).run())
        wanted = Wanted(producers=("pg_look@LookOrders",))
        plan = Plan(name_servers, "c", landing, rounds=1, wanted=wanted, manners=Manners(timeout_s=0.5))
        return plan, await collected(plan)


@pytest.fixture(params=RELEASES)
def seen(request, tmp_path, monkeypatch):
    plan, lines = virtual_time.run(replayed(request.param, tmp_path, monkeypatch))
    return request.param, plan, lines


def test_each_answer_is_in_a_line_as_it_came(seen):
    release, _, lines = seen
    bodies = Counter()
    for _, code, fields, frame in exchanges(release):
        if is_system_topic(fields.get("topic", "")):  # recorded when 5.5.0's own RMQ_SYS_ROCKSDB topics were asked for
            continue
        body = frame[8 + int.from_bytes(frame[4:8], "big") :].decode()
        if body and code == 38:
            body = json.dumps(json.loads(body)["consumerIdList"], separators=(",", ":"))
        bodies[body] += 1
    raws = Counter(line["raw"] for line in lines if line.get("raw"))
    # A running info may come from the other broker than the recorded one: then it was not recorded.
    missing = {body for body in bodies - raws if body and "PROP_CLIENT_VERSION" not in body}
    assert (missing, set(raws - bodies)) == (set(), set())


def test_the_pipeline_takes_every_line_in(seen):
    release, plan, lines = seen
    (file,) = plan.landing.rglob("*.jsonl")
    parsed = list(parse_admin_snapshots(read_lines([file.read_bytes()], gzipped=False, max_line_bytes=8_388_608)))
    assert len(parsed) == len(lines)
    assert [p.refusal for p in parsed if p.refusal] == []
    tables = {record.table for p in parsed for record in p.records}
    assert tables >= (TABLES if release < "5" else TABLES | {"queue_progress", "producer_connection"})


def test_members_are_those_of_every_broker_and_only_what_a_release_lacks_fails(seen):
    release, _, lines = seen
    brokers = {line["broker"] for line in lines if line["kind"] == "subscriptionGroups"}
    assert len(brokers) == (2 if release >= "5" else 1)
    members = {(line["broker"], line["subject"]) for line in lines if line["kind"] == "consumerConnection"}
    assert members == {(broker, group) for broker in brokers for group in GROUPS}
    # The recordings hold neither how brokers hand out queues nor what a release says to that.
    unrecorded = {"consumerRunningInfo", "messageRequestModes", "brokerConfig", "brokerRuntimeInfo", "brokerHaStatus"}
    failed = {line["kind"] for line in lines if line.get("error")} - unrecorded
    assert failed == ({"topicConfig"} if release < "5" else set())
