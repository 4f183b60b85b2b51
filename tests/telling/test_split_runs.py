"""Random records of three days, taken in by any split into runs, in any order: each change is told once.

A small derivation stands for that of the jobs: whatever the records are, and in whatever parts they come, it says which
incidents there are now. Late parts change past dates: incidents begin earlier, join, split, end, open again, vanish.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.drift.finding import SEVERITIES
from hindsight.udfs.telling.event_forms import events_of, rows_of
from hindsight.udfs.telling.incident_news import (
    CORRECTED,
    LASTING,
    OPENED,
    REOPENED,
    RESOLVED,
    WITHDRAWN,
    WORSENED,
    Clock,
    news,
    told_by,
)
from hindsight.udfs.telling.told_incidents import ISOLATION, drift_incidents, latest, producer_incidents
from tests.random_examples import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
DAYS, SLOTS = 3, 6
SLOT = timedelta(days=1) / SLOTS
GROUPS = ("g_a", "g_b")
# A part of a day's records: those of every other slot. Its other half may come late.
PARTS = [(day, half) for day in range(DAYS) for half in range(2)]
CODES = {"CRITICAL": ["DOUBLE_OWNED", "ORPHAN_QUEUE"], "HIGH": ["ORPHAN_QUEUE"], "LOW": ["ORPHAN_QUEUE"]}

slots = st.sampled_from([None, None, "LOW", "HIGH", "CRITICAL"])
records = st.fixed_dictionaries(
    {name: st.lists(slots, min_size=DAYS * SLOTS, max_size=DAYS * SLOTS) for name in (*GROUPS, "producer")}
)
delays = st.lists(st.sampled_from([6, 40]), min_size=1, max_size=6)  # hours from the newest record to the run


def at(slot):
    return START + slot * SLOT


def taken_in(landed):
    """The slots whose records are there."""
    return [slot for slot in range(DAYS * SLOTS) if (slot // SLOTS, slot % 2) in landed]


def drift_rows(record, slots):
    """One incident from the first bad slot on; two good ones end it, and a bad one within two more opens it again."""
    found = []
    for group in GROUPS:
        row, good, end = None, 0, -9
        for slot in slots:
            bad = record[group][slot]
            if bad is None:
                good += 1
                if row and row["resolved_at"] is None and good == 2:
                    row["resolved_at"], end = at(slot), slot
                continue
            good = 0
            if row and row["resolved_at"] is not None and slot > end + 2:
                row = None
            if row is None:
                row = {
                    "event_date": at(slot).date(), "incident_id": f"{group}-{slot}", "cluster": "prod", "collector": "",
                    "consumer_group": group, "root_cause": "UNEXPLAINED", "cause_key": "", "opened_at": at(slot),
                    "resolved_at": None, "severity": bad, "codes": [], "reopened": 0, "sentence": "it drifts.",
                }  # fmt: skip
                found.append(row)
            elif row["resolved_at"] is not None:
                row["resolved_at"], row["reopened"] = None, row["reopened"] + 1
            row["last_seen_at"] = at(slot)
            row["severity"] = min(row["severity"], bad, key=SEVERITIES.index)
            row["codes"] = sorted({*row["codes"], *CODES[bad]})
    return found


def producer_rows(record, slots):
    """A finding for each stretch of bad slots of a date, without an end where the date ends; windows that go on."""
    findings, continued = [], []
    own = {"cluster": "prod", "producer_group": "pg", "client_id": "c@1", "started_at": None, "broker_name": "broker-a"}
    before = None
    for slot in slots:
        bad = record["producer"][slot]
        is_last = slot % SLOTS == SLOTS - 1
        if bad is not None and slot % SLOTS == 0 and before == slot - 1:
            end = None if is_last else at(slot + 1)
            continued.append({**own, "window_start": at(slot), "window_end": end})
        elif bad is not None:
            end = None if is_last else at(slot + 1)
            more = {"event_date": at(slot).date(), "code": ISOLATION, "severity": bad, "topic": None}
            findings.append({**own, **more, "from": at(slot), "to": end, "sentence": "it is avoided."})
        before = slot if bad is not None else None
    return findings, continued


def standing(record, landed):
    """The incidents that the derivation gives of what was taken in."""
    slots = taken_in(landed)
    findings, continued = producer_rows(record, slots)
    until = {"prod": at(max(slots, default=0) + 1)}
    quiet = SLOT * 1.5
    return [
        *drift_incidents(latest(drift_rows(record, slots)), {}),
        *producer_incidents(findings, continued, until, quiet),
    ]


@st.composite
def any_split(draw):
    """Runs, each with the parts that came since the one before; some come with nothing, or with a part once more."""
    order = draw(st.permutations(PARTS))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=5)))
    return [order[begin:end] for begin, end in pairwise([0, *cuts, len(order)])]


def in_order(cuts):
    """Runs that take in whole days, one after the other."""
    days = [0, *sorted(cuts), DAYS]
    return [[part for part in PARTS if begin <= part[0] < end] for begin, end in pairwise(days)]


def told(record, runs, delays=(6,), backfill_after=timedelta(days=1)):
    """The stream after all runs, and what stands; each run comes so many hours after its newest record."""
    noted, landed, stands, now = [], set(), [], START
    for run, delay in zip(runs, cycle(delays), strict=False):
        landed |= set(run)
        stands = standing(record, landed)
        now = max(now, at(max(taken_in(landed), default=0)) + timedelta(hours=delay))
        clock = Clock(now, backfill_after)
        fresh = news(told_by(noted), stands, clock)
        keep_their_keys(fresh)
        noted = events_of(rows_of([*noted, *fresh], 1))
        assert news(told_by(noted), stands, clock) == []  # a rerun
        assert as_told(noted) == sorted(map(facts_of, stands))
        goes_on = [one for one in told_by(noted) if not one.is_withdrawn and not one.incident.standing.resolved_at]
        assert not [one for one in goes_on if one.backfill and not clock.is_past(one.incident.standing)]
    return noted, stands


def keep_their_keys(events):
    """What vanishes in a run does not stand, at that time and under another key, as what the run opens."""
    opened = {event.told.key for event in events if event.what == OPENED}
    last = [one.incident for one in told_by(events) if one.key in opened]
    for gone in (one.incident for one in told_by(events) if one.is_withdrawn):
        assert not [new for new in last if new.line == gone.line and overlap(new.standing, gone.standing)]


def overlap(one, other):
    return all(
        second.resolved_at is None or first.opened_at < second.resolved_at
        for first, second in ((one, other), (other, one))
    )


def facts_of(incident):
    return repr((incident.line, incident.standing.facts))


def as_told(events):
    return sorted(facts_of(one.incident) for one in told_by(events) if not one.is_withdrawn)


def by_incident(events):
    found = {}
    for event in events:
        found.setdefault(event.told.key, []).append(event)
    return found.values()


@examples(50, 3000)
@given(records, any_split(), delays)
def test_each_event_changes_what_is_told_and_none_comes_twice(record, runs, delays):
    noted, stands = told(record, runs, delays)
    assert as_told(noted) == sorted(map(facts_of, stands)) == sorted(map(facts_of, standing(record, set(PARTS))))
    assert len({event.event_id for event in noted}) == len(noted)
    for events in by_incident(noted):
        assert [event.told.events for event in events] == list(range(1, len(events) + 1))
        assert events[0].what == OPENED and OPENED not in [event.what for event in events[1:]]
        for before, after in pairwise(events):
            had, has = before.told.incident.standing, after.told.incident.standing
            assert after.severity_before == had.severity
            is_over = before.what == WITHDRAWN or had.resolved_at is not None
            if after.what == WORSENED:
                assert not is_over
                assert SEVERITIES.index(has.severity) < SEVERITIES.index(had.severity) or {*has.codes} > {*had.codes}
            if after.what == RESOLVED:
                assert not is_over and has.resolved_at is not None
            if after.what == REOPENED:
                assert is_over or has.reopened > had.reopened
            if after.what == LASTING:
                assert before.told.backfill and not after.told.backfill
            if after.what == CORRECTED:
                assert had.facts != has.facts
            assert after.what == REOPENED or before.what != WITHDRAWN


@examples(33, 2000)
@given(records, any_split(), delays)
def test_who_is_called_hears_a_beginning_first_and_then_each_end(record, runs, delays):
    noted, _ = told(record, runs, delays)
    for events in by_incident(noted):
        heard = [event.what for event in events if not event.told.backfill]
        if heard:
            assert heard[0] in (OPENED, REOPENED, WORSENED, LASTING)
            last = [event for event in events if not event.told.backfill][-1]
            is_over = last.what == WITHDRAWN or last.told.incident.standing.resolved_at is not None
            assert last is events[-1] or is_over


@examples(33, 2000)
@given(records, st.lists(st.integers(0, DAYS), max_size=4))
def test_days_that_come_in_order_open_each_incident_once_however_they_are_split(record, cuts):
    noted, stands = told(record, in_order(cuts))
    at_once, _ = told(record, [PARTS])
    whats = [[event.what for event in events] for events in by_incident(noted)]
    assert {event.told.key for event in noted} == {event.told.key for event in at_once}
    assert len(whats) == len(stands) and not {WITHDRAWN} & {what for each in whats for what in each}
    for events in by_incident(noted):
        last = events[-1].told.incident.standing
        ends = [event.what for event in events].count(RESOLVED)
        assert (last.resolved_at is not None) <= ends <= last.reopened + (last.resolved_at is not None)


@pytest.mark.parametrize("runs", [[PARTS], [[part] for part in PARTS], [[part] for part in PARTS[::-1]]])
def test_a_history_by_hand(runs):
    """Of g_a: LOW, then CRITICAL; two good slots; bad again."""
    record = {"g_a": [None, "LOW", "CRITICAL", None, None, "HIGH", *[None] * 12], "g_b": [None] * 18}
    noted, _ = told({**record, "producer": [None] * 18}, runs, backfill_after=timedelta(days=99))
    (last,) = [one for one in told_by(noted) if not one.is_withdrawn]
    shown = last.incident.standing
    assert (shown.opened_at, shown.resolved_at, shown.severity, shown.reopened) == (at(1), at(7), "CRITICAL", 1)
    assert next(event.what for event in noted if event.told.key == last.key) == OPENED
