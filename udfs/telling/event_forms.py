"""Events in, what each kind of sink is sent out: plain values for JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from hindsight.udfs.drift.finding import SEVERITIES
from hindsight.udfs.telling.incident_news import (
    CORRECTED,
    OPENED,
    RESOLVED,
    WITHDRAWN,
    WORSENED,
    Event,
    Incident,
    Line,
    Standing,
    Told,
)
from hindsight.udfs.telling.told_incidents import of_any_collector

_MARKS = {OPENED: "🔴", WORSENED: "🔺", RESOLVED: "✅", WITHDRAWN: "↩", CORRECTED: "✎"}
_rank = SEVERITIES.index
_ALERT_NAMES = {"drift": "HindsightDrift", "producer": "HindsightProducers"}
_MOST_CHARS = 1500  # of a sentence: chats refuse long messages


def is_as_bad(event: Event, severity: str) -> bool:
    """Whether the incident is, or was last told as, so severe or worse: who heard of it hears how it ends."""
    return min(map(_rank, filter(None, (_severity(event), event.severity_before)))) <= _rank(severity)


def as_values(number: int, event: Event) -> dict[str, Any]:
    """An event as plain values: the columns of incident_event without lineage; instants as ISO 8601 in UTC."""
    return {name: _iso(value) if isinstance(value, datetime) else value for name, value in _row(event, number).items()}


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_text(number: int, event: Event) -> str:
    """An event in words: one line of what happened to what, then the incident's sentence."""
    line, standing = event.told.incident.line, event.told.incident.standing
    rise = f" (was {event.severity_before})" if event.what == WORSENED and event.severity_before else ""
    past = ", backfill" if event.told.backfill else ""
    head = f"{event.what.upper()} {standing.severity}{rise}{past}: {_about(event)} in {line.cluster}"
    return f"{head}, at {event.at:%Y-%m-%d %H:%M:%S} UTC (no. {number})\n{_cut(event.told.incident.sentence)}"


def _about(event: Event) -> str:
    line = event.told.incident.line
    who = line.group_name or ("all producers" if line.source == "producer" else "")
    return ", ".join(part for part in (who, line.cause, line.subject) if part)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}..."


def slack_message(number: int, event: Event) -> dict[str, Any]:
    """A message of an incoming webhook of Slack: its three control characters are escaped, so names stay names."""
    text = as_text(number, event)
    for character, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, escape)
    return {"text": f"{_MARKS.get(event.what, '🔴')} {text}"}


def dingtalk_message(number: int, event: Event) -> dict[str, Any]:
    """A text message of a robot of DingTalk; plain text, so that names make no markup."""
    return {"msgtype": "text", "text": {"content": f"{_MARKS.get(event.what, '🔴')} {as_text(number, event)}"}}


def dingtalk_sign(secret: str, now_ms: int) -> str:
    """The parameters by which a robot that signs knows its caller: HMAC-SHA256 over instant and secret."""
    digest = hmac.new(secret.encode(), f"{now_ms}\n{secret}".encode(), hashlib.sha256).digest()
    return urlencode({"timestamp": now_ms, "sign": base64.b64encode(digest).decode()})


def alerts(fresh: Iterable[Event], on: Mapping[str, Event], severity: str, ends: datetime) -> list[dict[str, Any]]:
    """What Alertmanager (API v2) is sent: every incident that is open, and the end of those that are not any more.

    An alert is known by its labels, of which severity is one: with another severity it is another alert, and the one
    before ends. Alertmanager keeps nothing over a restart, so open ones are sent each time, each until ``ends``.

    Args:
        fresh: events since the last delivery; on: last events of open incidents, by key (``firing``).
        severity: that and worse are sent.
    """
    open_now = {key: event for key, event in on.items() if _rank(_severity(event)) <= _rank(severity)}
    over: dict[tuple[str, str], dict[str, Any]] = {}
    for event in fresh:
        standing, key = event.told.incident.standing, event.told.key
        is_on = key in open_now
        for told in dict.fromkeys(filter(None, (event.severity_before, standing.severity))):
            if _rank(told) <= _rank(severity) and not (is_on and told == _severity(open_now[key])):
                end = standing.resolved_at or event.at
                over[key, told] = _alert(event, told, max(end, standing.opened_at))
    return [*over.values(), *(_alert(event, _severity(event), ends) for _, event in sorted(open_now.items()))]


def _severity(event: Event) -> str:
    return event.told.incident.standing.severity


def _alert(event: Event, severity: str, ends: datetime) -> dict[str, Any]:
    incident = event.told.incident
    line = incident.line
    labels = {
        "alertname": _ALERT_NAMES[line.source],
        "severity": severity.lower(),
        "cluster": line.cluster,
        "consumer_group" if line.source == "drift" else "producer_group": line.group_name,
        "cause": line.cause,
        "subject": line.subject,
        "incident": event.told.key,
    }
    told = {
        "summary": f"{_about(event)} in {line.cluster}",
        "description": _cut(incident.sentence),
        "codes": " ".join(incident.standing.codes),
        "event_id": event.event_id,
    }
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": told,
        "startsAt": _iso(incident.standing.opened_at),
        "endsAt": _iso(ends),
    }


_LINE, _STANDING = Line._fields, Standing._fields


def rows_of(events: Iterable[Event], first: int) -> list[dict[str, Any]]:
    """The rows, numbered from ``first``; what tells of the run is left to the caller."""
    return [_row(event, number) for number, event in enumerate(events, first)]


def _row(event: Event, number: int) -> dict[str, Any]:
    """In the order in which programs are given the columns."""
    told, incident, standing = event.told, event.told.incident, event.told.incident.standing
    return {
        "number": number,
        "event_id": event.event_id,
        "what": event.what,
        "at": event.at,
        "incident_key": told.key,
        "incident_id": incident.incident_id,
        **incident.line._asdict(),
        "codes": list(standing.codes),
        "severity": standing.severity,
        "severity_before": event.severity_before,
        "opened_at": standing.opened_at,
        "last_seen_at": standing.last_seen_at,
        "resolved_at": standing.resolved_at,
        "reopened": standing.reopened,
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
        line = of_any_collector(Line(**{name: row[name] for name in _LINE}))
        incident = Incident(line, standing, row["incident_id"], row["sentence"])
        told = Told(key, incident, counts[key], row["what"] == WITHDRAWN, row["backfill"])
        events.append(Event(row["event_id"], row["what"], row["at"], row["severity_before"], told))
    return events
