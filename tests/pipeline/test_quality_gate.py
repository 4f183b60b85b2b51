"""A candidate that breaks a rule is not published, and the rule is named: of Spark's rows.

``tests/engines/test_local_gate.py`` says the same of this machine's engine, so what starts Spark is for the soak.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    FractionalType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from hindsight.conf.failure import GATE_FAILED
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.lake.table_schema import stored_schema
from hindsight.jobs.publishing.publication import Derivation, publish
from hindsight.jobs.publishing.quality_gate import GateFailedError, check, validated
from hindsight.jobs.report.report_queries import report_data
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import ALLOCATION_DRIFT, BROKER_AVAILABILITY_WINDOW, INGESTED_FILE, INVARIANTS, TABLES, Table
from tests.pipeline.stepped_clock import AnHourBack

DAY = date(2026, 1, 5)


def at(minute: int) -> datetime:
    return datetime(2026, 1, 5, 10, minute, tzinfo=UTC)


def sound(table: Table, **values: Any) -> dict[str, Any]:
    """A row of the contract's types, with known values where only some are known."""
    known = {column: of[0] for column, of in table.values}
    row = {f.name: known.get(f.name, None if f.nullable else _some(f.dataType)) for f in table.columns.fields}
    return {**row, "event_date": DAY, **SOUND.get(table.name, {}), **values}


def _some(kind: Any) -> Any:
    if isinstance(kind, StructType):
        return {f.name: _some(f.dataType) for f in kind.fields}
    of_kind = (
        *((StringType, "x"), (BooleanType, False), (TimestampType, at(1)), (DateType, DAY)),
        *((FractionalType, 0.0), (NumericType, 0)),
    )
    return [] if isinstance(kind, ArrayType) else next(value for type_, value in of_kind if isinstance(kind, type_))


def expected(owner: str) -> list[dict[str, Any]]:
    return [{"broker_name": "b", "queue_id": 0, "owner": owner, "claimants": []}]


