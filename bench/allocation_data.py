"""Canonical tables of a consumer side in; a lake of them, and what the allocation starts from, as Parquet, out.

``topics`` holds the lists of each round, as the job's own table of rounds has them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.consumer_tables import FIRST_ROUND_MS, MIXED, Population, write_tables
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.flag_allocation_drift import run_on
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    CONSUMER_HEARTBEAT,
    GROUP_ROUND,
    INGESTED_FILE,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
)
from hindsight.udfs.values.row_hashes import row_hashes

CLUSTER = "prod"
DAY = datetime.fromtimestamp(FIRST_ROUND_MS / 1000, UTC).date()
CAPTURED = (SNAPSHOT_CAPTURE, CONSUMER_HEARTBEAT, QUEUE_OWNERSHIP, QUEUE_PROGRESS, TOPIC_ROUTE)
_TOPICS = (
    "consumer_group", "topic", "round_at", "message_model", "members", "queues", "member_rules", "strategy",
    "strategy_parameters", "profile",
)  # fmt: skip


def prepare(data: Path, rows: int, population: Population = MIXED) -> None:
    """Write tables, a lake and ``topics`` for about ``rows`` (queue, round) rows under ``data``."""
    prepare_lake(data, rows, population)
    lake = lake_of(data)
    with LocalRunner(1) as runner:
        run_on(lake, runner, load_settings(None), RunContext("landing"))
    topics = lake.rows(GROUP_ROUND, _TOPICS).filter(pc.field("strategy").is_valid())
    snapshot = row_hashes(topics, ["consumer_group", "topic", "round_at"]).view(np.int64)
    (data / "topics").mkdir()
    pq.write_table(topics.append_column("snapshot", pa.array(snapshot)), data / "topics" / "part-0.parquet")


def prepare_lake(data: Path, rows: int, population: Population = MIXED) -> None:
    """Write tables and a lake in which nothing is derived yet."""
    write_tables(data, rows, population)
    lake = lake_of(data)
    for table in CAPTURED:
        files = sorted((data / table.name).glob("*.parquet"))
        lake.append(table, (conformed_rows(pq.read_table(file), table) for file in files))
    noted = {
        "cluster": CLUSTER, "format": "admin_snapshots", "file": "admin_snapshots/cluster=prod/bench.jsonl",
        "size_bytes": rows, "read": rows, "stored": rows, "duplicate": 0, "ignored": 0, "quarantined": 0,
        "complete": True, "event_dates": [DAY], "ingested_at": datetime.now(UTC), "run_id": "bench",
    }  # fmt: skip
    lake.append(INGESTED_FILE, conformed_rows(pa.Table.from_pylist([noted]), INGESTED_FILE))


def lake_of(data: Path) -> LocalLake:
    """The lake under ``data``."""
    return LocalLake(str(data / "lake"), retention_days=7)


def rows_of(data: Path) -> dict[str, int]:
    """(queue, round) rows by strategy."""
    table = pq.read_table(data / "topics", columns=["strategy", "queues"])
    counts: dict[str, int] = {}
    for strategy in pc.unique(table["strategy"]).to_pylist():
        own = table.filter(pc.equal(table["strategy"], strategy))
        counts[strategy] = pc.sum(pc.list_value_length(own["queues"])).as_py()
    return counts
