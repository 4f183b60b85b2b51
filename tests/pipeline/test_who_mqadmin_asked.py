"""Two servers that mqadmin asked for one thing: their answers stand beside each other, from files to findings."""

from __future__ import annotations

import json

import pytest

from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.readers.mqadmin_printer import (
    BROKERS,
    MEMBERS,
    RELEASES,
    connection,
    progress,
    route_json,
    route_list,
    running_info,
)

T0 = 1795168800000
MINUTE = 60_000
RELEASE = RELEASES[-1]
SERVERS = ("10.1.0.1:9876", "10.1.0.2:9876")


def sweep(number):
    """File, arguments and output of each command of a sweep."""
    known = (BROKERS, BROKERS[:1])
    for server, brokers in zip(SERVERS, known, strict=True):
        yield f"topicRoute --topic T --namesrvAddr={server}", route_json(RELEASE, brokers)
        yield f"topicRoute -l -t U -n '{server}'", route_list(RELEASE, brokers)
        yield f"consumerConnection -n {server} -g lots", connection(RELEASE, MEMBERS[: len(brokers)])
    yield "topicRoute -t T -n '10.1.0.1:9876;10.1.0.2:9876'", route_json(RELEASE)
    for (_, address, _, _), members in zip(BROKERS, (MEMBERS, MEMBERS[:1]), strict=True):
        yield f"consumerConnection -g g -b {address}", connection(RELEASE, members)
    for (client_id, *_), queues in zip(MEMBERS, ([0, 1], [2, 3]), strict=True):
        owned = [("OK", "broker-a", queue) for queue in queues]
        yield f"consumerStatus -g g -i {client_id}", running_info("g", ["T", "OK"], owned)
    yield f"topicRoute -t OK -n {SERVERS[0]}", route_json(RELEASE, BROKERS[:1])
    for topic in ("T", "U"):
        yield f"consumerProgress -g g -t {topic} -c C", progress(RELEASE, [(topic, "broker-a", 0, 9, 8, None, None)])


@pytest.fixture(scope="module")
def lake(settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("asked")
    folder = root / "landing/mqadmin/cluster=two"
    folder.mkdir(parents=True)
    commands = []
    for number in range(6):
        for place, (args, printed) in enumerate(sweep(number)):
            name = f"{number}_{place}.txt"
            (folder / name).write_text(printed)
            commands.append({"ts": T0 + number * MINUTE + place * 1000, "file": name, "args": args})
    (folder / "commands.jsonl").write_text("".join(json.dumps(command) + "\n" for command in commands))
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    return LakeRows(root / "lake")


def test_a_sweep_is_one_round_however_many_servers_were_asked(lake):
    assert len(lake("collection_round")) == 6
    assert lake("quarantine") == []


def test_who_was_asked_stands_with_each_answer(lake):
    routes = [c for c in lake("snapshot_capture") if c.kind == "topicRoute" and c.topic != "OK"]
    assert {(c.topic, c.name_server) for c in routes} == {("T", None), *((t, s) for t in "TU" for s in SERVERS)}
    assert {(r.topic, r.name_server, r.broker_name) for r in lake("topic_route") if r.name_server == SERVERS[1]} == {
        ("T", SERVERS[1], "broker-a"),
        ("U", SERVERS[1], "broker-a"),
    }
    lists = [c for c in lake("snapshot_capture") if c.kind == "consumerConnection" and c.subject == "g"]
    assert {c.broker_name for c in lists} == {address for _, address, _, _ in BROKERS}
    stats = {c.subject for c in lake("snapshot_capture") if c.kind == "consumeStats"}
    assert stats == {"g@T@C", "g@U@C"}


def test_brokers_that_were_asked_by_address_are_known_by_name(lake):
    told = {d.sentence for d in lake("allocation_drift") if (d.consumer_group, d.code) == ("g", "VIEW_DIVERGENCE")}
    assert [text for text in told if "(broker-a: 2, broker-b: 1): not all know 10.0.0.2@8" in text] != []
    assert [r.missing_inputs for r in lake("group_round") if (r.consumer_group, r.topic) == ("g", "OK")] == [[]] * 6


def test_routes_of_two_name_servers_differ_and_never_changed(lake):
    told = {d.sentence for d in lake("allocation_drift") if d.code == "VIEW_DIVERGENCE"}
    assert [text for text in told if text.startswith("the name servers tell different routes of T")] != []
    assert lake("route_change") == []


@pytest.mark.parametrize("group", ["g", "lots"])
def test_nobody_came_or_went(lake, group):
    rounds = [r for r in lake("group_round") if (r.consumer_group, r.topic) == (group, "T")]
    assert [len(r.members) for r in rounds] == [2] * 6
    assert [c for c in lake("membership_change") if c.consumer_group == group] == []
    assert "WRONG_OWNER" not in {d.code for d in lake("allocation_drift")}
