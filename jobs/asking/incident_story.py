"""An incident as a story: what happened in order over clients, brokers, name servers and groups, as Markdown.

Of rows only: each sentence ends with the table and key of the row that it is from, which ``explain`` and ``sql`` find.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from hindsight.jobs.asking.runbook import entry_of
from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import answer, shown
from hindsight.jobs.running.terminal import legible
from hindsight.schemas import TABLES

_BEFORE, _AFTER = timedelta(minutes=10), timedelta(minutes=5)
_MOST = 40  # of each kind
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>#|"})


class Happening(NamedTuple):
    """Something that happened: when, of whom, in words, and the row that says so."""

    at: datetime
    who: str
    words: str
    row: str


def story(asker: Asker, incident: Record) -> Iterator[str]:
    """Lines of Markdown about a row of ``drift_incident``."""
    until = (incident["resolved_at"] or incident["last_seen_at"]) + _AFTER
    incident = incident | {"since": incident["first_seen_at"] - _BEFORE, "until": until}
    group = incident["consumer_group"]
    yield f"# {_text(incident['root_cause'])}: {_text(group or incident['cause_key'])} ({_text(incident['cluster'])})"
    yield ""
    ended = f"to {shown(incident['resolved_at'])}" if incident["resolved_at"] else f"{incident['state']} still"
    yield f"{_text(incident['sentence'])} {incident['severity']}, from {shown(incident['opened_at'])} {ended} (UTC)."
    yield f"`{_key('drift_incident', incident)}`"
    yield from ("", "## What happened", "")
    happened = sorted(set(_happenings(asker, incident)))
    yield from (f"- {shown(one.at)} **{_text(one.who)}** {_text(one.words)} `{one.row}`" for one in happened)
    if len(happened) >= _MOST:
        yield f"- Of each kind of row the first {_MOST} are told. `{_key('drift_incident', incident)}`"
    yield from ("", "## What followed from what", "")
    yield from _consequences(asker, incident)
    yield from ("", "## What is not known", "")
    yield from _unknown(asker, incident)
    entry = entry_of([incident["root_cause"], *incident["codes"]])
    if entry:
        yield from ("", "## What to do", "", f"Check: {entry.check}", "", f"Do: {entry.do} (runbook, {entry.code})")


def _text(words: str) -> str:
    """Names and sentences as plain text, whatever they hold."""
    return legible(str(words)).translate(_MARKS)


def _key(table: str, row: Record) -> str:
    """The table and key of a row, as text."""
    named = (f"{name}={shown(row[name])}" for name in TABLES[table].key if row.get(name) not in (None, ""))
    return _code(f"{table} {' '.join(named)}")


def _code(text: str) -> str:
    """Text that stands between backticks."""
    return legible(str(text)).replace("`", "'")


def _rows(asker: Asker, name: str, incident: Record, **more: str) -> list[Record]:
    """The answer to one of ``queries/story.sql``."""
    return answer(asker, "story", name, incident, most=_MOST, **more)


def _happenings(asker: Asker, incident: Record) -> Iterator[Happening]:
    group = incident["consumer_group"]
    yield from _servers(asker, incident)
    if group:
        yield from _of_group(asker, incident)
    yield from _producers(asker, incident)
    own = _key("drift_incident", incident)
    who = group or incident["cause_key"]
    yield Happening(incident["opened_at"], who, f"the incident opened: {incident['root_cause']}", own)
    if incident["resolved_at"]:
        yield Happening(incident["resolved_at"], who, "the incident was resolved", own)


def _servers(asker: Asker, incident: Record) -> Iterator[Happening]:
    """Incidents of brokers and name servers of that time."""
    for row in _rows(asker, "servers", incident):
        yield Happening(row["first_seen_at"], row["cause_key"], row["sentence"], _key("drift_incident", row))
        if row["resolved_at"]:
            yield Happening(row["resolved_at"], row["cause_key"], "that was over", _key("drift_incident", row))


def _of_group(asker: Asker, incident: Record) -> Iterator[Happening]:
    for row in _rows(asker, "membership_events", incident):
        words = f"a broker logged {row['kind']} {row['client_id'] or ''}".strip()
        yield Happening(row["logged_at"], incident["consumer_group"], words, _line(row))
    for row in _rows(asker, "changes", incident, table="membership_change"):
        told = [f"joined: {', '.join(row['joined'])}"] if row["joined"] else []
        told += [f"left: {', '.join(row['left'])}"] if row["left"] else []
        words = f"members of {row['topic']} changed ({'; '.join(told)}); {row['moved']} of {row['queues']} queues moved"
        yield Happening(row["changed_at"], incident["consumer_group"], words, _key("membership_change", row))
    for row in _rows(asker, "changes", incident, table="rebalance_event"):
        yield Happening(row["changed_at"], row["client_id"], row["sentence"], _key("rebalance_event", row))
    for row in _rows(asker, "first_findings", incident):
        yield Happening(row["judged_at"], incident["consumer_group"], row["sentence"], _key("allocation_drift", row))


def _producers(asker: Asker, incident: Record) -> Iterator[Happening]:
    """Findings about producers and the brokers that the incident is about."""
    brokers = {one["broker_name"] for one in incident["findings"] if one["broker_name"]} | {incident["cause_key"]}
    named = ", ".join(asker.literal(name) for name in sorted(brokers - {""}))
    if not named:
        return
    for row in _rows(asker, "producers", incident, named=named):
        who = row["client_id"] or "producers"
        yield Happening(
            row["began_at"], who, row["sentence"], _key("producer_finding", row | {"from": row["began_at"]})
        )


def _line(row: Record) -> str:
    return _code(f"{row['source_file']}:{row['source_line']}")


def _consequences(asker: Asker, incident: Record) -> Iterator[str]:
    """The cause and what was attached to it; of a server, what groups and producers show of it."""
    cause = f"{incident['root_cause']} {incident['cause_key']}".strip()
    for one in (each for each in incident["findings"] if each["code"] != incident["root_cause"]):
        where = " ".join(
            str(one[name]) for name in ("topic", "broker_name", "queue_id", "client_id") if one[name] is not None
        )
        many = f" ({one['queues']} queues)" if (one["queues"] or 0) > 1 else ""
        key = _key("drift_incident", incident)
        yield f"- {_text(cause)} → {one['code']} {_text(where)}{many}, {one['trust']} `{key}`"
    for row in _rows(asker, "effects", incident):
        words = f"{row['code']} in {row['consumer_group']} from {shown(row['first_at'])}, {row['rounds']} rounds"
        yield f"- {_text(cause)} → {_text(words)} `allocation_drift incident_id={incident['incident_id']}`"


def _unknown(asker: Asker, incident: Record) -> Iterator[str]:
    own = _key("drift_incident", incident)
    if not incident["consumer_group"]:
        yield f"- Why: the server's own log says it, if anything does. `{own}`"
        return
    missing = _rows(asker, "missing", incident)
    group = _code(f"group_round consumer_group={incident['consumer_group']}")
    for row in missing:
        told = f"{_text(row['missing'])}: not known in {row['rounds']} round(s), first at {shown(row['first_at'])}"
        yield f"- {told} `{group} round_at={shown(row['first_at'])}`"
    if incident["trust"] != "certain":
        yield f"- The findings are {incident['trust']}, not certain. `{own}`"
    elif not missing:
        span = f"{shown(incident['since'])} to {shown(incident['until'])}"
        yield f"- No round lacks an input. `group_round round_at={span}`"
