"""The windows that Spark makes of a stream of updates, versus the row-wise fault table on the same stream."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from pyspark.sql import functions as F

from udfs.fault_tolerance import PROFILES, FaultTable, compute_not_available_duration

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
MIDNIGHT_MS = int(MIDNIGHT.timestamp() * 1000)
PROFILE_IDS = ("P43", "P498", "P511", "P514", "P533")
STREAMS = 12
COLUMNS = """cluster string, producer_group string, client_id string, started_at timestamp, life_at timestamp,
    broker_name string,
    at timestamp, begin_at timestamp, thread string, msg_id string, attempt int, phase_rank int, event_date date,
    profile string, extend_only boolean, has_reachable boolean, next_started_at timestamp, latency_ms long,
    isolation boolean, reachable boolean, duration_ms long"""
REMOVALS = """cluster string, producer_group string, client_id string, started_at timestamp, life_at timestamp,
    broker_name string, at timestamp"""


def instant(ms: int) -> datetime:
    return MIDNIGHT + timedelta(milliseconds=ms)


def stream(profile, seed):
    """Updates of two brokers at odd moments, many at the same millisecond; ms since midnight."""
    dice = random.Random(seed)
    at = 0
    for number in range(60):
        at += dice.choice((0, 0, 1, 500, 2000, 9000, 31_000, 700_000))
        isolation = dice.random() < 0.2
        reachable = not profile.has_reachable or not isolation or dice.random() < 0.5
        latency = dice.choice((-5, 0, 40, 549, 550, 999, 1800, 3000, 15_000))
        broker = dice.choice(("broker-a", "broker-b"))
        if not profile.has_reachable and dice.random() < 0.1:
            # The fallback forgets the broker, at an instant of its own.
            yield number, at + 1, broker, None, False, True
            at += 2
        else:
            yield number, at, broker, latency, isolation, reachable


def apply(table, broker, at, latency, isolation, reachable):
    if latency is None:
        table.remove(broker)
    else:
        table.update(broker, latency_ms=latency, isolation=isolation, now_ms=at, reachable=reachable)


def client(profile_id, seed):
    return f"{profile_id}-{seed}"


def rows_of_stream(profile_id, seed):
    profile = PROFILES[profile_id]
    for number, at, broker, latency, isolation, reachable in stream(profile, seed):
        if latency is None:
            continue
        duration = compute_not_available_duration(np.array([latency]), np.array([isolation]), profile)[0]
        yield (
            *(
                "c",
                "g",
                client(profile_id, seed),
                instant(-1000),
                instant(-1000),
                broker,
                instant(at),
                instant(at),
                "t",
                f"{number:03}",
                0,
                0,
            ),
            *(instant(at).date(), profile_id, profile.extend_only, profile.has_reachable, None),
            *(latency, isolation, reachable, int(duration)),
        )


def removals_of_stream(profile_id, seed):
    for _, at, broker, latency, _, _ in stream(PROFILES[profile_id], seed):
        if latency is None:
            yield "c", "g", client(profile_id, seed), instant(-1000), instant(-1000), broker, instant(at)


@pytest.fixture(scope="module")
def replayed(spark):
    """Stretches and closing items of all streams, from one run."""
    from jobs.transforms.availability import (
        items_by_date,
        stretches,
        with_carried_items,
        with_removals,
        with_stretches,
    )

    made = [row for p in PROFILE_IDS for seed in range(STREAMS) for row in rows_of_stream(p, seed)]
    updates = spark.createDataFrame(made, COLUMNS)
    nothing = spark.createDataFrame(
        [],
        "verdict string, cluster string, producer_group string, client_id string, "
        "started_at timestamp, life_at timestamp, event_date date, extend_only boolean, has_reachable boolean, "
        "next_started_at timestamp, "
        "first_date date",
    )
    from schemas import FAULT_ITEM_STATE

    opening = spark.createDataFrame([], FAULT_ITEM_STATE.columns)
    gone = [row for p in PROFILE_IDS for seed in range(STREAMS) for row in removals_of_stream(p, seed)]
    assert gone
    removals = spark.createDataFrame(gone, REMOVALS)
    rows = with_stretches(with_removals(with_carried_items(updates, opening, nothing), removals)).localCheckpoint()
    whole = stretches(rows).select(
        "client_id", "broker_name", "state", F.unix_millis("stretch_start"), F.unix_millis("stretch_end")
    )
    held: dict[tuple, list] = {}
    for client_id, broker, state, start, end in whole.collect():
        held.setdefault((client_id, broker, state), []).append((start - MIDNIGHT_MS, end - MIDNIGHT_MS))
    day = date(2026, 1, 6)  # every stream ends before it
    living = [
        ("replayed", "c", "g", client(p, s), instant(-1000), instant(-1000), day, None)
        for p in PROFILE_IDS
        for s in range(STREAMS)
    ]
    replay = spark.createDataFrame(
        living,
        "verdict string, cluster string, producer_group string, client_id string, started_at timestamp, "
        "life_at timestamp, event_date date, next_started_at timestamp",
    )
    items = items_by_date(rows, replay, removals.limit(0), tolerance_ms=0).select(
        "client_id", "broker_name", "current_latency_ms", F.unix_millis("start_at").alias("s"), "reachable"
    )
    return held, {(r.client_id, r.broker_name): r for r in items.collect()}


def within(windows, ms):
    return any(start <= ms < end for start, end in windows)


@pytest.mark.parametrize("profile_id", PROFILE_IDS)
def test_a_broker_is_unavailable_exactly_inside_the_windows(replayed, profile_id):
    held, _ = replayed
    profile = PROFILES[profile_id]
    for seed in range(STREAMS):
        updates = list(stream(profile, seed))
        moments = sorted(
            {at + step for _, at, *_ in updates for step in (0, 1, 2000, 10_000, 30_000, 599_999, 600_000)}
        )
        table, pending = FaultTable(profile), list(updates)
        for ms in moments:
            while pending and pending[0][1] <= ms:
                _, at, broker, latency, isolation, reachable = pending.pop(0)
                apply(table, broker, at, latency, isolation, reachable)
            for broker in ("broker-a", "broker-b"):
                key = (client(profile_id, seed), broker)
                unavailable = within(held.get((*key, "unavailable"), []), ms)
                unreachable = within(held.get((*key, "unreachable"), []), ms)
                gated = unavailable or (profile.reachable_gates_availability and unreachable)
                assert gated == (not table.is_available(broker, ms)), (key, ms)
                assert unreachable == (not table.is_reachable(broker)), (key, ms)


def test_windows_of_one_producer_broker_and_state_never_overlap(replayed):
    held, _ = replayed
    assert held
    for windows in held.values():
        ordered = sorted(windows)
        assert all(end <= start for (_, end), (start, _) in pairwise(ordered))


@pytest.mark.parametrize("profile_id", PROFILE_IDS)
def test_items_close_as_the_table_holds_them(replayed, profile_id):
    _, closed = replayed
    for seed in range(STREAMS):
        table = FaultTable(PROFILES[profile_id])
        for _, at, broker, latency, isolation, reachable in stream(PROFILES[profile_id], seed):
            apply(table, broker, at, latency, isolation, reachable)
        assert {b for c, b in closed if c == client(profile_id, seed)} == set(table.items())
        for broker, item in table.items().items():
            ours = closed[(client(profile_id, seed), broker)]
            start = None if ours.s is None else ours.s - MIDNIGHT_MS
            assert (ours.current_latency_ms, start, ours.reachable) == item, (profile_id, seed, broker)
