"""What is listed is what is published, and nothing is that was not listed."""

from __future__ import annotations

import json
import shutil
import subprocess

from hindsight.conf.failure import GATE_FAILED
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.scenarios.table_differences import DERIVED
from tests.scenarios.compared import SAME, compare, rows_of
from tests.scenarios.scenario_lakes import versions, whole_rows


def test_what_was_listed_is_published(of_groups, settings_file, tmp_path):
    lake, other = tmp_path / "lake", tmp_path / "other.toml"
    shutil.copytree(of_groups, lake)
    other.write_text(settings_file.read_text() + "\n[timing.opens]\nORPHAN_QUEUE = { rounds = 9, age_s = 0 }\n")
    listed = compare(lake, "--settings", other, "--publish", "--yes", "--json", code=0)
    assert "Published: " in listed.stderr
    found = [json.loads(line) for line in listed.stdout.splitlines()]
    assert found and sorted(map(json.dumps, found)) == sorted(map(json.dumps, rows_of(of_groups, lake)))
    done = versions(lake)
    again = compare(lake, "--settings", other, "--publish", "--yes", code=0)
    assert again.stdout == SAME and "nothing was published" in again.stderr
    assert versions(lake) == done


def test_what_would_publish_other_than_what_is_listed_is_refused(of_groups, settings_file, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(of_groups, lake)
    other = tmp_path / "other.toml"
    other.write_text(settings_file.read_text() + "\n[timing.opens]\nORPHAN_QUEUE = { rounds = 9, age_s = 0 }\n")
    before = versions(lake)
    for options in (
        ["--publish"],
        ["--publish", "--yes"],
        ["--settings", other, "--publish"],
        ["--settings", other, "--publish", "--yes", "--from", "2026-11-21"],
        ["--settings", other, "--yes"],
    ):
        compare(lake, *options, code=64)
    assert versions(lake) == before
    compare(lake, "--settings", other, "--from", "2030-01-01", code=64)


def test_what_the_gate_refuses_is_listed_and_not_published(sampled, settings_file, release, tmp_path):
    """Here by a release whose gate calls each open incident broken."""
    lake, other = tmp_path / "lake", tmp_path / "other.toml"
    shutil.copytree(sampled, lake)
    other.write_text(settings_file.read_text() + "\n[timing.opens]\nORPHAN_QUEUE = { rounds = 9, age_s = 0 }\n")
    command = release(
        ("WHERE opened_at < first_seen_at", "WHERE opened_at >= first_seen_at"), of="schemas/tables/drift_incident.txt"
    )
    words = [command, "compare", lake, "--settings", other, "--publish", "--yes"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == GATE_FAILED, done.stderr
    assert "an incident opens after it is first seen" in done.stderr and "allocation_drift" in done.stdout
    assert "rows of flag_allocation_drift" not in done.stderr
    of = {root: LocalLake(str(root), retention_days=7) for root in (sampled, lake)}
    for table in DERIVED:
        assert of[lake].version(table) == of[sampled].version(table), table.name
        assert whole_rows(of[lake], table) == whole_rows(of[sampled], table), table.name
