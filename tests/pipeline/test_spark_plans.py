"""Plans for few lines are interpreted, those for many compiled, and what a run stores is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from jobs import spark_plans
from jobs.delta_tables import Lake
from jobs.spark_plans import interpreted_plans
from tests.pipeline.undisturbed_runs import is_healed_by_a_rerun, jobs_of

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


def test_a_run_on_many_lines_stores_what_one_on_few_does(compiling, settings, producers, tmp_path, monkeypatch):
    """All other runs of the tests are interpreted throughout."""
    monkeypatch.setattr(spark_plans, "_COMPILED_FROM_LINES", 1)
    written_as, replace = set(), Lake.replace_where

    def watched(lake, *rest) -> None:
        written_as.add(how(compiling))
        replace(lake, *rest)

    monkeypatch.setattr(Lake, "replace_where", watched)
    lake = shutil.copytree(producers.after_first, tmp_path / "lake")
    assert is_healed_by_a_rerun(jobs_of("producer", compiling, settings), producers, lake)
    assert written_as == {COMPILED}
    assert how(compiling) == COMPILED
