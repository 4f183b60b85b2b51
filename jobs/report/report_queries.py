"""What the page shows, read with SQL from tables and views and bounded there: small lists of plain values come out.

The queries stand in ``report/queries``, each by its name. Every one counts what it had before its bound (``of_all``),
so that the page can say what it leaves out.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.conf.settings import Report
from hindsight.jobs.asking.open_drift import not_judged, told_of, with_effects
from hindsight.jobs.engines.asker import Asker, Record, as_records, query, records
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange

Rows = list[Record]

_NEVER = date(1970, 1, 1)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_BUCKETS = 240
_SEND_BUCKETS = 120
CELLS = 160  # of a strip of the fleet, at most; the setting ``brokers`` bounds the strips
_MOST_FAMILIES = 8
_MOST_UNJUDGED = 40

# Queries by name: those that are always asked, those of what is drawn in time, and of the fleet in time.
_LISTS = (
    *("incidents", "findings", "files", "refused", "refused_lines", "doubts", "route_changes", "routes_missing"),
    *("delays", "rebalances", "rebalance_events", "assignments", "checks", "failed_checks", "publications"),
)
_TIMELINE = (
    *("brokers", "strip", "producers", "windows", "sends", "failures", "call_results", "releases", "replayed"),
    "choices",
)
_FLEET = ("fleet_brokers", "fleet_cells", "producer_findings", "producer_finding_codes")
_OF_WORST_MINUTES = _FLEET[:2]
_OF_A_MINUTE = ("isolating", "active", "active_unknown", "minute_at")
_MATRICES = ("rounds", "cells")


class Stretch(NamedTuple):
    """What a drawing in time spans, and the last record of it: epoch milliseconds [begin, end)."""

    begin: int
    end: int
    recorded: int

    def step(self, buckets: int, unit: int = 1) -> int:
        """Width of one of at most so many buckets, whole units of so many milliseconds, at least a second."""
        return max(1000, -(-(self.end - self.begin) // (buckets * unit)) * unit)


def report_data(asker: Asker, bounds: Report, asked: DateRange = EVERY_DATE) -> dict[str, Any]:
    """Everything on the page. Lists of rows by name, instants as epoch milliseconds.

    Of the dates that were asked for; without a first one, of the last ``bounds.days`` up to the last.
    """
    (recorded,) = records(asker, query("queries", "dates"))
    dates = dates_shown(recorded, bounds.days, asked)
    of_dates = "event_date BETWEEN DATE'{}' AND DATE'{}'".format(*(dates or (_NEVER, _NEVER)))
    stretch = _stretch(asker, "stretch", of_dates)
    fleet = _stretch(asker, "fleet_span", of_dates)
    values = {
        "of_dates": of_dates,
        "last": dates[1] if dates else _NEVER,
        "begin": stretch.begin,
        "end": stretch.end,
        "step": stretch.step(_BUCKETS),
        "send_step": stretch.step(_SEND_BUCKETS),
        "fleet_begin": fleet.begin,
        "fleet_step": fleet.step(CELLS, unit=60_000),
        **bounds.model_dump(),
    }
    groups = [with_families(row) for row in records(asker, query("queries", "groups").format(**values))]
    _keep_matrices(asker, groups)
    names = [
        *_LISTS,
        *_FLEET,
        *(_TIMELINE if stretch.end > stretch.begin else ()),
        *(_MATRICES if groups else ()),
    ]
    answers = asker.answers([query("queries", name).format(**values) for name in names])
    found = {name: as_records(rows) for name, rows in zip(names, answers, strict=True)}
    found["incidents"] = with_effects(asker, found["incidents"])
    found["sends"], found["send_totals"] = by_bucket_and_in_all(found.get("sends", []), bounds.brokers)
    found |= {name: list(map(with_worst, found[name])) for name in _OF_WORST_MINUTES}
    return {
        "dates": {"first": dates[0].isoformat(), "last": dates[1].isoformat()} if dates else None,
        "stretch": {**stretch._asdict(), "step": values["step"], "send_step": values["send_step"]},
        "fleet_stretch": {"begin": fleet.begin, "step": values["fleet_step"]},
        "groups": plain(groups),
        "unjudged": list(told_of(not_judged(asker, last=values["last"]), most=_MOST_UNJUDGED)),
        "bounds": values,
        "parts": [],
        **{name: [] for name in (*_TIMELINE, *_MATRICES)},
        **plain(found),
    }


def by_bucket_and_in_all(rows: Rows, most: int) -> tuple[Rows, Rows]:
    """The rows of ``sends`` that are drawn, and those of whole brokers, the first of them, with how many there are."""
    totals = [row for row in rows if row["bucket"] is None]
    totals.sort(key=lambda row: (-row["failed"], -row["attempts"]))  # else as they came, by name
    return [row for row in rows if row["bucket"] is not None], [{**row, "of_all": len(totals)} for row in totals[:most]]


def dates_shown(recorded: Record, days: int, asked: DateRange) -> tuple[date, date] | None:
    """First and last date of the page; None: nothing is recorded of those that were asked for."""
    if recorded["last"] is None:
        return None
    last = min(recorded["last"], asked.last or recorded["last"])
    first = max(recorded["first"], asked.first or last - timedelta(days=days - 1))
    return (first, last) if first <= last else None


def _stretch(asker: Asker, name: str, of_dates: str) -> Stretch:
    (row,) = records(asker, query("queries", name).format(of_dates=of_dates))
    return Stretch(row["begins"] or 0, row["ends"] or 0, row.get("recorded") or row["ends"] or 0)


def with_families(group: Record) -> Record:
    """A group with the first of its members that are not Java's, each with its family."""
    rules = group.pop("member_rules")
    others = (rule for rule in rules or () if rule["profile"] and not rule["profile"].startswith("P"))
    families = [f"{rule['client_id']} {rule['profile']}" for rule in others][:_MOST_FAMILIES]
    return {**group, "families": None if rules is None else families}


