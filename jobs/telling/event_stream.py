"""Which events somebody wants, and how a person or a program reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.udfs.telling.event_forms import as_text, as_values, is_as_bad
from hindsight.udfs.telling.incident_news import Event

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


def as_json(events: Sequence[Numbered]) -> Iterator[str]:
    """One JSON object a line."""
    for number, event in events:
        yield json.dumps(as_values(number, event), ensure_ascii=False)
