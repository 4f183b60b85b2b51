"""Lives of messages on a real cluster, told by ``hindsight message``, beside what the applications themselves wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.collect.real_cluster import (
    HINDSIGHT,
    cluster,
    create_topic,
    hindsight,
    java_program,
    mqadmin,
    native_program,
    told,
)
from tests.collect.test_send_recorder import build

pytestmark = pytest.mark.soak

RELEASE = "5.3.3"


def lives(folder: Path, name_servers: str, jar: Path, *consumers: str, name: str = "lives"):
    given = name_servers, folder / "landing", folder / "truth", *consumers
    return java_program("Lives", RELEASE, folder, *given, jar=jar, log=name)


def say(process, text: str) -> None:
    process.stdin.write(text + "\n")
    process.stdin.flush()


def send(process, kind: str, topic: str, tag: str, count: int) -> None:
    say(process, f"send {kind} {topic} {tag} {count}")
    told(process, "done")


TOPICS = (
    *("Plain", "Tagged", "Failing", "Dead", "Slow", "Killed", "Skipped", "Mixed", "Ordered", "Stalled"),
    *("Cast", "Popped", "Repopped", "Heard"),
)
# group;topic;tags;failures;seconds;strategy;orderly[;way]
STEADY = (
    "g_plain;Plain;*;0;0;AVG;false",
    "g_tagged;Tagged;a;0;0;AVG;false",
    "g_failing;Failing;*;1;0;AVG;false",
    "g_dead;Dead;*;99;0;AVG;false",
    "g_slow;Slow;*;0;4;AVG;false",
    "g_skipped;Skipped;*;0;5;AVG;false",
    "g_mixed;Mixed;*;0;0;AVG;false",
    "g_mixed;Mixed;*;0;0;CIRCLE;false",
    "g_ordered;Ordered;*;0;0;AVG;true",
    "g_stalled;Stalled;*;0;0;AVG;false",
    "g_cast;Cast;*;0;0;AVG;false;broadcast",
    "g_cast;Cast;*;0;0;AVG;false;broadcast",
    "g_popped;Popped;*;0;0;AVG;false;pop",
    "g_repopped;Repopped;*;1;0;AVG;false;pop",
    "g_native;Native;*;0;0;AVG;false",
)


def play(folder: Path) -> None:
    """Provoke the lives; leaves a landing folder and what the applications knew in ``truth``."""
    jar = build(folder / "java", "4.7.1")
    with cluster(RELEASE, folder, name_servers=1) as name_servers, ExitStack() as stack:
        for topic in TOPICS:
            create_topic(RELEASE, folder, name_servers, topic)
        create_topic(RELEASE, folder, name_servers, "Native", queues=1, broker="broker-a")
        collecting = [*HINDSIGHT, "collect", "--cluster", "real", "--landing", str(folder / "landing")]
        collector = stack.enter_context(
            subprocess.Popen([*collecting, "--name-server", name_servers, "--every", "3"], stderr=subprocess.DEVNULL)
        )
        stack.callback(collector.terminate)
        victim = stack.enter_context(lives(folder, name_servers, jar, "g_killed;Killed;*;0;6;AVG;false", name="victim"))
        heirs = stack.enter_context(lives(folder, name_servers, jar, *STEADY, name="steady"))
        producer = stack.enter_context(lives(folder, name_servers, jar, name="producer"))
        of_cpp = name_servers, folder / "landing", folder / "truth"
        native = stack.enter_context(native_program("lives", folder, *of_cpp))
        listener = stack.enter_context(native_program("lives", folder, *of_cpp, "g_heard;Heard", log="listener"))
        time.sleep(25)  # queues are shared out
        send(producer, "plain", "Plain", "a", 8)
        for kind in ("batch", "delay", "tx_COMMIT_MESSAGE", "tx_ROLLBACK_MESSAGE", "tx_UNKNOW", "oneway"):
            send(producer, kind, "Plain", "a", 2)
        send(producer, "tag_a", "Tagged", "a", 4)
        send(producer, "tag_b", "Tagged", "b", 4)
        send(producer, "failing", "Failing", "a", 3)
        send(producer, "dead", "Dead", "a", 3)
        send(producer, "slow", "Slow", "a", 3)
        send(producer, "mixed", "Mixed", "a", 16)
        send(producer, "ordered", "Ordered", "a", 6)
        send(producer, "cast", "Cast", "a", 4)
        send(producer, "popped", "Popped", "a", 4)
        send(producer, "repopped", "Repopped", "a", 2)
        send(producer, "heard", "Heard", "a", 4)
        send(native, "native", "Native", "a", 4)
        send(producer, "killed", "Killed", "a", 4)
        send(producer, "skipped", "Skipped", "a", 120)  # five seconds each: most wait
        os.kill(victim.pid, signal.SIGKILL)
        heir = stack.enter_context(lives(folder, name_servers, jar, "g_killed;Killed;*;0;0;AVG;false", name="heir"))
        time.sleep(8)
        mqadmin(RELEASE, folder, name_servers, "resetOffsetByTime", "-g", "g_skipped", "-t", "Skipped", "-s", "now")
        stalled = int((folder / "broker-b" / "pid").read_text())
        os.kill(stalled, signal.SIGSTOP)
        send(producer, "stalled", "Stalled", "a", 6)
        os.kill(stalled, signal.SIGCONT)
        time.sleep(45)
        for process in (producer, heirs, heir, native, listener):
            say(process, "end")
            assert process.wait(60) == 0
        time.sleep(8)


class Truth:
    """What the applications wrote."""

    def __init__(self, folder: Path) -> None:
        self.kinds: dict[str, str] = {}
        self.failed: set[str] = set()
        self.consumed: dict[tuple[str, str], int] = Counter()
        self.tried: dict[str, set[str]] = defaultdict(set)
        for line in (folder / "truth").read_text().splitlines():
            what, name, msg_id, *_ = line.split(" ")
            if what in ("sent", "failed"):
                self.kinds[msg_id] = name
                self.failed |= {msg_id} if what == "failed" else set()
            elif what == "consumed":
                self.consumed[(name, msg_id)] += 1
            else:
                self.tried[msg_id].add(name)


MEMBERS_OF_CAST = 2
GROUPS = {"tag": "g_tagged", "tx": "g_plain"} | dict.fromkeys(("batch", "delay", "oneway", "plain"), "g_plain")


def group_of(kind: str) -> str:
    return GROUPS.get(kind.partition("_")[0], f"g_{kind}")


def expected(kind: str, msg_id: str, truth: Truth) -> set[str]:
    """The verdicts of which one must be told."""
    if kind == "batch":  # whose messages consumers of 5.x see under one id, the batch's own
        return {"consumed_once"}
    group = group_of(kind)
    if kind == "heard":  # by a C++ client, which has no recorder
        return {"unknown"}
    times = truth.consumed[(group, msg_id)]
    if kind == "cast":  # each member consumes all
        return {"consumed_once"} if times == MEMBERS_OF_CAST else {"not_consumed_yet"}
    if times:
        return {"consumed_once"} if times == 1 else {"consumed_twice"}
    if group in truth.tried[msg_id]:
        return {"dead_letter"} if kind == "dead" else {"not_consumed_yet"}
    return {"tag_b": {"filtered"}, "skipped": {"lost"}, "mixed": {"not_consumed_yet"}}.get(kind, {"unknown"})


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lives")
    play(folder)
    hindsight("run-pipeline", "--landing", str(folder / "landing"), "--lake", str(folder / "lake"))
    return folder, Truth(folder)


def test_every_life_is_told_as_the_applications_lived_it(played):
    folder, truth = played
    wrong, seen = check(folder, truth)
    assert not wrong
    assert sum(times for (group, _), times in truth.consumed.items() if group == "g_plain") == 8 + 3 * 2 + 6
    assert {"consumed_once", "consumed_twice", "dead_letter", "filtered", "lost"} <= set(seen)
    lived = Counter(kind for msg_id, kind in truth.kinds.items() if truth.consumed[(group_of(kind), msg_id)])
    assert (lived["cast"], lived["popped"], lived["repopped"], lived["native"], lived["heard"]) == (4, 4, 2, 4, 4)


def check(folder: Path, truth: Truth) -> tuple[list, Counter]:
    from hindsight.jobs.asking.asking import asked
    from hindsight.jobs.asking.message_life import messages

    wrong, seen = [], Counter()
    with asked(str(folder / "lake"), None, "local", name="message", master=None) as asker:
        for msg_id, kind in truth.kinds.items():
            (message,) = messages(asker, msg_id, by_key=False, late_s=60, days=3)
            group = message.groups.get(group_of(kind))
            told = [each.verdict for each in group.verdicts] if group else []
            seen.update(told)
            if not expected(kind, msg_id, truth) & set(told):
                wrong.append((kind, msg_id, told, expected(kind, msg_id, truth), group and group.verdicts))
    return wrong, seen
