"""Two points of a lake's history, and why they differ."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import DRIFT_INCIDENT, PUBLICATION
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.pipeline.sample_files import SAMPLES
from tests.pipeline.test_incidents_over_midnight import PARTS
from tests.scenarios.compared import SAME, compare, rows_of


def published(lake) -> list[dict]:
    rows = LocalLake(str(lake), retention_days=7).rows(PUBLICATION).to_pylist()
    return sorted(rows, key=lambda row: row["published_at"])


@pytest.fixture
def other(settings_file, tmp_path):
    path = tmp_path / "other.toml"
    path.write_text(settings_file.read_text() + "\n[timing.opens]\nORPHAN_QUEUE = { rounds = 9, age_s = 0 }\n")
    return path


@pytest.fixture
def judged_twice(of_groups, other, tmp_path):
    """A lake of the samples' consumers, who were judged under other settings afterwards."""
    lake = tmp_path / "lake"
    shutil.copytree(of_groups, lake)
    run_here(load_settings(other), SAMPLES, lake, OF_CONSUMERS)
    return lake


def test_a_publication_remembers_settings_and_release(sampled):
    for row in published(sampled):
        assert row["hindsight_version"]
        assert set(json.loads(row["settings"])) == (
            {"replay", "producer_findings", "confirmation"}
            if row["job"] == "rebuild_availability"
            else {"drift", "rounds", "timing"}
        )


def test_each_point_of_the_history_holds_what_was_published_then(of_groups, judged_twice):
    first, second = [row for row in published(judged_twice) if row["job"] == "flag_allocation_drift"]
    before, after = (f"{judged_twice}@run:{row['run_id']}" for row in (first, second))
    assert compare(before, of_groups, code=0).stdout == SAME
    assert compare(after, judged_twice, code=0).stdout == SAME
    instant = first["published_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert compare(f"{judged_twice}@{instant}", before, code=0).stdout == SAME
    found = rows_of(before, after)
    assert {row["table"] for row in found} >= {"allocation_drift", "drift_incident"}
    assert found == rows_of(of_groups, judged_twice)
    for row in found:
        (cause,) = row["causes"]
        assert cause["kind"] == "settings"
        assert cause["detail"].endswith("timing.opens.ORPHAN_QUEUE.rounds 2 -> 9")
    assert "\n  because of settings (" in compare(before, after, code=1).stdout


def test_a_late_file_is_named_and_what_waited_for_it(settings, tmp_path):
    own = tmp_path / "landing" / "admin_snapshots" / "cluster=oracle"
    own.mkdir(parents=True)
    lake = tmp_path / "lake"
    for name, lines in PARTS.items():
        (own / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        run_here(settings, tmp_path / "landing", lake, OF_CONSUMERS)
    first, *_ = published(lake)
    *_, last = PARTS
    kinds = defaultdict(set)
    for row in rows_of(f"{lake}@run:{first['run_id']}", lake):
        for cause in row["causes"]:
            kinds[cause["kind"]].add((row["event_date"], cause["detail"]))
    assert any(f"only after: admin_snapshots/cluster=oracle/{last}.jsonl" in of for _, of in kinds["input_files"]), (
        kinds
    )
    assert not kinds.keys() - {"input_files", "later_record", "handed_over"}, kinds
    assert ("2026-01-06", "a row of it waits for a record of a later date, which one lake has") in kinds["later_record"]


@pytest.mark.parametrize("asked", ["@run:nobody", "@2020-01-01", "@2026-13-01T10:00Z"])
def test_what_the_history_does_not_hold_is_refused(of_groups, asked):
    assert "publi" in compare(f"{of_groups}{asked}", of_groups, code=64).stderr or "13" in asked


def test_a_version_that_was_removed_is_named(judged_twice):
    first, *_ = [row for row in published(judged_twice) if row["job"] == "flag_allocation_drift"]
    version = dict(first["table_versions"])["drift_incident"]
    lake = LocalLake(str(judged_twice), retention_days=7)
    for file in lake.files(DRIFT_INCIDENT, as_of=version):
        (judged_twice / "drift_incident" / file.path).unlink()
    said = compare(f"{judged_twice}@run:{first['run_id']}", judged_twice, code=64).stderr
    assert "drift_incident cannot be read any more" in said


def test_dates_are_derived_from_the_latest_alone(of_groups, settings_file):
    run = published(of_groups)[-1]["run_id"]
    compare(f"{of_groups}@run:{run}", "--settings", settings_file, code=64)


def test_two_settings_files(of_groups, settings_file, other):
    assert compare(of_groups, "--settings", other, "--against", other, code=0).stdout == SAME
    found = rows_of(of_groups, "--settings", settings_file, "--against", other)
    assert found == rows_of(of_groups, "--settings", other)
    assert not (of_groups / "what_if" / "compared_before").exists()
