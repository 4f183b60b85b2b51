"""Rows of drift_incident and producer_finding in, incidents as an on-call person counts them out.

Drift incidents are what they are, but that those of a server are one for all collectors. Findings of producers speak
of single processes and minutes: those of one producer group, code, topic and broker with pauses of ``quiet`` at most
between them are one incident, and it is open until the cluster's producers have been recorded for so long after its
end. Of one that has lasted less than a minute, a fifth of that is enough: a fault that comes soon after a flutter is
another one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from hindsight.udfs.drift.finding import SEVERITIES, begun
from hindsight.udfs.drift.incidents import CLEARING, FLAPPING, OPEN, RESOLVED
from hindsight.udfs.drift.root_cause import BROKER_DOWN
from hindsight.udfs.servers.server_fold import SERVER_CODES
from hindsight.udfs.telling.incident_news import Incident, Line, Standing

ISOLATION, FLEET, ALL = "LONG_ISOLATION", "FLEET_SLOW", "ALL_ISOLATED"
_EFFECTS = (FLEET, ISOLATION, "OVER_ISOLATION")
# Minutes of the fleet are whole, and sweeps come later; see the view producer_finding_with_incident.
_FLUTTER = timedelta(minutes=1)
_BEFORE, _AFTER = timedelta(minutes=2), timedelta(minutes=1)
_STATES = (OPEN, FLAPPING, CLEARING, RESOLVED)
Row = Mapping[str, Any]


def drift_incidents(rows: Iterable[Row], effects: Mapping[str, str]) -> list[Incident]:
    """Incidents as ``as_one`` has them; ``effects``: by incident of a server, what came of it, as a sentence."""
    return [_drift(row, effects.get(row["incident_id"], "")) for row in rows]


def latest(rows: Iterable[Row]) -> list[Row]:
    """Rows of drift_incident; of one that stands on two dates, as while dates wait, that of the later one."""
    return list({row["incident_id"]: row for row in sorted(rows, key=lambda row: row["event_date"])}.values())


def as_one(rows: Sequence[Row]) -> tuple[list[Row], dict[str, str]]:
    """Each trouble of a server once, however many collectors saw it: shards of a cluster ask each server each.

    Args:
        rows: of drift_incident or the view open_incidents, in any order.

    Returns: those of one server and cause that overlap as the one that opened first, where the first of them stood; and
    by the id of each row that of the one it became.
    """
    found: dict[str, dict[str, Any]] = {}
    became: dict[str, str] = {}
    last: dict[tuple[str, ...], str] = {}  # of each server and cause
    for row in sorted(rows, key=lambda row: (row["opened_at"], row["incident_id"])):
        own = row["incident_id"]
        server = _server(row) or (own,)
        one = found.get(last.get(server, ""))
        if one is not None and (one.get("resolved_at") is None or row["opened_at"] <= one["resolved_at"]):
            one |= _both(one, row)
        else:
            last[server], found[own] = own, dict(row)
        became[own] = last[server]
    return [found[one] for one in dict.fromkeys(became[row["incident_id"]] for row in rows)], became


def of_any_collector(line: Line) -> Line:
    """The line itself; of a server one for all collectors, where each had its own before too."""
    is_server = line.source == "drift" and not line.group_name and line.cause in SERVER_CODES
    return line._replace(collector="") if is_server else line


def _server(row: Row) -> tuple[str, ...]:
    is_server = not row["consumer_group"] and row["root_cause"] in SERVER_CODES
    return (row["cluster"], row["root_cause"], row["cause_key"]) if is_server else ()


def _both(one: Row, other: Row) -> dict[str, Any]:
    """What of an incident is not the first one's alone: it is over when it is for all who saw it."""

    def of_both(name: str) -> list[Any]:
        return [row[name] for row in (one, other) if row.get(name) is not None]

    ends = of_both("resolved_at")
    both = {
        "resolved_at": max(ends) if len(ends) == 2 else None,
        "state": min(of_both("state"), key=_STATES.index, default=None),
        "trust": min(of_both("trust"), default=None),  # "certain" before "possible"
        "last_seen_at": max(of_both("last_seen_at")),
        "severity": min(of_both("severity"), key=SEVERITIES.index),
        "codes": list(dict.fromkeys(code for codes in of_both("codes") for code in codes)),
        "reopened": max(of_both("reopened"), default=0),
    }
    return {name: value for name, value in both.items() if name in one}


