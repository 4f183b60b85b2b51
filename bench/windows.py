"""The producer side: availability windows, then verdicts, from send attempts of one day and 400 producers.

What is measured begins with the attempts as stored and the starts of their processes, and ends with every window (and
every verdict) as a row. The share of attempts that fail or are slow decides how much can be left out; beyond a limit
the pipeline gives way to plain window functions, so there are benchmarks with a share of 20 and of 50 percent too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.contest import Benchmark, Contestant, Target
from bench.producer_tables import DAY, Shape, write_tables
from bench.spark import session
from conf.settings_file import load_settings
from jobs.transforms.availability import stretches
from jobs.transforms.dated_windows import windows_by_date
from jobs.transforms.frames import ClusterDate
from jobs.transforms.replay import REPLAYED, History, Pruning, Replay, ReplayOptions, processes_of
from schemas import FAULT_ITEM_STATE, PRODUCER_INSTANCE, PRODUCER_REPLAY, SEND_ATTEMPT, TOPIC_ROUTE
from udfs.fault_tolerance import FaultTable
from udfs.release_profiles import PROFILES

Run = Callable[[], Callable[[], dict[str, Any]]]
WINDOWS, VERDICTS = "windows", "verdicts"
RELEASES = ("V4_7_1", "V4_9_8")
_PLAIN = Pruning(from_attempts=1 << 62, below_share=0)
_SPAN = "cluster string, first_date date, endless_until date, last_date date, last_recorded date"
_ROW_WISE = 1_000_000
_SLOW_MS = 550  # the first rung of the 4.x ladder that holds a broker


def prepare(shape: Callable[[int], Shape], data: Path, rows: int) -> None:
    """Write the tables for about ``rows`` attempts under ``data``."""
    write_tables(data, shape(rows))


def rows_of(data: Path) -> dict[str, int]:
    """Attempts."""
    files = (data / SEND_ATTEMPT.name).glob("*.parquet")
    count = sum(pq.read_metadata(file).num_rows for file in files)
    return {WINDOWS: count}


def about(data: Path) -> str:
    """How many attempts can open a window or put a choice in doubt: the rest is what can be left out."""
    striking = rows = 0
    for file in (data / SEND_ATTEMPT.name).glob("*.parquet"):
        sent = pq.read_table(file, columns=["latency_ms", "exception", "last_broker_name"])
        told = (pc.greater_equal(sent["latency_ms"], _SLOW_MS), *(pc.is_valid(sent[n]) for n in sent.column_names[1:]))
        striking += pc.sum(reduce(pc.or_, told)).as_py()
        rows += sent.num_rows
    return f"{striking / rows:.2%} of the attempts were slow, failed or retries."


def _attempts(data: Path) -> DataFrame:
    return session().read.parquet(str(data / SEND_ATTEMPT.name)).select(*REPLAYED)


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def scan(data: Path) -> Run:
    """The floor: read and aggregate the columns that the replay reads."""
    attempts = _attempts(data)

    def run() -> Callable[[], dict[str, Any]]:
        attempts.agg(*(F.count(name) for name in REPLAYED)).collect()
        return dict

    return run


def own(data: Path) -> Run:
    """The production path as far as windows."""
    return _windows(data, _pruning())


def plain(data: Path) -> Run:
    """The same with window functions over all attempts, nothing left out."""
    return _windows(data, _PLAIN)


def _windows(data: Path, pruning: Pruning) -> Run:
    attempts = _attempts(data)

    def run() -> Callable[[], dict[str, Any]]:
        replay, spans = _replay(data, attempts)
        history = replay.of_all(attempts, pruning)
        _noop(windows_by_date(stretches(history.rows), spans, replay.processes.rules))
        return partial(_told, history)

    return run


def with_verdicts(data: Path) -> Run:
    """The production path: windows and verdicts."""
    attempts = _attempts(data)

    def run() -> Callable[[], dict[str, Any]]:
        replay, spans = _replay(data, attempts)
        history = replay.of_all(attempts, _pruning())
        verdicts = replay.verdicts(history)
        _noop(verdicts)
        _noop(windows_by_date(stretches(history.rows), spans, replay.processes.rules))
        counted = verdicts.groupBy("verdict").count()
        return lambda: {**_told(history), VERDICTS: {row.verdict: row["count"] for row in counted.collect()}}

    return run


def _pruning() -> Pruning:
    return Pruning(**load_settings(None).pruning.model_dump())


def _replay(data: Path, attempts: DataFrame) -> tuple[Replay, DataFrame]:
    spark, options = session(), ReplayOptions(**load_settings(None).replay.model_dump())
    dates = [ClusterDate("prod", DAY)]
    spans = spark.createDataFrame([("prod", DAY, DAY, DAY, DAY)], _SPAN)
    starts = spark.read.parquet(str(data / PRODUCER_INSTANCE.name))
    opening = spark.createDataFrame([], PRODUCER_REPLAY.columns)
    processes = processes_of(attempts, starts, opening, spans, days=dates, dates=dates, settings=options)
    items = spark.createDataFrame([], FAULT_ITEM_STATE.columns)
    routes = spark.read.parquet(str(data / TOPIC_ROUTE.name))
    return Replay(dates, processes, items, routes, options), spans


def _told(history: History) -> dict[str, Any]:
    """How many stretches, for how long, and of how many updates: what all contestants tell."""
    length = F.unix_millis("stretch_end") - F.unix_millis("stretch_start")
    updates = F.aggregate("updates", F.lit(0).cast("long"), lambda total, part: total + part["updates"])
    (row,) = (
        stretches(history.rows)
        .where("state = 'unavailable' AND stretch_end > stretch_start")
        .agg(F.count("*").alias("n"), F.sum(length).alias("ms"), F.sum(updates).alias("u"))
        .collect()
    )
    return {WINDOWS: [row.n, row.ms, row.u]}


def row_wise(data: Path) -> Run:
    """Row after row in Python, one group a producer and broker: the client's own table."""
    attempts = _attempts(data).select(
        "cluster", "producer_group", "client_id", "broker_name", "mode", "thread", "msg_id", "attempt", "exception",
        *(F.unix_millis(name).alias(name) for name in ("begin_at", "end_at", "submit_end_at", "callback_end_at")),
    )  # fmt: skip

    def run() -> Callable[[], dict[str, Any]]:
        pair = ["cluster", "producer_group", "client_id", "broker_name"]
        made = attempts.groupBy(*pair).applyInPandas(_walk, "since long, until long, updates long").localCheckpoint()
        (row,) = made.agg(F.count("*"), F.sum(F.col("until") - F.col("since")), F.sum("updates")).collect()
        return lambda: {WINDOWS: [row[0], row[1], row[2]]}

    return run


