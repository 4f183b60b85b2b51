"""Computes the dates that new input touched (``dates_to_compute``), gates the candidates, then commits them.

The one mechanism for both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.dates_to_compute import Progress, next_dates
from jobs.delta_tables import Lake
from jobs.publication_record import begin_commits, computed_before, record
from jobs.quality_gate import check
from jobs.run_context import RunContext
from jobs.run_log import tell
from jobs.spark_plans import interpreted_plans
from jobs.transforms.frames import ClusterDate, in_dates, rows_of
from schemas import Table
from schemas.bookkeeping import INGESTED_FILE


@dataclass(frozen=True)
class Derivation:
    """A job that computes derived tables date by date.

    ``inputs`` are the tables it reads; ``tables`` are published in this order; ``closing`` are those whose rows of
    one date the next begins with;
    ``waiting`` is the table and SQL condition of rows that a later date's record may change; ``beside`` are formats
    that bear on dates which files of ``formats`` touch, and make none of their own; ``corrected`` gives, for dates
    whose input rows are corrected after their files were taken in, cluster, event_date and a digest of what is.
    """

    job: str
    formats: tuple[str, ...]
    inputs: tuple[Table, ...]
    tables: tuple[Table, ...]
    closing: tuple[Table, ...]
    settings_fingerprint: str
    compute: Callable[[Stretch], dict[str, DataFrame]]
    waiting: tuple[Table, str] | None = None
    beside: tuple[str, ...] = ()
    corrected: Callable[[Lake], DataFrame | None] = lambda _: None


@dataclass(frozen=True)
class Stretch:
    """Dates to compute at once: of each cluster, adjacent known dates."""

    lake: Lake
    context: RunContext
    dates: list[ClusterDate]
    previous: dict[str, date]  # the known date before each cluster's first one
    following: dict[str, date]  # the known date after each cluster's last one
    last_recorded: dict[str, date]  # each cluster's last date with files
    recorded: frozenset[ClusterDate]  # dates with files
    done: frozenset[ClusterDate]
    formats: frozenset[str]  # of all files that bear on any date

    def opening(self, table: Table) -> DataFrame:
        """The rows of a closing table with which the stretch begins."""
        before = {ClusterDate(cluster, day) for cluster, day in self.previous.items()}
        stored = self.lake.read(table).where(in_dates(before - self.done))
        if not before & self.done:
            return stored
        return stored.unionByName(self.lake.candidates(table).where(in_dates(before & self.done)))


@dataclass(frozen=True)
class PublicationResult:
    """What a derivation did: dates computed, rows written, and changed ones after those it was asked for."""

    dates: int = 0
    rows: int = 0
    dates_left: int = 0


def publish(lake: Lake, context: RunContext, derivation: Derivation) -> PublicationResult:
    """Compute what is dirty into candidates, gate them, commit table by table, and record what belongs together.

    Raises: GateFailedError: a critical expectation failed; nothing was committed.
    """
    with interpreted_plans(lake.spark) as plan_for:
        return _publish(lake, context, derivation, plan_for)


def _publish(
    lake: Lake, context: RunContext, derivation: Derivation, plan_for: Callable[[int], None]
) -> PublicationResult:
    for table in derivation.tables:
        lake.create(table)
    files = _files(lake, derivation)
    stored, published = computed_before(lake, derivation.job)
    progress = Progress(files.digests, stored, context.dates)
    while stretch := _next_stretch(lake, context, files, progress):
        for at in stretch.dates:
            tell("computes", cluster=at.cluster, date=str(at.event_date))
        plan_for(sum(files.lines.get(at, 0) for at in stretch.dates))
        rows = derivation.compute(stretch)
        first = not progress.computed
        lake.together(partial(lake.add_candidates, t, rows[t.name], first=first) for t in derivation.tables)
        _remember(lake, derivation, progress, stretch)
    if not progress.computed:
        return PublicationResult(dates_left=progress.left())
    check(lake, context, derivation.job, {t: lake.candidates(t) for t in derivation.tables})
    return _commit(lake, context, derivation, progress, published + 1)


def _next_stretch(lake: Lake, context: RunContext, files: _Files, progress: Progress) -> Stretch | None:
    found = next_dates(progress)
    if found is None:
        return None
    recorded, done = frozenset(progress.files), frozenset(progress.computed)
    return Stretch(lake, context, *found, progress.last_recorded(), recorded, done, files.formats)


class _Files(NamedTuple):
    """The files that touch each date: a digest of them, the settings and the contracts; their lines. Formats of all."""

    digests: dict[ClusterDate, str]
    lines: dict[ClusterDate, int]
    formats: frozenset[str]


def _files(lake: Lake, derivation: Derivation) -> _Files:
    ledger = lake.read(INGESTED_FILE).where(F.col("format").isin(*derivation.formats, *derivation.beside))
    of_file = ("cluster", "format", "file", "size_bytes", "read")
    touched = ledger.select(*of_file, F.explode("event_dates").alias("event_date"))
    files = F.array_join(F.sort_array(F.collect_list(F.concat_ws(":", "file", "size_bytes"))), "\n")
    digest = F.sha2(F.concat(F.lit(f"{derivation.settings_fingerprint} {_contracts(derivation.tables)}\n"), files), 256)
    own = F.count_if(F.col("format").isin(*derivation.formats))
    dated = (
        touched.groupBy("cluster", "event_date")
        .agg(
            digest.alias("digest"),
            own.alias("own"),
            F.sum("read").alias("lines"),
            F.collect_set("format").alias("formats"),
        )
        .where("own > 0")
    )
    rows = rows_of(dated)
    digests = {ClusterDate(row.cluster, row.event_date): row.digest for row in rows}
    lines = {ClusterDate(row.cluster, row.event_date): row.lines for row in rows}
    corrected = derivation.corrected(lake)
    for row in rows_of(corrected) if corrected is not None else ():
        at = ClusterDate(row.cluster, row.event_date)
        digests[at] = f"{digests.get(at, '')}:{row.digest}"
    return _Files(digests, lines, frozenset(name for row in rows for name in row.formats))


def _contracts(tables: tuple[Table, ...]) -> str:
    """A digest of the tables' columns: rows that were computed before one was added lack it."""
    columns = "\n".join(f"{table.name} {table.columns.simpleString()}" for table in tables)
    return hashlib.sha256(columns.encode()).hexdigest()


