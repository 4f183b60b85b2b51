"""A candidate that breaks a rule is not published, and the rule is named."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from jobs.delta_tables import Lake
from jobs.quality_gate import GateFailedError, check
from jobs.run_context import RunContext
from schemas import ALLOCATION_DRIFT, BROKER_AVAILABILITY_WINDOW, INGESTED_FILE


def at(minute: int) -> datetime:
    return datetime(2026, 1, 5, 10, minute, tzinfo=UTC)


def window(**changes):
    row = {
        "cluster": "c",
        "event_date": date(2026, 1, 5),
        "producer_group": "g",
        "client_id": "p@1",
        "started_at": None,
        "broker_name": "broker-a",
        "state": "unavailable",
        "window_start": at(1),
        "window_end": at(5),
        "end_reason": "expired",
        "continues_previous": False,
        "trigger_kind": "latency",
        "trigger_latency_ms": 600,
        "not_available_ms": 30_000,
        "attempts": 1,
        "profile": "P43",
        "certainty": "certain",
        "computed_at": at(9),
        "run_id": "r",
    }
    return {**row, **changes}


@pytest.fixture
def gate(spark, tmp_path):
    lake = Lake(spark, str(tmp_path), retention_days=7)

    def run(table, *rows):
        context = RunContext("landing")
        check(lake, context, "a_job", {table: spark.createDataFrame(rows, table.columns)})

    run.lake = lake
    return run


def test_sound_windows_pass_and_the_checks_are_recorded(gate):
    gate(BROKER_AVAILABILITY_WINDOW, window(), window(window_start=at(5), window_end=at(6)))
    results = gate.lake.spark.read.format("delta").load(f"{gate.lake.root}/quality_result").collect()
    assert len(results) == 8 and all(r.success for r in results)


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([window(), window()], "expect_compound_columns_to_be_unique"),
        ([window(window_end=at(1))], "a window ends after it starts"),
        ([window(), window(window_start=at(4), window_end=at(8))], "never overlap"),
        ([window(end_reason="tired")], "expect_column_values_to_be_in_set"),
        ([window(event_date=date(2026, 1, 4))], "a window lies within its date"),
    ],
)
def test_a_broken_window_fails_the_gate_by_the_name_of_the_rule(gate, rows, rule):
    with pytest.raises(GateFailedError, match=rule):
        gate(BROKER_AVAILABILITY_WINDOW, *rows)


def test_a_ledger_that_does_not_balance_fails_the_gate(gate):
    row = ("c", "f", "file", 1, 10, 5, 1, 1, 2, True, [], at(1), "r")
    with pytest.raises(GateFailedError, match="every line is stored, duplicate, ignored or quarantined"):
        gate(INGESTED_FILE, dict(zip(INGESTED_FILE.columns.names, row, strict=True)))


def test_an_expectation_that_crashes_counts_as_critical(gate, spark):
    frame = spark.createDataFrame([window()], BROKER_AVAILABILITY_WINDOW.columns).drop("window_end")
    with pytest.raises(GateFailedError, match="a window ends after it starts"):
        check(gate.lake, RunContext("landing"), "a_job", {BROKER_AVAILABILITY_WINDOW: frame})


def test_an_empty_candidate_passes(gate):
    gate(ALLOCATION_DRIFT)
    assert gate.lake.spark.read.format("delta").load(f"{gate.lake.root}/quality_result").count() > 0
