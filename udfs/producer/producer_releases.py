"""A date's processes and attempts in; what each must have been set up like, as far as its choices tell, out.

Asked about are processes whose release or switch nobody recorded, before the date is folded: what all that remains
agrees on is inferred. After it those whose record was contradicted by choices that it makes impossible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import Attempts
from hindsight.udfs.producer.attempt_updates import least_slow_ms
from hindsight.udfs.producer.choice_surroundings import not_available
from hindsight.udfs.producer.producer_lives import Process
from hindsight.udfs.producer.producer_rows import RELEASE
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.release_counted import (
    RECORDED_LADDER,
    Candidate,
    Counted,
    Evidence,
    Ladder,
    candidates_of,
    is_whole,
)
from hindsight.udfs.producer.release_turns import (
    NONE,
    STRIKES_MS,
    AfterCodes,
    Count,
    Looked,
    after_codes,
    count_of,
    looked_at,
    sample_of,
)
from hindsight.udfs.producer.replay_rules import Recorded, Rules
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import INFERRED, SETTINGS_CHANGED
from hindsight.udfs.producer.weighed_samples import Samples, Weighing
from hindsight.udfs.release_profiles import PROFILES

REMAINS, RULED_OUT = "remains", "ruled_out"
PARTLY_SEEN = "its source does not show every failure: what was chosen proves nothing"
NOTHING_STRUCK = "no attempt was slow or failed: until then every release takes every broker in turn"
# How often a broker must have come back as a candidate says before it is inferred: a ladder that nobody named, and that
# shuns brokers for longer, would show here.
_CAME_BACK = 3


class Judged(NamedTuple):
    """What is said of some families of a candidate, which broker errors do not tell apart either.

    ``row``: of the attempt that first went against it.
    """

    candidate: Candidate
    families: tuple[str, ...]
    ruled_out_by: str | None = None
    told: Count = NONE
    row: int | None = None
    evidence: Evidence | None = None


def judged_candidates(
    candidates: Sequence[Candidate], evidence: Mapping[Candidate, Evidence], after: AfterCodes
) -> list[Judged]:
    """What is said of each candidate of one process, by families that nothing tells apart."""
    found = []
    for candidate in candidates:
        groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for name in candidate.families:
            groups[PROFILES[name].retry_codes_configurable, PROFILES[name].retry_response_codes].append(name)
        found += [_judged(candidate, tuple(names), evidence.get(candidate), after) for names in groups.values()]
    return found


def _judged(candidate: Candidate, families: tuple[str, ...], evidence: Evidence | None, after: AfterCodes) -> Judged:
    if evidence is None:
        return Judged(candidate, families)
    codes, row = count_of(PROFILES[families[0]], after)
    counts = {**evidence.counts, "response_codes": codes}
    first = evidence.first if row is None else {**evidence.first, "response_codes": row}
    by = next((name for name, count in counts.items() if count.rules_out()), None)
    if by is None:
        every = Count(sum(c.against for c in counts.values()), sum(c.chances for c in counts.values()))
        return Judged(candidate, families, None, every, None, evidence)
    return Judged(candidate, families, by, counts[by], first[by], evidence)


def inferred_rules(known: Recorded, judged: Sequence[Judged], is_cut: bool) -> Rules | None:
    """The rules that a process must have run under; None: more than one kind remains, or it is not sure enough.

    Args:
        known: what is recorded of it.
        is_cut: it made more attempts than were looked at.
    """
    remaining = [each for each in judged if each.ruled_out_by is None]
    if not remaining or len(remaining) == len(judged) or any(each.evidence is None for each in remaining):
        return None
    # A detector that nobody recorded is taken as off wherever it may be, as it is of recorded releases.
    without = {(each.candidate, each.families) for each in remaining if not each.candidate.detector_enabled}
    remaining = [
        each
        for each in remaining
        if not each.candidate.detector_enabled
        or (each.candidate._replace(detector_enabled=False), each.families) not in without
    ]
    likeliest = remaining[0]
    says = {(_setup(each) if is_cut else None, each.evidence.says) for each in remaining if each.evidence}
    turns = likeliest.evidence.turns if likeliest.evidence else NONE
    back = turns.chances - turns.against
    fits = all(count.is_misread() for each in remaining if each.evidence for count in each.evidence.counts.values())
    if len(says) > 1 or not fits or back < max(_CAME_BACK, turns.chances / 2):
        return None
    families = [name for each in remaining for name in each.families]
    rules = likeliest.candidate.rules(known)
    names = "|".join(name for name in PROFILES if name in families)
    how = "on" if likeliest.candidate.latency_fault_enabled else "off"
    reason = f"inferred from what it chose: switch {how}, {names} (see producer_release)"
    return rules._replace(family=names, reasons=(reason,))


def _setup(judged: Judged) -> tuple[object, ...]:
    """What decides windows beyond what was looked at."""
    return judged.candidate.latency_fault_enabled, judged.candidate.profile


def release_rows(
    day: Day, process: int, judged: Sequence[Judged], a: Attempts, looked_at: int, reason: str | None
) -> list[dict[str, Any]]:
    """Rows of producer_release on one process; ``looked_at``: how many of its attempts ``a`` counted."""
    who, rules = day.key_of(process), day.processes[process].rules
    best = max((each.evidence.log_likelihood for each in judged if each.evidence), default=0.0)
    return [
        {
            **who,
            "families": "|".join(each.families),
            "ladder": each.candidate.ladder,
            "latency_fault_enabled": each.candidate.latency_fault_enabled,
            "detector_enabled": each.candidate.detector_enabled,
            "state": REMAINS if each.ruled_out_by is None else RULED_OUT,
            "recorded": _is_recorded(rules, each),
            "ruled_out_by": each.ruled_out_by,
            "against": each.told.against,
            "chances": each.told.chances,
            **_first(day, each.row, a),
            "attempts": looked_at,
            "log_likelihood": None if each.evidence is None else round(each.evidence.log_likelihood - best, 3),
            "reason": reason,
        }
        for each in judged
    ]


def _is_recorded(rules: Rules, judged: Judged) -> bool:
    """Whether a process was replayed under just this, by its record or the settings."""
    setup, told = judged.candidate, rules.settings
    if rules.family not in judged.families or told.latency_fault_enabled != setup.latency_fault_enabled:
        return False
    ladders = setup.profile.latency_max_ms, setup.profile.not_available_ms
    return not setup.latency_fault_enabled or (
        (told.latency_max_ms, told.not_available_ms) == ladders
        and bool(told.detector_enabled and setup.profile.has_reachable) == setup.detector_enabled
    )


def _first(day: Day, row: int | None, a: Attempts) -> dict[str, Any]:
    if row is None:
        return {"msg_id": None, "begin_at": None, "broker_name": None}
    told = a.table.slice(row, 1).select(["msg_id", "broker_name"]).to_pylist()[0]
    return {**told, "begin_at": (int(a.begin[row]) + day.midnight_ms) * 1000}


def evidence_of(
    looked: Looked, candidates: Mapping[int, Sequence[Candidate]], weighing: Weighing
) -> Mapping[int, Mapping[Candidate, Evidence]]:
    """What told against each candidate of each process (by place) with attempts in the sample."""
    asked: dict[Candidate, dict[int, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for process, own in candidates.items():
        for candidate in own:
            if process in looked.of_process and is_whole(candidate):
                # A ladder under another name is the same one.
                asked[candidate._replace(ladder="")][process].append(candidate)
    samples, found = Samples(looked, weighing), defaultdict[int, dict[Candidate, Evidence]](dict)
    for candidate, named in asked.items():
        processes = list(named)
        day = _under(looked, candidate, processes)
        whose = tuple((day.processes[place].producer, day.processes[place].life) for place in range(len(processes)))
        folded = samples.folded(day, processes, (candidate, whose))
        held = not_available(folded.held, folded.down, day)
        for place, process in enumerate(processes):
            told = Counted(looked, folded, held, place, process, candidate).evidence()
            found[process] |= dict.fromkeys(named[process], told)
    return found


def slow_ms_of(candidates: Sequence[Candidate]) -> int:
    """The least latency for which one of them holds a broker back."""
    return min((least_slow_ms(c.profile) for c in candidates if c.latency_fault_enabled), default=STRIKES_MS)


def _under(looked: Looked, candidate: Candidate, processes: Sequence[int]) -> Day:
    """The date with these processes alone, set up like the candidate."""
    day = looked.day
    own = [day.processes[process] for process in processes]
    place_of = {process: place for place, process in enumerate(processes)}
    places = {key: place_of[process] for key, process in day.places.items() if process in place_of}
    setups = [process._replace(rules=candidate.rules(process.rules.settings)) for process in own]
    return day.of_processes(looked.facts, setups, places)


_NO_LADDERS: Mapping[int, tuple[Ladder, ...]] = {}


class Asked(NamedTuple):
    """What is read of the date beside its attempts.

    Attributes:
        tables: gives the attempts part by part; it may be asked several times.
        facts: of the date.
        ladders: that the settings name.
        weighing: what earlier runs weighed of the date.
    """

    tables: Callable[[], Iterable[pa.Table]]
    facts: pa.Table
    routes: RecordedRoutes
    ladders: tuple[Ladder, ...]
    tolerance_ms: int
    weighing: Weighing


# Rows of producer_release, and the rules of the processes (by place) of which they may be inferred.
Releases = tuple[pa.Table, Mapping[int, Rules]]


def unknown_releases(day: Day, asked: Asked) -> Releases:
    """The processes whose release or switch is not recorded."""
    known = {}
    for place, process in enumerate(day.processes):
        rules = process.rules
        is_told = rules.family is not None and rules.settings.latency_fault_enabled is not None
        if process.attempts and rules.verdict != "not_applicable" and not is_told:
            known[place] = rules.settings
    return _releases(day, asked, known)


def contradicted_releases(day: Day, asked: Asked, places: Collection[int]) -> pa.Table:
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
    rows, _ = _releases(day, asked, dict.fromkeys(own, Recorded()), own)
    return rows


# What candidates do not depend on.
_OF_RETRIES = dict.fromkeys(("retry_times_sync", "retry_times_async", "retry_another_broker", "send_timeout_ms"))


def _releases(
    day: Day, asked: Asked, known: Mapping[int, Recorded], recorded: Mapping[int, tuple[Ladder, ...]] = _NO_LADDERS
) -> Releases:
    """``recorded``: ladders that are candidates of one process alone."""
    candidates = {
        place: candidates_of(says._replace(**_OF_RETRIES), (*asked.ladders, *recorded.get(place, ())))
        for place, says in known.items()
    }
    whole = {place: own for place, own in candidates.items() if _is_whole(day.processes[place])}
    sample = sample_of(asked.tables, day, {place: slow_ms_of(own) for place, own in whole.items()})
    looked = looked_at(day, asked.facts, *sample, asked.routes, asked.tolerance_ms)
    evidence = evidence_of(looked, whole, asked.weighing)
    found: list[dict[str, Any]] = []
    inferred = {}
    for place, own in candidates.items():
        process = looked.of_process.get(place)
        reason = None if process else NOTHING_STRUCK if place in whole else PARTLY_SEEN
        rows = process.rows if process else np.zeros(0, np.int64)
        judged = judged_candidates(own, evidence.get(place, {}), after_codes(looked.attempts, rows))
        found += release_rows(day, place, judged, looked.attempts, len(rows), reason)
        rules = inferred_rules(known[place], judged, place in looked.cut)
        if rules is not None:
            inferred[place] = rules
    return pa.Table.from_pylist(found, schema=RELEASE), inferred


def _is_whole(process: Process) -> bool:
    """Its record has all that its choices followed from."""
    return process.certainty != "partial" and all(gap.reason == SETTINGS_CHANGED for gap in process.gaps)


def with_inferred(day: Day, facts: pa.Table, inferred: Mapping[int, Rules]) -> Day:
    """The date with these rules; ``facts``: of it."""
    if not inferred:
        return day
    processes = [
        process._replace(rules=inferred[place], certainty=INFERRED) if place in inferred else process
        for place, process in enumerate(day.processes)
    ]
    return day.of_processes(facts, processes)


def contradicted(day: Day, doubted: Iterable[int]) -> list[int]:
    """Processes with several doubts, of those whose release and switch are recorded; ``doubted``: a place for each."""
    return [
        place
        for place, count in sorted(Counter(doubted).items())
        if count >= _SEVERAL and _is_whole(day.processes[place]) and day.processes[place].certainty != INFERRED
    ]


_SEVERAL = 5  # fewer rule nothing out