def _keep_matrices(asker: Asker, groups: Rows) -> None:
    """Name the groups that get a matrix, for the queries about cells."""
    kept = [group for group in groups if group["matrix"]]
    names = ("cluster", "collector", "consumer_group", "topic")
    asker.name("report_group", pa.table({n: pa.array([group[n] for group in kept], pa.string()) for n in names}))


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, datetime):
        return round(value.replace(tzinfo=UTC).timestamp() * 1000)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        # What is plain already is most of it.
        return {name: each if type(each) in _PLAIN else plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def with_worst(row: Record) -> Record:
    """A row of a broker or a cell with what its worst minute showed as one value, ``worst``; None: there is none."""
    worst = {name: row[name] for name in _OF_A_MINUTE if name in row}
    rest = {name: value for name, value in row.items() if name not in worst}
    return {**rest, "worst": worst if worst["minute_at"] is not None else None}


def fleet_strips(data: dict[str, Any]) -> dict[str, Any]:
    """What the script draws of the fleet: ``begin`` and ``step`` in ms, and per broker its figures and cells.

    A strip per broker in time: what share of the active producers held it not available. A cell of a strip shows the
    worst minute in it, so that a short refusal by all is not thinned out by a quiet hour.

    A cell: place in time, then of its worst minute how many refused the broker, of how many active, how many more could
    not be judged; where somebody refused it also that minute's place in the cell, and in how many minutes of how many
    judged ones that was so.
    """
    stretch = data["fleet_stretch"]
    cells: dict[tuple[str, str], list[list[int]]] = {}
    for row in data["fleet_cells"]:
        worst, begun = row["worst"], stretch["begin"] + row["bucket"] * stretch["step"]
        cell = [row["bucket"], worst["isolating"], worst["active"], worst["active_unknown"]]
        if worst["isolating"]:
            cell += [(worst["minute_at"] - begun) // 60_000, row["refused"], row["judged"]]
        cells.setdefault((row["cluster"], row["broker_name"]), []).append(cell)
    return {
        **stretch,
        "brokers": [_strip(b, cells.get((b["cluster"], b["broker_name"]), [])) for b in data["fleet_brokers"]],
    }


def _strip(broker: Record, cells: list[list[int]]) -> list[Any]:
    worst = broker["worst"] and [broker["worst"][name] for name in ("isolating", "active", "minute_at")]
    return [*(broker[name] for name in ("cluster", "broker_name", "judged", "refused", "by_half")), worst, cells]