SOUND: dict[str, dict[str, Any]] = {
    "broker_availability_window": {"window_start": at(1), "window_end": at(5), "not_available_ms": 30_000},
    "producer_replay": {"not_available_ms": [0, 30_000]},
    "producer_release": {"ruled_out_by": None},
    "send_call": {"attempts": [None]},
    "window_confirmation": {"shows": "opened", "window_start": at(1)},
    "producer_finding": {"evidence": ["e"], "to": at(2)},
    "allocation_drift": {"evidence": ["e"]},
    "drift_incident": {"evidence": ["e"], "opened_at": at(2), "state": "OPEN", "findings": [None]},
    "rebalance_event": {"changed_at": at(5), "trigger_at": at(4), "evidence": ["e"]},
    "expected_allocation": {"allocation": expected("c@1"), "member_list_hash": "h"},
    "group_round": {"members": ["c@1"], "member_list_hash": "h"},
}
# Per table and rule, the rows of which each breaks this rule and no other.
BROKEN: dict[str, dict[str, list[dict[str, Any]]]] = {
    "ingested_file": {"every line is stored, duplicate, ignored or quarantined": [{"read": 10, "stored": 9}]},
    "broker_availability_window": {
        "a window ends after it starts": [{"broker_name": "ends", "window_end": at(1)}],
        "a window lies within its date": [{"broker_name": "date", "event_date": DAY - timedelta(days=1)}],
        "windows of one producer, broker and state never overlap": [
            {"broker_name": "over"},
            {"broker_name": "over", "window_start": at(4)},
        ],
        "a duration belongs to its producer's ladder": [{"broker_name": "ladder", "not_available_ms": 29_999}],
    },
    "send_call": {
        "every send has its attempts": [{"msg_id": "none", "attempts": []}],
        "a send is of the date on which it began": [{"msg_id": "date", "event_date": DAY - timedelta(days=1)}],
        "what is not as it should be has a reason": [{"msg_id": "twice", "stored_twice": "possible"}],
    },
    "producer_release": {"what is ruled out has what ruled it out": [{"state": "ruled_out"}]},
    "window_confirmation": {"a line that shows a window names it": [{"window_start": None}]},
    "fleet_minute": {"no more isolate a broker than are active": [{"isolating": 1}]},
    "producer_finding": {
        "every finding has its evidence": [{"evidence": []}],
        "a finding ends after it begins": [{"subject": "y", "to": at(0)}],
    },
    "group_round": {"a round with missing inputs is not ok": [{"verdict": "ok", "missing_inputs": ["route"]}]},
    "allocation_drift": {
        "every finding has its evidence": [{"evidence": []}],
        "a queue has one state in a round": [
            {"code": code, "topic": "T", "broker_name": "b", "queue_id": 0} for code in ("ORPHAN_QUEUE", "DOUBLE_OWNED")
        ],
    },
    "drift_incident": {
        "an incident opens after it is first seen and ends after it opens": [{"opened_at": at(0)}],
        "an incident is resolved exactly when it has an end": [{"state": "RESOLVED"}],
        "every incident has a finding": [{"findings": []}],
        "every incident has its evidence": [{"evidence": []}],
    },
    "rebalance_event": {
        "a rebalance is of the date on which the client had its queues": [
            {"client_id": "date", "event_date": DAY - timedelta(days=1), "told_by": "running_info"}
        ],
        "an interval ends after it begins": [{"client_id": "ends", "took_at_least_ms": 9, "took_ms": 3}],
        "every queue that was taken has its hand-over": [{"client_id": "hand", "queues_gained": 2}],
        "a rebalance that failed has its exception": [{"client_id": "failed", "outcome": "failed"}],
        "what is exact is logged": [{"client_id": "exact", "trigger_at": None}],
        "nobody rebalances before it is triggered": [{"client_id": "early", "trigger_at": at(7)}],
    },
    "expected_allocation": {
        "nothing is expected without a reason": [{"allocation": None}],
        "expected owners are members": [{"allocation": expected("c@2")}],
    },
}


@pytest.fixture
def gate(spark, tmp_path):
    lake = Lake(spark, str(tmp_path), retention_days=7)

    def run(rows: dict[Table, list[dict[str, Any]]], by=check):
        frames = {table: spark.createDataFrame(of, stored_schema(table)) for table, of in rows.items()}
        return by(lake, RunContext("landing"), "a_job", frames)

    run.lake = lake
    return run


def beside(table: Table) -> dict[Table, list[dict[str, Any]]]:
    """Sound rows of the tables that the table's invariants look at."""
    names = {name for rule in INVARIANTS[table.name] for name in rule.beside}
    return {TABLES[name]: [sound(TABLES[name])] for name in sorted(names)}


def test_no_rule_is_left_out():
    assert {name: {rule.name for rule in rules} for name, rules in INVARIANTS.items()} == {
        name: set(rules) for name, rules in BROKEN.items()
    }


@pytest.mark.soak
@pytest.mark.parametrize("name", INVARIANTS)
def test_each_rule_finds_the_rows_that_break_it_and_no_other(gate, name):
    table = TABLES[name]
    broken = [sound(table, **changes) for rows in BROKEN[name].values() for changes in rows]
    results = gate({table: [sound(table), *broken], **beside(table)}, by=validated)
    # Overlap and the state of a queue are told once for the rows that break them together.
    found = {
        r["expectation"]: r["observed"] for r in results if r["table"] == name and r["expectation"] in BROKEN[name]
    }
    assert found == dict.fromkeys(BROKEN[name], '{"observed_value": 1}')


