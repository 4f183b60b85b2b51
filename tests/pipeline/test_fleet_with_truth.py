"""A simulated fleet that lives, swept by four shards: what is found, and what is not, is what was done.

One shard dies and comes back; of another two processes sweep at once for a while, as in a rolling restart. Time is the
fleet's own.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from hindsight.jobs.asking.open_drift import open_incidents
from hindsight.jobs.collect import line_maker
from hindsight.jobs.collect.cluster_view import Shard
from hindsight.jobs.collect.collector import Collector, Plan
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.telling.incident_noting import note_events
from tests.collect import virtual_time
from tests.collect.simulated_fleet import KINDS, Fleet, listening
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.random_examples import SOAKING

BEGUN = datetime(2026, 1, 6, 11, 46, 40, tzinfo=UTC)
LIFE_S, PARTS, SWEEP_S = 660, 4, 15
DIES_S, COMES_BACK_S = 200, 320
# Of each process: its shard, and from when to when it runs, s. Sweeps of shards overlap as they come.
PROCESSES = [
    (1, 0, LIFE_S),
    (2, 1.7, DIES_S),
    (2, COMES_BACK_S, LIFE_S),
    (3, 3.1, 330),
    (3, 300, LIFE_S),
    (4, 5, LIFE_S),
]
SHOWS = {
    "mute": "UNREACHABLE_CLIENT",
    "blocked": "CONSUME_BLOCKED",
    "down": "GROUP_DOWN",
    "view": "VIEW_DIVERGENCE",
    "subscription": "SUBSCRIPTION_INCONSISTENT",
    "orphan": "ORPHAN_QUEUE",
    "double": "DOUBLE_OWNED",
    "strategy": "MIXED_STRATEGY",
}
WITHIN_S, ENDS_WITHIN_S = 120, 120
SIZES = (20, 240, 3, 6) if SOAKING else (11, 36, 3, 3)


def collect(fleet: Fleet, landing: Path) -> None:
    """Sweep a fleet by all processes."""
    fleet.begun_ms = int(BEGUN.timestamp() * 1000)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        zero = loop.time()

        def now() -> int:
            return int((loop.time() - zero) * 1000)

        name_servers, servers = await listening(fleet, now)

        async def process(number: int, begin: float, end: float) -> None:
            shard = Shard(number, PARTS)
            own = {"shard": shard, "collector": shard.collector(None), "every_s": float(SWEEP_S)}
            await asyncio.sleep(begin)
            collector = Collector(Plan(tuple(name_servers), "fleet", landing, **own))
            running = asyncio.create_task(collector.run())
            await asyncio.sleep(end - begin)
            collector.stop()
            await running

        with patch.object(line_maker, "now_ms", lambda: fleet.begun_ms + now()):
            async with asyncio.TaskGroup() as processes:
                for each in PROCESSES:
                    processes.create_task(process(*each))
        for server in servers:
            server.close()

    virtual_time.run(run())


@pytest.fixture(scope="module", params=range(1, 6) if SOAKING else [1])
def fleet(request):
    return Fleet(*SIZES, one_moves_of=1, life_ms=LIFE_S * 1000, seed=request.param)


@pytest.fixture(scope="module")
def rows(fleet, settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("fleet")
    collect(fleet, root / "landing")
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    return LakeRows(root / "lake")


def seconds(at: datetime) -> float:
    """From the fleet's start on."""
    return (at.replace(tzinfo=UTC) - BEGUN) / timedelta(seconds=1)


