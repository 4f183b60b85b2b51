"""Producers that send over three days, with bursts, restarts, midnights and clocks that step, as rows of tables."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

from tests.random_examples import SOAKING

FIRST = date(2026, 3, 1)
DAYS = [FIRST + timedelta(days=n) for n in range(3)]
DAY_MS = 86_400_000
BEGIN_MS = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
BROKERS = ["broker-a", "broker-b", "broker-c", "broker-d"]
RELEASES = ["V4_2_0", "V4_7_1", "V4_9_8", "V5_1_3", "V9_9_9", *["V5_1_4"] * 4, *["V5_3_3"] * 2]
REMOTING = "org.apache.rocketmq.remoting.exception.RemotingConnectException"
STEADY = {1: 1_500, 2: 1_500, 12: 40_000, 20: 40_000}  # of 4.7.1, 4.9.8, 4.7.1 and 5.3.3
STEPS = 600 if SOAKING else 150  # at most so many before its midnight, and after
SEED = 20_260_301


def at(ms):
    return datetime.fromtimestamp((BEGIN_MS + ms) / 1000, UTC)


def instants(rng):
    """Begins of sends over three days: alone, in bursts, and around midnight."""
    begun = []
    for _ in range(rng.randint(20, 60)):
        start = rng.choice([rng.randrange(3 * DAY_MS), rng.choice([1, 2]) * DAY_MS - rng.randrange(-2_000, 20_000)])
        begun += [start + rng.randrange(rng.choice([50, 5_000, 400_000])) for _ in range(rng.choice([1, 1, 2, 12]))]
    return sorted(b for b in begun if b < 3 * DAY_MS)


def steady_instants(rng, step_ms):
    """Begins of many sends before and after a midnight, a second or half a minute after each other."""
    begin, last = DAY_MS - rng.randrange(STEPS * step_ms), DAY_MS + rng.randrange(STEPS * step_ms)
    while begin < last:
        begin += rng.choice([0, 1, 2, rng.randrange(step_ms // 4), rng.randrange(step_ms)])
        yield begin


def latency_of(rng):
    return rng.choice([rng.randrange(9), rng.randrange(549), rng.choice([549, 550, 551, 1000, 3000, 15000]), -40])


def attempts_of(number, rng):
    """Sends of one producer, failed ones with a retry, as rows of send_attempt."""
    mode = rng.choice(["SYNC", "SYNC", "SYNC", "ONEWAY", "ASYNC"])
    used = rng.sample(BROKERS, rng.randint(1, 4))
    bad_share = rng.choice([0.02, 0.1, 0.3])
    step_ms = STEADY.get(number)
    if step_ms:
        mode, used, bad_share = "SYNC", BROKERS, 0.02
    for serial, begin in enumerate(steady_instants(rng, step_ms) if step_ms else instants(rng)):
        broker = rng.choice(used)
        bad = rng.random() < bad_share
        latency = latency_of(rng) if bad else rng.randrange(9)
        failed = bad and rng.random() < 0.6
        row = attempt(number, serial, begin, latency, broker, mode, failed, rng)
        yield row
        if failed and mode == "SYNC":
            again = attempt(number, serial, begin + max(latency, 0), 3, rng.choice(used), mode, False, rng)
            yield {**again, "attempt": 1, "topic": row["topic"], "last_broker_name": broker}


def attempt(number, serial, begin, latency, broker, mode, failed, rng):
    end = at(begin + latency)
    # A broker that is seldom used for a topic: that it ever was tells that the topic's route lists it.
    topics = ["orders"] if broker == "broker-d" and rng.random() < 0.95 else ["orders", "bills"]
    return {
        **producer(number),
        "event_date": at(begin).date(),
        "topic": rng.choice(topics),
        "thread": f"t{serial % 2}",
        "msg_id": f"m{number}-{serial}",
        "mode": mode,
        "attempt": None if mode == "ASYNC" else 0,
        "broker_name": broker,
        "broker_named_as": broker,
        "exceptions_observable": True,
        "queue_id": 0,
        "queue_selected_by": rng.choice([None, None, None, "client", "selector"]) if number % 5 == 0 else None,
        "begin_at": at(begin),
        "end_at": end,
        "latency_ms": latency,
        "outcome": "EXCEPTION" if failed else "SEND_OK",
        "exception": REMOTING if failed else None,
        "phase": "callback" if mode == "ASYNC" else "result",
        "submit_end_at": at(begin + 1) if mode == "ASYNC" else None,
        "callback_end_at": end if mode == "ASYNC" and rng.random() < 0.9 else None,
        "source": "test",
        "source_file": "f",
        "source_line": 1,
    }


def producer(number):
    return {"cluster": "c", "producer_group": f"g{number % 3}", "client_id": f"p{number:02d}"}


def starts_of(number, rng):
    """Starts of its processes: none, one, or a restart in the middle of its sends."""
    release = RELEASES[number % len(RELEASES)]
    for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 2])):
        started = at(rng.choice([0, rng.randrange(3 * DAY_MS)]))
        yield {
            **producer(number),
            "event_date": started.date(),
            "started_at": started,
            "client_version": release,
            "latency_fault_enabled": rng.random() < 0.95,
            "detector_enabled": rng.random() < 0.6,
            "latency_max_ms": [10, 20] if number % 7 == 0 else None,
            "not_available_ms": [0, 45_000] if number % 7 == 0 else None,
            "source": "test",
            "source_file": "f",
            "source_line": 1,
        }


def restless(seed=SEED, count=36 if SOAKING else 12):
    """Attempts and starts of so many producers; a dozen are of each release."""
    dice = random.Random(seed)
    return tuple([row for number in range(count) for row in made(number, dice)] for made in (attempts_of, starts_of))


def unpaired(count):
    """The same, but that no retry names its last broker."""
    attempts, starts = restless(count=count)
    return [{**row, "last_broker_name": None} for row in attempts], starts
