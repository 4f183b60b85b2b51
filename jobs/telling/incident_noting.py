"""Compares the incidents that are published with what was last told of them, and notes what is new: one commit.

A run that ends before that commit has noted nothing, and the next one notes the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import Events
from hindsight.jobs.asking.open_drift import NothingJudgedError, require_published
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    ALLOCATION_DRIFT,
    BROKER_AVAILABILITY_WINDOW,
    DRIFT_INCIDENT,
    GROUP_ROUND,
    INCIDENT_EVENT,
    PRODUCER_FINDING,
    PRODUCER_REPLAY,
)
from hindsight.schemas.arrow_types import row_schema
from hindsight.udfs.telling.event_forms import as_text, events_of, is_as_bad, rows_of
from hindsight.udfs.telling.incident_news import Clock, Event, Incident, news, told_by
from hindsight.udfs.telling.told_incidents import (
    ISOLATION,
    Row,
    as_one,
    drift_incidents,
    effects_of,
    latest,
    producer_incidents,
    with_incidents,
    with_own_cause,
)

_OF_DRIFT = [
    *("event_date", "cluster", "collector", "consumer_group", "incident_id", "root_cause", "cause_key", "severity"),
    *("first_seen_at", "opened_at", "last_seen_at", "resolved_at", "reopened", "codes", "sentence"),
]
_OF_EFFECTS = ["cluster", "incident_id", "consumer_group", "topic", "broker_name", "queue_id"]
_OF_FINDINGS = [
    *("event_date", "cluster", "code", "severity", "producer_group", "client_id", "started_at", "topic"),
    *("broker_name", "broker_names", "from", "to", "sentence"),
]
_OF_WINDOWS = [
    *("event_date", "cluster", "producer_group", "client_id", "started_at", "broker_name", "window_start"),
    *("window_end", "end_reason"),
]


def note_events(lake: ArrowLake, context: RunContext, settings: Events) -> list[Event]:
    """Note what has happened to incidents since the last time; what was noted.

    Raises: NothingJudgedError: see ``require_judged``. HalfPublishedError: a run was broken off while it published.
    ConcurrentWriteError: another run noted meanwhile; nothing of this one was.
    """
    require_judged(lake)
    require_published(lake, "flag_allocation_drift", "rebuild_availability")
    lake.create(INCIDENT_EVENT)
    version = lake.version(INCIDENT_EVENT)
    noted = events_of(noted_rows(lake))
    clock = Clock(context.started_at, timedelta(hours=settings.backfill_after_h))
    found = news(told_by(noted), standing_incidents(lake, settings), clock)
    if found:
        lineage = {"noted_at": context.started_at, "run_id": context.run_id}
        rows = [row | lineage for row in rows_of(found, len(noted) + 1)]
        lake.store(INCIDENT_EVENT, pa.Table.from_pylist(rows, row_schema(INCIDENT_EVENT)), None, (), version)
    return found


def require_judged(lake: ArrowLake) -> None:
    """There are tables in which incidents would stand.

    Raises: NothingJudgedError: no job has derived anything, so that there is no incident would say more than is known.
    """
    if not any(map(lake.exists, (GROUP_ROUND, PRODUCER_REPLAY))):
        raise NothingJudgedError(
            f"{lake.root} holds neither judged rounds nor replayed producers: nothing is known of incidents. Name "
            "another folder, or run hindsight run-pipeline first."
        )


def noted_rows(lake: ArrowLake) -> list[dict[str, Any]]:
    """All events that were noted, in order; the number of each is its place, from 1."""
    return sorted(lake.rows(INCIDENT_EVENT).to_pylist(), key=lambda row: row["number"])


def standing_incidents(lake: ArrowLake, settings: Events) -> list[Incident]:
    """The incidents that the published tables hold."""
    of_producers = Where(values={"code": settings.producer_codes})
    drift, findings, replayed = lake.together(
        [
            lambda: lake.rows(DRIFT_INCIDENT, _OF_DRIFT),
            lambda: lake.rows(PRODUCER_FINDING, _OF_FINDINGS, of_producers),
            lambda: lake.rows(PRODUCER_REPLAY, ["cluster", "last_attempt_at"]),
        ]
    )
    seen, found = latest(drift.to_pylist()), findings.to_pylist()
    incidents, became = as_one(seen)
    until = _recorded_until(replayed, found)
    continued = _continued_windows(lake, found, until)
    quiet = timedelta(minutes=settings.quiet_m)
    effects = _effects(lake, seen, found, became)
    found = with_own_cause(found, seen)
    return [*drift_incidents(incidents, effects), *producer_incidents(found, continued, until, quiet)]


def _effects(
    lake: ArrowLake, incidents: Sequence[Row], findings: list[dict[str, Any]], became: Mapping[str, str]
) -> dict[str, str]:
    """What came of each incident of a server, as a sentence."""
    servers = {row["incident_id"]: row["first_seen_at"] for row in incidents if not row["consumer_group"]}
    if not servers:
        return {}
    of_servers = Where(values={"incident_id": sorted(servers)}, since={"judged_at": min(servers.values())})
    of_groups = lake.rows(ALLOCATION_DRIFT, _OF_EFFECTS, of_servers).to_pylist()
    joined = with_incidents(findings, incidents)
    of_producers = ({**row, "incident_id": one["incident_id"]} for row, one in joined if one)
    return effects_of(of_groups, of_producers, became)


def _recorded_until(replayed: pa.Table, findings: list[dict[str, Any]]) -> dict[str, datetime]:
    """By cluster, the last record of a producer."""
    begins = pa.table(
        {
            "cluster": pa.array([row["cluster"] for row in findings], pa.string()),
            "last_attempt_at": pa.array([row["from"] for row in findings], replayed.schema.field(1).type),
        }
    )
    both = pa.concat_tables([replayed, begins])
    last = both.filter(pc.is_valid(both["last_attempt_at"])).group_by("cluster").aggregate([("last_attempt_at", "max")])
    return dict(zip(last["cluster"].to_pylist(), last["last_attempt_at_max"].to_pylist(), strict=True))


def _continued_windows(
    lake: ArrowLake, findings: list[dict[str, Any]], until: dict[str, datetime]
) -> list[dict[str, Any]]:
    """What became of isolations that lasted over the end of the date which tells of them, date by date."""
    lasting = {row["event_date"] for row in findings if row["code"] == ISOLATION and row["to"] is None}
    last = max((at.date() for at in until.values()), default=date.min)
    found: list[dict[str, Any]] = []
    done: set[date] = set()
    while next_days := {day + timedelta(days=1) for day in lasting if day < last} - done:
        done |= next_days
        continuing = Where(values={"event_date": next_days, "continues_previous": [True]})
        rows = lake.rows(BROKER_AVAILABILITY_WINDOW, _OF_WINDOWS, continuing).to_pylist()
        found += rows
        lasting = {row["event_date"] for row in rows if row["end_reason"] == "cut_at_midnight"}
    return found


LAST = "last"
Numbered = tuple[int, Event]
Start = int | datetime  # behind this number of the stream, or from this instant on


class SinceError(ExpectedError):
    """Raised where ``--since`` is neither a number, nor an instant, nor ``last``."""

    exit_code = WRONG_USAGE


def since_of(since: str) -> Start:
    """What ``--since`` says: a number of the stream, or an instant in UTC. Raises: SinceError."""
    if since.isdecimal():
        return int(since)
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        raise SinceError(
            f"--since {since!r}: give an instant, as 2026-11-21T09:30:00, a number of the stream, or last."
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def require_reached(since: Start, events: Sequence[Event]) -> None:
    """A number is one that the stream has reached. Raises: SinceError."""
    if isinstance(since, int) and since > len(events):
        raise SinceError(f"--since {since}: the stream has {len(events)} events.")


def number_before(since: Start, events: Sequence[Event]) -> int:
    """The number behind which all stands that is asked for: late records tell of earlier instants at higher numbers.

    Raises: SinceError.
    """
    require_reached(since, events)
    if isinstance(since, int):
        return since
    return next((place for place, event in enumerate(events) if event.at >= since), len(events))


def wanted(events: Sequence[Event], since: Start, severity: str, *, with_backfill: bool) -> list[Numbered]:
    """The events behind a number, or that happened at an instant or later, of that severity or a worse one."""
    return [
        (number, event)
        for number, event in enumerate(events, 1)
        if (number > since if isinstance(since, int) else event.at >= since)
        and is_as_bad(event, severity)
        and (with_backfill or not event.told.backfill)
    ]


def told(events: Sequence[Numbered], hidden: int) -> Iterator[str]:
    """Lines for a person; ``hidden``: how many of history are left out."""
    for number, event in events:
        yield from as_text(number, event).split("\n")
    if not events:
        yield "no event"
    if hidden:
        yield f"and {hidden} of history (backfill), which --with-backfill shows"
