"""An incident as a story: what happened in order over clients, brokers, name servers and groups, as Markdown.

Of rows only: each sentence ends with the table and key of the row that it is from, which ``explain`` and ``sql`` find.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from hindsight.jobs.asking.runbook import entry_of
from hindsight.jobs.engines.asker import Asker, Record, records
from hindsight.jobs.explaining.explanation import at_instant, on_date, same, shown
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


def _span(incident: Record) -> tuple[datetime, datetime]:
    until = incident["resolved_at"] or incident["last_seen_at"]
    return incident["first_seen_at"] - _BEFORE, until + _AFTER


def _within(column: str, incident: Record) -> str:
    since, until = _span(incident)
    dates = f"event_date BETWEEN {on_date(since)} AND {on_date(until + timedelta(days=1))}"
    return f"{dates} AND {column} BETWEEN {at_instant(since)} AND {at_instant(until)}"


def _rows(asker: Asker, table: str, where: str, order: str) -> list[Record]:
    return records(asker, f"SELECT * FROM {table} WHERE {where} ORDER BY {order} LIMIT {_MOST}")


def _happenings(asker: Asker, incident: Record) -> Iterator[Happening]:
    cluster, group = same(asker, incident, "cluster"), incident["consumer_group"]
    yield from _servers(asker, incident, cluster)
    if group:
        yield from _of_group(asker, incident)
    yield from _producers(asker, incident, cluster)
    own = _key("drift_incident", incident)
    who = group or incident["cause_key"]
    yield Happening(incident["opened_at"], who, f"the incident opened: {incident['root_cause']}", own)
    if incident["resolved_at"]:
        yield Happening(incident["resolved_at"], who, "the incident was resolved", own)


def _servers(asker: Asker, incident: Record, cluster: str) -> Iterator[Happening]:
    """Incidents of brokers and name servers of that time."""
    since, until = _span(incident)
    where = f"""{cluster} AND consumer_group = '' AND event_date >= {on_date(since)}
        AND first_seen_at <= {at_instant(until)} AND COALESCE(resolved_at, last_seen_at) >= {at_instant(since)}"""
    for row in _rows(asker, "drift_incident", where, "first_seen_at"):
        yield Happening(row["first_seen_at"], row["cause_key"], row["sentence"], _key("drift_incident", row))
        if row["resolved_at"]:
            yield Happening(row["resolved_at"], row["cause_key"], "that was over", _key("drift_incident", row))


def _of_group(asker: Asker, incident: Record) -> Iterator[Happening]:
    group = same(asker, incident, "cluster", "consumer_group")
    by_brokers = same(asker, incident | {"client_group": incident["consumer_group"]}, "cluster", "client_group")
    for row in _rows(asker, "membership_event", f"{by_brokers} AND {_within('logged_at', incident)}", "logged_at"):
        words = f"a broker logged {row['kind']} {row['client_id'] or ''}".strip()
        yield Happening(row["logged_at"], incident["consumer_group"], words, _line(row))
    for row in _rows(asker, "membership_change", f"{group} AND {_within('changed_at', incident)}", "changed_at"):
        told = [f"joined: {', '.join(row['joined'])}"] if row["joined"] else []
        told += [f"left: {', '.join(row['left'])}"] if row["left"] else []
        words = f"members of {row['topic']} changed ({'; '.join(told)}); {row['moved']} of {row['queues']} queues moved"
        yield Happening(row["changed_at"], incident["consumer_group"], words, _key("membership_change", row))
    for row in _rows(asker, "rebalance_event", f"{group} AND {_within('changed_at', incident)}", "changed_at"):
        yield Happening(row["changed_at"], row["client_id"], row["sentence"], _key("rebalance_event", row))
    for row in _first_findings(asker, incident):
        yield Happening(row["judged_at"], incident["consumer_group"], row["sentence"], _key("allocation_drift", row))


def _first_findings(asker: Asker, incident: Record) -> list[Record]:
    """The first round of each finding of the incident."""
    own = f"{same(asker, incident, 'cluster', 'collector', 'consumer_group', 'root_cause', 'cause_key')}"
    where = f"{own} AND finding_state <> 'SUPPRESSED' AND {_within('judged_at', incident)}"
    about = "code, kind, topic, broker_name, queue_id, client_id"
    return records(
        asker,
        f"""SELECT cluster, event_date, collector, consumer_group, {about}, round_at, judged_at, sentence FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY {about} ORDER BY judged_at) AS place
          FROM allocation_drift WHERE {where}
        ) WHERE place = 1 ORDER BY judged_at, {about} LIMIT {_MOST}""",
    )


def _producers(asker: Asker, incident: Record, cluster: str) -> Iterator[Happening]:
    """Findings about producers and the brokers that the incident is about."""
    brokers = {one["broker_name"] for one in incident["findings"] if one["broker_name"]} | {incident["cause_key"]}
    named = ", ".join(asker.literal(name) for name in sorted(brokers - {""}))
    if not named:
        return
    where = f"{cluster} AND broker_name IN ({named}) AND {_within('began_at', incident)}"
    query = f"""SELECT began_at, event_date, code, producer_group, client_id, broker_name, cluster, sentence
        FROM producer_finding_with_incident WHERE {where} ORDER BY began_at LIMIT {_MOST}"""
    for row in records(asker, query):
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
    effects = records(
        asker,
        f"""SELECT consumer_group, code, COUNT(*) AS rounds, MIN(judged_at) AS first_at FROM allocation_drift
        WHERE {same(asker, incident, "cluster", "incident_id")} AND {_within("judged_at", incident)}
        AND NOT ({same(asker, incident, "consumer_group")})
        GROUP BY consumer_group, code ORDER BY first_at LIMIT {_MOST}""",
    )
    for row in effects:
        words = f"{row['code']} in {row['consumer_group']} from {shown(row['first_at'])}, {row['rounds']} rounds"
        yield f"- {_text(cause)} → {_text(words)} `allocation_drift incident_id={incident['incident_id']}`"


def _unknown(asker: Asker, incident: Record) -> Iterator[str]:
    own = _key("drift_incident", incident)
    if not incident["consumer_group"]:
        yield f"- Why: the server's own log says it, if anything does. `{own}`"
        return
    missing = _missing(asker, incident)
    group = _code(f"group_round consumer_group={incident['consumer_group']}")
    for row in missing:
        told = f"{_text(row['missing'])}: not known in {row['rounds']} round(s), first at {shown(row['first_at'])}"
        yield f"- {told} `{group} round_at={shown(row['first_at'])}`"
    if incident["trust"] != "certain":
        yield f"- The findings are {incident['trust']}, not certain. `{own}`"
    elif not missing:
        since, until = _span(incident)
        yield f"- No round lacks an input. `group_round round_at={shown(since)} to {shown(until)}`"


def _missing(asker: Asker, incident: Record) -> list[Record]:
    """What rounds of the group lack, in how many of them, and from when on."""
    group = same(asker, incident, "cluster", "collector", "consumer_group")
    return records(
        asker,
        f"""SELECT missing, COUNT(DISTINCT round_at) AS rounds, MIN(round_at) AS first_at FROM (
          SELECT round_at, EXPLODE(missing_inputs) AS missing FROM group_round
          WHERE {group} AND {_within("round_at", incident)}
        ) GROUP BY missing ORDER BY first_at, missing LIMIT {_MOST}""",
    )
