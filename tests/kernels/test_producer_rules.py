"""Producer findings on small made-up fleets, as the plain rules tell them. No Spark."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, timedelta

import numpy as np
import pyarrow as pa
import pytest

from hindsight.schemas import PRODUCER_FINDING
from hindsight.udfs.producer.attempt_columns import ATTEMPTS, attempts_of
from hindsight.udfs.producer.attempt_facts import facts_of
from hindsight.udfs.producer.fleet_fold import fleet_of, fleet_rows, share_of
from hindsight.udfs.producer.minute_counts import held_minutes, held_of, minute_counts
from hindsight.udfs.producer.producer_finding import DEFAULT_LIMITS, SEVERITY, Observed
from hindsight.udfs.producer.producer_findings import FINDING, findings_of, findings_of_fleet
from hindsight.udfs.producer.producer_lives import UNSEEN, Process
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replay_rules import Recorded, Rules
from hindsight.udfs.producer.replayed_day import day_of
from hindsight.udfs.producer.return_rules import sends_after, worth_watching
from hindsight.udfs.release_profiles import PROFILES
from tests.finding_cases import ATTEMPT, REPLAY, ROUTE, ROWS, TODAY, VERDICT, WINDOW
from tests.finding_checks import *  # noqa: F403  the tests themselves
from tests.folded import epoch_ms


class Row(dict):
    __getattr__ = dict.__getitem__


def rows_by_date(name, schema):
    """Rows of a kind by case and date, their columns named."""
    columns = [column.split()[0] for column in schema.split(",")]
    found = defaultdict(list)
    for row in ROWS[name]:
        named = Row(zip(columns, row, strict=True))
        found[named.cluster, named.event_date].append(named)
    return found


def processes_of(rows, midnight_ms):
    for row in rows:
        known = Recorded(latency_fault_enabled=row.latency_fault_enabled)
        rules = Rules(known, PROFILES[row.profile], row.profile, row.verdict, ())
        last = round(row.last_attempt_at.timestamp() * 1000)
        yield Process(("g", row.client_id), UNSEEN, None, known, rules, row.certainty, 1, (), last)


NO_ROUTES = RecordedRoutes((), stale_ms=31_000, valid_ms=300_000)


def attempts_table(rows):
    whole = [
        {
            "thread": "t",
            "msg_id": str(place),
            "exceptions_observable": True,
            "end_at": row.begin_at + timedelta(milliseconds=row.latency_ms),
            **row,
        }
        for place, row in enumerate(rows)
    ]
    return pa.Table.from_pylist([{name: row.get(name) for name in ATTEMPTS.names} for row in whole], schema=ATTEMPTS)


def of_date(row, midnight_ms):
    """Instants as ms of the date."""
    return {
        name: round(value.timestamp() * 1000) - midnight_ms if hasattr(value, "timestamp") else value
        for name, value in row.items()
    }


def told(case, date, attempts, windows, replay, verdicts, routes):
    """Findings and fleet minutes of one case and date."""
    midnight_ms, table = epoch_ms(date), attempts_table(attempts)
    processes = list(processes_of(replay, midnight_ms))
    places = {(p.producer, segment): place for place, p in enumerate(processes) for segment in (0, 1)}
    day = day_of(
        facts_of(attempts_of(table, midnight_ms), {}),
        processes,
        places,
        cluster=case,
        midnight_ms=midnight_ms,
        cuts={},
        more_brokers=[row.broker_name for row in windows],
    )
    a = attempts_of(table, midnight_ms)
    process, broker = day.process_of(a), a.texts("broker_name").in_order_of(day.brokers)
    every = np.ones(len(a.begin), np.bool_)
    counts = minute_counts(a, process, broker, every, day, slow_ms=DEFAULT_LIMITS.fault_off_slow_ms)
    own, choices = (
        [{**of_date(row, midnight_ms), "process": places[("g", row.client_id), 1]} for row in rows]
        for rows in (windows, [row for row in verdicts if row.verdict == "impossible"])
    )
    held = held_of(own)
    share = share_of(
        day,
        facts_of(attempts_of(table, midnight_ms), {}),
        counts,
        held_minutes(held, day.brokers),
        min_sends_per_minute=DEFAULT_LIMITS.min_sends_per_minute,
    )
    minutes = fleet_rows(case, midnight_ms, [share])
    fleet = fleet_of(minutes, [share], routes)
    watched = worth_watching(held, counts.chosen, fleet.queues, DEFAULT_LIMITS)
    given = Observed(
        day,
        own,
        held,
        share.isolating,
        day.topics_of(),
        counts.slow,
        counts.answered,
        choices,
        sends_after(watched, [table], day, fleet.queues, NO_ROUTES, DEFAULT_LIMITS),
    )
    found = [findings_of(given, fleet, DEFAULT_LIMITS), findings_of_fleet(day, fleet, DEFAULT_LIMITS)]
    return pa.concat_tables(found).to_pylist(), minutes.to_pylist()


def naive(row):
    return Row({n: v.astimezone(UTC).replace(tzinfo=None) if hasattr(v, "tzinfo") else v for n, v in row.items()})


@pytest.fixture(scope="module")
def made():
    kinds = (("attempts", ATTEMPT), ("windows", WINDOW), ("replay", REPLAY), ("verdicts", VERDICT), ("routes", ROUTE))
    given = {name: rows_by_date(name, schema) for name, schema in kinds}
    # The verdicts are of producers of whom nothing else is told.
    for case, date in given["verdicts"]:
        for client in {row.client_id for row in given["verdicts"][case, date]}:
            last = max(row.begin_at for row in given["verdicts"][case, date])
            known = {"client_id": client, "profile": "P43", "verdict": "replayed", "latency_fault_enabled": True}
            given["replay"][case, date].append(Row(known, certainty="certain", last_attempt_at=last))
    findings, minutes = [], []
    for case, date in sorted(given["replay"]):
        found, own = told(case, date, *(given[name][case, date] for name, _ in kinds))
        findings += map(naive, found)
        minutes += map(naive, own)
    return findings, minutes


def test_rules_return_the_contract(made):
    assert list(made[0][0]) == FINDING.names == list(PRODUCER_FINDING.contract_columns)


def test_of_nobody_nothing_is_found():
    assert told("nobody", TODAY, [], [], [], [], []) == ([], [])


def test_each_code_of_the_contract_has_a_severity():
    assert tuple(SEVERITY) == PRODUCER_FINDING.known("code")
