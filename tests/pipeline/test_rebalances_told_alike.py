"""`hindsight diagnose` and the table `rebalance_event` tell the same rebalances of the same logs."""

from __future__ import annotations

from collections import defaultdict

import pytest

from hindsight.udfs.rebalances.rebalance_event import APPLIED
from tests.diagnose.told_by_logs import told, unpacked
from tests.pipeline.test_rebalances_of_the_captures import CAPTURES, events_of, lake_of, ms

CASES = {
    "consumers": {"client_log": CAPTURES / "consumers" / "client_logs", "broker_log": CAPTURES / "broker_logs"},
    "scope": {"client_log": CAPTURES / "scope" / "client_log", "broker_log": CAPTURES / "scope" / "broker_log"},
}


@pytest.mark.parametrize("case", CASES)
def test_each_rebalance_of_the_table_is_in_one_that_diagnose_tells(case, tmp_path):
    sources = CASES[case]
    files = {str(path): unpacked(path) for source in sources.values() for path in sorted(source.rglob("*.gz"))}
    waves = told(files).rebalances
    rows = [row for row in events_of(lake_of(tmp_path, **sources)) if row["outcome"] == APPLIED]
    assert waves and {row["told_by"] for row in rows} == {"client_log"}
    of_wave = defaultdict(list)
    for row in rows:
        (own,) = [n for n, wave in enumerate(waves) if is_of(row, wave)]
        of_wave[own].append(row)
    assert sorted(of_wave) == [*range(len(waves))]
    for number, wave in enumerate(waves):
        own = of_wave[number]
        assert set(wave.triggers) == {row["trigger_kind"] for row in own}
        assert set(wave.clients) == {row["client_id"] for row in own}
        assert {*wave.triggers, *wave.also} >= {kind for row in own for kind in row["also"]}
        assert wave.ended_at == max(ms(row["changed_at"]) for row in own)
        known = [ms(row["trigger_at"]) for row in own if row["trigger_at"] is not None]
        assert (wave.took_ms is None) == (not known)


def is_of(row, wave) -> bool:
    """Whether a client's rebalance is one of those that a wave holds."""
    return (
        row["consumer_group"] == wave.consumer_group
        and row["client_id"] in wave.clients
        and row["trigger_kind"] in wave.triggers
        and {*row["topics"]} <= {*wave.topics}
        and (not row["trigger_kind"].startswith("member_") or row["members_after"] == wave.members_after)
        and wave.began_at <= ms(row["changed_at"]) <= wave.ended_at
    )
