"""A seed and a number of rows in; a consumer side's canonical tables as Parquet out, drawn like a real cluster's.

Groups differ in size by two orders of magnitude, one has 1,024 queues and 300 members. Members come and go; the round
after still shows the old owners. Some queues are held by the wrong client or by nobody for a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.canonical import same, texts, write
from hindsight.schemas import (
    CONSUMER_HEARTBEAT,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
)
from hindsight.udfs.allocation import MessageQueue, allocate, sort_client_ids

GROUPS = 2_000
FIRST_ROUND_MS = int(datetime(2026, 3, 2, 8, tzinfo=UTC).timestamp() * 1000)
ROUND_MS = 30_000
PROGRESS_EVERY = 4  # rounds; a reading is valid for as long
_SEED = 20_260_302
_BROKERS = np.array([f"broker-{chr(ord('a') + i)}" for i in range(16)])
_STRATEGIES, _SHARES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"), (0.6, 0.2, 0.2)
_CHANGE = 0.02  # of a group's rounds begin with another list of members
_FAULTY = 0.03  # of the groups have a queue that its expected owner does not hold, for ten rounds
_FILES = 4


class Population(NamedTuple):
    """Which groups are drawn: of many sizes, one of them of 1,024 queues and 300 members; or all alike.

    ``members``: of each group, each of 64 queues; None: many sizes. ``largest``: whether there is the large one among
    these.
    """

    groups: int = GROUPS
    members: int | None = None
    largest: bool = True


MIXED = Population()


class Group(NamedTuple):
    """What stays of a group: its queues in RocketMQ's order, as places in the list of brokers and ids."""

    number: int
    strategy: str
    brokers: Any
    queue_ids: Any
    version: int  # MQVersion ordinal
    members: int | None = None  # None: as many as are drawn

    @property
    def name(self) -> str:
        """The consumer group; its topic is called alike."""
        return f"g{self.number:04d}"


class Shown(NamedTuple):
    """What one round shows of a group: its members, and the owner of each queue as a place among them (-1: nobody)."""

    group: Group
    round_number: int
    members: tuple[str, ...]
    owners: Any


def draw_groups(rng: np.random.Generator, population: Population) -> list[Group]:
    """Groups of 1 to 1,024 queues, most of them small; or of 64 queues each."""
    groups = []
    for number in range(population.groups):
        brokers, each, members = 8, 8, population.members
        if members is None and number == 0 and population.largest:
            brokers, each, members = 16, 64, 300
        elif members is None:
            brokers = int(rng.choice([1, 2, 3, 4, 8, 16], p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.1]))
            each = int(rng.choice([1, 4, 8, 16, 32], p=[0.05, 0.3, 0.35, 0.25, 0.05]))
        strategy = str(rng.choice(_STRATEGIES, p=_SHARES))
        places = np.repeat(np.arange(brokers), each)
        version = int(rng.choice([355, 409]))
        groups.append(Group(number, strategy, places, np.tile(np.arange(each), brokers), version, members))
    return groups


def rounds_for(groups: Sequence[Group], rows: int) -> int:
    """How many rounds give about so many (queue, round) rows."""
    return max(2, round(rows / sum(len(group.queue_ids) for group in groups)))


def walk_group(group: Group, rounds: int, rng: np.random.Generator) -> Iterator[Shown]:
    """A group's rounds."""
    names = _BROKERS[group.brokers].tolist()
    queues = [MessageQueue(group.name, name, q) for name, q in zip(names, group.queue_ids.tolist(), strict=True)]
    count = group.members or int(np.clip(rng.lognormal(1.8, 0.9), 1, 1.3 * len(queues) + 1))
    serial = count
    members = [_client(group, n) for n in range(count)]
    owners = _owners(group, queues, members)
    faulty_from = int(rng.integers(0, rounds)) if rng.random() < _FAULTY else rounds
    for number in range(rounds):
        before, was = owners, members
        if rng.random() < _CHANGE:
            members = _other_members(group, members, serial, rng)
            serial += 1
            owners = _owners(group, queues, members)
            place = {client_id: i for i, client_id in enumerate(members)}
            moved = np.array([place.get(client_id, -1) for client_id in was] + [-1])
            yield Shown(group, number, tuple(members), moved[before])
            continue
        shown = owners
        if faulty_from <= number < faulty_from + 10:
            shown = owners.copy()
            shown[0] = -1 if group.number % 2 else (shown[0] + 1) % len(members)
        yield Shown(group, number, tuple(members), shown)


def _client(group: Group, serial: int) -> str:
    return (
        f"10.{group.number // 250}.{group.number % 250}.{serial % 250}@{4000 + serial}#{group.number * 7919 + serial}"
    )


