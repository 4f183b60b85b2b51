"""Real brokers, real clients: the collector says what rocketmq-tools says, of the same servers in the same minute.

The cluster has two brokers of 5.3.3 and one of 4.9.4.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.formats.fastjson import parse_fastjson
from hindsight.udfs.lines.bounded_lines import read_lines
from tests.collect.real_cluster import cluster, looker, told

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parent.parent.parent
SECRET = "hush-3141592653"
ACL = f"""globalWhiteRemoteAddresses: []
accounts:
- accessKey: RocketMQReader
  secretKey: {SECRET}
  admin: false
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
"""
# What moves by itself, in answers and in rows: rates, and the messages that a client holds at that instant.
RATES = (
    *("consumeTps", "topicPutTps", "PutTps", "statusTable", "userConsumerInfo", "mqPopTable"),
    *("cachedMsgCount", "cachedMsgSizeInMiB", "cachedMsgMinOffset", "cachedMsgMaxOffset"),
    *("transactionMsgCount", "transactionMsgMinOffset", "transactionMsgMaxOffset"),
)
PLACES = ("captured_at", "captured_end_at")


def collect(name_servers: str, landing: Path, *options: str, environment=None, sweeps: int = 1) -> Path:
    """The one file that a collector wrote, as a process of its own; beside it what it told and its processor time."""
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "collect", "--name-server", name_servers]
    known = {name: value for name, value in os.environ.items() if not name.startswith("HINDSIGHT_")}
    before = os.times()
    done = subprocess.run(
        [*command, "--cluster", "c", "--landing", landing, *(["--once"] if sweeps == 1 else []), *options],
        cwd=ROOT,
        env={**known, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = landing.rglob("*.jsonl")
    (file.parent / "stderr").write_text(done.stderr)
    spent = os.times()
    (file.parent / "cpu").write_text(
        f"{spent.children_user - before.children_user:.2f} {spent.children_system - before.children_system:.2f}"
    )
    return file


def asked(path: Path) -> dict[tuple[str, str, str], dict]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        (line["kind"], line["subject"], line.get("broker") or line.get("name_server") or ""): line
        for line in lines
        if line["kind"] not in ("round", "sweepEnd")
    }


def fields(line: dict) -> dict[str, object]:
    """An answer or an error, flat; lists of objects by what names them, since servers keep no order."""
    if line.get("error"):
        return {"error": line["error"]}
    return dict(_flat(parse_fastjson(line["raw"]), ""))


def _flat(value, at):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in RATES:
                yield from _flat(inner, f"{at}.{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from _flat(inner, f"{at}[{inner.get('clientId') or inner.get('topic') or inner.get('brokerName')}]")
    else:
        yield at, sorted(value) if isinstance(value, list) else value


def rows(path: Path, kinds: set[str], own: set[str]) -> list[tuple[str, str]]:
    """Rows that the pipeline stores of those kinds and subjects, without instants."""
    lines = [line for line in path.read_bytes().splitlines() if json.loads(line)["kind"] in kinds]
    kept = [line for line in lines if json.loads(line)["subject"] in own]
    parsed = list(parse_admin_snapshots(read_lines([b"\n".join(kept)], gzipped=False, max_line_bytes=8_388_608)))
    assert [p for p in parsed if p.refusal] == []
    return [
        (
            record.table,
            json.dumps({k: v for k, v in record.row.items() if k not in PLACES}, sort_keys=True, default=str),
        )
        for p in parsed
        for record in p.records
    ]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Two looks by rocketmq-tools and the collector's between them."""
    folder = tmp_path_factory.mktemp("real")
    with (
        cluster("5.3.3", folder, older=("4.9.4",)) as name_servers,
        looker("5.3.3", folder, name_servers) as java,
    ):
        time.sleep(40)  # every client has sent a heartbeat to every broker
        files, options = [], ("--group", "g_*,g_never", "--producer-group", "pg_look@LookOrders")
        for number in (1, 2):
            java.stdin.write(f"snap {folder / f'java{number}'}\n")
            java.stdin.flush()
            told(java, "done")
            files.append(folder / f"java{number}")
            if number == 1:
                files.append(collect(name_servers, folder / "landing", *options))
                files.append(collect(name_servers, folder / "tls", "--tls", *options))
        yield files


def test_what_two_looks_of_rocketmq_tools_agree_on_the_collector_says_too(seen):
    before, ours, _, after = map(asked, seen)
    differ, equal = [], 0
    for key in before.keys() & after.keys() & ours.keys():
        one, other, mine = fields(before[key]), fields(after[key]), fields(ours[key])
        steady = {name for name in one if name in other and one[name] == other[name]}
        equal += len(steady)
        differ += [(key, n, one[n], mine.get(n)) for n in steady if mine.get(n) != one[n]]
    # What a broker of 4.9.4 does not send, rocketmq-tools fill in; of its refusals they leave the address out.
    of_older = [one for one in differ if one[0][2] == "broker-c"]
    assert [one for one in differ if one not in of_older] == []
    for _, name, tools, mine in of_older:
        is_default = name.endswith(".pullOffset") and (tools, mine) == (0, None)
        assert is_default or (name == "error" and mine.partition(" BROKER: ")[0] == tools)
    assert equal > 700
    missing = {key[0] for key in before.keys() - ours.keys()}
    # A running info comes from the first broker that is free, rocketmq-tools' producers from one drawn by lot.
    assert missing <= {"consumerRunningInfo", "producerConnection"}


