"""From servers that answer as the capture `scope` has it to findings: collected by `hindsight collect` itself."""

from __future__ import annotations

from datetime import UTC

import pytest

from tests.collect.replayed_story import tell_the_story
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here

pytestmark = pytest.mark.soak

BEGIN_MS = 1_795_569_372_964  # t = 0 of the story
CUT_S, HEALED_S = 40, 125  # v3's connection to broker-b


@pytest.fixture(scope="module")
def told(settings, tmp_path_factory):
    """Rows by table."""
    root = tmp_path_factory.mktemp("collected")
    tell_the_story(root / "landing", "scope")
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    rows = LakeRows(root / "lake")
    tables = ("allocation_drift", "drift_incident", "ingested_file", "group_round")
    return {table: rows(table) for table in tables}


def seconds(instant) -> float:
    return instant.replace(tzinfo=UTC).timestamp() - BEGIN_MS / 1000


def test_no_line_of_the_collector_is_refused(told):
    assert [file.quarantined for file in told["ingested_file"]] == [0]
    assert told["ingested_file"][0].read > 10_000


def test_the_provoked_divergence_is_found_while_it_lasts(told):
    at = sorted(
        seconds(row.round_at)
        for row in told["allocation_drift"]
        if (row.consumer_group, row.code) == ("g_view", "VIEW_DIVERGENCE")
    )
    assert len(at) > 25
    assert CUT_S <= at[0] < CUT_S + 10 and HEALED_S - 10 < at[-1] <= HEALED_S + 10
    assert ("g_view", "VIEW_DIVERGENCE") in {(i.consumer_group, i.root_cause) for i in told["drift_incident"]}


def test_faults_of_other_kinds_are_found_and_healthy_groups_are_not_called_sick(told):
    codes = {(row.consumer_group, row.code) for row in told["allocation_drift"]}
    assert {("g_gone", "GROUP_DOWN"), ("g_push", "UNREACHABLE_CLIENT")} <= codes
    assert not {group for group, code in codes if code == "GROUP_DOWN"} & {"g_push", "g_bcast", "g_view", "g_lite49"}