def is_of(group: str, number: int) -> bool:
    return Shard(number, PARTS).has(group)


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_is_found_in_time_and_ends_with_it(fleet, rows, kind):
    faults = [fault for fault in fleet.faults if fault.kind == kind]
    assert len(faults) >= 2 * SOAKING + 1
    for fault in faults:
        code, begin, end = SHOWS[kind], fault.begin / 1000, fault.end / 1000
        incident = rows.one("drift_incident", f"consumer_group = '{fault.group}' AND severity <> 'INFO'")
        assert code in incident.codes, fault
        seen_from = max(begin, COMES_BACK_S) if is_of(fault.group, 2) and begin > DIES_S - WITHIN_S else max(begin, 0)
        assert begin < seconds(incident.opened_at) <= seen_from + WITHIN_S, fault
        assert incident.state == "RESOLVED" and end <= seconds(incident.resolved_at) < end + ENDS_WITHIN_S, fault
        told = {(f.client_id, f.broker_name, f.queue_id) for f in incident.findings if f.code == code}
        if kind in ("mute", "blocked"):
            assert {client for client, *_ in told} == {fault.client}
        if kind in ("orphan", "double"):
            assert {(broker, queue) for _, broker, queue in told} == {(fault.broker, fault.queue)}


def test_of_groups_without_a_fault_members_that_died_are_told_and_nothing_else(fleet, rows):
    ill = {fault.group for fault in fleet.faults}
    died = {row["client"]: row["end"] / 1000 for row in fleet.truth() if row["kind"] == "died"}
    found = rows("drift_incident", "consumer_group <> '' AND severity <> 'INFO'")
    found = [incident for incident in found if incident.consumer_group not in ill]
    assert len(found) > 5
    for incident in found:
        # A queue of the dead one's, until its new owner has it: unserved, then without an owner.
        assert {"UNREACHABLE_CLIENT"} <= set(incident.codes) <= {"UNREACHABLE_CLIENT", "UNSERVED_QUEUE", "ORPHAN_QUEUE"}
        first, last = seconds(incident.first_seen_at), seconds(incident.last_seen_at)
        silent = {f.client_id for f in incident.findings if f.code == "UNREACHABLE_CLIENT"}
        assert all(died[client] <= last for client in silent)
        # They may die one after the other, each with what it took of the one before.
        of_group = [
            died[member.client] for member in fleet.groups[incident.consumer_group].members if member.client in died
        ]
        assert min(died[client] for client in silent) <= first
        assert last < max(at for at in of_group if at <= last) + 120 + 3 * SWEEP_S


def test_each_frozen_broker_is_an_incident_of_each_shard_and_none_of_a_group(fleet, rows):
    frozen = {fault.broker: fault for fault in fleet.faults if fault.kind == "frozen"}
    found = rows("drift_incident", "consumer_group = ''")
    assert {(i.root_cause, i.cause_key) for i in found} == {("BROKER_NOT_ANSWERING", broker) for broker in frozen}
    assert len({(i.collector, i.cause_key) for i in found}) == len(found) == PARTS * len(frozen)
    for incident in found:
        fault = frozen[incident.cause_key]
        assert fault.begin / 1000 < seconds(incident.opened_at) < fault.begin / 1000 + 2 * SWEEP_S
        assert seconds(incident.last_seen_at) < fault.end / 1000 + 2 * SWEEP_S


def test_each_frozen_broker_is_told_once(fleet, rows, settings):
    frozen = sorted(fault.broker for fault in fleet.faults if fault.kind == "frozen")
    lake = LocalLake(rows.asker.lake.root, retention_days=7)
    lines = [event.told.incident.line for event in note_events(lake, RunContext("late"), settings.events)]
    assert sorted(line.subject for line in lines if not line.group_name) == frozen
    assert sorted(row["cause_key"] for row in open_incidents(rows.asker, group="")) == frozen


def test_groups_of_the_shard_that_is_gone_are_judged_in_no_round_and_all_others_are(rows):
    told = rows("group_round", "consumer_group <> ''", "DISTINCT consumer_group, collector, round_at")
    gone = [r for r in told if DIES_S + SWEEP_S < seconds(r.round_at) < COMES_BACK_S]
    assert {r.collector for r in gone} == {f"collector-{n}-of-4" for n in (1, 3, 4)}
    assert not any(is_of(r.consumer_group, 2) for r in gone)
    assert any(is_of(r.consumer_group, 2) for r in told if seconds(r.round_at) > COMES_BACK_S)
