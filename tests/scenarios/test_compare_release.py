"""Another release over the same input: the same one flips nothing, one with another rule is told."""

from __future__ import annotations

from tests.pipeline.sample_files import SAMPLES
from tests.scenarios.compared import SAME, compare, rows_of
from tests.scenarios.scenario_lakes import versions

RULE = "isolation_latency_ms=10000"


def test_the_same_release_says_the_same_of_the_landing_folder(release, sampled, settings_file):
    before = versions(sampled)
    own = ("--with", release(), "--settings", settings_file, "--landing", SAMPLES)
    assert compare(sampled, *own, code=0).stdout == SAME
    assert versions(sampled) == before


def test_another_rule_is_told(release, sampled, settings_file):
    command = release((RULE, "isolation_latency_ms=600"))
    found = rows_of(sampled, "--with", command, "--settings", settings_file)
    assert {row["table"] for row in found} >= {"broker_availability_window"}
    assert {row["change"] for row in found} >= {"flips"}
    assert {cause["kind"] for row in found for cause in row["causes"]} == {"unknown"}
    assert all("another build of the release" in cause["detail"] for row in found for cause in row["causes"])


def test_what_does_not_start_or_fails_is_said(sampled, tmp_path):
    assert "cannot be started" in compare(sampled, "--with", tmp_path / "none", code=3).stderr
    assert "ended with 1" in compare(sampled, "--with", "false", code=3).stderr
    compare(sampled, "--landing", tmp_path, code=64)
