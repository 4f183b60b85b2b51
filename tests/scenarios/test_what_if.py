"""Recorded history under premises: identity, and truth from runs that really were so."""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import date

import pytest

from hindsight.conf.settings_file import PremiseError, load_premises, load_settings
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.commands import what_if_command as what_if
from hindsight.jobs.commands.compare_command import derivations
from hindsight.jobs.commands.what_if_command import effects, made
from hindsight.jobs.engines.asker import BadQueryError
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.spark_asker import SparkAsker
from hindsight.jobs.lake.what_ifs import WhatIfNameError, drop, what_if_root, what_ifs
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange, NoSuchDatesError, RunContext
from hindsight.jobs.scenarios.difference_causes import Causes, published_side
from hindsight.jobs.scenarios.table_differences import compared
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    EXPECTED_ALLOCATION,
    FAULT_ITEM_STATE,
    SEND_VERDICT,
    TABLES,
)
from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import SAMPLES
from tests.scenarios.scenario_lakes import versions, whole_rows

SHORT = "[0, 0, 3000, 6000, 12000, 18000, 60000]"
# What is already so: each in words of its own.
AS_IT_IS = {
    "strategy": 'group = {consumer_group = "g_avg", strategy = "AVG"}',
    "virtual nodes": 'group = {consumer_group = "g_hash", virtual_node_count = 10}',
    "nodes without a ring": 'group = {consumer_group = "g_avg", virtual_node_count = 99}',
    "leaves": 'group = {leaves = ["nobody@there"]}',
    "joins": 'group = {consumer_group = "g_bcast", joins = ["127.0.0.1@5.3.3_b2"]}',
    "queues": 'topic = {topic = "OracleOrders", queues = 4}',
    "no such topic": 'topic = {topic = "none", queues = 9}',
    "later": 'group = {strategy = "AVG_BY_CIRCLE", since = 2026-11-22T00:00:00Z}',
    "switch": 'producer = {producer_group = "pg_short", latency_fault_enabled = true}',
    "detector": 'producer = {producer_group = "pg_short", detector_enabled = false}',
    "ladder": f'producer = {{producer_group = "pg_short", not_available_ms = {SHORT}}}',
}
DERIVING = [job.derivation for job in (rebuild_availability, flag_allocation_drift)]
NOTHING = {effect: [] for effect in ("windows", "sends", "shares", "findings")}


def lake_of(root) -> LocalLake:
    return LocalLake(str(root), retention_days=7)


def make(root, settings, *premises, name="tried", dates=None):
    """A what-if of a lake; the lake that it is."""
    context = RunContext(str(root), *([dates] if dates else []))
    made(str(root), name, load_premises(premises), settings, context, DERIVING)
    return lake_of(what_if_root(str(root), name))


def rows_of(root, settings, name="tried"):
    return {effect: rows.to_pylist() for effect, rows in effects(str(root), name, settings)}


# All of them at once; each by itself, so that none hides what another does, is for the soak.
@pytest.mark.parametrize(
    "premises",
    [[*AS_IT_IS.values()], *(pytest.param([one], marks=pytest.mark.soak) for one in AS_IT_IS.values())],
    ids=["all of it", *AS_IT_IS],
)
def test_premises_that_say_what_is_so_change_nothing(sampled, settings, premises):
    before = versions(sampled)
    into = make(sampled, settings, *premises)
    own = _own(settings)
    assert list(differing(sampled, into, settings)) == []
    assert sum(len(into.rows(table)) for table in own) > 3000
    assert rows_of(sampled, settings) == NOTHING
    assert versions(sampled) == before


def test_a_premise_over_a_midnight_changes_nothing_either(midnight, settings):
    into = make(midnight, settings, 'group = {leaves = ["nobody@there"]}', dates=DateRange(date(2026, 1, 6)))
    for found in differing(midnight, into, settings, {date(2026, 1, 6)}):
        pytest.fail(f"{found.table.name}: {found.found.to_pylist()[:1]}")
    assert rows_of(midnight, settings) == NOTHING  # of the dates that were not derived again nothing is said


def differing(root, into, settings, asked=EVERY_DATE):
    """Where a what-if's own tables differ from what is published; causes are those of compare, and no matter here."""
    published = published_side(lake_of(root))
    causes = Causes(published, published, derivations(DERIVING, settings))
    return compared(published.lake, into, causes, asked, _own(settings))


def _own(settings):
    return [table for derivation in derivations(DERIVING, settings) for table in derivation.tables]


