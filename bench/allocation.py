"""The consumer side: expected owners, then findings and incidents, on 5 million (queue, round) rows of 2,000 groups.

What is measured of the allocation begins with each round's lists, as arrays, and ends with each round's owners. The
project evaluates each distinct set of lists once; the others evaluate every round. Findings and incidents begin with
the rows of a lake: they bring each round together, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.allocation_answer import AVG, CIRCLE, RING, digests
from bench.allocation_data import CLUSTER, DAY, lake_of, prepare, rows_of
from bench.contest import Benchmark, Contestant, Target
from bench.spark import session
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.drift.drift_derivation import derive
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.publication import Stretch
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import ALLOCATION_DRIFT, DRIFT_INCIDENT
from hindsight.udfs.allocation import MessageQueue, allocate
from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.values.row_hashes import value_hashes

Run = Callable[[], Callable[[], dict[str, Any]]]
_LISTS = ("members", "queues", "member_rules")
_INPUTS = ("topic", "message_model", *_LISTS, "strategy", "strategy_parameters", "profile")
_ROW_WISE = 1_000_000


def _topics(data: Path) -> DataFrame:
    # Rows come in small batches, as one of a thousand members holds 200 KB.
    session().conf.set("spark.sql.parquet.columnarReaderBatchSize", "256")
    return session().read.parquet(str(data / "topics"))


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _read(data: Path) -> pa.Table:
    return pq.read_table(data / "topics", columns=["snapshot", *_INPUTS])


def scan(data: Path) -> Run:
    """The floor: read and aggregate the columns that the allocation reads."""

    def run() -> Callable[[], dict[str, Any]]:
        topics = _read(data)
        for name in _LISTS:
            pc.sum(pc.list_value_length(topics[name]))
        return dict

    return run


def own(data: Path) -> Run:
    """The production path: one evaluation for each distinct set of lists, each round's owners."""
    return _expected(data, None)


def own_avg(data: Path) -> Run:
    """The same with every group and member under AVG."""
    return _expected(data, AVG)


def own_ring(data: Path) -> Run:
    """The same with every group and member under CONSISTENT_HASH."""
    return _expected(data, RING)


def _expected(data: Path, strategy: str | None) -> Run:
    def run() -> Callable[[], dict[str, Any]]:
        topics = _read(data)
        _, first, which = np.unique(value_hashes(topics, _INPUTS), return_index=True, return_inverse=True)
        distinct = topics.take(pa.array(first)).to_pylist()
        owners = pa.array([_owners(row, strategy or row["strategy"]) for row in distinct], pa.list_(pa.string()))
        spread = owners.take(pa.array(which))
        names = topics["strategy"] if strategy is None else pa.repeat(strategy, len(topics))
        made = pa.table([topics["snapshot"], names, spread], ["snapshot", "strategy", "owners"])
        return lambda: digests(made)

    return run


def _owners(row: dict[str, Any], strategy: str) -> tuple[str | None, ...]:
    queues = [(queue["broker_name"], queue["queue_id"]) for queue in row["queues"] or ()]
    rules = [
        MemberRule(
            rule["client_id"], strategy if rule["strategy"] == row["strategy"] else rule["strategy"], rule["profile"]
        )
        for rule in row["member_rules"]
    ]
    return expected_allocation(
        row["message_model"], strategy, row["profile"], row["topic"], queues, row["members"], rules
    ).owners


def spark_sql(data: Path) -> Run:
    """Without Python: closed forms over lists for AVG and AVG_BY_CIRCLE, the ring by a union and a window."""
    topics = _topics(data)

    def run() -> Callable[[], dict[str, Any]]:
        made = _closed_form(topics).unionByName(_by_ring(topics))
        _noop(made)
        return lambda: digests(made.toArrow())

    return run


def _closed_form(topics: DataFrame) -> DataFrame:
    sizes = "size(queues) AS q", "size(members) AS c"
    block = "IF(i < m * (s + 1), i DIV (s + 1), m + (i - m * (s + 1)) DIV greatest(s, 1))"
    place = f"IF(strategy = '{AVG}', {block}, i % c)"
    of_size = topics.where(F.col("strategy").isin(AVG, CIRCLE)).selectExpr("snapshot", "strategy", "members", *sizes)
    owners = f"transform(sequence(0, q - 1), i -> element_at(members, CAST(1 + {place} AS INT))) AS owners"
    return of_size.selectExpr("*", "q DIV c AS s", "q % c AS m").selectExpr("snapshot", "strategy", owners)


