"""A seed, a number of rows and a share of slow sends in; a producer side's canonical tables as Parquet out.

One day of one cluster. Producers differ in rate by two orders of magnitude. Brokers have bad minutes, in which sends
to them are slow or time out; a producer that has seen one shuns the broker, as its fault table makes it, but for a
few sends that were under way.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.canonical import same, texts, write
from hindsight.schemas import PRODUCER_INSTANCE, SEND_ATTEMPT, TOPIC_ROUTE

DAY = date(2026, 3, 2)
DAY_MS = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
_DAY_LENGTH_MS = 86_400_000
# No send ends on the next date, of which nothing else is recorded.
_LAST_BEGIN_MS = _DAY_LENGTH_MS - 20_000
_SEED = 20_260_302
_TOPICS = 8
_MINUTE_MS = 60_000
_CROWDED_MS = 12 * 3_600_000  # when a crowded minute begins
_EPISODES = 4.5  # bad times of each broker in a day
_RELEASES = ("V4_7_1", "V4_9_8", "V5_3_3")
_LADDER_4X = ((50, 100, 550, 1000, 2000, 3000, 15000), (0, 0, 30000, 60000, 120000, 180000, 600000))
_FILES = 8
_TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"


class Shape(NamedTuple):
    """What is drawn.

    ``giant``: share of all rows that one producer sends; ``crowd``: share that is sent within one minute; ``releases``:
    which clients there are; ``shuns``: whether a producer goes by what it has seen of a broker.
    """

    rows: int
    unhealthy: float = 0.01
    giant: float = 0.0
    crowd: float = 0.0
    producers: int = 400
    brokers: int = 20
    releases: tuple[str, ...] = _RELEASES
    shuns: bool = True

    @property
    def broker_names(self) -> list[str]:
        """All brokers."""
        return [f"broker-{chr(ord('a') + i % 26)}{i // 26 or ''}" for i in range(self.brokers)]


def write_tables(data: Path, shape: Shape) -> None:
    """Write send_attempt, producer_instance and topic_route under ``data``, one folder each."""
    rng = np.random.default_rng(_SEED)
    shares = 1.0 / np.arange(1, shape.producers + 1)
    shares /= shares.sum()
    if shape.giant:
        shares = np.concatenate([[shape.giant], shares[1:] / shares[1:].sum() * (1 - shape.giant)])
    producer = np.sort(rng.choice(shape.producers, shape.rows, p=shares))
    releases = rng.choice(len(shape.releases), shape.producers)
    for number, part in enumerate(np.array_split(np.arange(shape.rows), _FILES)):
        write(
            data / SEND_ATTEMPT.name / f"part-{number}.parquet",
            SEND_ATTEMPT,
            _attempts(producer[part], number, shape, rng),
        )
    write(data / PRODUCER_INSTANCE.name / "part-0.parquet", PRODUCER_INSTANCE, _starts(releases, shape))
    write(data / TOPIC_ROUTE.name / "part-0.parquet", TOPIC_ROUTE, {"cluster": []})


def _attempts(producer: Any, number: int, shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
    count = len(producer)
    begin = rng.integers(0, _LAST_BEGIN_MS, count)
    if shape.crowd:
        begin = np.where(rng.random(count) < shape.crowd, _CROWDED_MS + begin % _MINUTE_MS, begin)
    begin = np.sort(begin)
    producer = rng.permutation(producer)
    broker = rng.integers(0, shape.brokers, count)
    latency = np.minimum(rng.lognormal(1.2, 0.6, count), 400).astype(np.int64)
    unhealthy = _unhealthy(begin, broker, shape, rng)
    latency[unhealthy] = np.minimum(600 + rng.exponential(1200, unhealthy.sum()), 14_000).astype(np.int64)
    failed = unhealthy & (rng.random(count) < 0.3)
    latency[failed] = 3000 + rng.integers(0, 30, failed.sum())
    kept = np.ones(count, dtype=bool)
    if shape.shuns and shape.unhealthy <= 0.05:
        shunned = _shunned(producer * shape.brokers + broker, begin, latency, unhealthy, failed)
        kept = ~shunned | (rng.random(count) < 0.02)
    sends = _with_retries(producer[kept], broker[kept], begin[kept], latency[kept], failed[kept], shape, rng)
    return _columns(*sends, shape=shape, number=number)


def _with_retries(
    producer: Any, broker: Any, begin: Any, latency: Any, failed: Any, shape: Shape, rng: np.random.Generator
) -> Any:
    """Sends, and after each failed SYNC one its retry on another broker; last: of which send each row is, by place."""
    again = np.flatnonzero(failed & (producer % 10 > 1))
    other = (broker[again] + rng.integers(1, shape.brokers, len(again))) % shape.brokers
    place = np.arange(len(begin))
    pairs = (
        (producer, producer[again]),
        (broker, other),
        (begin, begin[again] + latency[again]),
        (latency, rng.integers(1, 9, len(again))),
        (failed, np.zeros(len(again), dtype=bool)),
        (place, again),
    )
    return tuple(np.concatenate(pair) for pair in pairs)


def _unhealthy(begin: Any, broker: Any, shape: Shape, rng: np.random.Generator) -> Any:
    share = shape.unhealthy
    if share > 0.05:
        return rng.random(len(begin)) < share
    fixed = np.random.default_rng(_SEED + 1)
    episodes = round(_EPISODES * shape.brokers)
    start = fixed.integers(0, _DAY_LENGTH_MS, episodes)
    where = fixed.integers(0, shape.brokers, episodes)
    length = fixed.integers(60_000, 600_000, episodes)
    bad = rng.random(len(begin)) < share / 20  # here and there
    for s, w, n in zip(start, where, length, strict=True):
        bad |= (broker == w) & (begin >= s) & (begin < s + n) & (rng.random(len(begin)) < 0.9)
    return bad


def _shunned(pair: Any, begin: Any, latency: Any, unhealthy: Any, failed: Any) -> Any:
    """Attempts that begin while their producer holds their broker not available, by the 4.x ladder."""
    order = np.lexsort((begin, pair))
    rungs, durations = np.array(_LADDER_4X[0]), np.array(_LADDER_4X[1])
    shun = np.zeros(len(begin), dtype=bool)
    until, last = 0, -1
    at = begin + latency
    bad = unhealthy
    taken = np.where(failed, 30_000, latency)
    for i in order:
        if pair[i] != last:
            until, last = 0, pair[i]
        if begin[i] < until:
            shun[i] = True
        elif bad[i]:
            until = at[i] + durations[np.searchsorted(rungs, taken[i], side="right") - 1]
    return shun


def _columns(
    producer: Any, broker: Any, begin: Any, latency: Any, failed: Any, send: Any, *, shape: Shape, number: int
) -> dict[str, Any]:
    count = len(begin)
    at, end = DAY_MS + begin, DAY_MS + begin + latency
    kind = np.where(producer % 10 == 0, 1, np.where(producer % 10 == 1, 2, 0))
    is_async = kind == 1
    attempt = (np.arange(count) != send).astype(np.int32)
    null, brokers = pa.scalar(None, pa.string()), shape.broker_names
    has_failed, is_retry = pa.array(failed), pa.array(attempt == 1)
    return {
        **_producer(producer, shape),
        "cluster": same("prod", count),
        "event_date": at,
        "topic": texts([f"topic-{n}" for n in range(_TOPICS)], (producer + begin[send] // 7) % _TOPICS),
        "thread": texts([f"send-{n}" for n in range(16)], begin[send] % 16),
        "mode": texts(["SYNC", "ASYNC", "ONEWAY"], kind),
        "attempt": (attempt, is_async),
        "broker_name": texts(brokers, broker),
        "broker_named_as": texts(brokers, broker),
        "exceptions_observable": same(True, count),
        "last_broker_name": pc.if_else(is_retry, texts(brokers, broker[send]), null),
        "queue_id": (begin % 8).astype(np.int32),
        "begin_at": at,
        "end_at": end,
        "latency_ms": latency,
        "outcome": pc.if_else(has_failed, "EXCEPTION", "SEND_OK"),
        "exception": pc.if_else(has_failed, _TIMEOUT, null),
        "msg_id": pa.array([f"{number:02X}{place:030X}" for place in send.tolist()]),
        "phase": texts(["result", "callback", "submit"], kind),
        "source": same("bench", count),
        "source_file": same(f"bench/part-{number}.jsonl", count),
        "source_line": np.arange(1, count + 1),
        "ingested_at": np.full(count, DAY_MS),
        "run_id": same("bench", count),
        "submit_end_at": (at, ~is_async),
        "callback_end_at": (end, ~is_async),
    }


def _producer(producer: Any, shape: Shape) -> dict[str, Any]:
    groups = [f"p{n % 120:03d}" for n in range(shape.producers)]
    clients = [f"10.1.{n // 250}.{n % 250}@{4000 + n}#{n * 104729}" for n in range(shape.producers)]
    return {"producer_group": texts(groups, producer), "client_id": texts(clients, producer)}


def _starts(releases: Any, shape: Shape) -> dict[str, Any]:
    every = np.arange(shape.producers)
    at = np.full(shape.producers, DAY_MS)
    return {
        **_producer(every, shape),
        "cluster": same("prod", shape.producers),
        "event_date": at,
        "started_at": at,
        "client_version": texts(list(shape.releases), releases),
        "latency_fault_enabled": same(True, shape.producers),
        "detector_enabled": same(False, shape.producers),
        "source": same("bench", shape.producers),
        "source_file": same("bench/starts.jsonl", shape.producers),
        "source_line": every + 1,
        "ingested_at": at,
        "run_id": same("bench", shape.producers),
    }