def test_what_a_ladder_would_do_is_what_the_same_record_with_that_ladder_says(sampled, settings, tmp_path):
    landing = tmp_path / "landing"
    shutil.copytree(SAMPLES, landing)
    for path in (landing / "producer_hook" / "cluster=oracle").iterdir():
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            if line["type"] == "start":
                line["notAvailableDuration"] = json.loads(SHORT)
        with gzip.open(path, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    run_here(settings, landing, tmp_path / "lake", ("ingest_send_records", "rebuild_availability"))
    into = make(sampled, settings, f"producer = {{not_available_ms = {SHORT}}}")
    for table in (BROKER_AVAILABILITY_WINDOW, FAULT_ITEM_STATE, SEND_VERDICT):
        there = whole_rows(lake_of(tmp_path / "lake"), table)
        assert whole_rows(into, table) == there, table.name
        assert there != whole_rows(lake_of(sampled), table)
    found = rows_of(sampled, settings)
    assert {row["certainty"] for rows in found.values() for row in rows} == {"open loop"}
    sends, windows = found["sends"], found["windows"]
    ends = {
        (row["client_id"], row["broker_name"], row["state"], row["window_start"]): row["window_end"]
        for row in lake_of(tmp_path / "lake").rows(BROKER_AVAILABILITY_WINDOW).to_pylist()
    }
    assert len(windows) > 20
    for row in windows:
        key = row["client_id"], row["broker_name"], row["state"]
        assert ends.get((*key, row["would_from"])) == row["would_to"]
        assert (*key, row["was_from"]) not in ends or row["was_to"] != row["would_to"]
    # A window that is shorter sets sends free; one that is longer moves some.
    assert any(row["could_come"] and row["would_avoid_s"] < row["avoided_s"] for row in sends)
    assert any(row["would_move"] and row["would_avoid_s"] > row["avoided_s"] for row in sends)
    assert all(row["would_move"] == 0 for row in sends if row["would_avoid_s"] < row["avoided_s"])


def test_without_the_switch_nothing_is_avoided(sampled, settings):
    into = make(sampled, settings, "producer = {latency_fault_enabled = false}")
    assert len(into.rows(BROKER_AVAILABILITY_WINDOW)) == 0
    sends = rows_of(sampled, settings)["sends"]
    assert sends and all(row["would_avoid_s"] == 0 for row in sends)
    # What moves then are retries: without the switch a client leaves out the broker that has just failed.
    moved = [row for row in into.rows(SEND_VERDICT).to_pylist() if row["verdict"] == "impossible"]
    assert moved and all(row["attempt"] and row["last_broker_name"] == row["broker_name"] for row in moved)
    assert sum(row["would_move"] for row in sends) == len(moved)
    assert all("(open loop)" in run for run in into.rows(SEND_VERDICT, ["run_id"])["run_id"].to_pylist())


@pytest.mark.parametrize("strategy", ["AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_what_a_strategy_would_do_is_what_settings_with_that_strategy_say(
    sampled, settings, settings_file, tmp_path, strategy
):
    own = tmp_path / "own.toml"
    named = f'\n[[drift.strategy]]\nconsumer_group = "g_avg"\nname = "{strategy}"\n'
    own.write_text(settings_file.read_text() + named)
    run_here(load_settings(own), SAMPLES, tmp_path / "lake", ("ingest_consumer_snapshots", "flag_allocation_drift"))
    into = make(sampled, settings, f'group = {{consumer_group = "g_avg", strategy = "{strategy}"}}')

    def shared(lake):
        rows = lake.rows(EXPECTED_ALLOCATION).to_pylist()
        return {
            (row["topic"], row["strategy"], row["queue_list_hash"], row["member_list_hash"]): [
                (queue["broker_name"], queue["queue_id"], queue["owner"]) for queue in row["allocation"] or ()
            ]
            for row in rows
            if row["consumer_group"] == "g_avg"
        }

    assert shared(into) == shared(lake_of(tmp_path / "lake")) != shared(lake_of(sampled))
    known = [row for row in rows_of(sampled, settings)["shares"] if row["unknown_because"] is None]
    assert known and all(0 < row["moved"] <= row["queues"] for row in known)
    for row in known:
        assert len([move for move in row["moves"] if move]) == row["moved"]


def test_a_group_of_which_nothing_can_be_expected_has_a_reason(sampled, settings):
    make(sampled, settings, 'group = {consumer_group = "g_avg", strategy = "AVG_BY_CIRCLE"}')
    unknown = [row for row in rows_of(sampled, settings)["shares"] if row["topic"] == "%RETRY%g_avg"]
    assert unknown and {row["unknown_because"] for row in unknown} == {"topic_route of %RETRY%g_avg: not_collected"}
    assert {row["moved"] for row in unknown} == {None}


def test_twice_as_many_queues_are_shared_too(sampled, settings):
    make(sampled, settings, 'topic = {topic = "OracleOrders", queues = 8}')
    shares = rows_of(sampled, settings)["shares"]
    assert {row["topic"] for row in shares} == {"OracleOrders"}
    assert {(row["queues"], row["would_queues"]) for row in shares} == {(12, 24)}
    (idle, *_) = [row for row in shares if row["consumer_group"] == "g_idle"]
    assert (idle["queues_each"], idle["would_each"]) == ("0 to 1", "1 to 2")
    codes = {(row["subject"], row["code"]): row["would"] for row in rows_of(sampled, settings)["findings"]}
    assert codes["g_idle", "IDLE_BY_DESIGN"] == 0


def test_a_what_if_shows_once_it_is_whole_and_goes_when_it_is_dropped(sampled, settings, monkeypatch):
    premise = 'group = {consumer_group = "g_avg", strategy = "AVG_BY_CIRCLE"}'
    derive_again = what_if.derive_again

    def broken(published, into, derivation, context):
        if derivation.job == "flag_allocation_drift":
            raise OSError
        return derive_again(published, into, derivation, context)

    with monkeypatch.context() as breaking:
        breaking.setattr(what_if, "derive_again", broken)
        with pytest.raises(OSError):
            make(sampled, settings, premise, name="cut_off")
    assert "cut_off" not in what_ifs(None, str(sampled))
    with pytest.raises(BadQueryError, match="what_if_cut_off_group_round"):
        LocalAsker(lake_of(sampled)).answer("SELECT * FROM what_if_cut_off_group_round")
    make(sampled, settings, premise, name="cut_off")
    note = what_ifs(None, str(sampled))["cut_off"]
    assert note["premises"] == {"group": [{"consumer_group": "g_avg", "strategy": "AVG_BY_CIRCLE"}]}
    drop(None, str(sampled), "cut_off")
    assert "cut_off" not in what_ifs(None, str(sampled))
    assert not (sampled / "what_if" / "cut_off").exists()
    with pytest.raises(WhatIfNameError, match="cut_off"):
        drop(None, str(sampled), "cut_off")


def test_dates_of_which_nothing_is_recorded_make_no_what_if(sampled, settings):
    with pytest.raises(NoSuchDatesError, match="2020-01-01"):
        day = date(2020, 1, 1)
        make(sampled, settings, "producer = {latency_fault_enabled = false}", name="none", dates=DateRange(day, day))
    assert "none" not in what_ifs(None, str(sampled))


@pytest.mark.parametrize(
    ("premise", "said"),
    [
        ("", "nothing is supposed"),
        ('group = {consumer_group = "g"}', "nothing of it"),
        ('group = {stategy = "AVG"}', "did you mean 'strategy'"),
        ('group = {strategy = "AVERAGE"}', "AVG_BY_CIRCLE"),
        ('group = {client_version = "9.9.9"}', "no known release"),
        ('producer = {client_version = "GO"}', "no known release"),
        ('topic = {topic = "t", queues = 0}', "greater than or equal to 1"),
        ('group = {joins = ["a"], since = 2026-11-21T00:00:00}', "timezone"),
        ('group = {strategy = "AVG"', "is not TOML"),
        ("groups = 1", "unknown key 'groups'; did you mean 'group'"),
    ],
)
def test_what_cannot_be_supposed_is_refused_with_what_can(premise, said):
    with pytest.raises(PremiseError, match=said):
        what_if.premises_of(load_premises([premise]))


def test_no_table_of_a_lake_is_named_like_one_of_a_what_if():
    assert not [name for name in TABLES if name.startswith("what_if")]


@pytest.mark.spark
def test_spark_answers_side_by_side_too(spark, sampled, settings):
    make(sampled, settings, 'group = {consumer_group = "g_avg", strategy = "AVG_BY_CIRCLE"}', name="on_spark")
    asked = "SELECT strategy, COUNT(*) AS rounds FROM what_if_on_spark_group_round GROUP BY strategy ORDER BY strategy"
    # Without names for the lake's own tables: they are not asked for.
    on_spark = SparkAsker(spark, Lake(spark, str(sampled), retention_days=settings.delta.retention_days))
    answers = [asker.answer(asked).read_all().to_pylist() for asker in (on_spark, LocalAsker(lake_of(sampled)))]
    assert answers[0] == answers[1]
    assert "AVG_BY_CIRCLE" in {row["strategy"] for row in answers[0]}
