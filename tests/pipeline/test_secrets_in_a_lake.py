"""Keys that client ids carry, from every format to lake, page and logs: nothing shows them, and the ids stay ids."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyarrow import parquet

from hindsight.jobs import render_report
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.run_context import RunContext
from tests.pipeline.local_runs import run_here
from tests.pipeline.test_incidents_over_midnight import capture, ms, running_info

BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)
ACCESS, SECRET = "AKofTheShop", "5ecretOfTheShop"
SPRING_ID, MASKED_ID = f"10.0.0.1@{ACCESS}|{SECRET}|g|77", "10.0.0.1@***|***|g|77"
CLUSTERING = {"messageModel": "CLUSTERING", "subscriptionTable": {}}
BOTH = (ACCESS.encode(), SECRET.encode())


def snapshots(at: datetime) -> list[dict]:
    """The group's two members; the second holds nothing, so that there is something to find."""
    ids = [SPRING_ID, "10.0.0.2@1"]
    members = [{"clientAddr": f"{c[:8]}:1", "clientId": c, "language": "JAVA", "version": 409} for c in ids]
    queues = [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}]
    brokers = [{"brokerAddrs": {"0": "a:1"}, "brokerName": "broker-a"}]
    return [
        {"ts": ms(at), "kind": "round"},
        capture(at, "topicRoute", "T", json.dumps({"brokerDatas": brokers, "queueDatas": queues})),
        capture(at, "consumerConnection", "g", json.dumps({"connectionSet": members, **CLUSTERING})),
        capture(at, "consumerRunningInfo", f"g|{SPRING_ID}", running_info(at, (0,))),
        capture(at, "consumerRunningInfo", "g|10.0.0.2@1", running_info(at, ())),
    ]


def landing_files() -> dict[str, str]:
    instants = [BEGIN + timedelta(seconds=30 * n) for n in range(8)]
    beat = {"clientID": SPRING_ID, "consumerDataSet": [], "producerDataSet": [{"groupName": "p"}]}
    start = {"type": "start", "ts": ms(BEGIN), "group": "p", "clientId": SPRING_ID, "version": "4.9.8"}
    beats = [{"ts": ms(at), "broker": "broker-a", "raw": json.dumps(beat)} for at in instants]
    taken = (
        "2026-01-05 10:00:00,123 INFO RocketmqClient - rebalanced result changed. "
        f"allocateMessageQueueStrategyName=AVG, group=g, topic=T, clientId={SPRING_ID}, mqAllSize=2, cidAllSize=2, "
        "rebalanceResultSize=0, rebalanceResultSet=[]"
    )
    broken = taken.replace("rebalanceResultSize=0", "rebalanceResultSize=9")
    return {
        "admin_snapshots/cluster=c/a.jsonl": _lines(line for at in instants for line in snapshots(at)),
        "heartbeat/cluster=c/a.jsonl": _lines([*beats, {**beats[0], "ts": 1}]),
        "producer_hook/cluster=c/a.jsonl": _lines([start]) + json.dumps({"nonsense": SPRING_ID}) + "\n",
        "client_log/cluster=c/rocketmq_client.log": f"{taken}\n{broken}\n",
    }


def _lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def made(settings, tmp_path_factory):
    """Root of lake and page, and all that was logged on the way."""
    root = tmp_path_factory.mktemp("secrets")
    for name, text in landing_files().items():
        path = root / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    lake = LocalLake(str(root / "lake"), retention_days=7)
    try:
        run_here(settings, root / "landing", root / "lake")
        render_report.written(LocalAsker(lake), settings, RunContext(str(root / "landing")))
    finally:
        logging.getLogger().removeHandler(handler)
    return root / "lake", "\n".join(told)


def test_no_file_of_the_lake_nor_the_page_nor_a_log_shows_a_key(made):
    lake, told = made
    files = [path for path in lake.rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files)
    for path in files:
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(parquet.read_table(path, partitioning=None).to_pylist()).encode()
        assert not [key for key in BOTH if key in content], path
    assert ACCESS not in told and SECRET not in told


def rows(lake: Path, table: str) -> list[dict]:
    found = (lake / table).rglob("*.parquet")
    return [row for path in found for row in parquet.read_table(path, partitioning=None).to_pylist()]


def test_rows_of_such_an_id_are_there_and_doubted(made):
    lake, _ = made
    for table in ("client_heartbeat", "rebalance_result", "consumer_heartbeat", "producer_instance"):
        own = [row for row in rows(lake, table) if row["client_id"] == MASKED_ID]
        assert own, table
        assert all(row["doubts"] == ["SECRET_IN_ID"] for row in own if "doubts" in row), table
    assert any(MASKED_ID in (row["raw_text"] or "") for row in rows(lake, "quarantine"))
    assert {row["client_id"] for row in rows(lake, "queue_ownership")} == {MASKED_ID}
