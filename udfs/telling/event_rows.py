"""Events in, rows of incident_event out, and the other way round; rows are plain values by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hindsight.udfs.telling.incident_news import WITHDRAWN, Event, Incident, Line, Standing, Told

_LINE, _STANDING = Line._fields, Standing._fields


def rows_of(events: Iterable[Event], first: int) -> list[dict[str, Any]]:
    """The rows, numbered from ``first``; what tells of the run is left to the caller."""
    return [_row(event, number) for number, event in enumerate(events, first)]


def _row(event: Event, number: int) -> dict[str, Any]:
    told, incident = event.told, event.told.incident
    return {
        "number": number,
        "event_id": event.event_id,
        "what": event.what,
        "incident_key": told.key,
        "incident_id": incident.incident_id,
        **incident.line._asdict(),
        **incident.standing._asdict(),
        "codes": list(incident.standing.codes),
        "severity_before": event.severity_before,
        "at": event.at,
        "backfill": told.backfill,
        "sentence": incident.sentence,
    }


def events_of(rows: Sequence[Mapping[str, Any]]) -> list[Event]:
    """The events of rows, which come in the order in which they were noted."""
    counts: dict[str, int] = {}
    events = []
    for row in rows:
        key = row["incident_key"]
        counts[key] = counts.get(key, 0) + 1
        standing = Standing(**{**{name: row[name] for name in _STANDING}, "codes": tuple(row["codes"])})
        incident = Incident(Line(**{name: row[name] for name in _LINE}), standing, row["incident_id"], row["sentence"])
        told = Told(key, incident, counts[key], row["what"] == WITHDRAWN, row["backfill"])
        events.append(Event(row["event_id"], row["what"], row["at"], row["severity_before"], told))
    return events
