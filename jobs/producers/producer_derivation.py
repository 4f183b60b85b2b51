"""Attempts of a stretch of dates in, rows of the producers' derived tables out, whichever engine runs the kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import hindsight.schemas as schemas
from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_columns import Lineage
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile
from hindsight.jobs.engines.runner import Blob, Blobs, OfHeap, Runner, file_heaps
from hindsight.jobs.lake.cluster_dates import OPENING, Addresses, ClusterDate, midnight_of
from hindsight.jobs.producers.kept_producers import Going, ProducerWalks, keep, keep_at
from hindsight.jobs.producers.producer_buckets import (
    AGAIN,
    DATES,
    FLEET,
    FOLDED,
    LINES,
    LOSSES,
    OBSERVED,
    SHARES,
    STARTS,
    WINDOWS,
    WRITERS,
    Confirm,
    EventFile,
    Findings,
    FleetOfDates,
    Fold,
    Plan,
    Witnessed,
    lines_of,
)
from hindsight.jobs.producers.producer_cut import (
    DATED_ROUTES,
    LASTS,
    ROUTES,
    SENT_TO,
    AttemptFile,
    RouteFile,
    Split,
    cut,
    cut_routes,
    look,
)
from hindsight.jobs.publishing.publication import Stretch
from hindsight.udfs.landing.landing_formats import distances, formats_of
from hindsight.udfs.producer.attempt_facts import merged_nearest
from hindsight.udfs.producer.producer_date import Options, Span
from hindsight.udfs.producer.producer_finding import Thresholds
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises
from hindsight.udfs.values.columns import EPOCH

DERIVED = (*FOLDED, schemas.WINDOW_CONFIRMATION, schemas.FLEET_MINUTE, schemas.PRODUCER_FINDING)
_BUCKET_ROWS = 500_000
_MOST_BUCKETS = 200
_MORE_BUCKETS = 4  # than before, by which a date that has grown so much is cut anew
_DAY, _MS = timedelta(days=1), timedelta(milliseconds=1)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Course(NamedTuple):
    """A stretch on its way through the kernels.

    Attributes:
        attempts: cut by bucket and date.
        beside: what the fold reads beside them.
        routes: for each bucket and each date.
        lines: what clients' logs tell of their own fault tables.
        witnessed: the dates that these lines tell of.
        folded: what the fold gave: rows of the tables ``FOLDED``, and of each bucket its share of the fleet.
        going: where walks went on.
    """

    plan: Plan
    attempts: Blobs
    beside: Sequence[Blobs]
    routes: Blobs
    lines: Blobs
    witnessed: Witnessed
    folded: Blobs
    going: Going


def derive(
    stretch: Stretch[Any],
    settings: Settings,
    runner: Runner,
    premises: Premises = NOTHING_SUPPOSED,
    walks: ProducerWalks | None = None,
) -> Blobs:
    """Rows of the tables ``DERIVED``, blobs by name.

    ``walks``: where those of first dates go on, and what is kept of this run's; None: nothing is.
    """
    going = Going()
    if walks is not None:
        firsts = {
            cluster: min(at.event_date for at in stretch.dates if at.cluster == cluster) for cluster in _of(stretch)
        }
        going = Going(walks.begin(stretch, firsts), keeps=True)
    while True:
        course = fold(stretch, settings, runner, premises, going)
        again, made = _keys(course.folded), course.folded
        if not again:
            made = _with_fleet(course, settings, runner)
            again = _keys(made)
        if not again:
            break
        going = replace(course.going, whole=course.going.whole | again)
    if walks is not None:
        keep(walks, stretch.dates, course.going, course.plan.addresses, made)
    return made


def _of(stretch: Stretch[Any]) -> list[str]:
    return sorted({at.cluster for at in stretch.dates})


def _keys(made: Blobs) -> frozenset[int]:
    """The keys of buckets that are to be folded whole after all."""
    return frozenset(key for table in made.tables(AGAIN) for key in table["key"].to_pylist())


def _with_fleet(course: Course, settings: Settings, runner: Runner) -> Blobs:
    plan, folded = course.plan, course.folded
    fleet = runner.by_key(FleetOfDates(plan), folded.of(*SHARES), course.routes.of(DATED_ROUTES))
    closing = folded.of(OBSERVED, schemas.PRODUCER_REPLAY.name, schemas.FAULT_ITEM_STATE.name)
    findings = Findings(plan, _kept(folded, plan.spans))
    found = runner.by_key(findings, course.attempts, *course.beside, closing, fleet.of(FLEET))
    if not course.witnessed.dates:
        return runner.together(folded, fleet, found)
    confirm = Confirm(plan, settings.confirmation.within_ms)
    confirmed = runner.by_key(confirm, course.lines.of(LINES), folded.of(WINDOWS, WRITERS))
    return runner.together(folded, fleet, found, confirmed)


def fold(
    stretch: Stretch[Any],
    settings: Settings,
    runner: Runner,
    premises: Premises = NOTHING_SUPPOSED,
    going: Going | None = None,
) -> Course:
    """What single producers' attempts tell; the fleet, findings and confirmations come after it.

    ``going``: where walks go on (None: nowhere, and nothing is kept).
    """
    going = going or Going()
    lake, clusters = stretch.lake, _of(stretch)
    spans = {cluster: span_of(stretch, cluster) for cluster in clusters}
    limits = Thresholds(**settings.producer_findings.model_dump())
    options = Options(**settings.replay.model_dump(), limits=limits, supposed=premises.producers)
    lineage = Lineage(stretch.context.started_at, stretch.context.run_id)
    days = {at.event_date + step * _DAY for at in stretch.dates for step in (-1, 0, 1)}
    files = lake.files(schemas.SEND_ATTEMPT, days)
    dates = {cluster: sorted(spans[cluster].recorded) for cluster in clusters}
    going = _of_as_many(going, _buckets(files))
    addresses = _addresses(clusters, dates, files, going)
    begun_since = _begun_since(addresses, going)
    if begun_since is not None:
        files = lake.files(schemas.SEND_ATTEMPT, days, ("begin_at", begun_since))
    cut_files = _tasks(stretch, files, addresses, runner, going, begun_since)
    is_plain = not any(task.finds_brokers or task.nearest for task in cut_files)
    if going.starts and not is_plain:
        return fold(stretch, settings, runner, premises, replace(going, starts={}, whole=frozenset()))
    attempts = runner.each(OfHeap(cut), file_heaps(cut_files))
    route_files = _route_files(stretch, addresses, _sent_to(attempts, addresses, going))
    routes = runner.each(OfHeap(cut_routes), file_heaps(route_files))
    beside = (
        routes.of(ROUTES),
        runner.over(Split(STARTS, addresses), lake.of_dates(schemas.PRODUCER_INSTANCE, stretch.dates, ())),
        runner.over(Split(LOSSES, addresses), lake.of_dates(schemas.LOST_LINES, _and_next(stretch.dates), ())),
        *(
            runner.over(Split(OPENING + table.name, addresses), stretch.opening(table))
            for table in (schemas.PRODUCER_REPLAY, schemas.FAULT_ITEM_STATE)
        ),
        *([runner.each(_as_they_are, [list(going.blobs(addresses))])] if going.starts else ()),
    )
    lines = runner.each(OfHeap(lines_of), file_heaps(_event_files(stretch, addresses)))
    told = (row for table in lines.tables(DATES) for row in table.to_pylist())
    witnessed = Witnessed(addresses, _sets((row["cluster"], row["midnight_ms"]) for row in told))
    is_kept = going.keeps and is_plain and not witnessed.dates
    cuts = keep_at(attempts.tables(LASTS), dates, going.starts) if is_kept else {}
    plan = Plan(addresses, spans, options, lineage, cuts)
    folded = runner.by_key(Fold(plan, witnessed), attempts, *beside)
    return Course(plan, attempts, beside, routes, lines, witnessed, folded, going)


def _as_they_are(blobs: Sequence[Blob]) -> Iterator[Blob]:
    yield from blobs


def _of_as_many(going: Going, buckets: int) -> Going:
    """The walks that go on in as many buckets as others of the run, not in far fewer than there would be now."""
    number = max((start.seen.number for start in going.starts.values()), default=0)
    if buckets > _MORE_BUCKETS * number:
        return replace(going, starts={}, whole=frozenset())
    return replace(going, starts={c: start for c, start in going.starts.items() if start.seen.number == number})


def _addresses(
    clusters: Sequence[str], dates: Mapping[str, Sequence[int]], files: Collection[DataFile], going: Going
) -> Addresses:
    if not going.keeps:
        return Addresses(clusters, _buckets(files), dates)
    number = next((start.seen.number for start in going.starts.values()), _buckets(files) + 1)
    return Addresses(clusters, number, dates, going.apart())


def _begun_since(addresses: Addresses, going: Going) -> datetime | None:
    """The instant before which no attempt began that is wanted; None: there is none."""
    since = going.since(addresses)
    for cluster in addresses.clusters:
        is_whole = not {*addresses.keys(cluster)[:-1]} <= {*since}
        if not going.starts or is_whole or going.apart().get(cluster):
            return None
    return EPOCH + min(midnight_ms + first for midnight_ms, first in since.values()) * _MS


def _and_next(dates: Collection[ClusterDate]) -> list[ClusterDate]:
    return sorted({ClusterDate(at.cluster, at.event_date + step * _DAY) for at in dates for step in (0, 1)})


def span_of(stretch: Stretch[Any], cluster: str) -> Span:
    """The dates of one cluster."""
    days = [at.event_date for at in stretch.dates if at.cluster == cluster]
    following = stretch.following.get(cluster)
    recorded = [day for day in days if ClusterDate(cluster, day) in stretch.recorded]
    return Span(
        dates=sorted(map(midnight_of, days)),
        following=None if following is None else midnight_of(following),
        recorded=frozenset(map(midnight_of, recorded)),
        last_recorded=midnight_of(stretch.last_recorded.get(cluster, max(days))),
    )


def _buckets(files: Collection[DataFile]) -> int:
    rows = sum(file.rows or 0 for file in files)
    return min(max(1, round(rows / _BUCKET_ROWS)), _MOST_BUCKETS)


def _tasks(
    stretch: Stretch[Any],
    files: list[DataFile],
    addresses: Addresses,
    runner: Runner,
    going: Going,
    begun_since: datetime | None,
) -> list[AttemptFile]:
    folder = TableFolder(stretch.lake.root, schemas.SEND_ATTEMPT)
    sources = stretch.formats.intersection(formats_of("producer"))
    by_source, since = distances() if len(sources) > 1 else {}, going.since(addresses)
    tasks = [AttemptFile(folder, file, addresses, None, by_source, False, since, begun_since) for file in files]
    seen = runner.each(OfHeap(look), file_heaps(tasks))
    finds_brokers = any(any(table["lacks"].to_pylist()) for table in seen.tables("lacks"))
    nearest = None
    if by_source and tasks:
        nearest = tuple(merged_nearest(list(seen.tables(name))) for name in ("by_client", "by_process"))
    return [task._replace(nearest=nearest, finds_brokers=finds_brokers) for task in tasks]


def _sent_to(attempts: Blobs, addresses: Addresses, going: Going) -> dict[tuple[str, str], frozenset[int]]:
    """By cluster and topic, the keys of the buckets whose producers send to it."""
    seen = ((row["key"], row["topic"]) for pairs in attempts.tables(SENT_TO) for row in pairs.to_pylist())
    kept = ((key, topic) for key, state in going.states(addresses).items() for topic in state["topics"])
    return _sets(((addresses.cluster_of(key), topic), key) for key, topic in chain(seen, kept))


def _route_files(
    stretch: Stretch[Any], addresses: Addresses, sent_to: Mapping[tuple[str, str], Collection[int]]
) -> list[RouteFile]:
    folder = TableFolder(stretch.lake.root, schemas.TOPIC_ROUTE)
    clusters = _sets((at.event_date, at.cluster) for at in stretch.dates)
    return [
        RouteFile(folder, file, addresses, midnight_of(file.event_date), clusters[file.event_date], sent_to)
        for file in stretch.lake.files(schemas.TOPIC_ROUTE, set(clusters))
    ]


def _event_files(stretch: Stretch[Any], addresses: Addresses) -> list[EventFile]:
    folder, dates = TableFolder(stretch.lake.root, schemas.CLIENT_EVENT), _sets(stretch.dates)
    files = stretch.lake.files(schemas.CLIENT_EVENT, {at.event_date for at in stretch.dates})
    return [EventFile(folder, file, addresses, dates) for file in files]


def _kept(folded: Blobs, spans: Mapping[str, Span]) -> dict[str, frozenset[int]]:
    """By cluster, the dates with rows: those with records, and those into which some window lasts."""
    rows = (row for table in folded.tables("lasting") for row in table.to_pylist())
    lasting = _sets((row["cluster"], row["midnight_ms"]) for row in rows if row["windows"])
    return {cluster: lasting.get(cluster, frozenset()).union(span.recorded) for cluster, span in spans.items()}


def _sets(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, frozenset[_Value]]:
    """What comes with each of the first ones."""
    found: dict[_Key, set[_Value]] = defaultdict(set)
    for key, value in pairs:
        found[key].add(value)
    return {key: frozenset(own) for key, own in found.items()}
