"""A rollout on a real cluster, predicted by ``hindsight upgrade`` before it begins, beside what its members showed."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.collect.real_cluster import CLIENT, HINDSIGHT, cluster, create_topic, hindsight, java_program
from tests.collect.test_send_recorder import build

pytestmark = pytest.mark.soak

SERVERS, OLD, NEW = "5.3.3", "4.9.8", "5.3.3"
GROUP, TOPIC, MEMBERS = "g_roll", "Rolled", ("m-0", "m-1", "m-2")
SPEC = f"consumer;{GROUP};{TOPIC};*;AVG;{{}}"
SWEEP_S = 1
HEARD_S = 8  # from when a member has stopped, or started, until what the others hold is looked at; 1.5 s are predicted
CALM_S = 20


class Step(NamedTuple):
    """When a member had stopped, when its successor was started and stood, and when the next one stopped (epoch s)."""

    stopped: float
    starts: float
    stands: float
    ends: float


class Rollout:
    def __init__(self, folder: Path, name_servers: str, jar: Path) -> None:
        self._folder, self._name_servers, self._jar = folder, name_servers, jar

    def member(self, name: str, release: str, stack: ExitStack) -> Any:
        given, log = (self._name_servers, self._folder / "hooks", SPEC.format(name)), f"{name}-{release}"
        program = java_program("Configured", release, self._folder, *given, jar=self._jar, parts=CLIENT, log=log)
        return stack.enter_context(program)

    def collecting(self, landing: Path, *options: str) -> list[str]:
        asked = ["--name-server", self._name_servers, "--every", str(SWEEP_S), *options]
        return [*HINDSIGHT, "collect", "--cluster", "real", "--landing", str(landing), *asked]

    def play(self, landing: Path, members: list[Any], stack: ExitStack) -> list[Step]:
        """Each member in turn stops and comes back with the new release."""
        collector = stack.enter_context(subprocess.Popen(self.collecting(landing), stderr=subprocess.DEVNULL))
        stack.callback(collector.terminate)
        time.sleep(10)
        times = []
        for name, process in zip(MEMBERS, members, strict=True):
            process.stdin.close()
            assert process.wait(60) == 0
            stopped = time.time()
            time.sleep(HEARD_S + 6)
            starts = time.time()
            self.member(name, NEW, stack)
            stands = time.time()
            time.sleep(HEARD_S + CALM_S)
            times.append(Step(stopped, starts, stands, time.time()))
        return times


def held(lake: Path) -> dict[tuple[str, int], list[tuple[float, set[str]]]]:
    """By queue, who held it in each sweep (epoch s)."""
    query = f"""SELECT broker_name, queue_id, EPOCH(o.round_at) AS seen_at, LIST(DISTINCT client_id) AS owners
    FROM queue_ownership o WHERE consumer_group = '{GROUP}' AND topic = '{TOPIC}' AND NOT dropped
    GROUP BY ALL ORDER BY seen_at"""
    rows = hindsight("sql", query, "--lake", str(lake), "--json")
    sweeps = {json.loads(row)["seen_at"] for row in rows.splitlines()}
    found: dict[tuple[str, int], dict[float, set[str]]] = defaultdict(lambda: {at: set() for at in sorted(sweeps)})
    for row in map(json.loads, rows.splitlines()):
        found[row["broker_name"], row["queue_id"]][row["seen_at"]] = set(row["owners"])
    return {queue: list(of_queue.items()) for queue, of_queue in found.items()}


def unread_s(sweeps: list[tuple[float, set[str]]], step: Step) -> float:
    """Seconds in which surely nobody held a queue in a step: between sweeps that both show nobody."""
    in_step = [(before, at, owners | later) for (before, owners), (at, later) in pairwise(sweeps)]
    return sum(at - before for before, at, owners in in_step if step.stopped - 5 <= at <= step.ends and not owners)


def predicted(lake: Path) -> list[dict[str, Any]]:
    words = ["--release", NEW, "--away", str(HEARD_S + 10), "--calm", str(CALM_S), "--json"]
    rows = map(json.loads, hindsight("upgrade", GROUP, "--lake", str(lake), *words).splitlines())
    return [row for row in rows if row["part"] == "step" and row["topic"] == TOPIC]


def test_each_step_is_as_it_was_predicted(tmp_path):
    jar = build(tmp_path / "java", "4.7.1")
    before, after = tmp_path / "before", tmp_path / "after"
    with cluster(SERVERS, tmp_path, name_servers=1) as name_servers, ExitStack() as stack:
        create_topic(SERVERS, tmp_path, name_servers, TOPIC)
        rollout = Rollout(tmp_path, name_servers, jar)
        members = [rollout.member(name, OLD, stack) for name in MEMBERS]
        time.sleep(25)
        subprocess.run(rollout.collecting(before / "landing", "--rounds", "8"), check=True, stderr=subprocess.DEVNULL)
        hindsight("run-pipeline", "--landing", str(before / "landing"), "--lake", str(before / "lake"))
        steps = predicted(before / "lake")
        times = rollout.play(after / "landing", members, stack)
    hindsight("run-pipeline", "--landing", str(after / "landing"), "--lake", str(after / "lake"))
    sweeps = held(after / "lake")
    assert [step["client_id"].partition("@")[2] for step in steps] == list(MEMBERS)
    assert len(sweeps) == 8
    for step, at in zip(steps, times, strict=True):
        for queue in step["owners"]:
            of_queue = sweeps[queue["broker_name"], queue["queue_id"]]
            shown = {
                "away": [owners for when, owners in of_queue if at.stopped + HEARD_S <= when < at.starts],
                "after": [owners for when, owners in of_queue if at.stands + HEARD_S <= when <= at.ends],
            }
            for when, rounds in shown.items():
                assert rounds and all(owners == set(queue[when]) for owners in rounds), (step["step"], queue, rounds)
            assert unread_s(of_queue, at) <= step["longest_unread_at_most_s"], (step["step"], queue)