def _other_members(group: Group, members: list[str], serial: int, rng: np.random.Generator) -> list[str]:
    if len(members) > 1 and rng.random() < 0.5:
        gone = int(rng.integers(0, len(members)))
        return members[:gone] + members[gone + 1 :]
    return sort_client_ids([*members, _client(group, serial)])


def _owners(group: Group, queues: list[MessageQueue], members: list[str]) -> Any:
    members[:] = sort_client_ids(members)
    answer = allocate(group.strategy, queues, members)
    place = {queue: i for i, client_id in enumerate(members) for queue in answer[client_id] or ()}
    return np.array([place[queue] for queue in queues])


def write_tables(data: Path, rows: int, population: Population = MIXED) -> None:
    """Write the canonical tables for about ``rows`` (queue, round) rows under ``data``, one folder each."""
    rng = np.random.default_rng(_SEED)
    groups = draw_groups(rng, population)
    rounds = rounds_for(groups, rows)
    shown = [one for group in groups for one in walk_group(group, rounds, rng)]
    for number, part in enumerate(np.array_split(np.arange(len(shown)), _FILES)):
        of_part = [shown[i] for i in part]
        for table, columns in (
            (QUEUE_OWNERSHIP, _ownership(of_part)),
            (QUEUE_PROGRESS, _progress(of_part)),
            (CONSUMER_HEARTBEAT, _heartbeats(of_part)),
            (SNAPSHOT_CAPTURE, _captures(of_part)),
            (TOPIC_ROUTE, _routes(of_part)),
            (REBALANCE_RESULT, {"cluster": []}),
        ):
            write(data / table.name / f"part-{number}.parquet", table, columns)


def _base(count: int, captured_ms: Any, round_ms: Any) -> dict[str, Any]:
    return {
        "cluster": same("prod", count),
        "event_date": captured_ms,
        "collector": same("c1", count),
        "captured_at": captured_ms,
        "round_at": round_ms,
        "source": same("bench", count),
        "source_file": same("bench/part.jsonl", count),
        "source_line": np.arange(1, count + 1),
        "ingested_at": round_ms,
        "run_id": same("bench", count),
    }


def _round_ms(number: Any) -> Any:
    return FIRST_ROUND_MS + np.asarray(number, dtype=np.int64) * ROUND_MS


def _repeated(shown: Sequence[Shown], counts: Sequence[int]) -> tuple[Any, Any]:
    """For each row, the place of its ``Shown`` and its place among the rows of it."""
    counts_array = np.asarray(counts)
    which = np.repeat(np.arange(len(shown)), counts_array)
    first = np.repeat(np.cumsum(counts_array) - counts_array, counts_array)
    return which, np.arange(len(which)) - first


def _of_groups(shown: Sequence[Shown], which: Any) -> dict[str, Any]:
    names = texts([s.group.name for s in shown], which)
    return {"consumer_group": names, "topic": names}


def _ownership(shown: Sequence[Shown]) -> dict[str, Any]:
    which, place = _repeated(shown, [len(s.owners) for s in shown])
    owner = np.concatenate([s.owners for s in shown])
    clients = [client_id for s in shown for client_id in s.members]
    first = np.cumsum([0, *(len(s.members) for s in shown)])[:-1]
    held = owner >= 0
    which, place, owner = which[held], place[held], owner[held]
    at = _round_ms([s.round_number for s in shown])[which]
    return {
        **_base(len(which), at + 1_000 + owner, at),
        **_of_groups(shown, which),
        "client_id": texts(clients, first[which] + owner),
        **_queues(shown, held),
        "locked": same(False, len(which)),
        "dropped": same(False, len(which)),
        "last_pull_at": at - place % 5_000,
        "last_consume_at": at - place % 3_000,
        "cached_messages": place % 7,
        "commit_offset": place + at // 1_000,
    }


def _queues(shown: Sequence[Shown], kept: Any) -> dict[str, Any]:
    brokers = np.concatenate([s.group.brokers for s in shown])[kept]
    return {
        "broker_name": texts(_BROKERS.tolist(), brokers),
        "queue_id": np.concatenate([s.group.queue_ids for s in shown])[kept],
    }


def _progress(shown: Sequence[Shown]) -> dict[str, Any]:
    shown = [s for s in shown if s.round_number % PROGRESS_EVERY == 0]
    which, place = _repeated(shown, [len(s.owners) for s in shown])
    at = _round_ms([s.round_number for s in shown])[which]
    consumed = (at - FIRST_ROUND_MS) // 100 * (place % 3) + place
    return {
        **_base(len(which), at + 5_000, at),
        **_of_groups(shown, which),
        **_queues(shown, np.ones(len(which), dtype=bool)),
        "broker_offset": consumed + place % 50,
        "consumer_offset": consumed,
        "lag": place % 50,
        "last_timestamp": at - 1_000,
    }


