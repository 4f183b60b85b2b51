"""Files of a real capture arrive in any order, with runs between them: what is told in the end is what stands."""

from __future__ import annotations

import random

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.telling.incident_noting import note_events, standing_incidents
from tests.pipeline.local_runs import run_here
from tests.pipeline.undisturbed_runs import lines
from tests.telling.test_split_runs import as_told, by_incident, facts_of
from tests.telling.told_streams import stored_events

ROUNDS, HOOK = "consumers/admin_snapshots.jsonl.gz", "producers/producer_4.7.1_short.jsonl.gz"
PIECES = [
    *((f"admin_snapshots/cluster=oracle/{first}.jsonl", ROUNDS, first, first + 500) for first in range(0, 2000, 500)),
    *((f"producer_hook/cluster=oracle/{first}.jsonl", HOOK, first, first + 1500) for first in range(0, 3000, 1500)),
]


def land(landing, pieces):
    for name, capture, first, last in pieces:
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines(capture, first, last))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_files_in_any_order_end_in_what_stands_and_each_incident_opens_once(settings, tmp_path, seed):
    order = random.Random(seed).sample(PIECES, len(PIECES))
    lake = LocalLake(str(tmp_path / "lake"), retention_days=7)
    for at in range(0, len(order), 2):
        land(tmp_path / "landing", order[at : at + 2])
        run_here(settings, tmp_path / "landing", lake.root)
        note_events(lake, RunContext(""), settings.events)
        stands = sorted(map(facts_of, standing_incidents(lake, settings.events)))
        events = stored_events(lake.root)
        assert as_told(events) == stands
        run_here(settings, tmp_path / "landing", lake.root)
        assert note_events(lake, RunContext(""), settings.events) == []
    at_once = LocalLake(str(tmp_path / "at-once"), retention_days=7)
    run_here(settings, tmp_path / "landing", at_once.root)
    note_events(at_once, RunContext(""), settings.events)
    assert as_told(stored_events(at_once.root)) == stands and len(stands) > 5
    assert len({event.event_id for event in events}) == len(events) > len(stands)
    assert all([event.what for event in told].count("opened") == 1 for told in by_incident(events))
