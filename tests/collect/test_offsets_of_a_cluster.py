"""Real brokers and clients whose offsets RocketMQ's own tools move: each is found, and a calm group has none."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.flag_allocation_drift import run_on
from hindsight.jobs.ingest_consumer_snapshots import run_on as ingest
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import ALLOCATION_DRIFT, SCHEDULE_PROGRESS
from tests.collect.real_cluster import cluster, offset_story, told
from tests.collect.test_real_clusters import ROOT

pytestmark = pytest.mark.soak

OFFSET_CODES = {
    "OFFSET_REWOUND", "OFFSET_JUMPED", "MESSAGES_LOST", "MESSAGES_AT_RISK", "QUEUE_LAGS_ALONE", "RETRIES_GROW",
    "DEAD_LETTERS",
}  # fmt: skip


_DELETES = "fileReservedTime=0\nmappedFileSizeCommitLog=33554432\n"


@pytest.fixture(scope="module")
def found(told_story):
    """Codes by group of what was found, but for queues that have not lagged for long, of one story."""
    return codes(told_story)


@pytest.fixture(scope="module")
def told_story(tmp_path_factory):
    """The folder with the story's landing and lake."""
    folder = tmp_path_factory.mktemp("offsets")
    with (
        cluster("5.3.3", folder, brokers=1, name_servers=1, more=_DELETES) as name_servers,
        offset_story("5.3.3", folder, name_servers) as story,
    ):
        command = [sys.executable, "-m", "hindsight.jobs.command_line", "collect", "--name-server", name_servers]
        options = ["--cluster", "c", "--landing", folder / "landing", "--every", "5", "--details-every", "20"]
        with subprocess.Popen([*command, *options], cwd=ROOT) as collector:
            try:
                time.sleep(100)  # offsets are held against those of a minute before
                do(story, "rewind", "clone", "skip", "trail")
                time.sleep(75)  # what waits has waited for a minute
                do(story, "delete")
                time.sleep(45)
                do(story, "fill", "delete")
                time.sleep(90)
            finally:
                collector.terminate()
    return folder


def do(story, *lines):
    for line in lines:
        story.stdin.write(f"{line}\n")
        story.stdin.flush()
        told(story, "done")


def codes(folder):
    lake = LocalLake(str(folder / "lake"), retention_days=7)
    settings, context = load_settings(None), RunContext(str(folder / "landing"))
    with LocalRunner(1) as runner:
        ingest(lake, runner, settings, context)
        run_on(lake, runner, settings, context)
    found = defaultdict(set)
    for row in lake.rows(ALLOCATION_DRIFT, ("consumer_group", "code", "finding_state")).to_pylist():
        if row["finding_state"] == "OPEN" or row["code"] != "QUEUE_LAGS_ALONE" or row["consumer_group"] == "g_alone":
            found[row["consumer_group"]].add(row["code"])
    return {group: own & OFFSET_CODES for group, own in found.items()}


def test_what_was_done_to_a_group_is_found_of_it_and_of_no_other(found):
    assert found.get("g_calm", set()) == set()
    # What the broker deletes is lost to every group that had not come so far, and the nearest are at risk before.
    slow = {"g_old", "g_clone", "g_back", "g_skip", "g_alone"}
    lost = {group for group, own in found.items() if "MESSAGES_LOST" in own}
    assert {"g_lost", "g_near"} <= lost <= {"g_lost", "g_near", *slow}
    at_risk = {group for group, own in found.items() if "MESSAGES_AT_RISK" in own}
    assert {"g_near"} <= at_risk <= {"g_near", *slow}
    others = {group: own - {"MESSAGES_LOST", "MESSAGES_AT_RISK"} for group, own in found.items()}
    assert {group: own for group, own in others.items() if own} == {
        "g_back": {"OFFSET_REWOUND"},
        "g_clone": {"OFFSET_REWOUND"},
        "g_skip": {"OFFSET_JUMPED"},
        "g_alone": {"QUEUE_LAGS_ALONE"},
        "g_fail": {"RETRIES_GROW", "DEAD_LETTERS"},
    }


def test_the_broker_says_how_far_it_is_with_messages_that_are_tried_again_later(found, told_story):
    """Failed consumption is delivered again by delay levels, the first of them level 3."""
    rows = LocalLake(str(told_story / "lake"), retention_days=7).rows(SCHEDULE_PROGRESS).to_pylist()
    assert {row["delay_level"] for row in rows} >= {3}
    assert all(0 <= row["delay_offset"] <= row["max_offset"] for row in rows)
    last = max((row for row in rows if row["delay_level"] == 3), key=lambda row: row["captured_at"])
    assert last["max_offset"] > 0
