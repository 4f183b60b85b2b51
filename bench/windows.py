"""The producer side: windows, verdicts, closing items and minute counts of a day's send attempts of 400 producers.

What is measured begins with the attempts as a lake stores them and ends with every row, which goes nowhere. The peers
compute windows alone. How much fails or is slow decides how many windows and doubtful choices there are, so there are
benchmarks with a share of 20 and of 50 percent too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.contest import Benchmark, Contestant, Target
from bench.producer_tables import DAY, Shape, write_tables
from bench.spark import session
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.engines.spark_runner import SparkRunner
from hindsight.jobs.engines.spark_workers import opened
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.producers.producer_derivation import fold
from hindsight.jobs.publishing.publication import Stretch
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    FAULT_ITEM_STATE,
    PRODUCER_INSTANCE,
    SEND_ATTEMPT,
    SEND_VERDICT,
)
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.fault_tolerance import FaultTable
from hindsight.udfs.producer.attempt_columns import ATTEMPTS
from hindsight.udfs.release_profiles import PROFILES

Run = Callable[[], Callable[[], dict[str, Any]]]
WINDOWS, VERDICTS = "windows", "verdicts"
SCAN, ON_SPARK, ONE_PROCESS, DUCKDB = "scan", "fold on Spark", "fold, one process", "DuckDB"
RELEASES = ("V4_7_1", "V4_9_8")
_MADE = (BROKER_AVAILABILITY_WINDOW, SEND_VERDICT, FAULT_ITEM_STATE)
_RETENTION_DAYS = 7
_ROW_WISE = 1_000_000
_SLOW_MS = 550  # the first rung of the 4.x ladder that holds a broker


def prepare(shape: Callable[[int], Shape], data: Path, rows: int) -> None:
    """Write the tables for about ``rows`` attempts under ``data``, and store them in a lake."""
    store(data, shape(rows))


def store(data: Path, shape: Shape) -> LocalLake:
    """Write the tables under ``data``, and store them in a lake as they come: each file has some hours of everybody."""
    write_tables(data, shape)
    lake = LocalLake(str(data / "lake"), retention_days=_RETENTION_DAYS)
    lake.append(PRODUCER_INSTANCE, map(pq.read_table, (data / PRODUCER_INSTANCE.name).glob("*.parquet")))
    parts = sorted((data / SEND_ATTEMPT.name).glob("*.parquet"))
    for number in range(len(parts)):
        lake.append(SEND_ATTEMPT, (_share(pq.read_table(part), number, len(parts)) for part in parts))
    return lake


def _share(rows: pa.Table, number: int, of: int) -> pa.Table:
    edges = [len(rows) * place // of for place in (number, number + 1)]
    return rows.slice(edges[0], edges[1] - edges[0])


def rows_of(data: Path) -> dict[str, int]:
    """Attempts; verdicts are on the same ones."""
    files = (data / SEND_ATTEMPT.name).glob("*.parquet")
    return {WINDOWS: sum(pq.read_metadata(file).num_rows for file in files), VERDICTS: 0}


def about(data: Path) -> str:
    """How many attempts can open a window or put a choice in doubt: the rest is what can be left out."""
    striking = rows = 0
    for file in (data / SEND_ATTEMPT.name).glob("*.parquet"):
        sent = pq.read_table(file, columns=["latency_ms", "exception", "last_broker_name"])
        told = (pc.greater_equal(sent["latency_ms"], _SLOW_MS), *(pc.is_valid(sent[n]) for n in sent.column_names[1:]))
        striking += pc.sum(reduce(pc.or_, told)).as_py()
        rows += sent.num_rows
    return f"{striking / rows:.2%} of the attempts were slow, failed or retries."


def scan(data: Path) -> Run:
    """The floor: read and aggregate the columns that the fold reads."""
    attempts = session().read.parquet(str(data / SEND_ATTEMPT.name))

    def run() -> Callable[[], dict[str, Any]]:
        attempts.agg(*(F.count(name) for name in ("cluster", *ATTEMPTS.names))).collect()
        return dict

    return run


def on_spark(data: Path) -> Run:
    """The production path on Spark as far as rows of single producers and their minute counts."""
    lake, runner = Lake(session(), str(data / "lake"), retention_days=_RETENTION_DAYS), SparkRunner(session())

    def run() -> Callable[[], dict[str, Any]]:
        folded = fold(_stretch(lake), load_settings(None), runner).folded
        windows, verdicts, items = (opened(folded.rows(table.name, arrow_schema(table))) for table in _MADE)
        for rows in (windows, verdicts, items):
            _noop(rows)
        return lambda: _told(windows.toArrow(), verdicts.toArrow())

    return run


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def in_one_process(data: Path) -> Run:
    """The same without Spark and without workers."""
    lake = LocalLake(str(data / "lake"), retention_days=_RETENTION_DAYS)

    def run() -> Callable[[], dict[str, Any]]:
        with LocalRunner(1) as runner:
            folded = fold(_stretch(lake), load_settings(None), runner).folded
            windows, verdicts, _ = (pa.concat_tables(folded.rows(t.name, arrow_schema(t))) for t in _MADE)
        return lambda: _told(windows, verdicts)

    return run


def _stretch(lake: Any) -> Stretch[Any]:
    """The day, as a run has it that finds nothing derived yet."""
    dates = [ClusterDate("prod", DAY)]
    hooks = frozenset({"producer_hook"})
    return Stretch(lake, RunContext("bench"), dates, {}, {}, {"prod": DAY}, frozenset(dates), frozenset(), hooks)


def _told(windows: pa.Table, verdicts: pa.Table) -> dict[str, Any]:
    """What contestants must agree on: see ``told_of_windows``; how many choices there are of each verdict."""
    counts = {each["values"]: each["counts"] for each in verdicts["verdict"].value_counts().to_pylist()}
    return {WINDOWS: told_of_windows(windows), VERDICTS: counts}


def told_of_windows(windows: pa.Table) -> list[int]:
    """How many stretches, for how long in ms, and of how many updates; one that midnight cuts is one."""
    held = windows.filter(pc.equal(windows["state"], "unavailable"))
    begun = pc.sum(pc.invert(held["continues_previous"])).as_py()
    length = pc.subtract(held["window_end"], held["window_start"]).cast(pa.int64())
    return [begun, pc.sum(length).as_py() // 1000, pc.sum(held["attempts"]).as_py()]


def row_wise(data: Path) -> Run:
    """Row after row in Python, one group a producer and broker: the client's own table."""
    attempts = session().read.parquet(str(data / SEND_ATTEMPT.name)).select(
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


_HERE, _PEERS, _ROW_BY_ROW = "bench.windows", "bench.windows_peers", "row-at-a-time Python UDF"
CONTESTANTS = {SCAN: scan, ON_SPARK: on_spark, ONE_PROCESS: in_one_process, _ROW_BY_ROW: row_wise}
_TARGETS = (
    Target("the fold on Spark at most 6x the CPU of the scan", ON_SPARK, SCAN, 6),
    Target("and at most 1.5x DuckDB's plain windows", ON_SPARK, DUCKDB, 1.5),
    Target("moonshot: 4x the scan", ON_SPARK, SCAN, 4),
    Target("moonshot: as much as DuckDB", ON_SPARK, DUCKDB, 1),
)
FOLDS = tuple(Contestant(name, _HERE, covers=(WINDOWS, VERDICTS)) for name in (ON_SPARK, ONE_PROCESS))
PEERS = tuple(Contestant(name, _PEERS, peer=True, covers=(WINDOWS,)) for name in (DUCKDB, "Polars"))
_ROW_WISE_BESIDE = (Contestant(_ROW_BY_ROW, _HERE), Contestant(DUCKDB, _PEERS, peer=True))


def _benchmark(name: str, title: str, shape: Callable[[int], Shape], **values: Any) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        rows=10_000_000,
        prepare=partial(prepare, shape),
        rows_of=rows_of,
        about=about,
        floor=SCAN,
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


_OF_MUCH: dict[str, Any] = {
    "contestants": (Contestant(SCAN, _HERE), *FOLDS, PEERS[0]),
    "targets": (),
    "peers": (DUCKDB,),
}
BENCHMARKS = (
    _benchmark(
        "windows",
        "Windows, items, verdicts and minute counts, brokers slow or failing at times",
        _few,
        contestants=(
            Contestant(SCAN, _HERE),
            *FOLDS,
            *PEERS,
            *(replace(one, covers=(WINDOWS,), rows=_ROW_WISE) for one in _ROW_WISE_BESIDE),
        ),
        targets=_TARGETS,
        peers=(DUCKDB, "Polars", _ROW_BY_ROW),
    ),
    _benchmark("windows-20", "The same, 20 % slow or failed", _fifth, **_OF_MUCH),
    _benchmark("windows-50", "The same, 50 % slow or failed", _half, **_OF_MUCH),
    _benchmark("windows-giant", "The same, one producer sends half of all", _giant, **_OF_MUCH),
)
