"""Inputs that tell less than they might: what the tables make of them from landing file to incident."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.pipeline.test_incidents_over_midnight import capture, ms, one_round

BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)


def list_failed(at: datetime) -> list[dict]:
    """Nobody tells who the members are, so nobody is asked for anything else."""
    failed = {**capture(at, "consumerConnection", "g", ""), "raw": None, "error": "a.b.RemotingTimeoutException: 5000"}
    return [{"ts": ms(at), "kind": "round"}, failed]


def exported(at: datetime) -> dict[str, list[dict]]:
    """c1 and c2 subscribe T and hold a queue of its three each; who holds what was read a second after who is there."""
    group = {"consumer_group": "g", "collector": ""}
    told = {"captured_at": ms(at), **group, "message_model": "CLUSTERING", "language": "JAVA", "client_version": 409}
    own = [{"topic": "T", "expression_type": "TAG", "sub_string": "*", "tags": []}]
    later = {"captured_at": ms(at) + 1000, **group, "topic": "T", "broker_name": "broker-a", "last_pull_at": ms(at)}
    nums = {"read_queue_nums": 3, "write_queue_nums": 3, "perm": 6, "has_master": True, "collector": ""}
    return {
        "consumer_heartbeat": [{**told, "client_id": c, "subscriptions": own} for c in ("c1", "c2", "c3")],
        "queue_ownership": [{**later, "client_id": f"c{q + 1}", "queue_id": q} for q in (0, 1)],
        "topic_route": [{"captured_at": ms(at), "topic": "T", "broker_name": "broker-a", **nums}],
    }


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def flagged(settings, tmp_path_factory):
    """Rows of a table of the lake, by cluster, after both jobs ran on ``list`` and ``export``."""
    root = tmp_path_factory.mktemp("silent")
    minutes = [BEGIN + timedelta(minutes=m) for m in range(14)]
    healthy, silent = minutes[:2], minutes[2:]
    rounds = [one_round(at, orphaned=False) for at in healthy] + [list_failed(at) for at in silent]
    write(root / "landing/admin_snapshots/cluster=list/a.jsonl", [line for lines in rounds for line in lines])
    for table in exported(BEGIN):
        rows = [row for at in minutes for row in exported(at)[table]]
        write(root / f"landing/canonical_snapshots/cluster=export/{table}/a.jsonl", rows)
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    rows = LakeRows(root / "lake")
    return lambda table, cluster: rows(table, f"cluster = '{cluster}'")


def test_a_list_that_is_asked_for_and_does_not_come_for_10_min_is_a_gap(flagged):
    (incident,) = flagged("drift_incident", "list")
    assert (incident.root_cause, incident.cause_key, incident.state) == ("DATA_GAP", "consumer list", "OPEN")
    assert incident.opened_at == (BEGIN + timedelta(minutes=12)).replace(tzinfo=None)
    assert [row.evidence for row in flagged("allocation_drift", "list")] == [
        [f"admin_snapshots/cluster=list/a.jsonl:{line}"] for line in (32, 34)
    ]


def test_exported_tables_tell_of_a_queue_that_nobody_holds_and_that_all_subscribe_alike(flagged):
    assert {row.reason for row in flagged("quarantine", "export")} == set()
    codes = {(row.code, row.queue_id) for row in flagged("allocation_drift", "export")}
    assert codes == {("ORPHAN_QUEUE", 2), ("IDLE_CONSUMER", None)}  # c3 should hold it
    told = [row.subscriptions for row in flagged("consumer_heartbeat", "export")]
    assert all(told) and {one.topic for own in told for one in own} == {"T"}
