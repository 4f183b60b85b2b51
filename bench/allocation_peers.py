"""The expected owner of each queue in each round by DuckDB, Polars and numpy, each on every round's own lists.

All give (snapshot, strategy, owners) as an Arrow table. DuckDB and Polars do AVG and AVG_BY_CIRCLE, in closed form over
distinct members; numpy does CONSISTENT_HASH too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.allocation_answer import AVG, CIRCLE, RING, digests

Run = Callable[[], Callable[[], dict[str, str]]]
_COLUMNS = ["snapshot", "strategy", "topic", "members", "queues"]
_VIRTUAL_NODES = 10
_TOP = 1 << 32


def _topics(data: Path) -> str:
    return str(data / "topics")


def by_duckdb(data: Path) -> Run:
    """One SQL statement over lists."""
    import duckdb

    query = f"""
        WITH sizes AS (
            SELECT snapshot, strategy, members, len(queues) AS q, len(members) AS c, q // c AS size, q % c AS more
            FROM read_parquet('{_topics(data)}/*.parquet') WHERE strategy IN ('{AVG}', '{CIRCLE}')
        )
        SELECT snapshot, strategy, CASE WHEN strategy = '{AVG}' THEN
            [members[1 + CASE WHEN i < more * (size + 1) THEN i // (size + 1)
                         ELSE more + (i - more * (size + 1)) // greatest(size, 1) END] FOR i IN range(q)]
            ELSE [members[1 + i % c] FOR i IN range(q)] END AS owners
        FROM sizes"""
    connection = duckdb.connect()

    def run() -> Callable[[], dict[str, str]]:
        made = connection.execute(query).to_arrow_table()
        return lambda: digests(made)

    return run


def by_polars(data: Path) -> Run:
    """A lazy query: places are computed on exploded rows, owners gathered from the lists."""
    import polars as pl

    first = pl.col("more") * (pl.col("size") + 1)
    block = (
        pl.when(pl.col("i") < first)
        .then(pl.col("i") // (pl.col("size") + 1))
        .otherwise(pl.col("more") + (pl.col("i") - first) // pl.max_horizontal(pl.col("size"), pl.lit(1)))
    )
    place = pl.when(pl.col("strategy") == AVG).then(block).otherwise(pl.col("i") % pl.col("c"))

    def run() -> Callable[[], dict[str, str]]:
        rounds = (
            pl.scan_parquet(f"{_topics(data)}/*.parquet")
            .filter(pl.col("strategy").is_in([AVG, CIRCLE]))
            .select("snapshot", "strategy", "members", q=pl.col("queues").list.len().cast(pl.Int64))
            .with_columns(c=pl.col("members").list.len().cast(pl.Int64))
            .with_columns(size=pl.col("q") // pl.col("c"), more=pl.col("q") % pl.col("c"))
        )
        places = (
            rounds.drop("members")
            .with_columns(i=pl.int_ranges(0, "q"))
            .explode("i")
            .group_by("snapshot", maintain_order=True)
            .agg(place=place)
        )
        made = (
            rounds.join(places, on="snapshot")
            .select("snapshot", "strategy", owners=pl.col("members").list.gather(pl.col("place")))
            .collect()
        )
        return lambda: digests(made.to_arrow())

    return run


def by_numpy(data: Path) -> Run:
    """One process, arrays over all rounds at once."""

    def run() -> Callable[[], dict[str, str]]:
        made = _allocate(pq.read_table(_topics(data), columns=_COLUMNS).combine_chunks())
        return lambda: digests(made)

    return run


def _allocate(table: Any) -> Any:
    members, queues = (table[name].combine_chunks() for name in ("members", "queues"))
    q, c = (np.diff(lists.offsets.to_numpy()) for lists in (queues, members))
    row = np.repeat(np.arange(len(q)), q)
    i = np.arange(len(row)) - np.repeat(queues.offsets.to_numpy()[:-1] - queues.offsets[0].as_py(), q)
    size, more = (part[row] for part in np.divmod(q, c))
    first = more * (size + 1)
    block = np.where(i < first, i // (size + 1), more + (i - first) // np.maximum(size, 1))
    strategy = table["strategy"].combine_chunks().dictionary_encode()
    names, code = strategy.dictionary.to_pylist(), strategy.indices.to_numpy()
    of_row = code[row]
    place = np.where(of_row == _code(names, AVG), block, i % c[row])
    on_ring = of_row == _code(names, RING)
    if on_ring.any():
        place[on_ring] = _ring_places(table.filter(pa.array(code == _code(names, RING))))
    taken = members.flatten().take(pa.array(place + (np.cumsum(c) - c)[row]))
    offsets = np.concatenate([[0], np.cumsum(q)]).astype(np.int32)
    return pa.table([table["snapshot"], table["strategy"], pa.ListArray.from_arrays(offsets, taken)],
                    ["snapshot", "strategy", "owners"])  # fmt: skip


def _code(names: list[str], strategy: str) -> int:
    return names.index(strategy) if strategy in names else -1


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _ring_places(table: Any) -> Any:
    """The member (its place) next on the ring after each queue; each distinct text is hashed once."""
    members, queues = (table[name].combine_chunks() for name in ("members", "queues"))
    q, c = (np.diff(lists.offsets.to_numpy()) for lists in (queues, members))
    ids = members.flatten().dictionary_encode()
    virtual = np.array([[_hash(f"{m}-{v}") for v in range(_VIRTUAL_NODES)] for m in ids.dictionary.to_pylist()])
    member_row = np.repeat(np.arange(len(c)), c)
    member_place = np.arange(len(member_row)) - np.repeat(np.cumsum(c) - c, c)
    points = (member_row[:, None] * _TOP + virtual[ids.indices.to_numpy()]).ravel()
    order = np.argsort(points, kind="stable")
    points, holders = points[order], np.repeat(member_place, _VIRTUAL_NODES)[order]
    row = np.repeat(np.arange(len(q)), q)
    at = np.searchsorted(points, row * _TOP + _queue_hashes(table["topic"], queues, row))
    ends = np.cumsum(c) * _VIRTUAL_NODES
    return holders[np.where(at == ends[row], ends[row] - c[row] * _VIRTUAL_NODES, at)]


def _queue_hashes(topics: Any, queues: Any, row: Any) -> Any:
    entries = queues.flatten()
    topic, broker = topics.combine_chunks().dictionary_encode(), entries.field("broker_name").dictionary_encode()
    queue_id = entries.field("queue_id").to_numpy()
    names, brokers = topic.dictionary.to_pylist(), broker.dictionary.to_pylist()
    key = (topic.indices.to_numpy()[row].astype(np.int64) * len(brokers) + broker.indices.to_numpy()) << 16 | queue_id
    distinct, which = np.unique(key, return_inverse=True)
    hashes = [
        _hash(
            f"MessageQueue [topic={names[(k >> 16) // len(brokers)]}, "
            f"brokerName={brokers[(k >> 16) % len(brokers)]}, queueId={k & 0xFFFF}]"
        )
        for k in distinct.tolist()
    ]
    return np.array(hashes)[which]


CONTESTANTS = {"DuckDB": by_duckdb, "Polars": by_polars, "numpy, one process": by_numpy}