def _drift(row: Row, effects: str) -> Incident:
    names = (row[name] for name in ("cluster", "collector", "consumer_group", "root_cause", "cause_key"))
    line = of_any_collector(Line("drift", *names))
    standing = Standing(
        row["opened_at"], row["resolved_at"], row["last_seen_at"], row["severity"], tuple(row["codes"]), row["reopened"]
    )
    return Incident(line, standing, row["incident_id"], f"{row['sentence']} {effects}".rstrip())


def with_own_cause(findings: Iterable[Row], servers: Iterable[Row]) -> list[Row]:
    """The findings of producers that are no effect of another one.

    Isolations of a broker that is down are effects of its incident; those of single producers, of the fleet's, which
    says that the broker is slow.

    Args:
        findings: rows of producer_finding.
        servers: rows of drift_incident, those of groups too.
    """
    own = [row for row, incident in with_incidents(findings, servers) if incident is None]
    slow: defaultdict[tuple[str, str], list[tuple[datetime, datetime]]] = defaultdict(list)
    for row in own:
        if row["code"] == FLEET:
            end = row["to"] or datetime.max.replace(tzinfo=UTC)
            slow[row["cluster"], row["broker_name"]].append((row["from"] - _AFTER, end))
    return [row for row in own if row["code"] != ISOLATION or not _is_within(row, slow)]


def with_incidents(findings: Iterable[Row], servers: Iterable[Row]) -> list[tuple[Row, Row | None]]:
    """Each finding of producers with the incident of the broker whose effect it is; None: of none.

    As the view producer_finding_with_incident has it.
    """
    down: defaultdict[str, list[Row]] = defaultdict(list)
    for row in sorted(servers, key=lambda one: one["first_seen_at"]):
        if not row["consumer_group"] and row["root_cause"] == BROKER_DOWN:
            down[row["cluster"]].append(row)
    return [
        (row, next((one for one in down.get(row["cluster"], ()) if _is_effect(row, one)), None)) for row in findings
    ]


def _is_effect(row: Row, incident: Row) -> bool:
    broker = incident["cause_key"]
    if not incident["first_seen_at"] - _BEFORE <= row["from"] <= incident["last_seen_at"] + _AFTER:
        return False
    if row["code"] == ALL:
        return broker in (row["broker_names"] or ())
    return row["code"] in _EFFECTS and row["broker_name"] == broker


