"""A derivation and dates in; what it gives of them, in a lake of its own, out. Nothing that is published is touched.

A derivation does not know of publishing: it takes a ``Stretch`` and gives rows. Here the stretch is that of dates that
were asked for, with the state that the published date before each cluster's first one closed with; the rows go into
another lake, with the same contracts. No ledger, gate or lease of the published lake takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.opened import opened
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import remove_folder
from hindsight.jobs.lake.what_ifs import notes_of, what_if_root
from hindsight.jobs.publishing.dates_to_compute import Progress
from hindsight.jobs.publishing.publication import Derivation, Stretch, files_by_date
from hindsight.jobs.publishing.publication_record import computed_before
from hindsight.jobs.running.places import Engine
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import TABLES
from hindsight.udfs.values.message_queues import is_like

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DerivedAgain(NamedTuple):
    """What was derived: the dates asked for, and the rows of each table.

    ``not_computed``: how many dates the published tables lack, or hold by other files, settings or contracts.
    """

    dates: list[ClusterDate]
    rows: Mapping[str, int]
    not_computed: int


def derive_again(
    published: ArrowLake, into: ArrowLake, derivation: Derivation[Any], context: RunContext, *, clusters: str = "*"
) -> DerivedAgain:
    """Derive the tables of the context's dates again, and add their rows to the lake ``into``.

    Args:
        published: the lake whose input rows are read, and the closing state of the date before; nothing is written.
        into: where the rows go; its tables of this derivation are new, or are added to.
        clusters: a shell pattern.
    """
    stretch, lines, not_computed = _asked(published, derivation, context, clusters)
    if not stretch.dates:
        for table in derivation.tables:
            into.create(table)
        return DerivedAgain([], dict.fromkeys((t.name for t in derivation.tables), 0), 0)
    for at in stretch.dates:
        tell("derives again", cluster=at.cluster, date=str(at.event_date))
    with published.plans() as plan_for:
        plan_for(lines)
        rows = derivation.compute(stretch)
        into.together(partial(into.append, table, rows[table.name]) for table in derivation.tables)
    counts = {t.name: sum(into.counted(t, ["cluster"])["rows"].to_pylist()) for t in derivation.tables}
    return DerivedAgain(stretch.dates, counts, not_computed)


def _asked(
    lake: ArrowLake, derivation: Derivation[Any], context: RunContext, clusters: str
) -> tuple[Stretch[Any], int, int]:
    """The known dates in the context's range of clusters that match, the lines of their files, and ``not_computed``."""
    files = files_by_date(lake, derivation)
    stored, _ = computed_before(lake, derivation.job)
    progress = Progress(files.digests, stored, context.dates)
    dates: list[ClusterDate] = []
    previous, following = {}, {}
    for cluster in (name for name in progress.clusters() if is_like(name, clusters)):
        known = progress.known(cluster)
        days = [day for day in known if day in context.dates]
        if not days:
            continue
        dates += [ClusterDate(cluster, day) for day in days]
        if earlier := [day for day in known if day < days[0]]:
            previous[cluster] = earlier[-1]
        if later := [day for day in known if day > days[-1]]:
            following[cluster] = later[0]
    stretch: Stretch[Any] = Stretch(
        lake,
        context,
        dates,
        previous,
        following,
        progress.last_recorded(),
        recorded=frozenset(progress.files),
        done=frozenset(),
        formats=files.formats,
    )
    return stretch, sum(files.lines.get(at, 0) for at in dates), progress.left()


class PublishedTouchedError(RuntimeError):
    """Raised where a what-if would write to the published lake: a defect, which stops before the write."""


class OpenedScenario(NamedTuple):
    """The published lake, to read only; the scenario's own, which this run holds; what runs kernels; and the run."""

    published: ArrowLake
    into: ArrowLake
    runner: Runner
    context: RunContext


@contextmanager
def opened_scenario(
    engine: Engine,
    lake_root: str,
    name: str,
    settings: Settings,
    context: RunContext,
    *,
    command: str,
    master: str | None,
    wait_s: float = 0,
) -> Iterator[OpenedScenario]:
    """A what-if's lake without any table, and the published one, into which nothing can be written.

    Tables of an earlier what-if of that name are removed. ``what_ifs.remember`` makes it show, once it is whole.
    """
    root = what_if_root(lake_root, name)
    with opened(engine, root, settings, context, name=command, master=master, wait_s=wait_s) as held:
        spark = held.lake.spark
        notes_of(spark, lake_root).delete(name)
        for table in TABLES:
            remove_folder(spark, f"{root}/{table}")
        published = lake_at(spark, lake_root, settings)
        yield OpenedScenario(published, lake_at(spark, root, settings, held.context), held.runner, held.context)


def lake_at(spark: SparkSession | None, root: str, settings: Settings, context: RunContext | None = None) -> ArrowLake:
    """The lake at a place on the engine that runs; without the context of a run that holds it, to read only."""
    confirm = context.confirm if context else _refuse
    if spark is None:
        from hindsight.jobs.engines.local_lake import LocalLake

        return LocalLake(root, retention_days=settings.delta.retention_days, confirm=confirm)
    from hindsight.jobs.engines.delta_tables import Lake

    return Lake(spark, root, retention_days=settings.delta.retention_days, confirm=confirm)


def _refuse() -> None:
    raise PublishedTouchedError("a what-if writes nothing to the published tables.")
