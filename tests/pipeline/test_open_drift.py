"""What a pipeline asks of the tables: which incidents are open, and whether one is too severe."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from conf.failure import DRIFT_FOUND, RUN_FAILED, WRONG_USAGE
from jobs import check_quality
from jobs.asking import spark_asker
from jobs.check_quality import AbsentTableError
from jobs.delta_tables import Lake
from jobs.engines.local_asker import LocalAsker
from jobs.engines.local_lake import LocalLake
from jobs.exit_codes import exit_code
from jobs.open_drift import (
    DriftFoundError,
    HalfPublishedError,
    NothingJudgedError,
    as_json,
    judged_until,
    open_incidents,
    refuse,
    require_published,
    told,
)
from jobs.publication_record import begin_commits, record
from jobs.run_context import DateRange, NoSuchDatesError, RunContext
from jobs.transforms.frames import ClusterDate

LAST = datetime(2026, 11, 21, 9, 34, 56)  # the capture's last round


@pytest.fixture
def incidents(asker):
    return open_incidents(asker)


def test_the_worst_come_first_and_each_has_its_sentence(incidents):
    ranks = [["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"].index(row["severity"]) for row in incidents]
    assert ranks == sorted(ranks)
    text = "\n".join(told(incidents, LAST))
    assert all(row["sentence"] in text and row["consumer_group"] in text for row in incidents)
    assert "g_mix" in text


def test_patterns_pick_groups(asker, incidents):
    assert {row["consumer_group"] for row in open_incidents(asker, group="g_s*")} == {"g_sub", "g_skew"}
    assert open_incidents(asker, cluster="none") == []
    assert list(told([], LAST)) == ["As of the last judged round, 2026-11-21 09:34:56 UTC:", "no open incident"]


def test_it_says_until_when_groups_were_judged(asker):
    assert judged_until(asker).replace(microsecond=0) == LAST
    assert judged_until(asker, group="g_idle") < judged_until(asker, group="g_mix")


def test_that_nothing_is_open_is_not_said_of_groups_that_nobody_judged(asker):
    with pytest.raises(NothingJudgedError, match="g_none"):
        judged_until(asker, group="g_none")
    assert exit_code(lambda: judged_until(asker, cluster="none")) == WRONG_USAGE


def test_machines_get_the_same_rows(incidents):
    rows = [json.loads(line) for line in as_json(incidents)]
    assert [row["incident_id"] for row in rows] == [row["incident_id"] for row in incidents]
    assert all(row["opened_at"].endswith("Z") and isinstance(row["codes"], list) for row in rows)


def test_only_what_is_severe_enough_ends_the_process_with_1(incidents):
    idle = [row for row in incidents if row["severity"] == "INFO"]
    assert exit_code(lambda: refuse(incidents, "HIGH")) == DRIFT_FOUND == 1
    assert idle and exit_code(lambda: refuse(idle, "LOW")) == 0
    with pytest.raises(DriftFoundError, match=r"g_idle"):
        refuse(idle, "INFO")


def test_what_a_run_was_broken_off_at_committing_is_not_taken_for_the_truth(spark, views, tmp_path):
    assert "flag_allocation_drift" in {row.job for row in spark.table("publication").collect()}
    lake = Lake(spark, str(tmp_path), retention_days=7)
    begin_commits(lake, "rebuild_availability", [ClusterDate("c", LAST.date())])
    require_published(lake)
    begin_commits(lake, "flag_allocation_drift", [ClusterDate("c", LAST.date())])
    with pytest.raises(HalfPublishedError, match="from c 2026-11-21 on"):
        require_published(lake)
    assert exit_code(lambda: require_published(lake)) == RUN_FAILED
    record(lake, "run", "flag_allocation_drift", 1, {}, {}, 0)
    require_published(lake)


def test_a_table_that_is_not_there_is_not_sound(tmp_path):
    asker = LocalAsker(LocalLake(str(tmp_path / "lake"), retention_days=7))
    for tables in ((), ("allocation_drift",)):
        with pytest.raises(AbsentTableError, match="no table"):
            check_quality.run(asker, RunContext("landing"), tables)


def test_published_tables_pass_their_own_checks(asker):
    tables = ("broker_availability_window", "window_confirmation", "expected_allocation", "allocation_drift")
    results = check_quality.run(asker, RunContext("landing"), tables)
    assert {r["table"] for r in results} == set(tables)
    assert all(r["success"] for r in results), [r for r in results if not r["success"]]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_only_rows_of_the_dates_asked_for_are_checked(spark, settings, story, tmp_path, engine):
    """The capture's windows are broken, the same a day later are not, and the day before has none."""
    windows = tmp_path / "lake" / "broker_availability_window"
    shutil.copytree(story / "broker_availability_window", windows)
    rows = spark.read.format("delta").load(str(windows))
    later = {name: F.col(name) + F.expr("INTERVAL 1 DAY") for name in ("window_start", "window_end")}
    later["event_date"] = F.date_add("event_date", 1)
    rows.withColumns(later).write.format("delta").mode("append").save(str(windows))
    broken = DeltaTable.forPath(spark, str(windows))
    broken.update(condition="event_date = DATE'2026-11-21'", set={"window_end": F.col("window_start")})

    local = LocalAsker(LocalLake(f"{tmp_path}/lake", retention_days=7))
    asker = local if engine == "local" else spark_asker(spark, f"{tmp_path}/lake", settings)

    def failed(day: int) -> bool:
        context = RunContext("landing", DateRange(date(2026, 11, day), date(2026, 11, day)))
        tables = ("broker_availability_window",)
        return any(not r["success"] for r in check_quality.run(asker, context, tables))

    assert failed(21)
    assert not failed(22)
    with pytest.raises(NoSuchDatesError, match="2026-11-20"):
        failed(20)