def effects_of(
    of_groups: Iterable[Row], of_producers: Iterable[Row], became: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """By incident of a server, how much came of it, as a sentence.

    Args:
        of_groups: rows of allocation_drift, those of servers themselves too.
        of_producers: findings of producers, each with the ``incident_id`` whose effect it is.
        became: see ``as_one``.
    """
    groups, queues, producers = (defaultdict[str, set[tuple[Any, ...]]](set) for _ in range(3))
    for row in of_groups:
        if row["consumer_group"]:
            one = became.get(row["incident_id"], row["incident_id"])
            groups[one].add((row["cluster"], row["consumer_group"]))
            if row["queue_id"] is not None:
                queues[one].add((row["topic"], row["broker_name"], row["queue_id"]))
    for row in of_producers:
        if row["producer_group"]:
            one = became.get(row["incident_id"], row["incident_id"])
            producers[one].add((row["producer_group"], row["client_id"]))
    return {one: _told(*(len(kind[one]) for kind in (groups, queues, producers))) for one in {*groups, *producers}}


def _told(groups: int, queues: int, producers: int) -> str:
    of_queues = f" ({_count(queues, 'queue')})" if queues else ""
    told = [f"{_count(groups, 'group')}{of_queues}"] if groups else []
    told += [_count(producers, "producer")] if producers else []
    return f"It showed in {' and '.join(told)}."


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' if number > 1 else ''}"


def _is_within(row: Row, spans: Mapping[tuple[str, str], Iterable[tuple[datetime, datetime]]]) -> bool:
    own = spans.get((row["cluster"], row["broker_name"]), ())
    return any(begin <= row["from"] <= end for begin, end in own)


class Stretch(NamedTuple):
    """A finding, or a window that began before midnight; ``end`` None: not known."""

    start: datetime
    end: datetime | None
    who: tuple[str | None, ...]
    severity: str
    sentence: str


@dataclass
class _Episode:
    start: datetime
    end: datetime
    severity: str
    sentence: str
    who: set[tuple[str | None, ...]] = field(default_factory=set)

    def pause(self, quiet: timedelta) -> timedelta:
        """How long it must be quiet to be over: a flutter is so soon, and a fault after it is told by itself."""
        return quiet if self.end - self.start >= _FLUTTER else quiet / 5

    def take(self, stretch: Stretch, end: datetime) -> None:
        self.end = max(self.end, end)
        self.severity = min(self.severity, stretch.severity, key=SEVERITIES.index)
        self.who.add(stretch.who)


def producer_incidents(
    findings: Iterable[Row], continued: Iterable[Row], recorded_until: Mapping[str, datetime], quiet: timedelta
) -> list[Incident]:
    """Incidents of producers.

    Args:
        findings: rows of producer_finding.
        continued: rows of broker_availability_window that continue one of the date before: they tell how long an
            isolation lasted whose finding ends with its date.
        recorded_until: by cluster, the last record of any producer.
    """
    found: defaultdict[Line, list[Stretch]] = defaultdict(list)
    for row in findings:
        found[_line(row, row["code"])].append(_finding(row, recorded_until))
    more: defaultdict[Line, list[Stretch]] = defaultdict(list)
    for row in continued:
        more[_line({"topic": None, **row}, ISOLATION)].append(
            Stretch(row["window_start"], row["window_end"], _who(row), SEVERITIES[-1], "")
        )
    return [
        _incident(line, episode, recorded_until[line.cluster], quiet)
        for line, stretches in found.items()
        for episode in _episodes(stretches, more[line], recorded_until[line.cluster], quiet)
    ]


def _line(row: Row, code: str) -> Line:
    subject = ", ".join(name for name in (row["topic"], row["broker_name"]) if name is not None)
    return Line("producer", row["cluster"], "", row["producer_group"] or "", code, subject)


def _who(row: Row) -> tuple[str | None, ...]:
    started = row["started_at"]
    return row["client_id"], started and started.isoformat()


def _finding(row: Row, recorded_until: Mapping[str, datetime]) -> Stretch:
    end = row["to"]
    if end is None and row["event_date"] < recorded_until[row["cluster"]].date():
        # At least; the next date tells what goes on.
        end = datetime.combine(row["event_date"] + timedelta(days=1), time(), UTC)
    return Stretch(row["from"], end, _who(row), row["severity"], row["sentence"])


def _episodes(
    stretches: Iterable[Stretch], continued: Iterable[Stretch], until: datetime, quiet: timedelta
) -> Iterator[_Episode]:
    """Stretches with pauses that are short, joined; one that continues a window begins nothing by itself."""
    begins = [(stretch.start, 0, stretch) for stretch in stretches] + [(each.start, 1, each) for each in continued]
    together = Counter(each[:2] for each in begins)  # a text is costly, and only tells apart what begins at once
    now: _Episode | None = None
    for start, is_continued, stretch in sorted(
        begins, key=lambda each: (*each[:2], str(each[2]) if together[each[:2]] > 1 else "")
    ):
        end = until if stretch.end is None else stretch.end
        goes_on = now is not None and start <= now.end + now.pause(quiet)
        if now is not None and goes_on and (not is_continued or stretch.who in now.who):
            now.take(stretch, end)
        elif not is_continued:
            if now is not None:
                yield now
            now = _Episode(start, end, stretch.severity, stretch.sentence, {stretch.who})
    if now is not None:
        yield now


def _incident(line: Line, episode: _Episode, until: datetime, quiet: timedelta) -> Incident:
    is_over = episode.end + episode.pause(quiet) <= until
    standing = Standing(
        episode.start, episode.end if is_over else None, min(episode.end, until), episode.severity, (line.cause,), 0
    )
    others = len(episode.who) - 1
    more = f" The same of {others} more producer{'s' if others > 1 else ''} of the group." if others > 0 else ""
    names = (line.group_name, *line.subject.split(", "), *(client_id for client_id, _ in episode.who))
    sentence = begun(episode.sentence, names).rstrip(".") + "."
    return Incident(line, standing, None, f"{sentence}{more}")
