"""Producers that send at random: the lines that their hooks write."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime

from hindsight.udfs.fault_tolerance import profile_for

VERSIONS = ("4.2.0", "4.7.1", "4.8.0", "4.9.8", "5.0.0", "5.1.1", "5.1.4", "5.3.3")
MODES = ("SYNC", "SYNC", "ONEWAY", "ASYNC")
DAY = date(2026, 1, 5)
START_MS = int(datetime(2026, 1, 5, 1, tzinfo=UTC).timestamp() * 1000)
TOPICS = {"orders": ("a", "b"), "bills": ("b", "c", "d"), "audit": ("d",)}
TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
BROKER_ERROR = "org.apache.rocketmq.client.exception.MQBrokerException"
SENDS = 30
PRODUCERS = [(version, mode, seed) for version in VERSIONS for seed, mode in enumerate(MODES)]


def name_of(version, mode, seed):
    return f"{version}-{mode}-{seed}"


def start_of(version):
    profile = profile_for(version)
    ladders = {"latencyMax": list(profile.latency_max_ms), "notAvailableDuration": list(profile.not_available_ms)}
    return {"version": version, "sendLatencyFaultEnable": True, "spec": {"detector": "0"}, **ladders}


def lines_of(version, mode, seed):
    """What the hook writes of two threads, each with one send after the other; instants often coincide."""
    dice = random.Random(f"{version} {mode} {seed}")
    lines = []
    for thread in ("t0", "t1"):
        now = START_MS
        for number in range(SENDS):
            now += dice.choice((0, 1, 5, 800, 2_000, 9_000, 31_000))
            topic, last = dice.choice(sorted(TOPICS)), None
            for times in range(3):
                took, failed = dice.choice((0, 1, 3, 60, 549, 550, 700, 2_500)), dice.random() < 0.4
                line = {
                    "clientId": name_of(version, mode, seed),
                    "topic": topic,
                    "broker": dice.choice(TOPICS[topic]),
                    "lastBrokerName": last,
                    "times": times,
                    "thread": thread,
                    "msgId": f"{thread}-{number:02}",
                    "mode": mode,
                    "beginMs": now,
                    "endMs": now + took,
                    "status": None,
                    "exception": None,
                    "error": None,
                }
                answer = {"exception": dice.choice((TIMEOUT, BROKER_ERROR))} if failed else {"status": "SEND_OK"}
                now += took
                if mode == "ASYNC":
                    lines += [line, line | answer | {"endMs": now + dice.choice((1, 40, 3_000))}]
                else:
                    lines.append(line | (answer if mode == "SYNC" or failed else {}))
                last = line["broker"]
                if mode != "SYNC" or not failed or dice.random() < 0.3:
                    break
    return lines
