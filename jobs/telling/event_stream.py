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


class SinceError(ExpectedError):
    """Raised where ``--since`` is neither a number, nor an instant, nor ``last``."""

    exit_code = WRONG_USAGE


def after_number(since: str, events: Sequence[Event]) -> int | datetime:
    """What ``--since`` says: a number of the stream, or an instant in UTC. Raises: SinceError."""
    if since.isdecimal():
        number = int(since)
        if number > len(events):
            raise SinceError(f"--since {number}: the stream has {len(events)} events.")
        return number
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        raise SinceError(
            f"--since {since!r}: give an instant, as 2026-11-21T09:30:00, a number of the stream, or last."
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def wanted(events: Sequence[Event], since: int | datetime, severity: str, *, with_backfill: bool) -> list[Numbered]:
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
