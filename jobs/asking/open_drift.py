"""Incidents that are open now, the worst first: for a person, a machine, or a pipeline that must stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import groupby

from hindsight.conf.failure import DRIFT_FOUND, WRONG_USAGE, ExpectedError
from hindsight.jobs.asking.runbook import entry_of
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.asker import Asker, Record, on_last_date, query, records
from hindsight.jobs.explaining.explanation import answer, on_date
from hindsight.jobs.publishing.publication_record import half_published
from hindsight.jobs.running.terminal import wrapped
from hindsight.schemas import GROUP_ROUND, SEVERITIES
from hindsight.udfs.telling.told_incidents import as_one, effects_of

_EFFECTS_IN = ("groups", "producers")
_MOST = 10
_MOST_REASONS = 2


def told_of(rows: list[Record], most: int = _MOST) -> Iterator[str]:
    """A line for each group: who was not judged, and why; the first of them, and how many there are besides."""
    groups = [list(topics) for _, topics in groupby(rows, lambda row: (row["cluster"], row["consumer_group"]))]
    for topics in groups[:most]:
        first = topics[0]
        names = ", ".join(row["topic"] for row in topics[:_MOST_REASONS])
        more = f" and {len(topics) - _MOST_REASONS} more" if len(topics) > _MOST_REASONS else ""
        yield f"{first['cluster']}  {first['consumer_group']}  {names}{more}: {_why(first)}"
    if len(groups) > most:
        yield f"and {len(groups) - most:,} more groups"


def _why(row: Record) -> str:
    if row["silent_since"]:
        collector = row["collector"] or "without a name"
        return f"its collector {collector} has told nothing since {row['silent_since']:%Y-%m-%d %H:%M:%S} UTC"
    if row["scope_reason"]:
        return str(row["scope_reason"])
    return "; ".join(list(row["missing_inputs"] or ())[:_MOST_REASONS]) or "no reason was recorded"


_INDENT = "    "
_JOB = "flag_allocation_drift"
# What each job publishes, and the rows that must belong together.
_PUBLISHED = {_JOB: ("drift", "rounds and incidents"), "rebuild_availability": ("availability", "windows and findings")}


class DriftFoundError(ExpectedError):
    """Raised when an open incident is at least as severe as the caller wants to hear of."""

    exit_code = DRIFT_FOUND


class NothingJudgedError(ExpectedError):
    """Raised when no round of any group was judged: that nothing is open would say more than is known."""

    exit_code = WRONG_USAGE


class HalfPublishedError(ExpectedError):
    """Raised when rounds and incidents may be of two computations, and the caller goes by them."""


def require_published(lake: ArrowLake, *jobs: str) -> None:
    """What these jobs publish (none named: drift) is whole.

    Raises: HalfPublishedError: a run was broken off while it committed that, or is committing it.
    """
    for job in jobs or (_JOB,):
        dates = sorted(half_published(lake, job))
        if dates:
            what, rows = _PUBLISHED[job]
            raise HalfPublishedError(
                f"{what} of {len(dates)} date(s) from {dates[0].cluster} {dates[0].event_date} on was being committed "
                f"when it was read: {rows} may not belong together. If no run is at work, one was interrupted: "
                "rerun hindsight run-pipeline, which commits these dates again."
            )


def judged_until(asker: Asker, *, cluster: str = "*", group: str = "*") -> datetime:
    """The latest round, UTC, that was judged of the groups that match the shell patterns.

    Some findings need no running infos: where no round has a verdict, it is the latest that showed an incident.

    Raises: NothingJudgedError: there is neither.
    """
    days = asker.lake.counted(GROUP_ROUND, ["event_date"])["event_date"].to_pylist()
    for name, day in (*(("judged", day) for day in sorted(days, reverse=True)), ("seen", None)):
        found = [row["latest"] for row in _matching(answer(asker, "drift", name, {}, day=day), cluster, group)]
        if found:
            until: datetime = max(found)
            return until
    raise NothingJudgedError(
        f"no round of a consumer group was judged (cluster {cluster!r}, group {group!r}): nothing is known of its "
        "drift. Take in admin snapshots and run hindsight flag-allocation-drift, or correct the patterns."
    )


def open_incidents(asker: Asker, *, cluster: str = "*", group: str = "*") -> list[Record]:
    """Rows of the view ``open_incidents`` whose cluster and consumer group match the shell patterns."""
    return with_effects(asker, _matching(records(asker, "SELECT * FROM open_incidents"), cluster, group))


def with_effects(asker: Asker, incidents: list[Record]) -> list[Record]:
    """Rows of incidents, each trouble of a server once, however many collectors saw it.

    Its sentence says too in how many groups, queues and producers it showed.
    """
    opened = [row["opened_at"] for row in incidents if not row["consumer_group"]]
    if not opened:
        return incidents
    since = on_date(min(opened) - timedelta(days=1))  # what came of it may have been seen before it
    once, became = as_one(incidents)
    of_groups, of_producers = (answer(asker, "drift", f"effects_in_{of}", {}, since=since) for of in _EFFECTS_IN)
    told = effects_of(of_groups, of_producers, became)
    return [{**row, "sentence": f"{row['sentence']} {told.get(row['incident_id'], '')}".rstrip()} for row in once]


def _matching(rows: list[Record], cluster: str, group: str) -> list[Record]:
    return [r for r in rows if fnmatchcase(r["cluster"], cluster) and fnmatchcase(r["consumer_group"], group)]


def not_judged(asker: Asker, *, cluster: str = "*", group: str = "*", last: date = date.max) -> list[Record]:
    """Topics, sorted, of groups that match the shell patterns and were not judged of late, or are not heard of.

    With the reasons: ``silent_since``, ``scope_reason``, ``missing_inputs``; of dates up to ``last``.
    """
    # What was judged ten minutes ago may lie on the date before.
    of_dates = on_last_date(asker, GROUP_ROUND, days_before=1, until=last)
    return _matching(records(asker, query("summary", "not_judged").format(of_dates=of_dates)), cluster, group)


def told(incidents: list[Record], until: datetime, unknown: Sequence[Record] = ()) -> Iterator[str]:
    """Lines for a person: of each incident what is wrong, what it comes of, its id, and what to do next.

    ``until``: of what time they speak; ``unknown``: of what they do not, which comes first.
    """
    yield f"As of the last judged round, {until:%Y-%m-%d %H:%M:%S} UTC:"
    if unknown:
        yield "NOT JUDGED of late, so that nothing here says that they are well:"
        for line in told_of(list(unknown)):
            yield from wrapped(line, _INDENT)
    for row in incidents:
        yield ""
        since = f"since {row['opened_at']:%Y-%m-%d %H:%M:%S}"
        yield from wrapped(f"{row['severity']}  {_who(row)} ({row['cluster']}), {since}", _INDENT, first="")
        yield from wrapped(row["sentence"], _INDENT)
        key = f" ({row['cause_key']})" if row["cause_key"] else ""
        yield from wrapped(f"cause: {row['root_cause']}{key}; found: {', '.join(row['codes'])}", _INDENT)
        entry = entry_of([row["root_cause"], *row["codes"]])
        if entry:
            yield from wrapped(f"next: {entry.do}", _INDENT)
        yield from wrapped(f"evidence: hindsight explain {row['incident_id']}", _INDENT)
    if not incidents:
        yield "no open incident of what was judged" if unknown else "no open incident"


def refuse(incidents: list[Record], at_least: str) -> None:
    """Raises: DriftFoundError: one of the incidents has the severity ``at_least`` or a worse one."""
    bad = SEVERITIES[: SEVERITIES.index(at_least) + 1]
    severe = [row for row in incidents if row["severity"] in bad]
    if severe:
        groups = sorted({_who(row) for row in severe})
        raise DriftFoundError(
            f"{len(severe)} open incident(s) of severity {at_least} or worse, in {', '.join(groups)}; "
            "hindsight drift lists them, hindsight explain shows their inputs."
        )


def _who(incident: Record) -> str:
    """The group; of servers the broker or the name server."""
    return str(incident["consumer_group"] or incident["cause_key"])
