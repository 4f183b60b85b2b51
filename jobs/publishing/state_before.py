"""The state of a lake before the run that is at work: questions see it until all that the run changes is there.

A run changes input tables first, derived ones last. Whoever asks in between would see new rows beside what was derived
without them. So a run notes the version of each table before it begins, and takes the note back when it has ended; one
that was broken off leaves it, and the next run keeps it until all is whole again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.schemas import INCIDENT_EVENT, INGESTED_FILE, PUBLICATION, QUALITY_RESULT, QUARANTINE, TABLES

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake

_NOTE = "state_before"
_OF_RUNS = (INGESTED_FILE, QUARANTINE, QUALITY_RESULT, PUBLICATION, INCIDENT_EVENT)


def keep_state(lake: ArrowLake) -> None:
    """Note what questions are to see from now on; what an earlier run has noted and not taken back stays.

    Where nothing was ever published there is no such state. What tells of runs is always seen as it is.
    """
    if lake.noted(_NOTE) is None and lake.exists(PUBLICATION):
        versions = {table.name: lake.version(table) for table in TABLES.values() if table not in _OF_RUNS}
        told = {"since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "versions": versions}
        lake.note(_NOTE, json.dumps(told, sort_keys=True))


def show_new_state(lake: ArrowLake) -> None:
    """From now on questions see what is there."""
    lake.note(_NOTE, None)


def show_one_state(lake: LocalLake) -> str | None:
    """Have what is asked next see the state before the run that is at work; since when it is (None: none is)."""
    noted = lake.noted(_NOTE)
    state = json.loads(noted) if noted else {"versions": {}, "since": None}
    lake.pin(state["versions"])
    since: str | None = state["since"]
    return since