def test_running_infos_are_those_that_rocketmq_tools_has(seen):
    def of_members(path):
        found = {}
        for (kind, subject, _), line in asked(path).items():
            if kind == "consumerRunningInfo" and not line.get("error"):
                found[subject] = fields(line)
        return found

    before, ours, _, after = map(of_members, seen)
    assert before.keys() == ours.keys() == after.keys() and len(ours) == 7
    for subject, one in before.items():
        steady = {name for name in one if after[subject].get(name) == one[name]}
        assert {n: ours[subject].get(n) for n in steady} == {n: one[n] for n in steady}
        assert len(steady) > 30


def test_the_rows_that_the_pipeline_stores_are_the_same(seen):
    before, ours, _, after = seen
    kinds = {"topicRoute", "consumerConnection"}
    own = {key[1] for key in asked(before)} & {key[1] for key in asked(ours)}
    stored = [sorted(rows(path, kinds, own)) for path in (before, ours, after)]
    assert stored[0] == stored[2], "the cluster itself changed"
    assert stored[1] == stored[0]
    assert {table for table, _ in stored[1]} == {"snapshot_capture", "topic_route", "consumer_heartbeat"}


def test_offsets_lie_between_those_of_the_two_looks(seen):
    before, ours, _, after = map(asked, seen)
    compared = 0
    for key in (key for key in ours if key[0] in ("consumeStats", "topicStatus") and key in before):
        one, mine, other = (parse_fastjson(line["raw"])["offsetTable"] for line in (before[key], ours[key], after[key]))
        for queue in one.keys() & mine.keys() & other.keys():
            for name in ("brokerOffset", "consumerOffset", "minOffset", "maxOffset"):
                if name in one[queue]:
                    assert one[queue][name] <= mine[queue][name] <= other[queue][name]
                    compared += 1
    assert compared > 80


def test_over_tls_the_same_is_said(seen):
    _, ours, tls, _ = map(asked, seen)
    assert {k for k in ours if k[0] not in ("producerConnection", "consumerRunningInfo")} <= tls.keys()
    assert [line for line in tls.values() if "Remoting" in (line["error"] or "")] == []


def test_a_sweep_takes_no_longer_than_rocketmq_tools_do_for_the_same_questions(tmp_path):
    """2 brokers, 2 name servers, 30 groups, 60 members; each broker and each name server is asked by both."""
    with cluster("5.3.3", tmp_path) as name_servers, looker("5.3.3", tmp_path, name_servers, more_groups=26) as java:
        time.sleep(45)
        took = []
        for number in range(4):
            begun = time.monotonic()
            java.stdin.write(f"snap {tmp_path / f'java{number}'}\n")
            java.stdin.flush()
            told(java, "done")
            took.append(time.monotonic() - begun)
        file = collect(name_servers, tmp_path / "landing", "--group", "g_*", "--rounds", "4", "--every", "1", sweeps=4)
        ends = [line for line in map(json.loads, file.read_text().splitlines()) if line["kind"] == "sweepEnd"]
        asked_by_tools = len((tmp_path / "java3").read_text().splitlines())
    members = {key[1] for key, line in asked(file).items() if key[0] == "consumerRunningInfo" and not line["error"]}
    assert len(members) == 59
    print("rocketmq-tools", asked_by_tools, [round(s, 2) for s in took])
    print("collector", [(end["requests"], end["seconds"]) for end in ends], (file.parent / "cpu").read_text())
    assert min(end["seconds"] for end in ends) <= min(took)
    assert ends[-1]["requests"] > 250
    assert sum(map(float, (file.parent / "cpu").read_text().split())) / len(ends) < 1


@pytest.mark.parametrize("release", ["4.3.0", "4.9.4", "5.5.0"])
def test_other_releases_answer_too(release, tmp_path):
    with (
        cluster(release, tmp_path, brokers=1, name_servers=1) as name_servers,
        looker("5.3.3", tmp_path / "look", name_servers),
    ):
        time.sleep(35)
        ours = asked(collect(name_servers, tmp_path / "landing", "--producer-group", "pg_look"))
    kinds = {kind for kind, _, _ in ours}
    assert len(kinds) == 12
    failed = {key[0]: line["error"] for key, line in ours.items() if line["error"]}
    assert failed.keys() <= ({"topicConfig"} if release < "5" else set())
    assert len({subject for kind, subject, _ in ours if kind == "consumerRunningInfo"}) == 7


def test_a_broker_of_4_9_4_with_acl_takes_the_signature_and_the_secret_is_nowhere(tmp_path):
    key = {"HINDSIGHT_ACCESS_KEY": "RocketMQReader", "HINDSIGHT_SECRET_KEY": SECRET}
    with cluster("4.9.4", tmp_path, brokers=1, name_servers=1, acl=ACL) as name_servers:
        signed = asked(collect(name_servers, tmp_path / "signed", environment=key))
        wrong = {**key, "HINDSIGHT_SECRET_KEY": SECRET[::-1]}
        refused = asked(collect(name_servers, tmp_path / "refused", environment=wrong))
        unsigned = asked(collect(name_servers, tmp_path / "unsigned"))
    (group_key,) = (k for k in signed if k[0] == "subscriptionGroups")
    assert signed[group_key]["error"] is None
    assert "Check signature failed for accessKey=RocketMQReader" in refused[group_key]["error"]
    assert "No accessKey is configured" in unsigned[group_key]["error"]
    written = [file for name in ("signed", "refused") for file in (tmp_path / name).rglob("*") if file.is_file()]
    assert len(written) == 6  # the lines, what was told, and the processor time, of each
    assert [f for f in written if SECRET.encode() in f.read_bytes() or SECRET[::-1].encode() in f.read_bytes()] == []
