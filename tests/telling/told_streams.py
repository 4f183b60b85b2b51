"""The stream that a lake of this machine holds, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.telling.incident_noting import noted_rows
from hindsight.schemas import INCIDENT_EVENT
from hindsight.udfs.telling.event_forms import events_of
from hindsight.udfs.telling.incident_news import Event


def stored_events(lake: Path | str) -> list[Event]:
    """The events that were noted."""
    return events_of(_rows(lake))


def stream(lake: Path | str) -> list[dict[str, Any]]:
    """The same as rows, but for which run noted them and when."""
    return [{name: value for name, value in row.items() if name not in INCIDENT_EVENT.lineage} for row in _rows(lake)]


def _rows(lake: Path | str) -> list[dict[str, Any]]:
    return noted_rows(LocalLake(str(lake), retention_days=7))