def _by_ring(topics: DataFrame) -> DataFrame:
    topics.where(F.col("strategy") == RING).createOrReplaceTempView("ring_rounds")
    return session().sql(f"""
        WITH queue AS (
            SELECT snapshot, strategy, i, conv(substr(md5(concat('MessageQueue [topic=', topic, ', brokerName=',
                   q.broker_name, ', queueId=', q.queue_id, ']')), 1, 8), 16, 10)::bigint AS point
            FROM ring_rounds LATERAL VIEW posexplode(queues) AS i, q
        ), node AS (
            SELECT snapshot, m, conv(substr(md5(concat(m, '-', v)), 1, 8), 16, 10)::bigint AS point
            FROM ring_rounds LATERAL VIEW explode(members) AS m LATERAL VIEW explode(sequence(0, 9)) AS v
        ), around AS (
            SELECT snapshot, m, point FROM node
            UNION ALL SELECT snapshot, min_by(m, point), {1 << 33} FROM node GROUP BY snapshot
        ), ring AS (
            SELECT snapshot, strategy, i, m, first_value(m) IGNORE NULLS OVER (
                PARTITION BY snapshot ORDER BY point, i NULLS LAST ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            ) AS owner
            FROM (SELECT snapshot, strategy, i, NULL AS m, point FROM queue
                  UNION ALL SELECT snapshot, NULL, NULL, m, point FROM around)
        )
        SELECT snapshot, any_value(strategy) AS strategy,
               transform(array_sort(collect_list(struct(i, owner))), x -> x.owner) AS owners
        FROM ring WHERE i IS NOT NULL GROUP BY snapshot""")


def row_wise(data: Path) -> Run:
    """A plain Python UDF, called for each round with its lists."""
    topics = _topics(data)

    def owners(strategy: str, topic: str, queues: list[Any], members: list[str]) -> list[str | None]:
        mq_all = [MessageQueue(topic, queue.broker_name, queue.queue_id) for queue in queues]
        answer = allocate(strategy, mq_all, members)
        taken = {queue: client_id for client_id, given in answer.items() for queue in given or ()}
        return [taken.get(queue) for queue in mq_all]

    called = F.udf(owners, "array<string>")("strategy", "topic", "queues", "members").alias("owners")

    def run() -> Callable[[], dict[str, Any]]:
        made = topics.select("snapshot", "strategy", called)
        _noop(made)
        return lambda: digests(made.toArrow())

    return run


def drift(data: Path) -> Run:
    """Findings, incidents, changes and verdicts of the production path, from the lake's rows on."""
    at = ClusterDate(CLUSTER, DAY)
    recorded, last = frozenset([at]), {CLUSTER: DAY}

    def run() -> Callable[[], dict[str, Any]]:
        lake, context = lake_of(data), RunContext("landing")
        stretch = Stretch(lake, context, [at], {}, {}, last, recorded, frozenset(), frozenset(["admin_snapshots"]))
        with LocalRunner(1) as runner:
            made = derive(stretch, load_settings(None), runner)
            names = {"findings": ALLOCATION_DRIFT.name, "incidents": DRIFT_INCIDENT.name}
            counts = {what: sum(table.num_rows for table in made.tables(name)) for what, name in names.items()}
        return lambda: counts

    return run


_HERE, _PEERS = "bench.allocation", "bench.allocation_peers"
_ALL = (AVG, CIRCLE, RING)
CONTESTANTS = {
    "scan": scan,
    "own": own,
    "own, all AVG": own_avg,
    "own, all CONSISTENT_HASH": own_ring,
    "findings and incidents": drift,
    "Spark SQL": spark_sql,
    "row-at-a-time Python UDF": row_wise,
}
_ALLOCATION = Benchmark(
    name="allocation",
    title="Expected allocation, findings and incidents",
    rows=5_000_000,
    prepare=prepare,
    rows_of=rows_of,
    contestants=(
        Contestant("scan", _HERE),
        Contestant("own", _HERE, covers=_ALL),
        Contestant("own, all AVG", _HERE),
        Contestant("own, all CONSISTENT_HASH", _HERE),
        Contestant("findings and incidents", _HERE),
        Contestant("Spark SQL", _HERE, covers=_ALL),
        Contestant("DuckDB", _PEERS, peer=True, covers=(AVG, CIRCLE)),
        Contestant("Polars", _PEERS, peer=True, covers=(AVG, CIRCLE)),
        Contestant("numpy, one process", _PEERS, peer=True, covers=_ALL),
        Contestant("row-at-a-time Python UDF", _HERE, covers=_ALL, rows=_ROW_WISE),
        Contestant("numpy, one process", _PEERS, peer=True, covers=_ALL, rows=_ROW_WISE),
    ),
    floor="scan",
    peers=("DuckDB", "Polars", "numpy, one process", "Spark SQL", "row-at-a-time Python UDF"),
    targets=(
        Target("at most 4x the CPU of scanning the same arrays", "own", "scan", 4),
        Target("at least 2.5x cheaper than pure Spark SQL", "own", "Spark SQL", 1 / 2.5),
        Target("at most 2x the wall time of numpy in one process", "own", "numpy, one process", 2, "wall_s"),
        Target("CONSISTENT_HASH no more than twice AVG", "own, all CONSISTENT_HASH", "own, all AVG", 2),
        Target("findings and incidents at most 2x the allocation", "findings and incidents", "own", 2),
    ),
)
BENCHMARKS = (_ALLOCATION,)
