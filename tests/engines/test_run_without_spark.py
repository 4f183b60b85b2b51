"""The commands on this machine's engine: nothing of Spark is loaded, and what they leave can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import ALLOCATION_DRIFT, BROKER_AVAILABILITY_WINDOW, PUBLICATION, QUARANTINE
from tests.pipeline.undisturbed_runs import lines
from tests.without_spark import check_without_spark

LANDED = {
    "producer_hook/cluster=c/a.jsonl": ("producers/producer_4.7.1_laton.jsonl.gz", 0, 3000),
    "admin_snapshots/cluster=c/a.jsonl": ("consumers/admin_snapshots.jsonl.gz", 0, 200),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A landing folder and the lake of a run on it."""
    root = tmp_path_factory.mktemp("without")
    for place, capture in LANDED.items():
        path = root / "landing" / place
        path.parent.mkdir(parents=True)
        path.write_bytes(lines(*capture) + b"no such line\n")
    check_without_spark("run-pipeline", *places(root), ends=0)
    return root


def places(root: Path) -> tuple[str, ...]:
    return "--landing", str(root / "landing"), "--lake", str(root / "lake")


def test_a_run_of_the_pipeline_leaves_both_sides_and_the_page(root):
    lake = LocalLake(str(root / "lake"), retention_days=7)
    for table in (BROKER_AVAILABILITY_WINDOW, ALLOCATION_DRIFT, QUARANTINE):
        assert len(lake.rows(table)), table.name
    assert (root / "lake" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("command", ["ingest-send-records", "rebuild-availability", "flag-allocation-drift"])
def test_a_job_that_finds_nothing_new_publishes_nothing(root, command):
    lake = LocalLake(str(root / "lake"), retention_days=7)
    before = lake.version(PUBLICATION)
    check_without_spark(command, *places(root), ends=0)
    assert lake.version(PUBLICATION) == before


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (("maintain",), 0),
        (("run-pipeline", "--engine", "local", "--master", "local[2]"), 64),
        (("rebuild-availability", "--engine", "cluster"), 64),
    ],
)
def test_upkeep_and_refusals_load_nothing_of_spark(root, words, ends):
    given = places(root)[2:] if words[0] == "maintain" else places(root)
    check_without_spark(words[0], *given, *words[1:], ends=ends)


def test_a_lake_on_a_store_is_refused_with_the_way_out(root):
    given = (*places(root)[:2], "--lake", "hdfs://nowhere/lake")
    assert "run with --engine spark" in check_without_spark("run-pipeline", *given, ends=3)