def _members(shown: Sequence[Shown]) -> tuple[Any, Any, dict[str, Any]]:
    which, place = _repeated(shown, [len(s.members) for s in shown])
    at = _round_ms([s.round_number for s in shown])[which]
    clients = pa.array([client_id for s in shown for client_id in s.members])
    return which, place, {**_base(len(which), at + 500, at), "client_id": clients}


def _heartbeats(shown: Sequence[Shown]) -> dict[str, Any]:
    which, place, columns = _members(shown)
    ports = [f"10.9.{n // 250}.{n % 250}:40{n % 100:02d}" for n in range(1_000)]
    return {
        **columns,
        **_of_groups(shown, which),
        "address": texts(ports, place % 1_000),
        "language": same("JAVA", len(which)),
        "client_version": np.array([s.group.version for s in shown])[which],
        "message_model": same("CLUSTERING", len(which)),
    }


def _captures(shown: Sequence[Shown]) -> dict[str, Any]:
    """Running infos of all members, then per group a consumer list and a route."""
    which, place, infos = _members(shown)
    count, groups = len(which), len(shown)
    which = np.concatenate([which, np.arange(groups), np.arange(groups)])
    at = _round_ms([s.round_number for s in shown])[which]
    step = np.concatenate([1_000 + place, np.full(groups, 500), np.full(groups, 100)])
    kind = np.repeat([0, 1, 2], [count, groups, groups])
    names = _of_groups(shown, which)["topic"]
    client_ids = pa.concat_arrays([infos["client_id"], pa.nulls(2 * groups, pa.string())])
    is_info, is_route = pa.array(kind == 0), pa.array(kind == 2)
    null = pa.scalar(None, pa.string())
    strategies = texts(_STRATEGIES, np.array([_STRATEGIES.index(s.group.strategy) for s in shown])[which])
    return {
        **_base(len(which), at + step, at),
        "kind": texts(["consumerRunningInfo", "consumerConnection", "topicRoute"], kind),
        "subject": names,
        "captured_end_at": at + step + 3,
        "consumer_group": pa.compute.if_else(is_route, null, names),
        "client_id": client_ids,
        "topic": pa.compute.if_else(is_route, names, null),
        "answered": same(True, len(which)),
        "client_version": pa.compute.if_else(is_info, "V4_9_8", null),
        "consume_type": pa.compute.if_else(is_info, "CONSUME_PASSIVELY", null),
        "message_model": pa.compute.if_else(is_route, null, "CLUSTERING"),
        "consume_from_where": pa.compute.if_else(is_info, "CONSUME_FROM_LAST_OFFSET", null),
        "consume_orderly": pa.compute.if_else(is_info, False, pa.scalar(None, pa.bool_())),
        "strategy": pa.compute.if_else(is_info, strategies, null),
        "client_started_at": np.full(len(which), FIRST_ROUND_MS - 86_400_000),
        "subscriptions": _subscriptions(names, kind != 2),
    }


def _subscriptions(topics: pa.Array, said: Any) -> pa.Array:
    """One subscription of the topic each; none where nothing was said."""
    count = len(topics)
    kept = topics.filter(pa.array(said))
    size = len(kept)
    tags = pa.ListArray.from_arrays(np.zeros(size + 1, dtype=np.int32), pa.array([], pa.string()))
    fields = [kept, same("TAG", size), same("*", size), tags]
    entries = pa.StructArray.from_arrays(fields, ["topic", "expression_type", "sub_string", "tags"])
    offsets = np.concatenate([[0], np.cumsum(said)]).astype(np.int32)
    assert len(offsets) == count + 1
    return pa.ListArray.from_arrays(offsets, entries)


def _routes(shown: Sequence[Shown]) -> dict[str, Any]:
    brokers = [int(s.group.brokers.max()) + 1 for s in shown]
    which, place = _repeated(shown, brokers)
    at = _round_ms([s.round_number for s in shown])[which]
    each = np.array([len(s.group.queue_ids) // b for s, b in zip(shown, brokers, strict=True)])[which]
    return {
        **_base(len(which), at + 100, at),
        "topic": _of_groups(shown, which)["topic"],
        "broker_name": texts(_BROKERS.tolist(), place),
        "read_queue_nums": each,
        "write_queue_nums": each,
        "perm": np.full(len(which), 6),
        "has_master": same(True, len(which)),
        "is_static_topic": same(False, len(which)),
    }
