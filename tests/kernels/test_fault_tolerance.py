"""The producer's fault table against what RocketMQ's own classes wrote; HINDSIGHT_VECTORS adds a directory of more."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindsight.udfs.fault_tolerance import (
    FaultItem,
    FaultProfile,
    FaultTable,
    RouteBroker,
    compute_not_available_duration,
    profile_for,
)

Record = dict[str, Any]

DIRECTORIES = [Path(__file__).parents[1] / "golden" / "vectors"]
if "HINDSIGHT_VECTORS" in os.environ:
    DIRECTORIES.append(Path(os.environ["HINDSIGHT_VECTORS"]))

WRITE_PERMISSION = 2
LARGEST_INT = 2**31 - 1
COUNTER_MARGIN = 300  # within it an index may overflow, which no log shows: outside the sets by declaration
OVERFLOWN_IF_NEGATIVE = ("P48", "P49a", "P49b", "P49b3")  # ThreadLocalIndex of 4.8.0 to 4.9.3; later ones are masked


def vector_files(pattern: str) -> list[Any]:
    files = [path for directory in DIRECTORIES for path in sorted(directory.glob(pattern))]
    assert files, f"no {pattern} in {DIRECTORIES}"
    return [pytest.param(path, id=f"{path.parent.name}-{path.name.split('.jsonl')[0]}") for path in files]


def records(path: Path) -> Iterator[Record]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def profile_of(version: str, tables: Record) -> FaultProfile:
    return replace(
        profile_for(version),
        latency_max_ms=tuple(tables["latencyMax"]),
        not_available_ms=tuple(tables["notAvailableDuration"]),
    )


def items_of(java_items: list[Record]) -> dict[str, FaultItem]:
    return {item["name"]: FaultItem(item["lat"], item["start"], item.get("reach", True)) for item in java_items}


def check_items(table: FaultTable, java_items: list[Record], now_ms: int) -> None:
    assert table.items() == items_of(java_items)
    for item in java_items:
        assert table.is_available(item["name"], now_ms) == item["avail"], item
        assert table.is_reachable(item["name"]) == item.get("reach", True), item


@pytest.mark.parametrize("path", vector_files("duration_*.jsonl.gz"))
def test_durations_and_single_updates_equal_java(path: Path) -> None:
    profiles: dict[int, FaultProfile] = {}
    latencies: dict[int, list[int]] = {}
    durations: dict[int, list[int]] = {}
    for record in records(path):
        number = record["table"]
        if record["type"] == "table":
            profiles[number] = profile_of(record["version"], record)
        elif record["type"] == "duration":
            latencies.setdefault(number, []).append(record["latency"])
            durations.setdefault(number, []).append(record["compute"])
            check_single_updates(profiles[number], record)
        else:
            check_sequence(profiles[number], record["updates"])
    assert len(latencies) == len(profiles) == 5
    for number, profile in profiles.items():
        latency_ms = np.array(latencies[number], dtype=np.int64)
        actual = compute_not_available_duration(latency_ms, np.zeros(len(latency_ms), dtype=np.bool_), profile)
        np.testing.assert_array_equal(actual, durations[number])


def check_single_updates(profile: FaultProfile, record: Record) -> None:
    for kind, item in record.items():
        outcome, _, flag = kind.partition("_")
        if outcome not in ("normal", "isolated"):
            continue
        call = {
            "latency_ms": record["latency"],
            "isolation": outcome == "isolated",
            "now_ms": 0,
            "reachable": flag != "unreachable",
        }
        table = FaultTable(profile)
        table.update("b", **call)
        check_items(table, [item], 0)
        table = FaultTable(profile, enabled=False)
        table.update("b", **call)
        assert len(table.items()) == record["items_when_disabled"]


def check_sequence(profile: FaultProfile, updates: list[Record]) -> None:
    table = FaultTable(profile)
    for update in updates:
        table.update(
            "b",
            latency_ms=update["latency"],
            isolation=update["isolation"],
            now_ms=update["t"],
            reachable=update["reachable"],
        )
        check_items(table, [update["item"]], update["t"])


class TraceReplay:
    """One trace of a vector file: after each step the table, at each choice all that the client asked and took."""

    def __init__(self, init: Record) -> None:
        self.profile = profile_of(init["version"], init)
        self.table = FaultTable(self.profile, enabled=init["sendLatencyFaultEnable"])
        self.set_route(init)
        self.judged_choices = 0

    def set_route(self, record: Record) -> None:
        self.route = [
            RouteBroker(entry["brokerName"], entry["writeQueueNums"], bool(entry["perm"] & WRITE_PERMISSION))
            for entry in record["route"]
        ]
        self.queue_brokers = [broker for broker, _ in record["mq_list"]]

    def take(self, step: Record) -> None:
        operation = step["op"]
        if operation == "route":
            self.set_route(step)
        elif operation == "update":
            self.table.update(
                step["broker"],
                latency_ms=step["latency"],
                isolation=step["isolation"],
                now_ms=step["call_now"],
                reachable=step["reachable"] is not False,
            )
        elif operation == "detect":
            self.table.detect(now_ms=step["now"], up=step["up"], resolvable=step["resolvable"])
        else:
            assert operation == "select"
            self.select(step)
        check_items(self.table, step["items"], step["now_end"])

    def select(self, step: Record) -> None:
        now_ms = step["call_now"]
        choice = self.queue_brokers, self.route, now_ms, step["last"]
        admissible = self.table.admissible(*choice)
        removable = self.table.possible_removals(*choice)
        judged = not self.counters_may_overflow(step)
        if judged:
            self.check_no_wider_than_java(admissible, removable, step)
        for call in step["calls"]:
            self.check_call(call, now_ms)
            if call["call"] == "pickOneAtLeast":
                judged = judged and "throws" not in call
            elif call["call"] == "remove" and call["arg"] is not None:
                assert call["arg"] in removable
                self.table.remove(call["arg"])
        if judged:
            assert step["broker"] in admissible
            self.judged_choices += 1
        for position, broker, _ in step["list_delta"]:
            self.queue_brokers[position] = broker

    def check_no_wider_than_java(self, admissible: frozenset[str], removable: frozenset[str], step: Record) -> None:
        """What the client asked on its way shows which rule it was under: the set must not reach beyond that rule."""
        asked = {call["call"] for call in step["calls"]}
        others = set(self.queue_brokers) - {step["last"]}
        if "pickOneAtLeast" in asked:
            picks = self.table.pick_one_at_least(step["call_now"])
            assert admissible <= picks or removable or not picks
            assert "remove" not in asked or removable or not picks
            assert "remove" in asked or removable != picks or not picks
            return
        assert not removable
        if not asked:
            assert admissible == (others or set(self.queue_brokers))
        elif "isReachable" not in asked:
            assert all(self.table.is_available(broker, step["call_now"]) for broker in admissible)
        elif step["broker"] in others and step["calls"][-1] == reachable_answer(step["broker"]):
            assert admissible == {broker for broker in others if self.table.is_reachable(broker)}

    def counters_may_overflow(self, step: Record) -> bool:
        counters = [step["idx_before"], *(call.get("worst_before") for call in step["calls"])]
        lowest = 0 if self.profile.id in OVERFLOWN_IF_NEGATIVE else -LARGEST_INT - 1
        return any(
            counter is not None and not lowest <= counter <= LARGEST_INT - COUNTER_MARGIN for counter in counters
        )

    def check_call(self, call: Record, now_ms: int) -> None:
        if call["call"] == "isAvailable":
            assert self.table.is_available(call["arg"], now_ms) == call["ret"], call
        elif call["call"] == "isReachable":
            assert self.table.is_reachable(call["arg"]) == call["ret"], call
        elif call["call"] == "pickOneAtLeast":
            picks = self.table.pick_one_at_least(now_ms)
            assert picks == better_half(call["sortedGroups"]), call
            assert "throws" in call or call["ret"] in (picks or {None})
        else:
            assert call["call"] == "remove"


def reachable_answer(broker_name: str) -> Record:
    return {"call": "isReachable", "arg": broker_name, "ret": True}


def better_half(sorted_groups: list[list[str]]) -> set[str]:
    """The tied groups of a table, best first, as far as its better half reaches into them."""
    size = sum(map(len, sorted_groups))
    half: set[str] = set()
    for group in sorted_groups:
        if len(half) < max(size // 2, 1):
            half.update(group)
    return half


@pytest.mark.parametrize("path", vector_files("trace_*.jsonl.gz"))
def test_every_step_of_a_trace_equals_java(path: Path) -> None:
    replays: list[TraceReplay] = []
    for record in records(path):
        if record["type"] == "init":
            replays.append(TraceReplay(record))
            continue
        try:
            replays[-1].take(record)
        except AssertionError as difference:
            difference.add_note(f"trace {record['trace']} step {record['step']} ({record['op']}) of {path.name}")
            raise
    assert sum(replay.judged_choices for replay in replays) > 0
