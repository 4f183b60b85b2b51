"""A real 5.x cluster and a group that lets brokers assign: members take what is expected, however it changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, ingest_consumer_snapshots
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES
from tests.collect.real_cluster import cluster, popping, told

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parent.parent.parent
RELEASES = ("5.3.3", "5.1.4")
SETTLES_S = 45  # the members' own timer is 20 s, the broker's word of a change comes at once
TOPIC = "PopOrders"
NAMES = ("broker_assignment", "allocation_drift", "drift_incident", "group_round", "queue_progress")


@contextmanager
def collecting(name_servers, landing):
    command = [
        sys.executable,
        "-m",
        "hindsight.jobs.command_line",
        "collect",
        "--name-server",
        name_servers,
        "--cluster",
        "c",
    ]
    command += ["--landing", str(landing), "--every", "3", "--details-every", "6"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HINDSIGHT_")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as process:
        yield
        process.terminate()
        process.wait(30)


def say(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    told(process, "done")


def tables_of(tmp_path, landing):
    lake = LocalLake(str(tmp_path / "lake"), retention_days=7)
    with LocalRunner(1) as runner:
        for job in (ingest_consumer_snapshots, flag_allocation_drift):
            job.run_on(lake, runner, load_settings(None), RunContext(str(landing)))
    return {name: lake.rows(TABLES[name], TABLES[name].contract_columns).to_pylist() for name in NAMES}


@pytest.fixture(scope="module", params=RELEASES)
def seen(request, tmp_path_factory):
    """The tables, and by phase the instant at which its members had settled and the next one began."""
    tmp_path = tmp_path_factory.mktemp("pops")
    landing, phases = tmp_path / "landing", {}
    with (
        cluster(request.param, tmp_path, name_servers=1) as name_servers,
        popping(request.param, tmp_path, name_servers) as members,
    ):
        say(members, "mode POP 1")
        for name in ("m1", "m2", "m3"):
            say(members, f"join {name}")
        with collecting(name_servers, landing):
            for phase, line in (
                ("three share with the next", None),
                ("a join", "join m4"),
                ("a leave", "leave m2"),
                ("all share all", "mode POP -1"),
                ("one owner a queue", "mode PULL 0"),
                ("one rebalances itself", "mode POP 1\njoin m9 own"),
            ):
                for each in (line or "").splitlines():
                    say(members, each)
                time.sleep(SETTLES_S)
                begun = datetime.now(UTC)
                time.sleep(12)
                phases[phase] = begun, datetime.now(UTC)
            time.sleep(75)  # until the last becomes an incident
    return tables_of(tmp_path, landing), phases


def shown(seen, phase):
    """By member, what was handed out to it and what it took when a phase had settled."""
    tables, phases = seen
    begun, ended = phases[phase]
    found = {}
    for row in tables["broker_assignment"]:
        if row["topic"] == TOPIC and row["from_at"] <= ended and row["until_at"] >= begun:
            found.setdefault(row["client_id"].rpartition("@")[2], []).append(row)
    return found


PHASES = {
    "three share with the next": ({"m1", "m2", "m3"}, "POP"),
    "a join": ({"m1", "m2", "m3", "m4"}, "POP"),
    "a leave": ({"m1", "m3", "m4"}, "POP"),
    "all share all": ({"m1", "m3", "m4"}, "POP"),
    "one owner a queue": ({"m1", "m3", "m4"}, "PULL"),
}


@pytest.mark.parametrize("phase", PHASES)
def test_members_take_what_is_expected(seen, phase):
    members, mode = PHASES[phase]
    found = shown(seen, phase)
    assert {name.partition("#")[0] for name in found} == members
    for rows in found.values():
        for row in rows:
            assert row["agrees"], row
            assert row["taken"] == row["handed_out"] and {queue["mode"] for queue in row["taken"]} == {mode}
    ids = {queue["queue_id"] for rows in found.values() for row in rows for queue in row["taken"]}
    assert ids == ({-1} if phase == "all share all" else {0, 1, 2, 3})


def test_only_the_member_that_rebalances_itself_is_found(seen):
    tables, phases = seen
    incidents = [i for i in tables["drift_incident"] if "POP_ASSIGNMENT_DIFFERS" in i["codes"]]
    subjects = {f["client_id"].rpartition("@")[2] for i in incidents for f in i["findings"]}
    assert subjects == {"m9"}
    assert all(i["first_seen_at"] > phases["one owner a queue"][1] for i in incidents)
    others = {f["code"] for f in tables["allocation_drift"] if f["finding_state"] == "OPEN"}
    assert others == {"POP_ASSIGNMENT_DIFFERS"}


def test_the_brokers_own_progress_with_what_was_popped_is_read_and_no_finding(seen):
    tables, _ = seen
    revives = [row for row in tables["queue_progress"] if row["consumer_group"] == "CID_RMQ_SYS_REVIVE_GROUP"]
    assert {row["broker_name"] for row in revives} == {"broker-a", "broker-b"}
    assert any(row["consumer_offset"] > 0 for row in revives)
    assert "REVIVE_LAG" not in {f["code"] for f in tables["allocation_drift"]}
