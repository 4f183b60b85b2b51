"""The send recorder of ``collectors/java`` in real producers: it writes what was sent, and the product takes it in."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.lines.bounded_lines import read_lines
from tests.collect.real_cluster import cluster, create_topic, kill_broker, sender, told

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parent.parent.parent
PROJECT = ROOT / "collectors" / "java"
RELEASES = ("4.7.1", "4.9.8", "5.3.3", "5.5.0")
ROUNDS = 12
CONNECT = "org.apache.rocketmq.remoting.exception.RemotingConnectException"


def build(folder: Path, release: str) -> Path:
    """The jar, built and tested against a release of the client."""
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("target"))
    command = ["mvn", "-q", "-B", f"-Drocketmq.version={release}", "package"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    (jar,) = (folder / "target").glob("send-recorder-*.jar")
    return jar


@pytest.mark.parametrize("release", RELEASES)
def test_it_builds_and_its_own_tests_pass_with_each_release(release, tmp_path):
    assert build(tmp_path / "java", release).stat().st_size > 5_000


def test_it_is_short():
    lines = [line.strip() for file in (PROJECT / "src/main").rglob("*.java") for line in file.read_text().splitlines()]
    assert (
        len([line for line in lines if line and not line.startswith(("//", "/*", "*", "import "))]) < 400
    )  # two recorders


class Recorded:
    """What one producer recorded, and what was true."""

    def __init__(self, folder: Path, landing: Path, release: str) -> None:
        self.group = f"pg_{release}".replace(".", "_")
        every = [json.loads(line) for file in landing.glob("*.jsonl") for line in file.read_text().splitlines()]
        own = [line for line in every if line["group"] == self.group]
        self.starts = [line for line in own if line["type"] == "start"]
        self.attempts = [line for line in own if line["type"] == "attempt"]
        self.lost = [line for line in own if line["type"] == "dropped"]
        self.of = defaultdict(list)
        for line in self.attempts:
            self.of[line["msgId"]].append(line)
        known = [json.loads(line) for line in (folder / "truth").read_text().splitlines()]
        sends = [line for line in known if line["what"] == "send"]
        self.batches = [line for line in sends if line["mode"] == "BATCH"]  # from 5.x on they have ids of their own
        self.sends = {line["msgId"]: line for line in sends if line["mode"] != "BATCH"}
        self.requests = defaultdict(list)
        for line in known:
            if line["what"] == "request":
                self.requests[line["msgId"]].append(line)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """One cluster, a producer of each release: both brokers live, one is killed, both are."""
    folder = tmp_path_factory.mktemp("sends")
    landing = folder / "landing" / "producer_hook" / "cluster=real"
    jar = build(folder / "java", RELEASES[0])
    with cluster("5.3.3", folder, name_servers=1) as name_servers, ExitStack() as stack:
        for topic in ("Sends", "Pinned", "Batches"):
            create_topic("5.3.3", folder, name_servers, topic)
        producers = []
        for release in RELEASES:
            (folder / release).mkdir()
            bounded = "-Dbytes=4000"
            producers.append(
                stack.enter_context(sender(release, folder / release, name_servers, landing, jar, bounded))
            )
        for last in (lambda: kill_broker(folder, "broker-b"), lambda: kill_broker(folder, "broker-a"), lambda: None):
            for producer in producers:
                producer.stdin.write(f"go {ROUNDS if producers else 0}\n")
                producer.stdin.flush()
            for producer in producers:
                told(producer, "done")
            last()
        for producer in producers:
            producer.stdin.write("end\n")
            producer.stdin.flush()
            assert producer.wait(60) == 0
    yield {release: Recorded(folder / release, landing, release) for release in RELEASES}, landing


@pytest.fixture(params=RELEASES)
def recorded(request, seen):
    return seen[0][request.param]


def test_the_start_says_the_release_that_runs_not_the_one_that_was_compiled_against(recorded):
    (start,) = recorded.starts
    assert start["version"].replace(".", "_") == recorded.group.removeprefix("pg_")
    assert start["sendLatencyFaultEnable"] is True
    assert start.get("startDetectorEnable") == (False if start["version"] > "5.1.4" else None)
    assert len(start["latencyMax"]) == len(start["notAvailableDuration"]) == 7
    assert (start["retryTimesWhenSendFailed"], start["sendMsgTimeout"]) == (2, 6000)
    assert all(start["ts"] <= line["beginMs"] for line in recorded.attempts)


def test_every_send_that_reached_a_broker_is_there_and_nothing_else(recorded):
    tried = {line["msgId"] for line in recorded.attempts if line["topic"] != "Batches"}
    assert recorded.lost == []
    assert len(recorded.sends) == 3 * 5 * ROUNDS
    assert tried <= recorded.sends.keys()
    assert recorded.requests.keys() & recorded.sends.keys() <= tried
    stored = {msg_id for msg_id, send in recorded.sends.items() if send["status"]}
    assert stored <= tried and len(stored) >= 5 * ROUNDS


def test_a_batch_is_one_send(recorded):
    stored = [line for line in recorded.attempts if line["topic"] == "Batches" and line.get("status")]
    assert len({line["msgId"] for line in stored}) == len(stored)
    told = [(send["broker"], send["queueId"]) for send in recorded.batches if send["status"]]
    assert Counter((line["broker"], str(line["queueId"])) for line in stored) == Counter(told)
    assert len(told) >= ROUNDS


def test_each_fact_of_an_attempt_that_a_broker_answered_is_right(recorded):
    compared = 0
    for msg_id, send in recorded.sends.items():
        if send["mode"] == "SYNC" and send["status"]:
            *failed, last = sorted(recorded.of[msg_id], key=lambda line: line["times"])
            assert [line["times"] for line in (*failed, last)] == list(range(len(failed) + 1))
            assert [line.get("lastBrokerName") for line in (*failed, last)] == [None, *(x["broker"] for x in failed)]
            assert all(line["exception"] and "status" not in line for line in failed)
            assert (last["status"], last["broker"], str(last["queueId"])) == (
                send["status"],
                send["broker"],
                send["queueId"],
            )
            assert last.get("queueSelectedBy") == ("application" if send["topic"] == "Pinned" else None)
            assert last["offsetMsgId"] == send["offsetMsgId"] and last["topic"] == send["topic"]
            assert last["beginMs"] <= last["endMs"] <= send["ms"]
            for request in recorded.requests[msg_id]:
                assert request["address"] in [line["brokerAddr"] for line in (*failed, last)]
                assert last["beginMs"] - 7_000 <= request["ms"] <= last["endMs"]
            compared += 1
    assert compared > 3 * ROUNDS


def test_a_dead_broker_s_attempts_are_lines_with_its_exception_and_retries_follow(recorded):
    failed = [line for line in recorded.attempts if line.get("exception") and line["mode"] == "SYNC"]
    assert Counter(line["broker"] for line in failed).keys() == {"broker-a", "broker-b"}
    assert {line["exception"] for line in failed} & {CONNECT}
    lost = [m for m, send in recorded.sends.items() if send["mode"] == "SYNC" and not send["status"] and recorded.of[m]]
    tried = [sorted(line["times"] for line in recorded.of[m]) for m in lost if recorded.sends[m]["topic"] == "Sends"]
    assert tried and [0, 1, 2] in tried
    assert all(times == list(range(len(times))) for times in tried)


def test_an_async_attempt_has_both_halves(recorded):
    halves = Counter()
    for msg_id, send in recorded.sends.items():
        if send["mode"] == "ASYNC" and recorded.of[msg_id]:
            lines = recorded.of[msg_id]
            told = [line for line in lines if line.get("status") or line.get("exception")]
            halves[len(lines), len(told)] += 1
            assert len({(line["thread"], line["beginMs"], line["broker"], line["queueId"]) for line in lines}) == 1
            if send["status"]:
                assert [line["status"] for line in told] in ([send["status"]], [])  # [] where the client mixed them up
    assert halves[2, 1] > ROUNDS and set(halves) <= {(2, 1), (2, 0), (1, 1)}


def test_of_the_retries_of_async_a_hook_sees_who_answered_and_no_more(recorded):
    moved = [line for line in recorded.attempts if line.get("answeredBy")]
    assert moved, "no ASYNC send went on to the other broker"
    for line in moved:
        assert (line["mode"], line["broker"], line["answeredBy"]) == ("ASYNC", "broker-b", "broker-a")
        assert recorded.sends[line["msgId"]]["broker"] == "broker-a"
        # The remoting layer asked another address than the lines name; the failure that came before is in none of them.
        assert recorded.requests[line["msgId"]][-1]["address"] != line["brokerAddr"]
        assert [one for one in recorded.of[line["msgId"]] if one.get("exception")] == []


def test_oneway_is_one_line_without_a_result(recorded):
    lines = [line for line in recorded.attempts if line["mode"] == "ONEWAY"]
    assert len(lines) >= ROUNDS
    alive = [line for line in lines if "exception" not in line]
    assert alive and all("status" not in line and line["times"] == 0 for line in alive)
    assert len({line["msgId"] for line in alive}) == len(alive)


def test_files_are_closed_by_size_and_none_is_left_open(seen):
    _, landing = seen
    assert len(list(landing.glob("*.jsonl"))) > 2 * len(RELEASES)
    assert [file.name for file in landing.iterdir() if file.suffix != ".jsonl"] == []


def test_the_reader_takes_every_line(seen):
    for file in seen[1].glob("*.jsonl"):
        parsed = list(parse_hook_lines(read_lines([file.read_bytes()], gzipped=False, max_line_bytes=8_388_608)))
        assert [one.refusal for one in parsed if one.refusal] == []
        assert all(one.records for one in parsed)


def test_the_pipeline_takes_the_lines_in(seen, tmp_path):
    recorded, landing = seen
    hindsight = [sys.executable, "-m", "hindsight.jobs.command_line"]
    lake = str(tmp_path / "lake")
    run = [*hindsight, "run-pipeline", "--landing", str(landing.parent.parent), "--lake", lake]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True, timeout=600)
    query = (
        "SELECT CONCAT_WS(' ', producer_group, mode, COUNT(*), COUNT_IF(array_contains(doubts, 'ANSWERED_BY_ANOTHER')))"
        " AS told FROM send_attempt GROUP BY producer_group, mode"
    )
    done = subprocess.run(
        [*hindsight, "sql", "--lake", lake, query], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = re.findall(r"(pg_\w+) (\w+) (\d+) (\d+)", done.stdout)
    rows = {(group, mode): (int(attempts), int(moved)) for group, mode, attempts, moved in found}
    for one in recorded.values():
        for mode in ("SYNC", "ASYNC", "ONEWAY"):
            lines = [line for line in one.attempts if line["mode"] == mode]
            own = {(x["msgId"], x["times"], x["beginMs"], x["broker"], x["queueId"]) for x in lines}
            moved = len([line for line in lines if line.get("answeredBy")])
            assert rows[one.group, mode] == (len(own), moved)


def test_a_producer_that_is_killed_leaves_whole_lines_that_the_next_one_finishes(tmp_path):
    jar, landing = build(tmp_path / "java", "5.3.3"), tmp_path / "landing"
    with cluster("5.3.3", tmp_path, brokers=1, name_servers=1) as name_servers:
        for number in (1, 2):
            folder = tmp_path / str(number)
            folder.mkdir()
            with sender("5.3.3", folder, name_servers, landing, jar) as process:
                process.stdin.write(f"go {ROUNDS}\n")
                process.stdin.flush()
                told(process, "done")
                if number == 2:
                    (left,) = landing.glob("*.jsonl")  # the first one's
                    process.stdin.write("end\n")
                    process.stdin.flush()
                    assert process.wait(60) == 0
    files = sorted(landing.iterdir())
    assert left in files and [file.suffix for file in files] == [".jsonl", ".jsonl"]
    lines = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    assert [[line["type"] for line in file].count("start") for file in lines] == [1, 1]
    assert len([line for line in lines[1] if line["type"] == "attempt"]) == 8 * ROUNDS


def test_a_full_disk_costs_no_send_and_what_was_lost_is_told_when_there_is_room_again(tmp_path):
    """A disk of 64 kB, seen by the producer alone; what it holds is taken away after it was full for a while."""
    jar, disk = build(tmp_path / "java", "5.3.3"), tmp_path / "disk"
    disk.mkdir()
    mounted = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=64k none {disk} && exec "$@"', "sh")
    written = []

    def take_away(process, pattern):
        for file in sorted(Path(f"/proc/{process.pid}/root{disk}").glob(pattern)):
            written.extend(map(json.loads, file.read_text().splitlines()))
            file.unlink()

    with cluster("5.3.3", tmp_path, brokers=1, name_servers=1) as name_servers:
        started = sender("5.3.3", tmp_path, name_servers, disk, jar, "-Dbytes=4000", within=mounted)
        with started as process:
            for rounds, pattern in ((40, "*.jsonl"), (10, "*")):
                process.stdin.write(f"go {rounds}\n")
                process.stdin.flush()
                told(process, "done")
                time.sleep(2.5)
                take_away(process, pattern)
    known = [json.loads(line) for line in (tmp_path / "truth").read_text().splitlines()]
    sends = [line for line in known if line["what"] == "send"]
    assert len(sends) == 6 * 50 and {line["exception"] for line in sends} == {None}
    assert max(later["ms"] - earlier["ms"] for earlier, later in pairwise(sends[:200])) < 2_000
    lost = sum(line["lines"] for line in written if line["type"] == "dropped")
    assert lost > 50
    assert len([line for line in written if line["type"] == "attempt"]) + lost == 8 * 50
