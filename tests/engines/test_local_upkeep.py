"""Upkeep without a JVM: figures, compaction and what vacuum removes, by what was written before."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TOPIC_ROUTE
from tests.engines.random_rows import as_text
from tests.pipeline.random_tables import one_row

DAY_S = 86_400


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    lake = LocalLake(str(tmp_path / "a lake's own ü"), retention_days=7)
    piece = pa.concat_tables([one_row(TOPIC_ROUTE)] * 3)
    for _ in range(3):
        lake.append(TOPIC_ROUTE, piece)
    return lake


def aged(path: str, days: int) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def test_small_files_become_one_and_the_rows_stay(lake):
    upkeep, before = lake, lake.rows(TOPIC_ROUTE)
    was = upkeep.footprint(TOPIC_ROUTE)
    assert was.rows == len(before) and was.files == len(lake.files(TOPIC_ROUTE))
    upkeep.compact(TOPIC_ROUTE)
    now = upkeep.footprint(TOPIC_ROUTE)
    assert (now.rows, now.files) == (was.rows, 1) and was.files == 3
    assert now.bytes < was.bytes < was.bytes_with_history < now.bytes_with_history
    assert as_text(lake.rows(TOPIC_ROUTE)) == as_text(before)
    assert lake.operations_since(TOPIC_ROUTE, 3) == {"OPTIMIZE"}


def test_a_staged_file_that_was_never_committed_goes_after_the_retention_and_no_other(lake):
    upkeep = lake
    staged = lake.folder(TOPIC_ROUTE).stage(lake.rows(TOPIC_ROUTE))
    version = lake.version(TOPIC_ROUTE)
    upkeep.vacuum(TOPIC_ROUTE)
    assert lake.version(TOPIC_ROUTE) == version
    places = [f"{lake.path(TOPIC_ROUTE)}/{file.path}" for file in staged]
    assert all(Path(place).exists() for place in places)
    for place in places:
        aged(place, 8)
    for file in lake.files(TOPIC_ROUTE):
        aged(f"{lake.path(TOPIC_ROUTE)}/{file.path}", 8)
    upkeep.vacuum(TOPIC_ROUTE)
    assert not any(Path(place).exists() for place in places)
    assert len(lake.rows(TOPIC_ROUTE)) == 9


@pytest.mark.parametrize(("carried", "wanted"), [(14, 7), (7, 14)])
def test_the_longer_retention_holds_that_of_the_table_or_of_the_settings(tmp_path, carried, wanted):
    LocalLake(str(tmp_path), retention_days=carried).create(TOPIC_ROUTE)
    for days in (10, 20):
        path = tmp_path / "topic_route" / f"orphan-{days}.parquet"
        path.write_bytes(b"")
        aged(str(path), days)
    lake = LocalLake(str(tmp_path), retention_days=wanted)
    lake.vacuum(TOPIC_ROUTE)
    assert [f.name for f in (tmp_path / "topic_route").glob("*.parquet")] == ["orphan-10.parquet"]
    told = DeltaTable(lake.path(TOPIC_ROUTE)).metadata().configuration
    assert {value for name, value in told.items() if name.endswith("RetentionDuration")} == {"interval 14 days"}


def test_history_is_promised_as_far_back_as_vacuum_keeps_its_files(lake):
    """Commits of 30, 20, 3 and 1 days ago: what was current 7 days ago is the oldest that can be asked for."""
    for version, days in enumerate((30, 20, 3, 1)):
        aged(f"{lake.path(TOPIC_ROUTE)}/_delta_log/{version:020}.json", days)
    found = lake.footprint(TOPIC_ROUTE)
    assert found.oldest_version == 1
    assert abs((datetime.now(UTC) - found.oldest_at).total_seconds() - 20 * DAY_S) < 3600


def test_an_old_candidate_of_spark_goes_and_a_young_one_stays(lake):
    folder = f"{lake.root}/_candidate/topic_route"
    Path(folder).mkdir(parents=True)
    for name in ("old", "young"):
        Path(f"{folder}/{name}.parquet").touch()
    aged(f"{folder}/old.parquet", 8)
    lake.drop_old_candidates(TOPIC_ROUTE)
    assert len(list(Path(folder).iterdir())) == 2
    aged(f"{folder}/young.parquet", 8)
    lake.drop_old_candidates(TOPIC_ROUTE)
    assert not Path(folder).exists()
