"""The gate without a JVM: each invariant finds what breaks it, and says what Spark says of the same rows."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from hindsight.jobs.engines.gate import expectations, results_of_table
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.publishing.quality_gate import GateFailedError, check, validated
from hindsight.jobs.report.report_queries import report_data
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    ALLOCATION_DRIFT,
    BROKER_AVAILABILITY_WINDOW,
    DRIFT_INCIDENT,
    INVARIANTS,
    PUBLICATION,
    TABLES,
    Table,
)
from hindsight.schemas.arrow_types import arrow_schema
from tests.pipeline.test_quality_gate import (
    BROKEN,
    beside,
    check_that_the_page_shows_the_newest,
    check_that_what_fails_is_not_published,
    sound,
)

REPEATED = {"producer_replay": [{}, {}], "broker_availability_window": [{"end_reason": "tired"}, {"started_at": None}]}


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    return LocalLake(str(tmp_path / "a lake's own ü"), retention_days=7)


def arrow(rows: dict[Table, list[dict[str, Any]]]) -> dict[Table, pa.Table]:
    return {table: pa.Table.from_pylist(of, arrow_schema(table)) for table, of in rows.items()}


def broken(name: str) -> list[dict[str, Any]]:
    return [sound(TABLES[name], **changes) for rows in BROKEN[name].values() for changes in rows]


def results(lake, rows: dict[Table, pa.Table]) -> list[dict[str, Any]]:
    """What a run counts itself: row by row what Great Expectations says of the same rows."""
    counted = validated(lake, RunContext("landing"), "a_job", rows)
    assert counted == validated(lake, RunContext("landing"), "a_job", rows, by_great_expectations=True)
    return counted


@pytest.mark.parametrize("name", INVARIANTS)
@pytest.mark.parametrize("staged", [False, True], ids=["as rows", "as staged files"])
def test_each_rule_finds_the_rows_that_break_it_and_no_other(lake, name, staged):
    table = TABLES[name]
    rows = arrow({table: [sound(table), *broken(name)], **beside(table)})
    if staged:
        for each, of in rows.items():
            lake.add_candidates(each, of, first=True)
    found = results(lake, {each: lake.candidates(each) for each in rows} if staged else rows)
    of_rules = {
        r["expectation"]: r["observed"] for r in found if r["table"] == name and r["expectation"] in BROKEN[name]
    }
    assert of_rules == dict.fromkeys(BROKEN[name], '{"observed_value": 1}')


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_sound_row_breaks_none_and_neither_does_none(lake, name):
    table = TABLES[name]
    for rows in ([sound(table)], []):
        found = results(lake, arrow({table: rows, **beside(table)}))
        assert {r["expectation"] for r in found if r["table"] == name} >= BROKEN[name].keys()
        assert [r for r in found if not r["success"]] == []


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([{}, {}], "expect_compound_columns_to_be_unique"),
        ([{"end_reason": "tired"}], "expect_column_values_to_be_in_set"),
    ],
)
def test_a_broken_key_or_value_is_refused_by_name_and_the_checks_are_stored(lake, rows, rule):
    table = BROKER_AVAILABILITY_WINDOW
    with pytest.raises(GateFailedError, match=rule):
        check(
            lake,
            RunContext("landing"),
            "a_job",
            arrow({table: [sound(table, **changes) for changes in rows], **beside(table)}),
        )
    stored = [row for row in lake.rows(TABLES["quality_result"]).to_pylist() if not row["success"]]
    assert {row["severity"] for row in stored} == {"critical"} and any(rule in row["expectation"] for row in stored)


def test_a_repeated_key_is_found_in_every_table(lake):
    """Of one column, as that of ``incident_event``, or of several."""
    tables = [table for table in TABLES.values() if table is not PUBLICATION]  # no row of maps is made here
    for count, is_unique in ((1, True), (2, False)):
        found = results(lake, arrow({table: [sound(table)] * count for table in tables}))
        unique = {r["table"]: (r["success"], r["severity"]) for r in found if "unique" in r["expectation"]}
        assert unique == {table.name: (is_unique, "critical") for table in tables}


def test_rows_that_break_many_rules_are_counted_as_great_expectations_counts_them(lake):
    """Keys repeated twice and three times, unknown values beside null and known ones, on every table with rules."""
    rows = {TABLES[name]: [sound(TABLES[name]), *broken(name), *broken(name)] for name in INVARIANTS}
    for table in TABLES.values():
        closed = [column for column, _ in table.values]
        unknown = [sound(table, **{column: "none of them"}) for column in closed]
        nulls = [sound(table, **{name: None}) for name in closed if table.columns[name].nullable]
        if table is not PUBLICATION:  # no row of maps is made here
            rows[table] = [*rows.get(table, [sound(table)]), *unknown, *unknown, *nulls]
    found = results(lake, arrow(rows))
    of_values = {row["table"] for row in found if "in_set" in row["expectation"] and not row["success"]}
    assert of_values == {table.name for table in TABLES.values() if table.values}
    assert len({row["observed"] for row in found}) > 6


def test_an_expectation_that_crashes_counts_as_critical(lake):
    table = BROKER_AVAILABILITY_WINDOW
    rows = arrow({table: [sound(table)], **beside(table)})
    for column, rule in (("window_end", "a window ends after it starts"), ("broker_name", "expect_compound_columns")):
        with pytest.raises(GateFailedError, match=rule):
            check(lake, RunContext("landing"), "a_job", rows | {table: rows[table].drop([column])})


@pytest.mark.soak
def test_both_engines_say_the_same_of_sound_and_of_broken_rows(lake, spark, tmp_path):
    from hindsight.jobs.engines.delta_tables import Lake
    from hindsight.jobs.lake.table_schema import stored_schema

    of_spark = Lake(spark, str(tmp_path / "of spark"), retention_days=7)
    rows = {TABLES[name]: [sound(TABLES[name]), *broken(name)] for name in INVARIANTS}
    rows |= {TABLES[name]: [sound(TABLES[name], **changes) for changes in of] for name, of in REPEATED.items()}
    rows |= {table: [sound(table)] for table in TABLES.values() if table not in rows and table is not PUBLICATION}
    frames = {table: spark.createDataFrame(of, stored_schema(table)) for table, of in rows.items()}
    of_both = [results(of_spark, frames), results(lake, arrow(rows)), results(of_spark, arrow(rows))]
    local, *others = ({(r["table"], r["expectation"], *r.values()) for r in found} for found in of_both)
    assert all(other == local for other in others)
    assert len({row for row in local if not row[5]}) > len(INVARIANTS)


def test_of_a_table_without_rows_only_what_may_see_others_is_asked():
    expected, asked = list(expectations(DRIFT_INCIDENT, str)), []

    def ask(queries):
        asked.extend(queries)
        return [3] * len(queries)

    seen = results_of_table(DRIFT_INCIDENT, expected, ask, has_rows=False)
    assert asked == [one.query for one in expected if one.told in {rule.name for rule in DRIFT_INCIDENT.rules}] != []
    assert [one["success"] for one in seen] == [one.query not in asked for one in expected]


def test_an_empty_candidate_passes(lake):
    check(lake, RunContext("landing"), "a_job", arrow({ALLOCATION_DRIFT: []}))
    assert len(lake.rows(TABLES["quality_result"])) > 0


def test_the_page_shows_the_newest_checks_whatever_the_clock_said(lake, settings, monkeypatch):
    def page() -> Any:
        with closing(LocalAsker(lake)) as asker:
            return report_data(asker, settings.report)

    def checked(rows: list[dict[str, Any]]) -> None:
        check(lake, RunContext("landing"), "a_job", arrow({ALLOCATION_DRIFT: rows}))

    check_that_the_page_shows_the_newest(checked, page, monkeypatch)


def test_what_fails_is_not_published_and_the_process_ends_with_2(lake):
    check_that_what_fails_is_not_published(lake, lambda table, rows: arrow({table: rows})[table])


@pytest.mark.parametrize(("seeing", "which"), [("unseen_spark", "results_here"), ("seen_spark", "results_on_spark")])
def test_a_process_whose_main_module_has_no_file_is_not_ended(seeing, which):
    """As of ``python -c``: pyspark took it for its doctests."""
    lines = (
        "import pyspark",
        f"from hindsight.jobs.running.unseen import {seeing}",
        f"with {seeing}():",
        f"    from hindsight.jobs.engines.expectation_suites import {which}",
        "import sys",
        f"print(hasattr(sys.modules['__main__'], '__file__'), {which}.__name__)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"False {which}\n"), done.stderr
