"""Computes the dates that new input touched (``dates_to_compute``), gates the candidates, then commits them.

The one mechanism for both sides.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from typing_extensions import TypeVar

from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.ledger import files_of_dates, ledger
from hindsight.jobs.publishing.dates_to_compute import Progress, next_dates
from hindsight.jobs.publishing.publication_record import begin_commits, computed_before, record
from hindsight.jobs.publishing.quality_gate import check
from hindsight.jobs.running.run_context import PublicationResult, RunContext
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import Table

if TYPE_CHECKING:
    from hindsight.jobs.publishing.kept_walks import KeptWalks

L = TypeVar("L", bound=ArrowLake, default=Any)  # the lake of the engine on which a job computes
CorrectedDates = Mapping[ClusterDate, str]


@dataclass(frozen=True)
class Derivation(Generic[L]):
    """A job that computes derived tables date by date.

    ``inputs`` are the tables it reads; ``tables`` are published in this order; ``closing`` are those whose rows of
    one date the next begins with;
    ``waiting`` are tables and conditions of rows that a later date's record may change; ``beside`` are formats
    that bear on dates which files of ``formats`` touch, and make none of their own; ``corrected`` gives, for dates
    whose input rows are corrected after their files were taken in, a digest of what is; ``settings`` is the JSON of
    what ``settings_fingerprint`` is a digest of. ``walks`` tells where the walks of dates went on, and keeps what they
    gave: of tables in ``by_instant`` rows are replaced from there on, by the instant in this column.
    """

    job: str
    formats: tuple[str, ...]
    inputs: tuple[Table, ...]
    tables: tuple[Table, ...]
    closing: tuple[Table, ...]
    settings_fingerprint: str
    compute: Callable[[Stretch[L]], Mapping[str, Any]]
    waiting: tuple[tuple[Table, Where], ...] = ()
    beside: tuple[str, ...] = ()
    corrected: Callable[[ArrowLake], CorrectedDates] = lambda _: {}
    settings: str | None = None
    walks: KeptWalks | None = None
    by_instant: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stretch(Generic[L]):
    """Dates to compute at once: of each cluster, adjacent known dates."""

    lake: L
    context: RunContext
    dates: list[ClusterDate]
    previous: dict[str, date]  # the known date before each cluster's first one
    following: dict[str, date]  # the known date after each cluster's last one
    last_recorded: dict[str, date]  # each cluster's last date with files
    recorded: frozenset[ClusterDate]  # dates with files
    done: frozenset[ClusterDate]
    formats: frozenset[str]  # of all files that bear on any date
    computed_by: Mapping[ClusterDate, int] = field(default_factory=dict)
    rests_on: str = ""  # a digest of the settings and the contracts

    def opening(self, table: Table) -> Any:
        """The rows of a closing table with which the stretch begins, as the lake's engine hands rows on."""
        before = {ClusterDate(cluster, day) for cluster, day in self.previous.items()}
        return self.lake.of_dates(table, stored=before - self.done, computed=before & self.done)


def publish(lake: L, context: RunContext, derivation: Derivation[L]) -> PublicationResult:
    """Compute what is dirty into candidates, gate them, commit table by table, and record what belongs together.

    Raises: GateFailedError: a critical expectation failed; nothing was committed.
    """
    with lake.plans() as plan_for:
        for table in derivation.tables:
            lake.create(table)
        files = files_by_date(lake, derivation)
        stored, published = computed_before(lake, derivation.job)
        progress = Progress(files.digests, stored, context.dates)
        while stretch := _next_stretch(lake, context, files, progress):
            for at in stretch.dates:
                tell("computes", cluster=at.cluster, date=str(at.event_date))
            plan_for(sum(files.lines.get(at, 0) for at in stretch.dates))
            rows = derivation.compute(stretch)
            first = not progress.computed
            lake.together(partial(lake.add_candidates, t, rows[t.name], first=first) for t in derivation.tables)
            counts = _remember(lake, derivation, progress, stretch)
        if not progress.computed:
            return PublicationResult(dates_left=progress.left())
        check(lake, context, derivation.job, {t: lake.candidates(t) for t in derivation.tables})
        done = _commit(lake, context, derivation, progress, published + 1, counts)
        lake.note(_files_note(derivation.job), files.note)
        return done


def _replace(lake: L, derivation: Derivation[L], table: Table, rows: Any, dates: list[ClusterDate]) -> None:
    column, walks = derivation.by_instant.get(table.name), derivation.walks
    since = walks.since() if walks else {}
    if column is None or not since:
        lake.replace_dates(table, rows, dates)
    else:
        lake.replace_since(table, rows, dates, column, since)


