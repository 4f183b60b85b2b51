"""Rows of drift_incident and producer_finding in, incidents as an on-call person counts them out.

Drift incidents are what they are. Findings of producers speak of single processes and minutes: those of one producer
group, code, topic and broker with pauses of ``quiet`` at most between them are one incident, and it is open until the
cluster's producers have been recorded for so long after its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from hindsight.udfs.drift.finding import SEVERITIES
from hindsight.udfs.telling.incident_news import Incident, Line, Standing

ISOLATION = "LONG_ISOLATION"
Row = Mapping[str, Any]


def drift_incidents(rows: Iterable[Row]) -> list[Incident]:
    """Incidents of drift_incident; of one that stands on two dates, as while dates wait, that of the later one."""
    latest = {row["incident_id"]: row for row in sorted(rows, key=lambda row: row["event_date"])}
    return [_drift(row) for row in latest.values()]


def _drift(row: Row) -> Incident:
    line = Line("drift", row["cluster"], row["collector"], row["consumer_group"], row["root_cause"], row["cause_key"])
    standing = Standing(
        row["opened_at"], row["resolved_at"], row["last_seen_at"], row["severity"], tuple(row["codes"]), row["reopened"]
    )
    return Incident(line, standing, row["incident_id"], row["sentence"])


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
        end = _midnight_after(row["event_date"])  # at least; the next date tells what goes on
    return Stretch(row["from"], end, _who(row), row["severity"], row["sentence"])


def _midnight_after(day: date) -> datetime:
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def _episodes(
    stretches: Iterable[Stretch], continued: Iterable[Stretch], until: datetime, quiet: timedelta
) -> Iterator[_Episode]:
    """Stretches with pauses that are short, joined; one that continues a window begins nothing by itself."""
    begins = [(stretch.start, 0, stretch) for stretch in stretches] + [(each.start, 1, each) for each in continued]
    now: _Episode | None = None
    for start, is_continued, stretch in sorted(begins, key=lambda each: (each[0], each[1], str(each[2]))):
        end = until if stretch.end is None else stretch.end
        goes_on = now is not None and start <= now.end + quiet
        if now is not None and goes_on and (not is_continued or stretch.who in now.who):
            now.take(stretch, end)
        elif not is_continued:
            if now is not None:
                yield now
            now = _Episode(start, end, stretch.severity, stretch.sentence, {stretch.who})
    if now is not None:
        yield now


def _incident(line: Line, episode: _Episode, until: datetime, quiet: timedelta) -> Incident:
    is_over = episode.end + quiet <= until
    standing = Standing(
        episode.start,
        episode.end if is_over else None,
        min(episode.end, until),
        episode.severity,
        (line.cause,),
        0,
    )
    others = len(episode.who) - 1
    more = f" The same of {others} more producer{'s' if others > 1 else ''} of the group." if others > 0 else ""
    sentence = episode.sentence[:1].upper() + episode.sentence[1:].rstrip(".") + "."
    return Incident(line, standing, None, f"{sentence}{more}")
