"""The consumer side: expected owners, then findings and incidents, on 5 million (queue, round) rows of 2,000 groups.

What is measured of the allocation begins with each round's lists, as arrays, and ends with each round's owners. The
project evaluates each distinct set of lists once; the others evaluate every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.allocation_answer import AVG, CIRCLE, RING, digests
from bench.allocation_data import DAY, prepare, rows_of, stage_of
from bench.contest import Benchmark, Contestant, Target
from bench.spark import session
from conf.settings_file import load_settings
from jobs.transforms.drift import group_rounds, rows_of_kind, verdicts, walked
from jobs.transforms.expectations import expectation_id, expectations, with_expectation
from jobs.transforms.frames import staged
from jobs.transforms.group_rounds import with_digests
from schemas import GROUP_DRIFT_STATE
from udfs.allocation import MessageQueue, allocate
from udfs.drift_timing import Timing
from udfs.group_walk import CHANGE, DRIFT, INCIDENT, SCOPE, STATE, WalkSettings

Run = Callable[[], Callable[[], dict[str, Any]]]
_INPUTS = (
    "cluster", "collector", "round_at", "event_date", "consumer_group", "topic", "snapshot", "message_model", "members",
    "views", "queues", "member_rules", "strategy", "strategy_parameters", "profile", "not_asked", "shared",
    "missing_inputs",
)  # fmt: skip
_ROW_WISE = 1_000_000


def _topics(data: Path) -> DataFrame:
    return stage_of(session(), data, "topics").select(*_INPUTS)


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def scan(data: Path) -> Run:
    """The floor: read and aggregate the columns that the allocation reads."""
    topics = _topics(data)
    lists = ("members", "queues", "views", "member_rules", "not_asked", "missing_inputs")
    sizes = [F.sum(F.size(name)) for name in lists]
    rest = [F.max(name) for name in _INPUTS if name not in lists]

    def run() -> Callable[[], dict[str, Any]]:
        topics.agg(*sizes, *rest).collect()
        return dict

    return run


def own(data: Path) -> Run:
    """The production path: digests, one evaluation for each distinct set of lists, each round's owners."""
    return _expected(_topics(data))


def own_avg(data: Path) -> Run:
    """The same with every group and member under AVG."""
    return _expected(_under(_topics(data), AVG))


def own_ring(data: Path) -> Run:
    """The same with every group and member under CONSISTENT_HASH."""
    return _expected(_under(_topics(data), RING))


def _expected(topics: DataFrame) -> Run:
    lookback_s = load_settings(None).drift.lookback_s

    def run() -> Callable[[], dict[str, Any]]:
        digested = with_digests(topics)
        expected = staged(expectations(digested))
        rounds = with_expectation(digested, expected, lookback_s=lookback_s)
        allocations = expected.select(expectation_id().alias("expectation"), "allocation")
        spread = rounds.select("snapshot", "strategy", "expectation", "expectation_before").join(
            allocations, "expectation"
        )
        _noop(spread)
        owners = F.transform("allocation", lambda a: a["owner"]).alias("owners")
        return lambda: digests(spread.select("snapshot", "strategy", owners).toArrow())

    return run


def _under(topics: DataFrame, strategy: str) -> DataFrame:
    rules = F.transform(
        "member_rules",
        lambda r: F.struct(r["client_id"], F.lit(strategy).alias("strategy"), r["source"], r["profile"]),
    )
    return topics.withColumns({"strategy": F.lit(strategy), "member_rules": rules})


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
    """Findings, incidents, changes and verdicts of the production path, from the judged rounds on."""
    spark, settings = session(), load_settings(None)
    names = ("judged", "expected", "groups", "owned", "readings")
    judged, expected, groups, owned, readings = (stage_of(spark, data, name) for name in names)
    values = settings.timing.model_dump() | {"progress_valid_s": settings.drift.progress_valid_s}
    rules = WalkSettings(Timing.of(values), settings.timing.carry_days)
    opening = spark.createDataFrame([], GROUP_DRIFT_STATE.columns)
    dates = spark.createDataFrame([("prod", DAY, True)], "cluster string, event_date date, is_last boolean")

    def run() -> Callable[[], dict[str, Any]]:
        dated = groups.withColumn("event_date", F.to_date("round_at"))
        walk = staged(walked(group_rounds(judged, dated, owned, readings), expected, opening, dates, rules))
        found = rows_of_kind(walk, DRIFT)
        for frame in _rows(walk, verdicts(judged, found, rows_of_kind(walk, SCOPE)), found):
            _noop(frame)
        return lambda: {"findings": found.count(), "incidents": rows_of_kind(walk, INCIDENT).count()}

    return run


def _rows(walk: DataFrame, judged: DataFrame, found: DataFrame) -> Iterator[DataFrame]:
    yield found
    yield judged
    yield from (rows_of_kind(walk, kind) for kind in (STATE, INCIDENT, CHANGE))


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
        Target("findings and incidents no more than the allocation", "findings and incidents", "own", 1),
    ),
)
BENCHMARKS = (_ALLOCATION,)