def _next_stretch(lake: L, context: RunContext, files: FilesOfDates, progress: Progress) -> Stretch[L] | None:
    found = next_dates(progress)
    if found is None:
        return None
    recorded, done = frozenset(progress.files), frozenset(progress.computed)
    stretch = Stretch(lake, context, *found, progress.last_recorded(), recorded, done, files.formats)
    return replace(stretch, computed_by=progress.computed_by(), rests_on=files.rests_on)


class FilesOfDates(NamedTuple):
    """The files that touch each date: a digest of them, the settings and the contracts; their lines. Formats of all,
    and what the digests rest on beside files. ``note``: what spares the next run the digests of what has not changed.
    """

    digests: dict[ClusterDate, str]
    lines: dict[ClusterDate, int]
    formats: frozenset[str]
    rests_on: str
    note: str


def files_by_date(lake: L, derivation: Derivation[L]) -> FilesOfDates:
    """What the ledger knows of the files that bear on each date."""
    rows = ledger(lake, (*derivation.formats, *derivation.beside))
    own = [files for files in files_of_dates(rows) if files.formats.intersection(derivation.formats)]
    rests_on = f"{derivation.settings_fingerprint} {_contracts(derivation.tables)}\n"
    known = _known(lake.noted(_files_note(derivation.job)), rests_on)
    marked = {files.at: f"{files.at.cluster} {files.at.event_date} {files.mark}" for files in own}
    digests = {files.at: known.get(marked[files.at]) or _digest(rests_on, files.names()) for files in own}
    note = json.dumps({"rests_on": rests_on, "digests": {marked[at]: digest for at, digest in digests.items()}})
    for at, digest in derivation.corrected(lake).items():
        digests[at] = f"{digests.get(at, '')}:{digest}"
    lines = {files.at: files.lines for files in own}
    return FilesOfDates(digests, lines, frozenset[str]().union(*(files.formats for files in own)), rests_on, note)


def _files_note(job: str) -> str:
    return f"files_{job}"


def _known(note: str | None, rests_on: str) -> dict[str, str]:
    """Digests by date and mark, as a run noted them that rested on the same; nothing where the note is damaged."""
    with suppress(ValueError, TypeError, KeyError):
        noted = json.loads(note or "{}")
        return dict(noted["digests"]) if noted["rests_on"] == rests_on else {}
    return {}


def _digest(rests_on: str, names: Iterable[str]) -> str:
    """A digest of files by name and size, which stand in order."""
    return hashlib.sha256(f"{rests_on}{chr(10).join(names)}".encode()).hexdigest()


def _contracts(tables: tuple[Table, ...]) -> str:
    """A digest of the tables' columns: rows that were computed before one was added lack it."""
    columns = "\n".join(f"{table.name} {table.schema.simpleString()}" for table in tables)
    return hashlib.sha256(columns.encode()).hexdigest()


def _remember(lake: L, derivation: Derivation[L], progress: Progress, stretch: Stretch[L]) -> Counter[ClusterDate]:
    """Note the state in which each computed date closes, dates that rows spilled into included.

    Returns how many rows each has of all that this run computed.
    """
    carried = {t: [n for n in t.carried_columns if n != "event_date"] for t in derivation.closing}
    found = lake.candidate_digests({table: carried.get(table, []) for table in derivation.tables})
    counts: Counter[ClusterDate] = Counter()
    for of_table in found.values():
        counts.update({at: each.rows for at, each in of_table})
    closing: dict[ClusterDate, str] = {}
    for table in derivation.closing:
        for at, each in found[table]:
            closing[at] = f"{closing.get(at, '')}{table.name}:{each.rows}:{each.digest};"
    waiting = {at for rows in derivation.waiting for at in lake.candidate_dates(*rows)}
    progress.remember({*stretch.dates, *counts} - {*progress.computed}, closing, waiting)
    return counts


def _commit(
    lake: L,
    context: RunContext,
    derivation: Derivation[L],
    progress: Progress,
    number: int,
    counts: Counter[ClusterDate],
) -> PublicationResult:
    dates = sorted(progress.computed)
    candidates = {table: lake.candidates(table) for table in derivation.tables}
    count = counts.total()
    begin_commits(lake, derivation.job, dates)
    lake.together(partial(_replace, lake, derivation, t, rows, dates) for t, rows in candidates.items())
    if derivation.walks:
        derivation.walks.keep(lake, number, dates)
    published = (*derivation.inputs, *derivation.tables)
    found = lake.together(partial(lake.version, t) for t in published)
    versions = {t.name: version for t, version in zip(published, found, strict=True) if version is not None}
    computed = {at: progress.computed[at] for at in dates}
    record(lake, context.run_id, derivation.job, number, versions, computed, count, derivation.settings)
    for at in dates:
        tell("published", cluster=at.cluster, date=str(at.event_date), rows=counts[at])
    return PublicationResult(len(dates), count, progress.left())
