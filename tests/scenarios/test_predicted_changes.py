"""Every change of members that the whole captured run holds, predicted from the round before it."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC
from pathlib import Path

import pytest

from tests.conftest import CAPTURES
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.scenarios.test_what_if import changes, expected_at, make, rows_of

# What the README of the captures tells: by group, members that came and that went, once the group had settled again.
TOLD = {
    "g_avg": (3, 2),  # a4 and a5 join, a4 is killed, a5 is frozen, unlisted and comes back
    "g_hash": (1, 0),
    "g_order": (1, 1),
    "g_skew": (1, 0),
}


@pytest.fixture(scope="module")
def captured(settings, tmp_path_factory) -> Path:
    """Root of a lake of the whole capture of consumers; ``data_samples`` is a cut of it."""
    root = tmp_path_factory.mktemp("captured")
    own = root / "landing" / "admin_snapshots" / "cluster=oracle"
    own.mkdir(parents=True)
    shutil.copy(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz", own)
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    return root / "lake"


@pytest.fixture(scope="module")
def happened(captured):
    """The changes of one member each: see ``changes``."""
    return changes(captured)


def test_the_capture_holds_the_changes_that_it_tells_of(happened):
    came, went = Counter(), Counter()
    for group, _, _, joined, left, _ in happened:
        came[group] += len(joined)
        went[group] += len(left)
    assert {group: (came[group], went[group]) for group in sorted({*came, *went})} == TOLD


def test_each_change_is_predicted_from_the_round_before_it(captured, happened, settings):
    for group, topic, at, came, went, owners in happened:
        premise = (
            f'group = {{consumer_group = "{group}", joins = {sorted(came)}, leaves = {sorted(went)}, '
            f"since = {at.replace(tzinfo=UTC).isoformat()}}}"
        )
        make(captured, settings, premise, name="predicted")
        assert expected_at(captured, group, topic, at) == owners, (group, topic, at, came, went)
        (share,) = [
            row
            for row in rows_of(captured, settings, "predicted")["shares"]
            if row["topic"] == topic and row["from_at"] <= at <= row["to_at"]
        ]
        # Evenness and moves as they can be counted from what the clients showed afterwards.
        held = Counter(client_id for own in owners.values() for client_id in own)
        idle = share["would_members"] - len(held)
        assert share["would_each"] == f"{0 if idle else min(held.values())} to {max(held.values())}"
        assert {move_to for _, _, move_to in map(dict.values, share["moves"])} <= held.keys()
        assert share["moved"] == len(share["moves"]) > 0
