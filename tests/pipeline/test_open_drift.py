"""What a pipeline asks of the tables: which incidents are open, and whether one is too severe."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from hindsight.conf.failure import DRIFT_FOUND, RUN_FAILED, WRONG_USAGE
from hindsight.jobs import check_quality
from hindsight.jobs.asking.open_drift import (
    DriftFoundError,
    HalfPublishedError,
    NothingJudgedError,
    judged_until,
    not_judged,
    open_incidents,
    refuse,
    require_published,
    told,
)
from hindsight.jobs.check_quality import AbsentTableError
from hindsight.jobs.engines.asker import Asker, records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.publication_record import begin_commits, record
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.run_context import DateRange, NoSuchDatesError, RunContext
from hindsight.jobs.running.terminal import json_text

LAST = datetime(2026, 11, 21, 9, 34, 56)  # the capture's last round
CHECKED = ("broker_availability_window", "window_confirmation", "expected_allocation", "allocation_drift")


@pytest.fixture
def incidents(asker):
    return open_incidents(asker)


def test_the_worst_come_first_and_each_has_its_sentence(incidents):
    ranks = [["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"].index(row["severity"]) for row in incidents]
    assert ranks == sorted(ranks)
    # A word that is longer than a line is cut.
    text = "".join("".join(told(incidents, LAST)).split())
    assert all("".join(row["sentence"].split()) in text and row["consumer_group"] in text for row in incidents)
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
    rows = [json.loads(json_text(row)) for row in incidents]
    assert [row["incident_id"] for row in rows] == [row["incident_id"] for row in incidents]
    assert all(row["opened_at"].endswith("Z") and isinstance(row["codes"], list) for row in rows)


def test_only_what_is_severe_enough_ends_the_process_with_1(incidents):
    idle = [row for row in incidents if row["severity"] == "INFO"]
    assert exit_code(lambda: refuse(incidents, "HIGH")) == DRIFT_FOUND == 1
    assert idle and exit_code(lambda: refuse(idle, "LOW")) == 0
    with pytest.raises(DriftFoundError, match=r"g_idle"):
        refuse(idle, "INFO")


def test_what_a_run_was_broken_off_at_committing_is_not_taken_for_the_truth(rows, tmp_path):
    assert "flag_allocation_drift" in {row.job for row in rows("publication")}
    lake = LocalLake(str(tmp_path), retention_days=7)
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
    results = check_quality.run(asker, RunContext("landing"), CHECKED)
    assert {r["table"] for r in results} == set(CHECKED)
    assert all(r["success"] for r in results), [r for r in results if not r["success"]]


def twice(windows: Path) -> None:
    """The capture's windows are broken, and stand there the same a day later, where they are not."""
    stored = DeltaTable(windows)
    rows = stored.to_pyarrow_table()
    broken, later = rows, rows
    for name in ("window_start", "window_end"):
        of_later = pc.add(rows[name], timedelta(days=1))
        later = later.set_column(rows.column_names.index(name), rows.schema.field(name), of_later)
    days = pa.array([date(2026, 11, 22)] * len(rows), pa.date32())
    later = later.set_column(rows.column_names.index("event_date"), rows.schema.field("event_date"), days)
    ends = rows.schema.field("window_end")
    broken = broken.set_column(rows.column_names.index("window_end"), ends, rows["window_start"])
    for made, mode in ((broken, "overwrite"), (later, "append")):
        write_deltalake(stored, made, mode=mode)


def checked_at(asker: Asker, day: int) -> bool:
    """Whether the windows of a date hold."""
    context = RunContext("landing", DateRange(date(2026, 11, day), date(2026, 11, day)))
    return all(r["success"] for r in check_quality.run(asker, context, ("broker_availability_window",)))


def test_only_rows_of_the_dates_asked_for_are_checked(story, tmp_path):
    """The day before has none."""
    windows = tmp_path / "lake" / "broker_availability_window"
    shutil.copytree(story / "broker_availability_window", windows)
    twice(windows)
    asker = LocalAsker(LocalLake(f"{tmp_path}/lake", retention_days=7))
    assert not checked_at(asker, 21)
    assert checked_at(asker, 22)
    with pytest.raises(NoSuchDatesError, match="2026-11-20"):
        checked_at(asker, 20)


def test_what_was_not_judged_comes_first_and_nothing_open_is_said_of_the_rest_alone():
    topic = {"cluster": "c", "consumer_group": "g_lists", "scope_reason": None, "silent_since": None}
    rows = [
        topic | {"topic": "T", "missing_inputs": ["running infos: not asked for in this round"]},
        topic | {"topic": "U", "missing_inputs": []},
    ]
    said = list(told([], LAST, rows))
    assert said[1].startswith("NOT JUDGED") and said[-1] == "no open incident of what was judged"
    assert said[2].strip() == "c  g_lists  T, U: running infos: not asked for in this round"


def test_groups_of_the_capture_that_were_not_judged_are_named_with_their_reasons(asker):
    rows = not_judged(asker)
    judged = {(r["consumer_group"], r["topic"]) for r in records(asker, JUDGED)}
    assert {(r["consumer_group"], r["topic"]) for r in rows}.isdisjoint(judged)
    assert all(r["scope_reason"] or r["missing_inputs"] for r in rows)
    assert not_judged(asker, cluster="none") == []


# Judged in the last round that was read.
JUDGED = """
SELECT r.consumer_group, r.topic FROM group_round r JOIN (
  SELECT consumer_group, topic, MAX(round_at) AS last_at FROM group_round GROUP BY consumer_group, topic
) l ON r.consumer_group = l.consumer_group AND r.topic = l.topic
  AND r.round_at = l.last_at WHERE r.verdict IN ('ok', 'drift')
"""
