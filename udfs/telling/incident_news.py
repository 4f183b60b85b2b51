"""How incidents were last told, and how they stand now, in; what there is to tell out: each change once.

An incident is told of by a key of its own, which it keeps where late records move it: it is the one that was told if
its line is the same (source, cluster, group, cause, subject) and it began at the same instant or overlaps with it. So
of two that were told and are one now the later is withdrawn, and of one that was told and is two now the second opens.

After ``news`` has been noted, what is told equals what stands: the same incidents give no news. Whatever is lost before
it is noted comes again, with the same ids.

Example: a rerun finds that g_orders drifted from 10:00 on, and more severely.

>>> from datetime import UTC, datetime, timedelta
>>> at = lambda minute, severity: Standing(datetime(2026, 1, 5, 10, minute, tzinfo=UTC), None,
...     datetime(2026, 1, 5, 11, tzinfo=UTC), severity, ("ORPHAN_QUEUE",), 0)
>>> line = Line("drift", "prod", "", "g_orders", "UNEXPLAINED", "")
>>> clock = Clock(datetime(2026, 1, 5, 11, tzinfo=UTC), timedelta(hours=24))
>>> first = news([], [Incident(line, at(5, "MEDIUM"), None, "a queue has no owner.")], clock)
>>> [event.what for event in first]
['opened']
>>> later = news(told_by(first), [Incident(line, at(0, "HIGH"), None, "a queue has no owner.")], clock)
>>> [(event.what, event.severity_before, event.told.key == first[0].told.key) for event in later]
[('worsened', 'MEDIUM', True)]
>>> news(told_by([*first, *later]), [Incident(line, at(0, "HIGH"), None, "a queue has no owner.")], clock)
[]
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple

from hindsight.udfs.drift.finding import SEVERITIES

OPENED, WORSENED, REOPENED, LASTING = "opened", "worsened", "reopened", "lasting"
CORRECTED, RESOLVED, WITHDRAWN = "corrected", "resolved", "withdrawn"


class Line(NamedTuple):
    """What an incident is about; incidents of one line do not overlap."""

    source: str
    cluster: str
    collector: str
    group_name: str
    cause: str
    subject: str


class Standing(NamedTuple):
    """How an incident stands; instants with zone, ``resolved_at`` None: it is open."""

    opened_at: datetime
    resolved_at: datetime | None
    last_seen_at: datetime
    severity: str
    codes: tuple[str, ...]
    reopened: int

    @property
    def facts(self) -> tuple[object, ...]:
        """What is told of it: all but when it was last seen, which moves with every round."""
        return (self.opened_at, self.resolved_at, self.severity, self.codes, self.reopened)

    @property
    def latest(self) -> datetime:
        """The last instant that is known of it."""
        return self.resolved_at or self.last_seen_at


class Incident(NamedTuple):
    """One that stands now; ``incident_id``: of drift_incident."""

    line: Line
    standing: Standing
    incident_id: str | None
    sentence: str


class Told(NamedTuple):
    """How an incident was last told, after ``events`` events."""

    key: str
    incident: Incident
    events: int
    is_withdrawn: bool
    backfill: bool


class Event(NamedTuple):
    """One change; ``told``: how the incident is told from it on."""

    event_id: str
    what: str
    at: datetime
    severity_before: str | None
    told: Told


class Clock(NamedTuple):
    """The present, and how old what happened may be before it is history."""

    now: datetime
    backfill_after: timedelta

    def is_past(self, standing: Standing) -> bool:
        """Whether nobody need be called for it."""
        return standing.latest < self.now - self.backfill_after


def told_by(events: Iterable[Event]) -> list[Told]:
    """How each incident is told after these events, which come in the order in which they were noted."""
    return list({event.told.key: event.told for event in events}.values())


def news(told: Iterable[Told], incidents: Iterable[Incident], clock: Clock) -> list[Event]:
    """What is to be told so that what is told equals the incidents: by instant, those of one incident in order."""
    of_line: defaultdict[Line, list[Told]] = defaultdict(list)
    for one in told:
        of_line[one.incident.line].append(one)
    now: defaultdict[Line, list[Incident]] = defaultdict(list)
    for incident in incidents:
        now[incident.line].append(incident)
    batches = [batch for line in {**of_line, **now} for batch in _of_line(of_line[line], now[line], clock)]
    # What happened to one incident stays in its order, whatever the instants are.
    placed = [(max(each.at for each in batch[: n + 1]), event) for batch in batches for n, event in enumerate(batch)]
    return [event for _, event in sorted(placed, key=lambda each: (each[0], each[1].told.key, each[1].told.events))]


def _of_line(told: Sequence[Told], now: Sequence[Incident], clock: Clock) -> Iterator[list[Event]]:
    live = [one for one in told if not one.is_withdrawn]
    gone = [one for one in told if one.is_withdrawn]
    left: dict[datetime, Incident] = {}
    for incident in sorted(now, key=lambda each: (each.standing.opened_at, each.standing.last_seen_at)):
        left[incident.standing.opened_at] = incident  # of a date that waits to be computed anew an older one may stand
    pairs = {**_paired(live, left), **_paired(gone, left)}
    for one in live:
        if one.key in pairs:
            yield _changed(one, pairs[one.key], clock)
        else:
            yield _events(one, [(WITHDRAWN, one.incident)], clock, before=one.incident.standing.severity)
    for one in gone:
        if one.key in pairs:
            yield _events(one, _ways(pairs[one.key], REOPENED), clock, before=one.incident.standing.severity)
    keys = {one.key for one in told}
    for incident in left.values():
        key = _key_of(incident, keys)
        keys.add(key)
        yield _events(Told(key, incident, 0, False, False), _ways(incident, OPENED), clock, before=None)


def _paired(told: Sequence[Told], left: dict[datetime, Incident]) -> dict[str, Incident]:
    """Those that are the same, by the key they were told by; they are taken from ``left``.

    First those that begin alike: so what has not changed is always itself. Then, in order, those that overlap.
    """
    in_order = sorted(told, key=lambda one: one.incident.standing.opened_at)
    pairs = {
        one.key: left.pop(one.incident.standing.opened_at)
        for one in in_order
        if one.incident.standing.opened_at in left
    }
    for one in in_order:
        if one.key not in pairs:
            same = [at for at, each in left.items() if _overlap(one.incident.standing, each.standing)]
            if same:
                pairs[one.key] = left.pop(same[0])
    return pairs


def _overlap(one: Standing, other: Standing) -> bool:
    return _is_before_end(one.opened_at, other) and _is_before_end(other.opened_at, one)


def _is_before_end(at: datetime, standing: Standing) -> bool:
    return standing.resolved_at is None or at < standing.resolved_at


def _key_of(incident: Incident, taken: set[str]) -> str:
    """A key of the line and the begin; another incident of the line may have been told by the same one before."""
    keys = (
        _digest(*incident.line, incident.standing.opened_at.isoformat(), *([] if n == 0 else [str(n)])) for n in count()
    )
    return next(key for key in keys if key not in taken)


Ways = list[tuple[str, Incident]]  # what happened, and how the incident stands after it


def _ways(now: Incident, *whats: str) -> Ways:
    """These changes of one that is open, and its end where it has one."""
    still_open = now._replace(standing=now.standing._replace(resolved_at=None))
    ends = [] if now.standing.resolved_at is None else [(RESOLVED, now)]
    return [*((what, still_open) for what in whats), *ends]


def _changed(one: Told, now: Incident, clock: Clock) -> list[Event]:
    before, after = one.incident.standing, now.standing
    is_news_now = one.backfill and after.resolved_at is None and not clock.is_past(after)
    if before.facts == after.facts and not is_news_now:
        return []
    return _events(one, _how(before, now, LASTING if is_news_now else CORRECTED), clock, before=before.severity)


def _how(before: Standing, now: Incident, otherwise: str) -> Ways:
    after = now.standing
    if before.resolved_at is not None:
        opened_again = after.resolved_at is None or after.reopened > before.reopened
        return _ways(now, REOPENED) if opened_again else [(CORRECTED, now)]
    if after.reopened > before.reopened:
        return _ways(now, REOPENED)
    if _is_worse(before, after):
        return _ways(now, WORSENED)
    if after.resolved_at is not None:
        return _ways(now)
    return [(otherwise, now)]


def _is_worse(before: Standing, after: Standing) -> bool:
    rises = SEVERITIES.index(after.severity) < SEVERITIES.index(before.severity)
    return rises or not {*after.codes} <= {*before.codes}


def _events(one: Told, ways: Ways, clock: Clock, *, before: str | None) -> list[Event]:
    found, past = [], clock.is_past(ways[-1][1].standing)
    is_awaited = one.events > 0 and _is_on(one)
    backfill = one.backfill
    for number, (what, incident) in enumerate(ways, one.events + 1):
        # Whoever heard that it began hears how it ends, however late that is known; who did not hears of no end.
        if what in (OPENED, REOPENED):
            backfill = past and not is_awaited
        elif what in (WORSENED, LASTING):
            backfill = backfill and past
        told = Told(one.key, incident, number, what == WITHDRAWN, backfill)
        facts = (str(fact) for fact in incident.standing.facts)
        event_id = _digest(one.key, str(number), what, *facts)
        found.append(Event(event_id, what, _instant(what, incident.standing), before, told))
        before = incident.standing.severity
    return found


def _instant(what: str, standing: Standing) -> datetime:
    return standing.opened_at if what == OPENED else standing.latest if what == RESOLVED else standing.last_seen_at


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def firing(events: Iterable[Event]) -> Mapping[str, Event]:
    """The last event of each incident that is open, and not told as history, by its key."""
    last = {event.told.key: event for event in events}
    return {key: event for key, event in last.items() if _is_on(event.told)}


def _is_on(told: Told) -> bool:
    return not told.is_withdrawn and not told.backfill and told.incident.standing.resolved_at is None
