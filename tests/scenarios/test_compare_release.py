"""Another release over the same input: the same one flips nothing, one with another rule is told."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.pipeline.sample_files import SAMPLES
from tests.scenarios.compared import SAME, compare, rows_of
from tests.scenarios.scenario_lakes import versions

ROOT = Path(__file__).parents[2]
RULE = "isolation_latency_ms=10000"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Makes a release in a folder of its own, with a piece of ``release_profiles.py`` put in the place of another."""

    def made(old: str, new: str) -> Path:
        folder = tmp_path_factory.mktemp("release")
        for name in ("hindsight", "conf", "schemas", "udfs", "jobs"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        rules = folder / "udfs" / "release_profiles.py"
        text = rules.read_text()
        assert old in text
        rules.write_text(text.replace(old, new))
        command = folder / "hindsight.sh"
        start = f'PYTHONPATH={folder} exec {sys.executable} -m hindsight.jobs.command_line "$@"'
        command.write_text(f"#!/bin/sh\n{start}\n")
        command.chmod(0o755)
        return command

    return made


def test_the_same_release_says_the_same(release, sampled, settings_file):
    command, before = release(RULE, RULE), versions(sampled)
    assert compare(sampled, "--with", command, "--settings", settings_file, code=0).stdout == SAME
    landing = ("--landing", SAMPLES)
    assert compare(sampled, "--with", command, *landing, "--settings", settings_file, code=0).stdout == SAME
    assert versions(sampled) == before


def test_another_rule_is_told(release, sampled, settings_file):
    command = release(RULE, "isolation_latency_ms=600")
    found = rows_of(sampled, "--with", command, "--settings", settings_file)
    assert {row["table"] for row in found} >= {"broker_availability_window"}
    assert {row["change"] for row in found} >= {"flips"}
    assert {cause["kind"] for row in found for cause in row["causes"]} == {"unknown"}
    assert all("another build of the release" in cause["detail"] for row in found for cause in row["causes"])


def test_what_does_not_start_or_fails_is_said(sampled, tmp_path):
    assert "cannot be started" in compare(sampled, "--with", tmp_path / "none", code=3).stderr
    assert "ended with 1" in compare(sampled, "--with", "false", code=3).stderr
    compare(sampled, "--landing", tmp_path, code=64)
