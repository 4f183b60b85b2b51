"""Everything recorded of some producers in, date by date; their rows of the derived tables out.

A date is read twice, part by part: once for what must be known of all of it (``attempt_facts``), then attempt by
attempt (``producer_fold``). Dates follow each other: one begins with what the one before it closed with, and one
without records is folded too while windows last into it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import attempts_of
from hindsight.udfs.producer.attempt_facts import FACTS, Cuts, facts_of, merged_facts
from hindsight.udfs.producer.choice_fold import ChoiceJudge
from hindsight.udfs.producer.choice_surroundings import not_available
from hindsight.udfs.producer.family_choices import family_verdict_rows, retries_of
from hindsight.udfs.producer.fault_fold import no_stretches
from hindsight.udfs.producer.fleet_fold import Share, share_of
from hindsight.udfs.producer.found_gaps import (
    TRACES,
    ClockSteps,
    changed_settings,
    explained,
    merged_traces,
    overlaps_of,
    traces_of,
    with_changes,
)
from hindsight.udfs.producer.kept_fold import (
    CannotGoOnError,
    Kept,
    Looked,
    Told,
    begun_from,
    check_belief,
    kept_at,
    set_apart,
)
from hindsight.udfs.producer.minute_counts import NO_MINUTES, MinuteCounts, Tally, held_minutes, held_of
from hindsight.udfs.producer.producer_finding import DEFAULT_LIMITS, Fleet, Observed, Thresholds
from hindsight.udfs.producer.producer_findings import findings_of
from hindsight.udfs.producer.producer_fold import END, State, first_state, fold
from hindsight.udfs.producer.producer_lives import Past, Producer, Settings, past_of, processes_of, with_epoch_ms
from hindsight.udfs.producer.producer_releases import (
    Asked,
    contradicted,
    contradicted_releases,
    unknown_releases,
    with_inferred,
)
from hindsight.udfs.producer.producer_rows import (
    VERDICT,
    Ends,
    item_rows,
    items_of,
    replay_rows,
    verdict_rows,
    window_rows,
)
from hindsight.udfs.producer.recorded_routes import RecordedRoutes, routes_of
from hindsight.udfs.producer.release_counted import ladders_of
from hindsight.udfs.producer.replay_rules import Override
from hindsight.udfs.producer.replayed_day import Day, day_of
from hindsight.udfs.producer.return_rules import NOTHING_KNOWN, KnownSends, known_sends, worth_watching
from hindsight.udfs.producer.send_calls import NO_LOSSES, SendParts, send_call_rows
from hindsight.udfs.producer.unseen_life import Gap
from hindsight.udfs.producer.weighed_samples import Weighing
from hindsight.udfs.producer.window_doubts import doubts_of, with_doubts
from hindsight.udfs.values.columns import DAY_MS

# Attempts and the instant, ms of the date, before which their first instants lie; the last one is ``END``.
Slice = tuple[pa.Table, int]
Before = tuple[pa.Table, pa.Table]  # rows of producer_replay and fault_item_state of the date before
DateOf = Callable[[int, Before, Ends], "Date"]


class Options(NamedTuple):
    """Settings of the replay and of the findings; see ``conf/default.toml``. ``supposed``: see ``under_premise``."""

    carry_days: int
    clock_tolerance_ms: int
    route_stale_s: int
    route_valid_s: int
    override: Sequence[Override] = ()
    ladder: Sequence[Mapping[str, Any]] = ()
    limits: Thresholds = DEFAULT_LIMITS
    supposed: Sequence[Override] = ()


class Date(NamedTuple):
    """What is recorded of a date of one cluster.

    Attributes:
        midnight_ms: epoch ms with which it begins.
        slices: gives, each time it is called, the attempts with an instant on the date, in parts in the order of their
            first instants; no part's first instants are before the end of the one before it.
        starts: rows of producer_instance of the date.
        routes: rows of topic_route of the date.
        replay, items: rows of producer_replay and fault_item_state of the known date before.
        ends: see there.
        beside: attempts near the date, of sends that may begin on it or go on on it (``send_calls.beside``).
        losses: rows of lost_lines of the date, and of what was told soon after it.
        kept: where the fold goes on: ``slices`` gives what comes from there on.
        keep_at: instants, ms of the date, at which what was folded is kept; parts end there.
        weighed: what was weighed of releases so far; ``weigh_at``: instants, ms of the date, at which this is kept.
    """

    cluster: str
    midnight_ms: int
    slices: Callable[[], Iterable[Slice]]
    starts: pa.Table
    routes: pa.Table
    replay: pa.Table
    items: pa.Table
    ends: Ends
    beside: pa.Table
    losses: pa.Table = NO_LOSSES
    kept: Kept | None = None
    keep_at: Sequence[int] = ()
    weighed: bytes | None = None
    weigh_at: Sequence[int] = ()

    def parts(self) -> Iterator[pa.Table]:
        """The attempts of ``slices``."""
        return (table for table, _ in self.slices())


class Rows(NamedTuple):
    """Rows of the date's derived tables (``producer_tables``), and what the findings need of its producers.

    Attributes:
        share: what the producers add to the fleet.
        observed: what is known of them, but for ``sends_after``; ``chosen`` says after which stretches they are read.
        kept: what is kept, by instant; nothing where some producers are to be set ``apart`` first.
        weighed: what was weighed of their releases, by instant.
    """

    replay: pa.Table
    items: pa.Table
    windows: pa.Table
    verdicts: pa.Table
    calls: pa.Table
    releases: pa.Table
    share: Share
    observed: Observed
    chosen: Tally
    kept: Mapping[int, bytes] = MappingProxyType({})
    apart: frozenset[Producer] = frozenset()
    weighed: Mapping[int, bytes] = MappingProxyType({})


def fold_date(date: Date, options: Options) -> Rows:
    """The rows of one date.

    Raises: CannotGoOnError: what was kept of it does not hold any more.
    """
    past = past_of(date.starts, date.replay, date.losses)
    cuts = past.cuts(date.midnight_ms)
    tolerance_ms, limits, kept = options.clock_tolerance_ms, options.limits, date.kept
    looked = _looked_through(date, cuts)
    facts = looked[END].facts
    past = past._replace(gaps=_gaps(looked[END], date))
    routes = routes_of(date.routes, stale_s=options.route_stale_s, valid_s=options.route_valid_s)
    recorded = _day_of(date, facts, past, options)
    weighing = Weighing(date.weighed, date.weigh_at)
    asked = Asked(date.parts, facts, routes, ladders_of(options.ladder), tolerance_ms, weighing)
    releases, inferred = unknown_releases(recorded, asked)
    day = with_inferred(recorded, facts, inferred)
    items, at_most = items_of(date.items, day)
    day = day.with_items(items.item)
    if kept is not None:
        check_belief(kept, day, routes)
    state, told, sent, fresh = _walked(
        date,
        day,
        ChoiceJudge(day, routes, tolerance_ms=tolerance_ms),
        routes,
        looked,
        options,
        first_state(day, items, at_most),
    )
    (held,), (down,), (longest,), (judged,), counts = told.as_one()
    retries = retries_of(date.starts)
    of_families = family_verdict_rows(day, date.parts, routes, retries, tolerance_ms=tolerance_ms)
    judged = pa.concat_tables([judged, of_families])
    struck = _impossible(day, judged)
    changes = changed_settings(day, struck, not_available(held, down, day), date.parts())
    judged = explained(judged, struck, changes)
    day = with_changes(day, changes)
    doubts = doubts_of(day, held, longest, state.doubted, state.others, tolerance_ms=tolerance_ms)
    every, day = window_rows(day, held, down, doubts, date.ends), with_doubts(day, doubts)
    observed = _observed(day, every, judged, counts)
    minutes = held_minutes(observed.held, day.brokers)
    every_part = sent.with_all(chain([date.beside], date.parts()))
    calls = send_call_rows(recorded, every_part, tolerance_ms=tolerance_ms, is_last=date.ends.is_last)
    doubted = _doubted(day, struck, calls)
    apart = set_apart(day, doubted, sent.unnumbered(), looked[END].clocks)
    if kept is not None and apart:
        raise CannotGoOnError
    differ = contradicted_releases(day, asked, contradicted(day, doubted))
    share = share_of(day, facts, counts, minutes, min_sends_per_minute=limits.min_sends_per_minute)
    return Rows(
        replay_rows(day),
        item_rows(day, state, tolerance_ms=tolerance_ms),
        every,
        judged,
        calls,
        pa.concat_tables([releases, differ]),
        share,
        observed._replace(isolating=share.isolating, releases=_with_process(differ, day, "begin_at")),
        counts.chosen,
        {} if apart else fresh,
        apart,
        weighing.packed(),
    )


def _walked(
    date: Date,
    day: Day,
    judge: ChoiceJudge,
    routes: RecordedRoutes,
    looked: Mapping[int, Looked],
    options: Options,
    state: State,
) -> tuple[State, Told, SendParts, dict[int, bytes]]:
    """The date part by part; ``state``: with which it begins. What is kept, by instant, comes last."""
    none, sent = no_stretches(np.zeros(0, np.int64)), SendParts()
    told = Told([none], [none], [none], [VERDICT.empty_table()], MinuteCounts())
    if date.kept is None:
        sent.add(date.beside)
    else:
        state, told = date.kept.state, date.kept.told.as_one()
        judge.removals = dict(date.kept.removals)
        sent.add(date.kept.sent)
        sent.add(begun_from(date.beside, date.kept.until, date.midnight_ms))
    kept: dict[int, bytes] = {}
    tolerance_ms, slow_ms = options.clock_tolerance_ms, options.limits.fault_off_slow_ms
    for table, until in date.slices():
        sent.add(table)
        part, state = fold(day, judge, state, table, until, tolerance_ms=tolerance_ms, slow_ms=slow_ms)
        told.held.append(part.held)
        told.down.append(part.down)
        told.longest.append(part.longest)
        told.verdicts.append(verdict_rows(day, part))
        told = told._replace(counts=told.counts.plus(part.counts))
        if until in date.keep_at:
            kept[until] = kept_at(until, day, routes, looked[until], judge, state, told, sent.taken())
    return state, told, sent, kept


def _looked_through(date: Date, cuts: Cuts) -> dict[int, Looked]:
    """What the attempts show that must be known of the whole date: up to each instant that is kept, and of all."""
    before = date.kept.looked if date.kept else None
    facts, traces = [FACTS.empty_table()], [TRACES.empty_table()]
    clocks = ClockSteps(date.midnight_ms, cuts)
    if before is not None:
        facts, traces, clocks = [before.facts], [before.traces], before.clocks.copied()
    found: dict[int, Looked] = {}
    for table, until in date.slices():
        a = attempts_of(table, date.midnight_ms)
        facts.append(facts_of(a, cuts))
        traces.append(traces_of(a, cuts))
        clocks.add(a)
        if until in (*date.keep_at, END):
            facts, traces = [merged_facts(facts)], [merged_traces(traces)]
            found[until] = Looked(facts[0], traces[0], clocks.copied())
    return found


def _gaps(looked: Looked, date: Date) -> dict[Producer, list[Gap]]:
    """What the attempts of a date show that they hide, by producer."""
    if date.kept is not None and looked.clocks.doubtful():
        raise CannotGoOnError
    gaps = overlaps_of(looked.traces, date.midnight_ms)
    for producer, gap in looked.clocks.gaps(date.parts()).items():
        if producer not in gaps:  # numbers of two processes go back all the time
            gaps[producer] = [gap]
    return gaps


def findings_of_date(
    date: Date, observed: Observed, chosen: Tally, fleet: Fleet, options: Options, known: KnownSends = NOTHING_KNOWN
) -> tuple[pa.Table, KnownSends]:
    """Findings about the date's producers (``Rows``), and what was sent after stretches, for a fold that goes on.

    ``fleet``: of all of the cluster; ``known``: where this one goes on. The date may be read again.
    Raises: CannotGoOnError: what is known does not hold any more.
    """
    limits = options.limits
    watched = worth_watching(observed.held, chosen, fleet.queues, limits)
    routes = routes_of(date.routes, stale_s=options.route_stale_s, valid_s=options.route_valid_s)
    sends = known_sends(watched, known, date.parts(), observed.day, fleet.queues, routes, limits)
    return findings_of(observed._replace(sends_after=sends.sends_after(watched)), fleet, limits), sends


def _day_of(date: Date, facts: pa.Table, past: Past, options: Options) -> Day:
    """The date with its processes, as far as their rules are recorded."""
    active = _by_process(facts.filter(pc.greater(facts["attempts"], 0)), date.midnight_ms)
    settings = Settings(date.cluster, options.carry_days, options.override, options.supposed)
    processes, places = processes_of(active, past, date.midnight_ms, settings)
    return day_of(
        facts,
        processes,
        places,
        cluster=date.cluster,
        midnight_ms=date.midnight_ms,
        cuts=past.cuts(date.midnight_ms),
        more_brokers=date.items["broker_name"].to_pylist(),
    )


def _observed(day: Day, windows: pa.Table, verdicts: pa.Table, counts: MinuteCounts) -> Observed:
    own = _with_process(windows, day, "window_start", "window_end", "opened_at", "last_attempt_at")
    impossible = _impossible(day, verdicts)
    return Observed(day, own, held_of(own), NO_MINUTES, day.topics_of(), counts.slow, counts.answered, impossible, {})


def _impossible(day: Day, verdicts: pa.Table) -> list[dict[str, Any]]:
    """The verdicts that say so, in order."""
    return _with_process(verdicts.filter(pc.equal(verdicts["verdict"], "impossible")), day, "begin_at")


def _doubted(day: Day, impossible: Sequence[Mapping[str, Any]], calls: pa.Table) -> list[int]:
    """The process of each choice that is impossible, and of each retry that is not allowed."""
    wrong = calls.filter(pc.equal(calls["retry_verdict"], "not_allowed"))
    wrong = wrong.select(["producer_group", "client_id", "started_at"])
    return [row["process"] for row in (*impossible, *_with_process(wrong, day))]


def _with_process(table: pa.Table, day: Day, *names: str) -> list[dict[str, Any]]:
    """Rows with the place of their process, these instants of them in ms of the date."""
    places = {(*p.producer, p.life.started_ms): place for place, p in enumerate(day.processes)}
    rows = []
    for row in with_epoch_ms(table, "started_at", *names):
        process = places[row["producer_group"], row["client_id"], row["started_at"]]
        ms = {name: None if row[name] is None else row[name] - day.midnight_ms for name in names}
        rows.append({**row, **ms, "process": process})
    return rows


def _by_process(facts: pa.Table, midnight_ms: int) -> list[Mapping[str, Any]]:
    """What the rules need of the facts, by segment, source and release; instants in epoch ms."""
    merged = merged_facts([facts], ("producer_group", "client_id", "segment", "source", "client_version"))
    instants = ("last_begin", "last_at", "unseen_since", "unseen_until", "said_on", "said_off")
    return [
        row | {name: None if row[name] is None else row[name] + midnight_ms for name in instants}
        for row in merged.to_pylist()
    ]


class Span(NamedTuple):
    """Dates of one cluster; each by epoch ms of its midnight.

    Attributes:
        dates: those that are asked for, in order; windows may last into dates after each of them.
        following: the known date after them; None: there is none.
        recorded: those of them with records.
        last_recorded: the last date of all with records.
    """

    dates: Sequence[int]
    following: int | None
    recorded: Collection[int]
    last_recorded: int

    def ends(self, midnight_ms: int) -> Ends:
        """How windows of a date end that outlast what is recorded."""
        # Whether a date is known already, or computed for the first time, changes nothing: only records do.
        return Ends(is_last=midnight_ms >= self.last_recorded, endless_too=midnight_ms <= self.last_recorded)


def folded(span: Span, before: Before, date_of: DateOf, options: Options) -> Iterator[tuple[Date, Rows]]:
    """The rows of each date, of one without records as long as some window lasts into it.

    Windows are followed for at most ``carry_days`` after a date that is asked for.

    Args:
        before: what the known date before the first one handed over.
        date_of: gives what is recorded of a date, from its midnight, what the date before it closed with, and its ends.
    """
    midnight_ms, lasts, followed_until = span.dates[0], True, 0
    while midnight_ms != span.following and (lasts or midnight_ms <= span.dates[-1]):
        if midnight_ms in span.dates:
            followed_until = midnight_ms + options.carry_days * DAY_MS
        lasts &= midnight_ms <= followed_until
        if lasts or midnight_ms in span.recorded:
            date = date_of(midnight_ms, before, span.ends(midnight_ms))
            rows = fold_date(date, options)
            lasts = rows.windows.num_rows > 0 or midnight_ms in span.recorded
            if lasts:
                yield date, rows
                before = rows.replay, rows.items
        midnight_ms += DAY_MS
