"""The landing files of data_samples, in an unkind order, with a Parquet file of the canonical contract."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

SAMPLES = Path(__file__).parent.parent.parent / "data_samples"
FORMATS = ("trace_topic", "admin_snapshots", "client_log", "broker_log", "heartbeat", "mqadmin")
BEGIN = datetime(2026, 11, 21, 9, 18, 12, 980_000, UTC)
# The traces' producers are known by no other source here, so the settings say what they are.
SETTINGS = """
[[replay.override]]
cluster = "oracle"
client_version = "5.3.3"
latency_fault_enabled = true
"""


def canonical_sends() -> pa.Table:
    rows = [
        {
            "producer_group": "pg_own",
            "client_id": "10.0.0.1@7",
            "topic": "T",
            "broker_name": "broker-a",
            "queue_id": n % 4,
            "mode": "SYNC",
            "begin_at": BEGIN,
            "end_at": BEGIN.replace(microsecond=990_000),
            "outcome": "SEND_OK" if n < 9 else "NO_SUCH_STATUS",
            "msg_id": f"7F00000100070000000000000A1B2C3D{n:04X}",
        }
        for n in range(10)
    ]
    return pa.Table.from_pylist(rows)


def write_samples(landing: Path) -> None:
    """All of ``FORMATS``, and a whole and a damaged Parquet file."""
    for name in FORMATS:
        shutil.copytree(SAMPLES / name, landing / name)
    own = landing / "canonical_sends" / "cluster=oracle"
    own.mkdir(parents=True)
    parquet.write_table(canonical_sends(), own / "part-0.parquet")
    (own / "damaged.parquet").write_bytes((own / "part-0.parquet").read_bytes()[:300])