def _walk(attempts: pd.DataFrame) -> pd.DataFrame:
    table = FaultTable(PROFILES["P49b"])
    found: list[list[int]] = []
    for at, latency, isolation in sorted(_updates(attempts)):
        item = table.items().get("b")
        until = -1 if item is None or item.start_ms is None else item.start_ms
        holds = bool(found) and found[-1][1] == until
        if holds and at[0] <= until:
            found[-1][1] = at[0]
        table.update("b", now_ms=at[0], latency_ms=latency, isolation=isolation, reachable=True)
        start = table.items()["b"].start_ms or 0
        if start > at[0]:
            if holds and at[0] <= until:
                found[-1][1:] = [start, found[-1][2] + 1]
            else:
                found.append([at[0], start, 1])
    kept = [window for window in found if window[1] > window[0]]
    return pd.DataFrame(kept, columns=["since", "until", "updates"], dtype="int64")


def _updates(attempts: pd.DataFrame) -> Iterator[tuple[tuple[Any, ...], int, bool]]:
    for row in attempts.itertuples(index=False):
        failed = row.exception is not None
        order = (row.begin_at, row.thread, row.msg_id, 0 if pd.isna(row.attempt) else row.attempt)
        if row.mode == "ASYNC":
            submitted, returned = int(row.submit_end_at), int(row.callback_end_at)
            yield (submitted, *order, 0), submitted - row.begin_at, False
            yield (returned, *order, 1), returned - row.begin_at, failed
        else:
            yield (row.end_at, *order, 0), row.end_at - row.begin_at, failed


