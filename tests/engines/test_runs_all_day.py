"""Runs that follow each other: what each writes does not grow, and the pages and tables are those of one run."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bench.day import land
from hindsight.conf.failure import DONE
from hindsight.jobs.commands.watch_command import run_pipeline
from hindsight.jobs.engines.changed_files import MOST_SMALL_FILES
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import INGESTED_FILE, PUBLICATION, QUALITY_RESULT, TABLES


def played(place: Path, runs: int) -> LocalLake:
    for number in range(runs):
        land(place / "landing", number, 1, lines=20)
        run(place, "lake")
    return LocalLake(str(place / "lake"), retention_days=7)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory) -> Callable[[Path], LocalLake]:
    """Makes what one run gave, which is made once."""
    place = tmp_path_factory.mktemp("first")
    played(place, 1)

    def copied(own: Path) -> LocalLake:
        shutil.copytree(place, own, dirs_exist_ok=True)
        return LocalLake(str(own / "lake"), retention_days=7)

    return copied


@pytest.fixture
def pageless(monkeypatch) -> None:
    """Runs whose page nobody looks at, a fifth of each."""
    monkeypatch.setattr("hindsight.jobs.run_pipeline._page", lambda *_: "")


def run(place: Path, lake: str) -> None:
    assert run_pipeline(["--landing", str(place / "landing"), "--lake", str(place / lake)]) == DONE


def versions(lake: LocalLake) -> dict[str, int]:
    return {table.name: lake.version(table) or 0 for table in TABLES.values()}


def test_a_run_commits_once_to_a_table_of_its_own_checks_and_to_no_table_that_stays(first_run, tmp_path):
    lake = first_run(tmp_path)
    for number in (1, 2):
        before = versions(lake)
        land(tmp_path / "landing", number, 1, lines=20)
        run(tmp_path, "lake")
    made = {name: now - before[name] for name, now in versions(lake).items() if now > before[name]}
    assert made[QUALITY_RESULT.name] == made[INGESTED_FILE.name] == 1
    assert all(lake.files(TABLES[name]) for name in made)
    checks = lake.rows(QUALITY_RESULT, ["job", "number"]).to_pylist()
    assert len({row["job"] for row in checks}) == 4
    assert len({row["number"] for row in checks}) == 3


def told_so_far(place: Path) -> tuple[int, int]:
    """Rows and batches of what the walk of groups has told of the date."""
    (listed,) = (place / "lake" / "_walks").rglob("kept.json")
    with pa.ipc.open_file(listed.with_name(json.loads(listed.read_bytes())["told"])) as told:
        return told.read_all().num_rows, told.num_record_batches


def test_what_quiet_runs_keep_of_their_walk_does_not_grow(pageless, tmp_path):
    for number in range(4):  # the first two begin at midnight
        land(tmp_path / "landing", number, 5, lines=20)
        run(tmp_path, "lake")
    assert told_so_far(tmp_path) == (3, 1)  # shared, expected, and a topic without a route


def test_runs_clear_away_what_is_older_than_the_retention_a_few_tables_at_a_time(first_run, pageless, tmp_path):
    lake = first_run(tmp_path)
    old, tables = time.time() - 8 * 86400, [table for table in TABLES.values() if lake.exists(table)]
    for table in tables:
        left = Path(lake.path(table), "part-left.parquet")
        left.write_bytes(b"of a run that was killed")
        os.utime(left, (old, old))
    lake.note("upkeep", json.dumps({table.name: "2000-01-01" for table in tables}))
    gone = []
    for number in (1, 2):
        land(tmp_path / "landing", number, 1, lines=20)
        run(tmp_path, "lake")
        gone.append(sum(not Path(lake.path(table), "part-left.parquet").exists() for table in tables))
    assert gone == [2, 4]
    land(tmp_path / "landing", 3, 1, lines=20)
    lake.note("upkeep", None)
    run(tmp_path, "lake")
    assert sum(not Path(lake.path(table), "part-left.parquet").exists() for table in tables) == 4


def test_a_run_forgets_publications_and_checks_that_nobody_can_ask_for(first_run, pageless, tmp_path):
    lake = first_run(tmp_path)
    own = {PUBLICATION: "published_at", QUALITY_RESULT: "checked_at"}
    for table, at in own.items():
        row = lake.rows(table).to_pylist()[0]
        old = {"job": "rebuild_availability", at: datetime.now(UTC) - timedelta(days=8)}
        copies = [row | old | {"number": number, "run_id": f"old {number}"} for number in (-1, 0)]
        lake.append(table, pa.Table.from_pylist(copies, lake.rows(table).schema))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    told = {table.name: "2000-01-01" if table in own else today for table in TABLES.values()}
    lake.note("upkeep", json.dumps(told))
    land(tmp_path / "landing", 1, 1, lines=20)
    run(tmp_path, "lake")
    left = [{row["run_id"] for row in lake.rows(table, ["run_id"]).to_pylist()} for table in own]
    assert "old 0" in left[0] and "old -1" not in left[0]  # the last one of before the retention
    assert not {"old 0", "old -1"} & left[1] and len(left[1]) == 2


@pytest.mark.soak
def test_many_runs_leave_few_files_and_the_rows_of_one(tmp_path):
    lake = played(tmp_path, 40)
    for table in TABLES.values():
        of_days: dict[object, int] = {}
        for file in lake.files(table):
            of_days[file.event_date] = of_days.get(file.event_date, 0) + 1
        assert max(of_days.values(), default=0) <= MOST_SMALL_FILES, table.name
        if lake.exists(table):
            log = Path(lake.path(table), "_delta_log")
            last = max((int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")), default=0)
            assert DeltaTable(lake.path(table)).version() - last <= 10, table.name
    run(tmp_path, "once")
    once = LocalLake(str(tmp_path / "once"), retention_days=7)
    beside = {"ingested_file", "quality_result", "publication"}
    for table in (table for table in TABLES.values() if table.name not in beside):
        found = [sorted(map(repr, each.rows(table, table.contract_columns).to_pylist())) for each in (lake, once)]
        assert found[0] == found[1], table.name
