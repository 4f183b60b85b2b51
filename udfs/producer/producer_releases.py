"""A date's processes and attempts in; what each must have been set up like, as far as its choices tell, out.

Asked about are processes whose release or switch nobody recorded, before the date is folded: what all that remains
agrees on is inferred. After it those whose record was contradicted by choices that it makes impossible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import ATTEMPTS, attempts_of
from hindsight.udfs.producer.producer_lives import Process
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.release_candidates import RECORDED_LADDER, Candidate, Ladder, candidates_of
from hindsight.udfs.producer.release_codes import after_codes
from hindsight.udfs.producer.release_counted import Evidence
from hindsight.udfs.producer.release_evidence import evidence_of, slow_ms_of
from hindsight.udfs.producer.release_looked import looked_at
from hindsight.udfs.producer.release_rows import (
    NOTHING_STRUCK,
    PARTLY_SEEN,
    RELEASE,
    inferred_rules,
    judged_candidates,
    release_rows,
)
from hindsight.udfs.producer.release_sample import sample_of
from hindsight.udfs.producer.replay_rules import Recorded, Rules
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import SETTINGS_CHANGED

INFERRED = "inferred"
_NO_LADDERS: Mapping[int, tuple[Ladder, ...]] = {}


class Asked(NamedTuple):
    """What is read of the date beside its attempts.

    Attributes:
        tables: gives the attempts part by part; it may be asked several times.
        facts: of the date.
        ladders: that the settings name.
    """

    tables: Callable[[], Iterable[pa.Table]]
    facts: pa.Table
    routes: RecordedRoutes
    ladders: tuple[Ladder, ...]
    tolerance_ms: int


class Releases(NamedTuple):
    """Rows of producer_release, and the rules of the processes (by place) of which they may be inferred."""

    rows: pa.Table
    inferred: Mapping[int, Rules]


def unknown_releases(day: Day, asked: Asked) -> Releases:
    """The processes whose release or switch is not recorded."""
    known = {
        place: process.rules.settings
        for place, process in enumerate(day.processes)
        if process.attempts and process.rules.verdict != "not_applicable" and _lacks(process.rules)
    }
    return _releases(day, asked, known)


def contradicted_releases(day: Day, asked: Asked, places: Collection[int]) -> Releases:
    """Of these processes, whose release and switch are recorded, what they may have been instead."""
    own = {}
    for place in sorted(places):
        settings = day.processes[place].rules.settings
        own[place] = (Ladder(RECORDED_LADDER, settings.latency_max_ms or (), settings.not_available_ms or ()),)
    # A candidate is what the producer was all the while: what another setup explains counts against it.
    processes = [
        process._replace(gaps=tuple(gap for gap in process.gaps if gap.reason != SETTINGS_CHANGED))
        for process in day.processes
    ]
    day = day._replace(processes=processes)
    return Releases(_releases(day, asked, dict.fromkeys(own, Recorded()), own).rows, {})


def _lacks(rules: Rules) -> bool:
    return rules.family is None or rules.settings.latency_fault_enabled is None


def _releases(
    day: Day, asked: Asked, known: Mapping[int, Recorded], recorded: Mapping[int, tuple[Ladder, ...]] = _NO_LADDERS
) -> Releases:
    """``recorded``: ladders that are candidates of one process alone."""
    candidates = {
        place: candidates_of(_told(says), (*asked.ladders, *recorded.get(place, ()))) for place, says in known.items()
    }
    whole = {place: own for place, own in candidates.items() if _is_whole(day.processes[place])}
    sample = sample_of(asked.tables, day, {place: slow_ms_of(own) for place, own in whole.items()}) if whole else None
    if sample is None or not sample.table.num_rows:
        rows = [row for place, own in candidates.items() for row in _untold(day, place, own, place in whole)]
        return Releases(pa.Table.from_pylist(rows, schema=RELEASE), {})
    a = attempts_of(sample.table, day.midnight_ms)
    looked = looked_at(day, asked.facts, sample, a, asked.routes, asked.tolerance_ms)
    evidence: dict[int, dict[Candidate, Evidence]] = defaultdict(dict)
    for (place, candidate), told in evidence_of(looked, whole).items():
        evidence[place][candidate] = told
    found: list[dict[str, Any]] = []
    inferred = {}
    for place, own in candidates.items():
        if place not in looked.of_process:
            found += _untold(day, place, own, place in whole)
            continue
        whose = looked.of_process[place].rows
        judged = judged_candidates(own, evidence[place], after_codes(a, whose))
        found += release_rows(day, place, judged, a, len(whose), None)
        rules = inferred_rules(known[place], judged, place in sample.cut)
        if rules is not None:
            inferred[place] = rules
    return Releases(pa.Table.from_pylist(found, schema=RELEASE), inferred)


def _is_whole(process: Process) -> bool:
    """Its record has all that its choices followed from."""
    return process.certainty != "partial" and all(gap.reason == SETTINGS_CHANGED for gap in process.gaps)


def _told(says: Recorded) -> Recorded:
    """What candidates depend on."""
    return says._replace(retry_times_sync=None, retry_times_async=None, retry_another_broker=None, send_timeout_ms=None)


def _untold(day: Day, place: int, own: tuple[Candidate, ...], is_whole: bool) -> list[dict[str, Any]]:
    nothing = attempts_of(_EMPTY, day.midnight_ms)
    judged = judged_candidates(own, {}, {})
    return release_rows(day, place, judged, nothing, 0, NOTHING_STRUCK if is_whole else PARTLY_SEEN)


def with_inferred(day: Day, inferred: Mapping[int, Rules], rebuilt: Callable[[list[Any]], Day]) -> Day:
    """The date with these rules; ``rebuilt``: the date with other processes at the same places."""
    if not inferred:
        return day
    processes = [
        process._replace(rules=inferred[place], certainty=INFERRED) if place in inferred else process
        for place, process in enumerate(day.processes)
    ]
    return rebuilt(processes)


def contradicted(day: Day, doubted: Iterable[int]) -> list[int]:
    """Processes with several doubts, of those whose release and switch are recorded; ``doubted``: a place for each."""
    return [
        place
        for place, count in sorted(Counter(doubted).items())
        if count >= _SEVERAL and _is_whole(day.processes[place]) and day.processes[place].certainty != INFERRED
    ]


_SEVERAL = 5  # fewer rule nothing out
_EMPTY = ATTEMPTS.empty_table()
