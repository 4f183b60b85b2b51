"""Plans for few lines are interpreted, those for many compiled, and what a run stores is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from hindsight.jobs import ingest_send_records, render_report
from hindsight.jobs.engines import spark_sql
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.spark_sql import interpreted_plans
from hindsight.jobs.intake import ingestion
from hindsight.jobs.publishing import publication
from hindsight.jobs.running.run_context import RunContext
from tests.pipeline.local_runs import OF_PRODUCERS
from tests.pipeline.undisturbed_runs import is_healed_by_a_rerun, on_spark, run_on_spark

WHOLE_STAGE, FACTORY = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"
COMPILED, INTERPRETED = ("true", "CODEGEN_ONLY"), ("false", "NO_CODEGEN")


def how(spark) -> tuple[str, str]:
    return spark.conf.get(WHOLE_STAGE), spark.conf.get(FACTORY)


def set_to(spark, whole_stage: str, factory: str) -> None:
    spark.conf.set(WHOLE_STAGE, whole_stage)
    spark.conf.set(FACTORY, factory)


@pytest.fixture
def compiling(spark) -> Iterator:
    """The session as users have it; that of the tests compiles nothing. What cannot be compiled fails here."""
    before = how(spark)
    set_to(spark, *COMPILED)
    yield spark
    set_to(spark, *before)


def test_plans_are_interpreted_until_many_lines_are_announced(compiling):
    with interpreted_plans(compiling) as plan_for:
        seen = [how(compiling)]
        for lines in (0, 29_999, 30_000):
            plan_for(lines)
            seen.append(how(compiling))
    assert seen == [INTERPRETED, INTERPRETED, INTERPRETED, COMPILED]
    assert how(compiling) == COMPILED


def test_a_run_that_fails_leaves_the_session_as_it_was(compiling):
    with pytest.raises(ZeroDivisionError), interpreted_plans(compiling):
        _ = 1 / 0
    assert how(compiling) == COMPILED


def watched(spark, monkeypatch, owner, name: str) -> list[tuple[str, str]]:
    """How plans are made at each call of a function, which goes on as before."""
    seen, call = [], getattr(owner, name)

    def noted(*given, **named):
        seen.append(how(spark))
        return call(*given, **named)

    monkeypatch.setattr(owner, name, noted)
    return seen


@pytest.mark.soak
def test_a_run_on_many_lines_stores_what_one_on_few_does(compiling, settings, producers, tmp_path, monkeypatch):
    """All other runs of the tests are interpreted throughout."""
    monkeypatch.setattr(spark_sql, "_COMPILED_FROM_LINES", 1)
    calls = (
        (ingestion, "read_landing"),
        (publication, "check"),
        (Lake, "replace_where"),
        (render_report, "report_data"),
    )
    seen = [watched(compiling, monkeypatch, *call) for call in calls]
    lake = shutil.copytree(producers.after_first, tmp_path / "lake")
    assert is_healed_by_a_rerun(on_spark(compiling, settings, OF_PRODUCERS), producers, lake)
    render_report.run(compiling, settings, RunContext(str(producers.landing)), str(lake))
    assert [set(each) for each in seen] == [{COMPILED}] * len(calls)
    assert how(compiling) == COMPILED


def test_plans_for_packed_files_are_compiled_once_rows_are_counted(
    compiling, settings, producers, tmp_path, monkeypatch
):
    """Their size tells of fewer lines than they hold."""
    monkeypatch.setattr(spark_sql, "_COMPILED_FROM_LINES", 150)
    monkeypatch.setattr(ingestion, "_LINE_BYTES", 1 << 30)
    parsing = watched(compiling, monkeypatch, ingestion, "read_landing")
    writing = watched(compiling, monkeypatch, Lake, "append")
    run_on_spark(ingest_send_records, compiling, settings, RunContext(str(producers.landing)), tmp_path / "lake")
    assert set(parsing) == {INTERPRETED}
    assert set(writing) == {COMPILED}
