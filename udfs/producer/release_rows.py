"""Evidence on the candidates of a date's processes in; rows of producer_release and what may be inferred out.

A process is asked about where its release or switch is not recorded, or where its own record is contradicted. One row
says of one candidate whether it remains. What remains is inferred only where all that remains says the same: the same
windows, and the same doubts about the same choices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import Attempts
from hindsight.udfs.producer.producer_tables import INSTANT, WHO
from hindsight.udfs.producer.release_candidates import Candidate
from hindsight.udfs.producer.release_codes import AfterCode, count_of
from hindsight.udfs.producer.release_counted import Evidence
from hindsight.udfs.producer.release_counts import NONE, Count
from hindsight.udfs.producer.replay_rules import Recorded, Rules
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.release_profiles import PROFILES

RELEASE = pa.schema(
    [
        *WHO,
        ("families", pa.string()),
        ("ladder", pa.string()),
        ("latency_fault_enabled", pa.bool_()),
        ("detector_enabled", pa.bool_()),
        ("state", pa.string()),
        ("recorded", pa.bool_()),
        ("ruled_out_by", pa.string()),
        ("against", pa.int64()),
        ("chances", pa.int64()),
        ("msg_id", pa.string()),
        ("begin_at", INSTANT),
        ("broker_name", pa.string()),
        ("attempts", pa.int64()),
        ("log_likelihood", pa.float64()),
        ("reason", pa.string()),
    ]
)
REMAINS, RULED_OUT = "remains", "ruled_out"
PARTLY_SEEN = "its source does not show every failure: what was chosen proves nothing"
NOTHING_STRUCK = "no attempt was slow or failed: until then every release takes every broker in turn"
# How often a broker must have come back as a candidate says before it is inferred: a ladder that nobody named, and that
# shuns brokers for longer, would show here.
_CAME_BACK = 3


class Split(NamedTuple):
    """Families of a candidate that broker errors do not tell apart either."""

    candidate: Candidate
    families: tuple[str, ...]


class Judged(NamedTuple):
    """What is said of some families of a candidate; ``row``: of the attempt that first went against it."""

    split: Split
    ruled_out_by: str | None
    told: Count
    row: int | None
    evidence: Evidence | None


def judged_candidates(
    candidates: Sequence[Candidate], evidence: Mapping[Candidate, Evidence], after: Mapping[int, AfterCode]
) -> list[Judged]:
    """What is said of each candidate of one process, by families that nothing tells apart."""
    return [_judged(split, evidence.get(split.candidate), after) for c in candidates for split in _splits(c)]


def _splits(candidate: Candidate) -> list[Split]:
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name in candidate.families:
        family = PROFILES[name]
        groups[family.retry_codes_configurable, family.retry_response_codes].append(name)
    return [Split(candidate, tuple(names)) for names in groups.values()]


def _judged(split: Split, evidence: Evidence | None, after: Mapping[int, AfterCode]) -> Judged:
    if evidence is None:
        return Judged(split, None, NONE, None, None)
    codes, row = count_of(PROFILES[split.families[0]], after)
    counts = {**evidence.counts, "response_codes": codes}
    first = evidence.first if row is None else {**evidence.first, "response_codes": row}
    by = next((name for name, count in counts.items() if count.rules_out()), None)
    if by is None:
        every = Count(sum(c.against for c in counts.values()), sum(c.chances for c in counts.values()))
        return Judged(split, None, every, None, evidence)
    return Judged(split, by, counts[by], first[by], evidence)


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
    without = {each.split for each in remaining if not each.split.candidate.detector_enabled}
    remaining = [each for each in remaining if each.split in without or _without_detector(each.split) not in without]
    likeliest = remaining[0]
    says = {(_setup(each) if is_cut else None, each.evidence.says) for each in remaining if each.evidence}
    turns = likeliest.evidence.turns if likeliest.evidence else NONE
    back = turns.chances - turns.against
    fits = all(count.is_misread() for each in remaining if each.evidence for count in each.evidence.counts.values())
    if len(says) > 1 or not fits or back < max(_CAME_BACK, turns.chances / 2):
        return None
    families = [name for each in remaining for name in each.split.families]
    rules = likeliest.split.candidate.rules(known)
    names = "|".join(name for name in PROFILES if name in families)
    how = "on" if likeliest.split.candidate.latency_fault_enabled else "off"
    reason = f"inferred from what it chose: switch {how}, {names} (see producer_release)"
    return rules._replace(family=names, reasons=(reason,))


def _without_detector(split: Split) -> Split:
    return split._replace(candidate=split.candidate._replace(detector_enabled=False))


def _setup(judged: Judged) -> tuple[object, ...]:
    """What decides windows beyond what was looked at."""
    profile = judged.split.candidate.profile
    return judged.split.candidate.latency_fault_enabled, profile


def release_rows(
    day: Day, process: int, judged: Sequence[Judged], a: Attempts, looked_at: int, reason: str | None
) -> list[dict[str, Any]]:
    """Rows of producer_release on one process; ``looked_at``: how many of its attempts counted."""
    own = day.processes[process]
    started = own.life.started_ms
    who = {
        "cluster": day.cluster,
        "event_date": day.midnight_ms // 86_400_000,
        "producer_group": own.producer[0],
        "client_id": own.producer[1],
        "started_at": None if started is None else started * 1000,
    }
    best = max((each.evidence.log_likelihood for each in judged if each.evidence), default=0.0)
    return [
        {
            **who,
            "families": "|".join(each.split.families),
            "ladder": each.split.candidate.ladder,
            "latency_fault_enabled": each.split.candidate.latency_fault_enabled,
            "detector_enabled": each.split.candidate.detector_enabled,
            "state": REMAINS if each.ruled_out_by is None else RULED_OUT,
            "recorded": _is_recorded(own.rules, each.split),
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


def _is_recorded(rules: Rules, split: Split) -> bool:
    """Whether a process was replayed under just this, by its record or the settings."""
    setup, told = split.candidate, rules.settings
    if rules.family not in split.families or told.latency_fault_enabled != setup.latency_fault_enabled:
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