@pytest.mark.soak
@pytest.mark.parametrize("name", INVARIANTS)
def test_a_sound_row_breaks_none(gate, name):
    results = gate({TABLES[name]: [sound(TABLES[name])], **beside(TABLES[name])}, by=validated)
    assert {r["expectation"] for r in results if r["table"] == name} >= BROKEN[name].keys()
    assert [r for r in results if not r["success"]] == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([{}, {}], "expect_compound_columns_to_be_unique"),
        ([{"end_reason": "tired"}], "expect_column_values_to_be_in_set"),
    ],
)
def test_a_broken_key_or_value_is_refused_by_name_and_the_checks_are_stored(gate, rows, rule):
    table = BROKER_AVAILABILITY_WINDOW
    with pytest.raises(GateFailedError, match=rule):
        gate({table: [sound(table, **changes) for changes in rows], **beside(table)})
    stored = gate.lake.read(TABLES["quality_result"]).where("NOT success").collect()
    assert {r.severity for r in stored} == {"critical"} and any(rule in r.expectation for r in stored)


@pytest.mark.soak
def test_an_expectation_that_crashes_counts_as_critical(gate, spark):
    table = BROKER_AVAILABILITY_WINDOW
    frame = spark.createDataFrame([sound(table)], stored_schema(table)).drop("window_end")
    with pytest.raises(GateFailedError, match="a window ends after it starts"):
        check(gate.lake, RunContext("landing"), "a_job", {table: frame})


def check_that_the_page_shows_the_newest(checked: Callable[[list[Any]], Any], page: Callable[[], Any], patch) -> None:
    """Of an engine whose gate and page are given: the clock goes back an hour after checks that held."""
    checked([])
    patch.setattr("hindsight.jobs.publishing.quality_gate.datetime", AnHourBack)
    with pytest.raises(GateFailedError):
        checked([sound(ALLOCATION_DRIFT, evidence=[])])
    data = page()
    assert [row["expectation"] for row in data["failed_checks"]] == ["every finding has its evidence"]
    assert [row["checks"] - row["held"] for row in data["checks"]] == [1]


@pytest.mark.soak
def test_the_page_shows_the_newest_checks_whatever_the_clock_said(gate, spark, settings, monkeypatch):
    from hindsight.jobs.engines.spark_asker import SparkAsker
    from hindsight.jobs.engines.sql_views import create_views

    def page() -> Any:
        create_views(spark, gate.lake)
        data = report_data(SparkAsker(spark, gate.lake), settings.report)
        spark.sql("USE default")
        return data

    check_that_the_page_shows_the_newest(lambda rows: gate({ALLOCATION_DRIFT: rows}), page, monkeypatch)


@pytest.mark.soak
def test_an_empty_candidate_passes(gate):
    gate({ALLOCATION_DRIFT: []})
    assert gate.lake.read(TABLES["quality_result"]).count() > 0


def check_that_what_fails_is_not_published(lake: Any, rows_of: Callable[[Table, list[Any]], Any]) -> None:
    """Of an engine's lake, and rows as it hands them on: the process ends with 2, the table keeps its version."""
    table = ALLOCATION_DRIFT
    lake.append(
        INGESTED_FILE, rows_of(INGESTED_FILE, [sound(INGESTED_FILE, cluster="x", format="f", event_dates=[DAY])])
    )

    def publication(settings: str, **changes: Any) -> None:
        rows = rows_of(table, [sound(table, **changes)])
        derivation = Derivation("a_job", ("f",), (), (table,), (), settings, lambda _: {table.name: rows})
        publish(lake, RunContext("landing"), derivation)

    assert exit_code(lambda: publication("sound")) == 0
    version, kept = lake.version(table), lake.rows(table).to_pylist()
    assert exit_code(lambda: publication("broken", evidence=[])) == GATE_FAILED
    assert (lake.version(table), lake.rows(table).to_pylist()) == (version, kept)
    assert len(kept) == 1


@pytest.mark.soak
def test_what_fails_is_not_published_and_the_process_ends_with_2(gate, spark):
    check_that_what_fails_is_not_published(
        gate.lake, lambda table, rows: spark.createDataFrame(rows, stored_schema(table))
    )
