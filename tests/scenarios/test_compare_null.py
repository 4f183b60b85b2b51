"""The null comparison: what rests on the same input says the same, in whatever order and by whatever way it came."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.scenarios.table_differences import DERIVED
from hindsight.schemas import INGESTED_FILE
from tests.conftest import CAPTURES
from tests.pipeline.local_runs import run_here
from tests.pipeline.undisturbed_runs import lines
from tests.scenarios.compared import SAME, compare
from tests.scenarios.scenario_lakes import versions

CLUSTER = Path("cluster=oracle")
LOGS = CAPTURES / "consumers" / "client_logs"


class Known(NamedTuple):
    """A landing folder, a lake that took it in at once, and one that took in every second file before the rest."""

    landing: Path
    lake: Path
    apart: Path


def taken_in_apart(settings, landing: Path, root: Path) -> Path:
    """The lake of two runs, of which the first sees the last file and no neighbour of it."""
    files = sorted((path for path in landing.rglob("*") if path.is_file()), reverse=True)
    for batch in (files[::2], files[1::2]):
        for path in batch:
            own = root / "landing" / path.relative_to(landing)
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, own)
        run_here(settings, root / "landing", root / "lake")
    return root / "lake"


def land(landing: Path, contents: Iterable[tuple[str, bytes]]) -> Path:
    for name, content in contents:
        kind, _, file = name.partition("/")
        path = landing / kind / CLUSTER / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return landing


@pytest.fixture(scope="module")
def of_midnight(settings, midnight, tmp_path_factory) -> Known:
    landing = midnight.parent / "landing"
    return Known(landing, midnight, taken_in_apart(settings, landing, tmp_path_factory.mktemp("apart")))


@pytest.fixture(scope="module")
def of_capture(settings, tmp_path_factory) -> Known:
    """A cut of a real capture: sends of which a hundred lines are in two files, rounds, a consumer's log."""
    root = tmp_path_factory.mktemp("capture")
    hook, rounds = "producers/producer_4.7.1_short.jsonl.gz", "consumers/admin_snapshots.jsonl.gz"
    log = (LOGS / "consumer_4.7.1" / "rocketmq_client.log.gz").relative_to(CAPTURES)
    parts = (
        ("producer_hook/a.jsonl", lines(hook, 0, 200)),
        ("producer_hook/b.jsonl", lines(hook, 100, 300)),
        ("admin_snapshots/a.jsonl", lines(rounds, 0, 60)),
        ("admin_snapshots/b.jsonl", lines(rounds, 60, 120)),
        ("client_log/a/rocketmq_client.log", lines(str(log), 0, 2000)),
    )
    landing = land(root / "landing", parts)
    run_here(settings, landing, root / "lake")
    return Known(landing, root / "lake", taken_in_apart(settings, landing, root / "apart"))


@pytest.fixture(params=["midnight", "capture"])
def known(request) -> Known:
    return request.getfixturevalue(f"of_{request.param}")


def test_there_is_something_to_compare(known):
    lake = LocalLake(str(known.lake), retention_days=7)
    assert sum(lake.rows(table, ["cluster"]).num_rows > 0 for table in DERIVED) > 10
    assert (runs(known.lake), runs(known.apart)) == (2, 4)


def runs(lake: Path) -> int:
    """How many took in something; each run of the pipeline has one of each side."""
    return len(set(LocalLake(str(lake), retention_days=7).rows(INGESTED_FILE, ["run_id"])["run_id"].to_pylist()))


def test_a_lake_says_what_it_says_itself(known):
    assert compare(known.lake, known.lake, code=0).stdout == SAME


def test_the_order_of_arrival_flips_nothing(known):
    assert compare(known.lake, known.apart, code=0).stdout == SAME


# The other is derived anew by its own release.
@pytest.mark.parametrize("known", ["midnight", pytest.param("capture", marks=pytest.mark.soak)], indirect=True)
def test_its_own_settings_flip_nothing(known, settings_file):
    before = versions(known.lake)
    assert compare(known.lake, "--settings", settings_file, code=0).stdout == SAME
    assert versions(known.lake) == before


# Another command derives it all anew: one of the two is for the soak.
@pytest.mark.parametrize("known", [pytest.param("midnight", marks=pytest.mark.soak), "capture"], indirect=True)
def test_its_own_release_flips_nothing(known, release, settings_file):
    before = versions(known.lake)
    assert compare(known.lake, "--with", release(), "--settings", settings_file, code=0).stdout == SAME
    assert versions(known.lake) == before
