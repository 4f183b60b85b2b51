"""hindsight compare: a lake beside itself, beside another one, and under other settings."""

from __future__ import annotations

import json
import shutil
from datetime import date

import pyarrow as pa
import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import GROUP_ROUND
from tests.commands import command
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.pipeline.sample_files import SAMPLES
from tests.scenarios.scenario_lakes import versions

DAY = date(2026, 11, 21)


def run(*arguments, code):
    done = command("compare", *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_lake_holds_what_a_copy_holds_and_what_it_says_again(of_groups, settings_file, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(of_groups, copy)
    assert run(of_groups, copy, code=0) == "The derived tables hold the same.\n"
    before = versions(of_groups)
    assert run(of_groups, "--settings", settings_file, code=0) == "The derived tables hold the same.\n"
    assert versions(of_groups) == before and not (of_groups / "what_if" / "compared").exists()


def test_rows_that_were_changed_are_told_and_no_others(of_groups, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(of_groups, copy)
    lake = LocalLake(str(copy), retention_days=7)
    at = ClusterDate("oracle", DAY)
    rows = lake.rows(GROUP_ROUND, where=Where(dates=[at])).to_pylist()
    flipped, gone, *kept = rows
    flipped["verdict"] = "ok" if flipped["verdict"] != "ok" else "drift"
    schema = lake.rows(GROUP_ROUND, where=Where(dates=[at])).schema
    lake.replace_dates(GROUP_ROUND, pa.Table.from_pylist([flipped, *kept], schema), [at])
    found = [json.loads(line) for line in run(of_groups, copy, "--json", code=1).splitlines()]
    assert sorted((one["table"], one["change"]) for one in found) == [
        ("group_round", "flips"),
        ("group_round", "vanishes"),
    ]
    (flip,) = [one for one in found if one["change"] == "flips"]
    assert flip["columns"] == ["verdict"] and flip["after"]["verdict"] == flipped["verdict"]
    assert {one["topic"] for one in found} == {flipped["topic"], gone["topic"]}
    text = run(of_groups, copy, code=1)
    before, after, of_all, empty, of_table, why, verdicts, flips, *_ = text.splitlines()
    assert (before, after, empty) == (f"before: {of_groups}", f"after:  {copy}", "")
    assert of_all == "1 flips its verdict, 1 vanishes" and of_table == f"group_round, 2026-11-21: {of_all}"
    assert why.startswith("  because of unknown (oracle): ") and flips.startswith("  flips: cluster=")
    assert verdicts == f"  verdict {flip['before']['verdict'] or 'null'} -> {flip['after']['verdict']}: 1 row"
    run(of_groups, copy, "--from", "2026-11-22", code=64)


def test_what_other_settings_say_is_what_a_run_with_them_publishes(of_groups, settings_file, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(settings_file.read_text() + "\n[timing.opens]\nORPHAN_QUEUE = { rounds = 9, age_s = 0 }\n")
    told = run(of_groups, "--settings", other, "--json", code=1)
    assert {json.loads(line)["table"] for line in told.splitlines()} >= {"allocation_drift", "drift_incident"}
    lake = tmp_path / "lake"
    run_here(load_settings(other), SAMPLES, lake, OF_CONSUMERS)
    assert sorted(run(of_groups, lake, "--json", code=1).splitlines()) == sorted(told.splitlines())


def test_a_place_without_tables_is_refused(of_groups, tmp_path):
    run(of_groups, tmp_path, code=64)
    run(tmp_path, code=64)


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_date_that_is_none_is_refused(of_groups, option):
    run(of_groups, option, "yesterday", code=64)
