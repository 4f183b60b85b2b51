"""Every change of members that the whole captured run holds, predicted from the round before it."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import pytest

from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.lake.what_ifs import table_prefix
from hindsight.jobs.scenarios.planned_rollout import Asked, planned
from hindsight.schemas import GROUP_ROUND
from tests.conftest import CAPTURES
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.scenarios.test_what_if import lake_of, make, rows_of

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


# g_avg has most of them; one of the others shares by a ring, and one is left by a member. Its own are for the soak.
@pytest.mark.parametrize("of_group", [pytest.param(g, marks=pytest.mark.soak if g == "g_avg" else ()) for g in TOLD])
def test_each_change_is_predicted_from_the_round_before_it(captured, happened, settings, of_group):
    own = [change for change in happened if change[0] == of_group]
    assert own
    for group, topic, at, came, went, owners in own:
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
        assert share["would_members"] == share["members"] + len(came) - len(went)
        # Evenness and moves as they can be counted from what the clients showed afterwards.
        held = Counter(client_id for own in owners.values() for client_id in own)
        idle = share["would_members"] - len(held)
        assert share["would_each"] == f"{0 if idle else min(held.values())} to {max(held.values())}"
        assert {move_to for _, _, move_to in map(dict.values, share["moves"])} <= held.keys()
        assert share["moved"] == len(share["moves"]) > 0


def test_who_reads_while_a_member_is_away_is_what_the_others_showed_once_it_had_gone(captured, happened):
    gone = [change for change in happened if change[4]]
    assert gone
    asker = LocalAsker(lake_of(captured))
    for group, topic, at, _, (client_id,), owners in gone:
        rows = planned(asker, Asked(group, order=[client_id], at=at.replace(tzinfo=None)))
        (step,) = [row for row in rows if row["part"] == "step" and row["topic"] == topic and row["step"] == 1]
        assert {(q["broker_name"], q["queue_id"]): q["away"] for q in step["owners"]} == owners
        assert step["queues_moved"] == 0 and step["nobody"] == step["two"] == 0
    asker.close()


def changes(root):
    """Each change of a group's members by one that the capture holds: group, topic, the last round before it, who came
    or went, and who showed each queue once it had settled."""
    with_settled = []
    rounds = defaultdict(list)
    for row in lake_of(root).rows(GROUP_ROUND).to_pylist():
        if row["queues"] and row["message_model"] == "CLUSTERING":
            rounds[row["consumer_group"], row["topic"]].append(row)
    shown = observed(root)
    for (group, topic), rows in sorted(rounds.items()):
        rows.sort(key=lambda row: row["round_at"])
        for before, after in pairwise(rows):
            came, went = set(after["members"]) - set(before["members"]), set(before["members"]) - set(after["members"])
            if len(came) + len(went) != 1 or before["strategy"] != after["strategy"]:
                continue
            settled = [
                row["round_at"]
                for row in rows
                if row["round_at"] >= after["round_at"]
                and row["members"] == after["members"]
                and row["verdict"] == "ok"
            ]
            if settled:
                owners = shown[group, topic, settled[-1]]
                with_settled.append((group, topic, before["round_at"], came, went, owners))
    return with_settled


def observed(root):
    asker = LocalAsker(lake_of(root))
    asked = "SELECT consumer_group, topic, round_at, broker_name, queue_id, observed FROM expected_queue"
    found = defaultdict(dict)
    for row in asker.answer(asked).read_all().to_pylist():
        found[row["consumer_group"], row["topic"], row["round_at"]][row["broker_name"], row["queue_id"]] = row[
            "observed"
        ]
    asker.close()
    return found


def expected_at(root, group, topic, at):
    """Who would claim each queue in a round of the what-if ``predicted``."""
    asker = LocalAsker(lake_of(root))
    of = table_prefix("predicted")
    rows = asker.answer(
        f"""SELECT q.broker_name, q.queue_id, q.claimants FROM (
          SELECT unnest(e.allocation) AS q FROM {of}group_round AS g JOIN {of}expected_allocation AS e
            USING (cluster, event_date, consumer_group, topic, strategy, strategy_parameters, profile, queue_list_hash,
              member_list_hash, claims_hash)
          WHERE g.consumer_group = '{group}' AND g.topic = '{topic}' AND g.round_at = '{at}')"""
    ).read_all()
    asker.close()
    return {(row["broker_name"], row["queue_id"]): row["claimants"] for row in rows.to_pylist()}
