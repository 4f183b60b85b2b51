"""What publications remember of each date, which commits were broken off, and the state before the run that is at work.

A run changes input tables first, derived ones last. Whoever asks in between would see new rows beside what was derived
without them. So a run notes the version of each table before it begins, and takes the note back when it has ended; one
that was broken off leaves it, and the next run keeps it until all is whole again. Questions see that state meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_lake import OPTIMIZE, SET_PROPERTIES, ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.running.own_release import own_release
from hindsight.schemas import (
    INCIDENT_EVENT,
    INGESTED_FILE,
    PUBLICATION,
    QUALITY_RESULT,
    QUARANTINE,
    SCHEMA_VERSION,
    TABLES,
)
from hindsight.schemas.arrow_types import arrow_schema

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake


class Computed(NamedTuple):
    """What is remembered of a date's last computation."""

    files: str
    opening: str
    closing: str
    is_open: bool
    number: int = 0  # of the publication


_FINGERPRINTS = ("files", "opening", "closing")
_ROWS_STAY = {OPTIMIZE, SET_PROPERTIES, "VACUUM START", "VACUUM END"}
_STATE = "state_before"  # a note
_OF_RUNS = (INGESTED_FILE, QUARANTINE, QUALITY_RESULT, PUBLICATION, INCIDENT_EVENT)
_BROKEN_OFF = Computed("broken off", "broken off", "broken off", False)


def computed_before(lake: ArrowLake, job: str) -> tuple[dict[ClusterDate, Computed], int]:
    """Each date's last computation, and the number of the newest publication: no clock decides which that is.

    A date whose commits were broken off is like none that was ever computed: some of its tables may hold what settings
    gave that are no longer the same, or rows that nothing else would remove.
    """
    published = lake.rows(PUBLICATION, ["number", "published_at", "dates"], Where(values={"job": [job]}))
    numbers = published["number"].fill_null(0)
    stored = _last_of_dates(published.set_column(0, "number", numbers))
    stored |= dict.fromkeys(half_published(lake, job), _BROKEN_OFF)
    return stored, pc.max(numbers).as_py() or 0


def _last_of_dates(published: pa.Table) -> dict[ClusterDate, Computed]:
    """What the last of many publications remembers of each date; rows become objects only of these."""
    published = published.sort_by([("number", "ascending"), ("published_at", "ascending")])
    dates = published["dates"].combine_chunks()
    of_dates = pa.Table.from_struct_array(pc.list_flatten(dates))
    of_dates = of_dates.append_column("number", published["number"].take(pc.list_parent_indices(dates)))
    placed = of_dates.append_column("place", pa.array(np.arange(len(of_dates))))
    last = placed.group_by(["cluster", "event_date"]).aggregate([("place", "max")])["place_max"]
    return {
        ClusterDate(row["cluster"], row["event_date"]): _computed(row, row["number"])
        for row in of_dates.take(last).to_pylist()
    }


def forget(lake: ArrowLake, before: datetime) -> None:
    """Delete publications of before an instant whose versions cannot be read any more.

    Those stay that remember most lately, up to then, how some date was computed, and the last one of each job.
    """
    for job in lake.counted(PUBLICATION, ["job"])["job"].to_pylist():
        own = Where(values={"job": [job]}, before={"published_at": before})
        published = lake.rows(PUBLICATION, ["number", "published_at", "dates"], own)
        counted = published.filter(pc.is_valid(published["number"]))  # those of earlier releases are few
        numbers = set(counted["number"].to_pylist())
        needed = {last.number for last in _last_of_dates(counted).values()} | {max(numbers, default=0)}
        if gone := sorted(numbers - needed):
            lake.delete(PUBLICATION, replace(own, values={"job": [job], "number": gone}))