_HERE, _PEERS = "bench.windows", "bench.windows_peers"
CONTESTANTS = {
    "scan": scan,
    "own windows": own,
    "plain window functions": plain,
    "own windows and verdicts": with_verdicts,
    "row-at-a-time Python UDF": row_wise,
}
_TARGETS = (
    Target("windows at most 3.5x the CPU of the scan", "own windows", "scan", 3.5),
    Target("at least 2.5x cheaper than plain window functions", "own windows", "plain window functions", 1 / 2.5),
    Target("within 1.3x of DuckDB's plain windows", "own windows", "DuckDB", 1.3, "wall_s"),
    Target("moonshot: within 2x of DuckDB that prunes alike", "own windows", "DuckDB, pruned", 2, "wall_s"),
    Target("windows and verdicts at most 8x the scan's CPU", "own windows and verdicts", "scan", 8),
)
_OWN = tuple(Contestant(n, _HERE, covers=(WINDOWS,)) for n in ("own windows", "plain window functions"))


def _benchmark(name: str, title: str, shape: Callable[[int], Shape], **values: Any) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        rows=10_000_000,
        prepare=partial(prepare, shape),
        rows_of=rows_of,
        about=about,
        floor="scan",
        **values,
    )


def _few(rows: int) -> Shape:
    return Shape(rows, releases=RELEASES)


def _fifth(rows: int) -> Shape:
    return Shape(rows, 0.2, releases=RELEASES)


def _half(rows: int) -> Shape:
    return Shape(rows, 0.5, releases=RELEASES)


def _giant(rows: int) -> Shape:
    return Shape(rows, giant=0.5, releases=RELEASES)


_GIVES_WAY = (Target("at most 15 % over plain window functions", "own windows", "plain window functions", 1.15),)
BENCHMARKS = (
    _benchmark(
        "windows",
        "Windows and verdicts, brokers slow or failing at times",
        _few,
        contestants=(
            Contestant("scan", _HERE),
            *_OWN,
            Contestant("own windows and verdicts", _HERE, covers=(WINDOWS,)),
            Contestant("DuckDB", _PEERS, peer=True, covers=(WINDOWS,)),
            Contestant("DuckDB, pruned", _PEERS, peer=True, covers=(WINDOWS,)),
            Contestant("Polars", _PEERS, peer=True, covers=(WINDOWS,)),
            Contestant("row-at-a-time Python UDF", _HERE, covers=(WINDOWS,), rows=_ROW_WISE),
            Contestant("DuckDB", _PEERS, peer=True, covers=(WINDOWS,), rows=_ROW_WISE),
        ),
        targets=_TARGETS,
        peers=("DuckDB", "Polars", "row-at-a-time Python UDF"),
    ),
    _benchmark(
        "windows-20",
        "Windows, 20 % slow or failed",
        _fifth,
        contestants=(Contestant("scan", _HERE), *_OWN),
        targets=_GIVES_WAY,
    ),
    _benchmark(
        "windows-50",
        "Windows, 50 % slow or failed",
        _half,
        contestants=(Contestant("scan", _HERE), *_OWN),
        targets=_GIVES_WAY,
    ),
    _benchmark(
        "windows-giant",
        "Windows and verdicts, one producer sends half of all",
        _giant,
        contestants=(
            Contestant("scan", _HERE),
            *_OWN,
            Contestant("own windows and verdicts", _HERE, covers=(WINDOWS,)),
        ),
        targets=(),
    ),
)
