"""However groups, rounds and dates are cut, their findings are the same; what a cluster shares reaches every group."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.allocation_data import lake_of, prepare_lake
from bench.consumer_tables import Population
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.drift import drift_buckets, drift_derivation
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.flag_allocation_drift import run_on
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import INGESTED_FILE, SNAPSHOT_CAPTURE, TABLES
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.consumer import capture_rounds
from tests.random_groups import MIDNIGHT, TOPICS, RandomGroups

DERIVED = (
    "client_strategy_state", "group_drift_state", "expected_allocation", "allocation_drift", "membership_change",
    "drift_incident", "group_round", "rebalance_event", "rebalance_state",
)  # fmt: skip
FORMATS = {
    "admin_snapshots": (
        "snapshot_capture",
        "topic_route",
        "consumer_heartbeat",
        "queue_ownership",
        "queue_progress",
        "topic_status",
    ),
    "mqadmin": (),
    "client_log": ("rebalance_result",),
    "broker_log": ("membership_event",),
    "heartbeat": ("client_heartbeat",),
}
FIRST, SECOND = MIDNIGHT.date() - timedelta(days=1), MIDNIGHT.date()
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, *range(2, 20)))]


def filled(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with something in every column that may not be null."""
    schema = arrow_schema(TABLES[table])
    usual = {"string": "", "bool": False, "int32": 0, "int64": 0}
    needed = {field.name: usual[str(field.type)] for field in schema if not field.nullable and str(field.type) in usual}
    return pa.Table.from_pylist([needed | row for row in rows], schema=schema)


def store(lake: LocalLake, *clusters: RandomGroups, day: date | None = None, pieces: int = 1) -> None:
    """Store rows of a date (None: all) in so many files a table, and note a landing file of each format."""
    for table in (name for names in FORMATS.values() for name in names):
        rows = [row for of in clusters for row in of.tables[table] if day in (None, row["event_date"])]
        for piece in range(pieces):
            if rows[piece::pieces]:
                lake.append(TABLES[table], filled(table, rows[piece::pieces]))
    for of in clusters:
        days = [at for at in of.dates() if day in (None, at)]
        noted = [
            {"cluster": of.cluster, "format": name, "file": f"{name}/{of.cluster}-{days}", "event_dates": days}
            | {"complete": True, "ingested_at": MIDNIGHT, "run_id": "r", "read": 1}
            for name in FORMATS
        ]
        lake.append(INGESTED_FILE, filled(INGESTED_FILE.name, noted))


def flag(lake: LocalLake, workers: int = 1) -> None:
    with LocalRunner(workers) as runner:
        run_on(lake, runner, load_settings(None), RunContext("landing"))


def contents(lake: LocalLake) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, lake.rows(TABLES[name], TABLES[name].contract_columns).to_pylist())) for name in DERIVED
    }


@pytest.fixture(scope="module", params=SEEDS)
def groups(request):
    return RandomGroups("c", request.param)


@pytest.fixture(scope="module")
def whole(groups, tmp_path_factory):
    """What is found in one go."""
    lake = LocalLake(str(tmp_path_factory.mktemp("whole")), retention_days=7)
    store(lake, groups)
    flag(lake)
    found = contents(lake)
    assert found["group_round"] and found["expected_allocation"] and found["client_strategy_state"]
    assert found["rebalance_event"] and found["rebalance_state"]
    return found


def test_buckets_slices_and_files_change_nothing(lake_at, groups, whole, monkeypatch):
    monkeypatch.setattr(drift_derivation, "_BUCKET_ROWS", 300)
    monkeypatch.setattr(drift_buckets, "_SLICE_ROWS", 1)
    monkeypatch.setattr(drift_buckets, "HOUR_US", 60_000_000)
    monkeypatch.setattr("hindsight.jobs.drift.group_split.HOUR_US", 60_000_000)
    monkeypatch.setattr(drift_buckets, "HOURS", 24 * 60)
    lake = lake_at("cut")
    store(lake, groups, pieces=3)
    flag(lake)
    assert contents(lake) == whole


@pytest.mark.parametrize("days", [(FIRST, SECOND), (SECOND, FIRST)], ids=["in order", "one late"])
def test_dates_one_after_the_other_are_what_they_are_together(lake_at, groups, whole, days):
    lake = lake_at(f"dated from {days[0]}")
    for day in days:
        store(lake, groups, day=day)
        flag(lake)
    assert contents(lake) == whole


def test_clusters_do_not_know_of_each_other(lake_at, groups, whole):
    lake, other = lake_at("both"), RandomGroups("another", 99)
    store(lake, groups, other)
    flag(lake)
    own = {name: [row for row in rows if "'cluster': 'c'" in row] for name, rows in contents(lake).items()}
    assert own == whole


def test_workers_find_what_one_process_finds(lake_at):
    groups = [RandomGroups("c", 1), RandomGroups("d", 2)]
    found = []
    for workers in (1, 2):
        lake = lake_at(f"by {workers}")
        store(lake, *groups)
        flag(lake, workers)
        found.append(contents(lake))
    assert found[0] == found[1]