def in_order(published: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Publications of one job, the newest last: no clock decides which that is.

    The uncounted ones of an earlier release come first.
    """
    return sorted(published, key=lambda row: (row["number"] or 0, row["published_at"]))


def dates_of(publication: dict[str, Any]) -> Iterator[tuple[ClusterDate, Computed]]:
    """What a publication remembers of each of its dates."""
    for of in publication["dates"]:
        yield ClusterDate(of["cluster"], of["event_date"]), _computed(of, publication["number"] or 0)


def half_published(lake: ArrowLake, job: str) -> list[ClusterDate]:
    """Dates whose commits were begun and not recorded: a run was broken off there, or is there now."""
    begun = json.loads(lake.noted(job) or "[]")
    return [ClusterDate(cluster, date.fromisoformat(day)) for cluster, day in begun]


def begin_commits(lake: ArrowLake, job: str, dates: list[ClusterDate]) -> None:
    """Note, until ``record``, that the tables of these dates are being committed."""
    lake.note(job, json.dumps([(at.cluster, at.event_date.isoformat()) for at in dates]))


def record(
    lake: ArrowLake,
    run_id: str,
    job: str,
    number: int,
    versions: dict[str, int],
    computed: dict[ClusterDate, Computed],
    rows_written: int,
    settings: str | None = None,
) -> None:
    """Record what was published: the job's publication of that number, and the table versions that belong together."""
    from hindsight.udfs.logs.secret_ids import without_secrets  # which readers need not

    row = {
        "run_id": run_id,
        "job": job,
        "number": number,
        "published_at": datetime.now(UTC),
        "table_versions": list(versions.items()),
        "dates": [_of_date(at, of_date) for at, of_date in computed.items()],
        "rows_written": rows_written,
        "schema_version": SCHEMA_VERSION,
        "hindsight_version": own_release(),
        "settings": settings and without_secrets(settings),
    }
    lake.append(PUBLICATION, _rows([row]))
    lake.note(job, None)


def renew(lake: ArrowLake, run_id: str) -> None:
    """Publish anew what each job published last, if maintenance alone has made its tables' versions since.

    The rows are the same, but the files of the versions that were named go once they are out of the retention.
    """
    newest = {row["job"]: row for row in in_order(lake.rows(PUBLICATION).to_pylist())}
    again = []
    for row in newest.values():
        named = dict(row["table_versions"])
        tables = {TABLES[name]: version for name, version in named.items() if name in TABLES}
        if len(tables) < len(named) or not all(map(lake.exists, tables)):
            continue
        done = set().union(*(lake.operations_since(table, version) for table, version in tables.items()))
        if OPTIMIZE not in done or not done <= _ROWS_STAY:
            continue
        versions = [(table.name, lake.version(table)) for table in tables]
        number = (row["number"] or 0) + 1
        fresh = {"run_id": run_id, "number": number, "published_at": datetime.now(UTC), "rows_written": 0}
        again.append(row | fresh | {"table_versions": versions})
    if again:
        lake.append(PUBLICATION, _rows(again))


def _rows(publications: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(publications, arrow_schema(PUBLICATION))


def _of_date(at: ClusterDate, computed: Computed) -> dict[str, Any]:
    fingerprints = {f"{name}_fingerprint": getattr(computed, name) for name in _FINGERPRINTS}
    return {**at._asdict(), **fingerprints, "is_open": computed.is_open}


def _computed(of_date: dict[str, Any], number: int) -> Computed:
    files, opening, closing = (of_date[f"{name}_fingerprint"] for name in _FINGERPRINTS)
    return Computed(files, opening, closing, of_date["is_open"], number)


def keep_state(lake: ArrowLake) -> None:
    """Note what questions are to see from now on; what an earlier run has noted and not taken back stays.

    Where nothing was ever published there is no such state. What tells of runs is always seen as it is.
    """
    if lake.noted(_STATE) is None and lake.exists(PUBLICATION):
        versions = {table.name: lake.version(table) for table in TABLES.values() if table not in _OF_RUNS}
        told = {"since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "versions": versions}
        lake.note(_STATE, json.dumps(told, sort_keys=True))


def show_new_state(lake: ArrowLake) -> None:
    """From now on questions see what is there."""
    lake.note(_STATE, None)


def show_one_state(lake: LocalLake) -> str | None:
    """Have what is asked next see the state before the run that is at work; since when it is (None: none is)."""
    noted = lake.noted(_STATE)
    state = json.loads(noted) if noted else {"versions": {}, "since": None}
    lake.pin(state["versions"])
    since: str | None = state["since"]
    return since
