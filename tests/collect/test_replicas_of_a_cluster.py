"""A master and its replica on a real cluster: how the replica follows, and what is left when the master dies."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from hindsight import Lake
from tests.collect.real_cluster import HINDSIGHT, cluster, create_topic, hindsight, kill_broker, mqadmin, replica

pytestmark = pytest.mark.soak

RELEASE = "5.3.3"


def sweep(folder, name_servers) -> None:
    """One sweep, which asks all that seldom changes too."""
    words = [
        "collect",
        "--cluster",
        "real",
        "--landing",
        str(folder / "landing"),
        "--name-server",
        name_servers,
        "--once",
    ]
    subprocess.run([*HINDSIGHT, *words], check=True, capture_output=True, timeout=120)


def send(folder, name_servers, count: int) -> None:
    for _ in range(count):
        mqadmin(RELEASE, folder, name_servers, "sendMessage", "-t", "T", "-p", "x" * 1_000)


def test_a_replica_that_stands_and_a_master_that_dies_are_told(tmp_path):
    with (
        cluster(RELEASE, tmp_path, brokers=1, name_servers=1) as name_servers,
        replica(tmp_path, name_servers, "broker-a") as follower,
    ):
        create_topic(RELEASE, tmp_path, name_servers, "T")
        send(tmp_path, name_servers, 2)
        time.sleep(15)
        sweep(tmp_path, name_servers)
        os.kill(follower, signal.SIGSTOP)
        send(tmp_path, name_servers, 2)
        sweep(tmp_path, name_servers)
        os.kill(follower, signal.SIGCONT)
        time.sleep(10)
        sweep(tmp_path, name_servers)
        kill_broker(tmp_path, "broker-a")
        time.sleep(15)
        sweep(tmp_path, name_servers)
    hindsight("run-pipeline", "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake"))
    query = "SELECT * FROM broker_replication ORDER BY captured_at"
    told = Lake(str(tmp_path / "lake")).sql(query).arrow().to_pylist()
    follows, stands, again, alone = told
    assert [row["is_master"] for row in told] == [True, True, True, False]
    assert [row["was_master"] for row in told] == [None, True, True, True]
    assert (follows["in_sync_replicas"], follows["missing"], follows["behind_bytes"]) == (1, 0, 0)
    assert (stands["in_sync_replicas"], stands["missing"]) == (0, 1)
    assert stands["log_end"] - follows["log_end"] > 2_000
    assert (again["behind_bytes"], again["log_end"]) == (0, stands["log_end"])
    assert alone["log_end"] == stands["log_end"]  # it has all of it
    started = Lake(str(tmp_path / "lake")).sql("SELECT DISTINCT release FROM broker_status WHERE booted_at IS NOT NULL")
    assert started.arrow().to_pylist() == [{"release": "V5_3_3"}]