def _remember(lake: Lake, derivation: Derivation, progress: Progress, stretch: Stretch) -> None:
    """Note the state in which each computed date closes, dates that rows spilled into included."""
    fresh = {table.name: lake.candidates(table) for table in derivation.tables}
    earlier = set(progress.computed)
    spilled = reduce(DataFrame.union, (f.select("cluster", "event_date").distinct() for f in fresh.values())).distinct()
    dates = {*stretch.dates, *(ClusterDate(*row) for row in rows_of(spilled))} - earlier
    closing = _closing_fingerprints(fresh, derivation.closing)
    waiting: set[ClusterDate] = set()
    if derivation.waiting is not None:
        table, condition = derivation.waiting
        open_dates = fresh[table.name].where(condition).select("cluster", "event_date").distinct()
        waiting = {ClusterDate(*row) for row in rows_of(open_dates)}
    progress.remember(dates, closing, waiting)


def _closing_fingerprints(fresh: dict[str, DataFrame], tables: tuple[Table, ...]) -> dict[ClusterDate, str]:
    """Per date, an order-free digest of the rows that the next date begins with."""
    digests: dict[ClusterDate, str] = {}
    for table in tables:
        names = [name for name in table.carried_columns if name != "event_date"]
        hashed = F.xxhash64(*names).cast("decimal(38,0)")
        summed = (
            fresh[table.name].groupBy("cluster", "event_date").agg(F.count("*").alias("n"), F.sum(hashed).alias("h"))
        )
        for row in rows_of(summed):
            at = ClusterDate(row.cluster, row.event_date)
            digests[at] = f"{digests.get(at, '')}{table.name}:{row.n}:{row.h};"
    return digests


def _commit(
    lake: Lake, context: RunContext, derivation: Derivation, progress: Progress, number: int
) -> PublicationResult:
    dates = sorted(progress.computed)
    candidates = {table: lake.candidates(table) for table in derivation.tables}
    every = reduce(DataFrame.union, (frame.select("cluster", "event_date") for frame in candidates.values()))
    counted = every.groupBy("cluster", "event_date").agg(F.count("*").alias("rows"))
    counts = {ClusterDate(row.cluster, row.event_date): row.rows for row in rows_of(counted)}
    count = sum(counts.values())
    begin_commits(lake, derivation.job, dates)
    lake.together(partial(lake.replace_where, t, rows, in_dates(dates)) for t, rows in candidates.items())
    published = (*derivation.inputs, *derivation.tables)
    found = lake.together(partial(lake.version, t) for t in published)
    versions = {t.name: version for t, version in zip(published, found, strict=True) if version is not None}
    computed = {at: progress.computed[at] for at in dates}
    record(lake, context.run_id, derivation.job, number, versions, computed, count)
    for at in dates:
        tell("published", cluster=at.cluster, date=str(at.event_date), rows=counts.get(at, 0))
    return PublicationResult(len(dates), count, progress.left())
