"""The bounds by which rebalances are told, against what RocketMQ's own classes say (tests/golden/rebalance)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hindsight.udfs.rebalances import logged_shares, rebalance_fold, round_shares
from hindsight.udfs.rebalances.rebalance_event import FORGOTTEN_MS, REACTS_WITHIN_MS
from tests.default_timing import default_timing

FACTS = json.loads((Path(__file__).parents[1] / "golden" / "rebalance" / "facts.json").read_text())


@pytest.mark.parametrize("release", FACTS["client"])
def test_a_client_reacts_within_its_timer_and_its_own_retries_are_one_rebalance(release):
    facts = FACTS["client"][release]
    assert facts["RebalanceService.waitInterval"] < REACTS_WITHIN_MS < 2 * facts["RebalanceService.waitInterval"]
    # Retries that follow at once belong to the rebalance; the next turn of the timer does not.
    retried = [facts[name] or 0 for name in ("RebalanceService.minInterval", "RebalanceImpl.rebalanceLater")]
    assert max(retried) < logged_shares.ONE_REBALANCE_MS < facts["RebalanceService.waitInterval"]


@pytest.mark.parametrize("release", FACTS["broker"])
def test_locks_and_silent_members_live_as_long_as_brokers_let_them(release):
    facts = FACTS["broker"][release]
    life = facts["RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME"]
    renewed = {client["ProcessQueue.REBALANCE_LOCK_INTERVAL"] for client in FACTS["client"].values()}
    assert life == round_shares.LOCK_LIFE_MS
    # A lock of one that was killed runs off so long after, at least.
    assert {life - interval for interval in renewed} == {default_timing().slow_handover_s * 1000}
    expiry = facts.get("ConsumerManager.CHANNEL_EXPIRED_TIMEOUT") or facts["BrokerConfig.channelExpiredTimeout"]
    assert expiry + facts["ClientHousekeepingService.period"] == rebalance_fold.EXPIRED_MS
    assert FORGOTTEN_MS > rebalance_fold.EXPIRED_MS
