"""Producers that send at random: what their hooks write, and the rows of send_attempt and producer_instance of it."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime

from udfs.fault_tolerance import profile_for

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


def at(ms):
    return ms and datetime.fromtimestamp(ms / 1000, UTC)


def attempt_rows(lines):
    """Rows of send_attempt, as ingestion makes them; an ASYNC submit and its callback are one."""
    made = {}
    for number, line in enumerate(lines):
        told = line["status"] or line["exception"]
        asynchronous = line["mode"] == "ASYNC"
        phase = (
            ("callback" if told else "submit") if asynchronous else "submit" if line["mode"] == "ONEWAY" else "result"
        )
        row = made.setdefault((line["msgId"], line["times"]), {})
        row |= {
            "cluster": "c",
            "event_date": DAY,
            "producer_group": "g",
            "client_id": line["clientId"],
            "thread": line["thread"],
            "topic": line["topic"],
            "broker_name": line["broker"],
            "broker_named_as": line["broker"],
            "exceptions_observable": True,
            "queue_id": 0,
            "mode": line["mode"],
            "attempt": None if asynchronous else line["times"],
            "last_broker_name": line["lastBrokerName"],
            "begin_at": at(line["beginMs"]),
            "end_at": at(line["endMs"]),
            "latency_ms": line["endMs"] - line["beginMs"],
            "outcome": line["status"] or ("EXCEPTION" if line["exception"] else "SUBMITTED"),
            "exception": line["exception"],
            "msg_id": line["msgId"],
            "phase": phase,
            "source": "producer_hook",
            "source_file": "f",
            "source_line": number,
            "ingested_at": at(START_MS),
            "run_id": "r",
        }
        if asynchronous:
            row[f"{phase}_end_at"] = at(line["endMs"])
    return list(made.values())


def start_row(version, client_id):
    start = start_of(version)
    return {
        "cluster": "c",
        "event_date": DAY,
        "producer_group": "g",
        "client_id": client_id,
        "started_at": at(START_MS - 1000),
        "client_version": version,
        "latency_fault_enabled": True,
        "detector_enabled": False,
        "latency_max_ms": start["latencyMax"],
        "not_available_ms": start["notAvailableDuration"],
        "source": "producer_hook",
        "source_file": "f",
        "source_line": 0,
        "ingested_at": at(START_MS),
        "run_id": "r",
    }