def rows_of(lake, name):
    return lake.rows(TABLES[name]).to_pylist()


def test_random_groups_show_what_there_is_to_show(lake_at):
    """What the tests above hold equal is not nothing: each rule that brings a round together has rows to show."""
    lake = lake_at("many")
    store(lake, *(RandomGroups(f"c{seed}", seed) for seed in range(8)))
    flag(lake)
    rounds, states = rows_of(lake, "group_round"), rows_of(lake, "group_drift_state")
    assert {row["verdict"] for row in rounds} == {"ok", "drift", "unknown", None}
    assert {row["collector"] for row in rounds} == {"", "mqadmin", "another"}
    assert {row["consumer_group"] for row in rounds} == {"g_a", "g_b", "order_event_payment_consumer_v01"}
    assert "TBW102" not in {row["topic"] for row in rounds}
    assert {row["strategy_source"] for row in rounds} == {"client_log", "running_info", "default"}
    assert {row["queue_kind"] for row in rounds} == {"physical", "logical", None}
    assert any(row["member_heartbeats"] for row in rounds) and any(row["loose"] for row in rounds)
    assert any("name servers differ" in text for row in rounds for text in row["missing_inputs"])
    assert any("not asked for" in text for row in rounds for text in row["missing_inputs"])
    assert {row["event_date"] for row in states} == {FIRST, SECOND}
    shown = rows_of(lake, "client_strategy_state")
    assert {row["strategy_source"] for row in shown} == {"client_log", "running_info"}
    assert {row["consumer_group"] for row in shown} >= {"CID_ONSAPI_x"}
    assert len({row["code"] for row in rows_of(lake, "allocation_drift")}) > 5
    assert rows_of(lake, "drift_incident") and rows_of(lake, "membership_change")


def test_a_cut_name_is_made_whole_by_what_other_groups_of_the_cluster_subscribe(lake_at, monkeypatch):
    """Nobody asked for its route, and the group itself names no topic: only another bucket knows it."""
    groups = RandomGroups("c", 0)
    groups.tables.clear()
    at = datetime(2026, 3, 3, 10, tzinfo=UTC)
    place = {"collector": "mqadmin", "round_at": at, "captured_at": at}
    whole_name = TOPICS[1] + "_whole"
    told = [{"topic": whole_name, "expression_type": "TAG", "sub_string": "*", "tags": []}]
    info = {"kind": "consumerRunningInfo", "subject": "s", "answered": True}
    for name in "abcdefgh":
        own = {"consumer_group": name, "client_id": "c1", "subscriptions": told}
        groups._row("snapshot_capture", at, "mqadmin", **place, **info, **own)
    none = {"kind": "consumerConnection", "subject": "g", "answered": False, "error_code": 206, "consumer_group": "g"}
    groups._row("snapshot_capture", at, "mqadmin", **place, **none)
    queue = {"topic": TOPICS[1], "broker_name": "b", "queue_id": 0, "broker_offset": 9, "consumer_offset": 1, "lag": 8}
    doubt = {"doubts": ["TOPIC_MAYBE_CUT"], "consumer_group": "g"}
    groups._row("queue_progress", at, "mqadmin", **place, **queue, **doubt)
    monkeypatch.setattr(drift_derivation, "_BUCKET_ROWS", 1)
    lake = lake_at("names")
    store(lake, groups)
    flag(lake)
    (row,) = (row for row in rows_of(lake, "group_round") if row["consumer_group"] == "g")
    assert row["topic"] == whole_name


def unnamed(lake: LocalLake) -> None:
    """Forget what names the strategies of every other group, as it is where a collector alone looks."""
    rows = lake.rows(SNAPSHOT_CAPTURE, SNAPSHOT_CAPTURE.schema.names).to_pylist()
    others = {group for group in {row["consumer_group"] for row in rows} if group and int(group[-1]) % 2}
    rows = [row | {"strategy": None} if row["consumer_group"] in others else row for row in rows]
    lake.replace(SNAPSHOT_CAPTURE, filled(SNAPSHOT_CAPTURE.name, rows), Where())


def test_rounds_that_show_the_same_say_what_they_say_when_each_is_read_in_full(tmp_path, monkeypatch):
    """On groups of which most rounds show what the one before showed, some with findings that last."""
    found = []
    for shows in (capture_rounds._shows, lambda captures, _: np.zeros(len(captures.starts), np.uint64)):
        monkeypatch.setattr(capture_rounds, "_shows", shows)
        data = tmp_path / str(len(found))
        prepare_lake(data, 8_000, Population(groups=16, largest=False))
        lake = lake_of(data)
        unnamed(lake)
        flag(lake)
        rows = contents(lake)
        del rows["rebalance_state"]  # it names the last round that showed something else
        found.append(rows)
    assert found[0] == found[1] and "rebalance_event" in found[0]
    assert len(found[0]["group_round"]) > 200 and "'inferred_strategies': ['AVG']" in str(found[0]["group_round"])
    assert "IDLE_BY_DESIGN" in str(found[0]["allocation_drift"])
