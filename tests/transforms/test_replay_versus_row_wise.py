"""A rebuild in Spark versus one choice and one update at a time: verdicts, windows and closing items of random streams.

Thirty-two producers of eight release families send to three topics that share brokers, so that one fault table serves
all three and the fallback forgets brokers. One rebuild serves all tests; the oracle is ``tests/recorded_producer.py``
for verdicts and ``FaultTable`` for the rest.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime

import pytest

from tests.recorded_producer import TOLERANCE_MS, Recorded
from udfs.fault_tolerance import FaultTable, profile_for

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


class Tables:
    """What a rebuild reads, held in memory."""

    def __init__(self, spark, rows):
        self.spark, self.rows = spark, rows

    def read(self, table):
        rows = [tuple(row.get(name) for name in table.columns.names) for row in self.rows.get(table.name, [])]
        return self.spark.createDataFrame(rows, table.columns)


@pytest.fixture(scope="module")
def rebuilt(spark, settings):
    """Verdicts, windows and closing items of all producers, from one rebuild."""
    from jobs.publication import Stretch
    from jobs.rebuild_availability import compute
    from jobs.run_context import RunContext
    from jobs.transforms.frames import ClusterDate

    assert settings.replay.clock_tolerance_ms == TOLERANCE_MS
    rows = {
        "send_attempt": [row for producer in PRODUCERS for row in attempt_rows(lines_of(*producer))],
        "producer_instance": [start_row(producer[0], name_of(*producer)) for producer in PRODUCERS],
    }
    dates = [ClusterDate("c", DAY)]
    stretch = Stretch(
        Tables(spark, rows),
        RunContext("nowhere"),
        dates,
        {},
        {},
        {"c": DAY},
        frozenset(dates),
        frozenset(),
        frozenset({"producer_hook"}),
    )
    made = compute(stretch, settings)
    wanted = ("send_verdict", "broker_availability_window", "fault_item_state")
    return {name: made[name].collect() for name in wanted}


def own(rows, producer):
    return [row for row in rows if row.client_id == name_of(*producer)]


def ms_of(instant):
    return instant and round(instant.replace(tzinfo=UTC).timestamp() * 1000)


def told_one_by_one(producer):
    recorded = Recorded(start_of(producer[0]), lines_of(*producer))
    verdicts = {
        (a["msgId"], None if a["mode"] == "ASYNC" else a["times"]): (j.verdict, j.rule, j.reason, sorted(j.admissible))
        for a, j in recorded.verdicts()
    }
    return recorded, verdicts


@pytest.mark.parametrize("version", VERSIONS)
def test_verdicts_are_those_of_the_choices_judged_one_by_one(rebuilt, version):
    seen = set()
    for producer in (p for p in PRODUCERS if p[0] == version):
        _, expected = told_one_by_one(producer)
        ours = {
            (row.msg_id, row.attempt): (row.verdict, row.rule, row.reason, row.admissible)
            for row in own(rebuilt["send_verdict"], producer)
        }
        assert {key: expected[key] for key in ours} == ours, producer
        assert {expected[key][0] for key in expected.keys() - ours.keys()} <= {"consistent"}, producer
        seen |= {verdict for verdict, *_ in ours.values()}
    assert seen == {"consistent", "possible", "impossible"}


def changes_of(producer):
    """Every update and every sure removal of the producer, in order: (instant, broker, update or None)."""
    recorded, _ = told_one_by_one(producer)
    changes = [
        (a["endMs"], a["beginMs"], broker, (a["endMs"] - a["beginMs"], told))
        for broker, made in recorded.updates.items()
        for a, _, told in made
    ]
    changes += [(now, now, broker, None) for broker, now in recorded.removed]
    return recorded.profile, sorted(changes, key=lambda change: change[:2])


def applied(table, change):
    now, _, broker, update = change
    if update is None:
        table.remove(broker)
    else:
        table.update(broker, latency_ms=update[0], now_ms=now, **update[1]._asdict())


def test_some_brokers_are_forgotten():
    assert any(update is None for producer in PRODUCERS for *_, update in changes_of(producer)[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_is_unavailable_exactly_inside_its_windows(rebuilt, version):
    for producer in (p for p in PRODUCERS if p[0] == version):
        profile, changes = changes_of(producer)
        held = [
            (row.broker_name, row.state, ms_of(row.window_start), ms_of(row.window_end))
            for row in own(rebuilt["broker_availability_window"], producer)
        ]
        moments = sorted({now + step for now, *_ in changes for step in (0, 1, 2_000, 10_000, 30_000, 600_000)})
        table, pending = FaultTable(profile), list(changes)
        for ms in moments:
            while pending and pending[0][0] <= ms:
                applied(table, pending.pop(0))
            inside = {
                (broker, state) for broker, state, start, end in held if start <= ms and (end is None or ms < end)
            }
            for broker in "abcd":
                unreachable = (broker, "unreachable") in inside
                gated = (broker, "unavailable") in inside or (profile.reachable_gates_availability and unreachable)
                assert gated == (not table.is_available(broker, ms)), (producer, broker, ms)
                assert unreachable == (not table.is_reachable(broker)), (producer, broker, ms)


@pytest.mark.parametrize("version", VERSIONS)
def test_items_close_as_the_table_holds_them(rebuilt, version):
    for producer in (p for p in PRODUCERS if p[0] == version):
        profile, changes = changes_of(producer)
        table = FaultTable(profile)
        for change in changes:
            applied(table, change)
        rows = [r for r in own(rebuilt["fault_item_state"], producer) if r.event_date == DAY]
        assert {r.broker_name: (r.current_latency_ms, ms_of(r.start_at), r.reachable) for r in rows} == table.items()
