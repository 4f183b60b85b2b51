"""The capture `scope` by one collector and by four shards: the same findings; and with a shard that was gone."""

from __future__ import annotations

import json
import re

import pytest

from hindsight.jobs.collect.cluster_view import Shard
from tests.collect.replayed_story import tell_the_story
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here

pytestmark = pytest.mark.soak

PARTS = [Shard(number, 4) for number in range(1, 5)]
TABLES = ("group_round", "allocation_drift", "drift_incident")
GONE = slice(30, 60)  # rounds in which a shard was not there
# What names the collector and its files. Instants are compared: the story's clock stands still in each sweep.
OWN = ("collector", "incident_id", "evidence", "computed_at", "run_id")
CHANNEL = re.compile("channel <[^>]*>")  # a client is asked for through whichever broker is free


def shown(rows, groups=None):
    """Rows of a table without what a collector's name and its speed change."""
    kept = []
    for row in rows:
        if row.consumer_group and (groups is None or row.consumer_group in groups):
            told = json.dumps({n: v for n, v in row.items() if n not in OWN}, default=str, sort_keys=True)
            kept.append(CHANNEL.sub("channel", told))
    return sorted(kept)


@pytest.fixture(scope="module")
def lakes(settings, tmp_path_factory):
    """Rows by table, of one collector, of four shards, and of four of which one was gone for a while."""
    root, found = tmp_path_factory.mktemp("shards"), {}
    tell_the_story(root / "one", "scope", shard=Shard())
    for shard in PARTS:
        tell_the_story(root / "four", "scope", shard=shard)
        tell_the_story(root / "gone", "scope", shard=shard)
    for file in (root / "gone").rglob("*.jsonl"):
        leave_out(file, "collector-1-of-4")
    for name in ("one", "four", "gone"):
        run_here(settings, root / name, root / f"lake-{name}", OF_CONSUMERS)
        rows = LakeRows(root / f"lake-{name}")
        found[name] = {table: rows(table) for table in TABLES}
    return found


def leave_out(file, collector):
    """The lines of some rounds of a shard, as if nobody had collected them."""
    lines, number = [], -1
    for line in file.read_bytes().splitlines(keepends=True):
        told = json.loads(line)
        number += told["kind"] == "round"
        if told["collector"] != collector or not GONE.start <= number < GONE.stop:
            lines.append(line)
    file.write_bytes(b"".join(lines))


@pytest.mark.parametrize("table", TABLES)
def test_four_shards_find_what_one_collector_finds(lakes, table):
    one, four = (shown(lakes[name][table]) for name in ("one", "four"))
    assert one and four == one


def test_each_group_is_read_by_the_shard_of_its_name_alone(lakes):
    read = {(row.consumer_group, row.collector) for row in lakes["four"]["group_round"] if row.informative}
    assert {c for _, c in read} == {shard.collector(None) for shard in PARTS}
    assert read == {(group, shard.collector(None)) for group, _ in read for shard in PARTS if shard.has(group)}


@pytest.mark.parametrize("table", TABLES)
def test_groups_of_other_shards_are_as_they_were_while_one_is_gone(lakes, table):
    others = {row.consumer_group for row in lakes["one"]["group_round"] if not PARTS[0].has(row.consumer_group)}
    assert len(others) > 5
    assert shown(lakes["gone"][table], others) == shown(lakes["four"][table], others)


def test_groups_of_the_shard_that_is_gone_are_judged_in_no_round_and_come_back(lakes):
    def rounds(name):
        return {r.round_at for r in lakes[name]["group_round"] if PARTS[0].has(r.consumer_group) and r.consumer_group}

    every = sorted(rounds("four"))
    missing = sorted(set(every) - rounds("gone"))
    assert missing == every[GONE] and max(rounds("gone")) == every[-1]
