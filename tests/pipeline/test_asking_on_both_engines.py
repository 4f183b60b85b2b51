"""DuckDB and Spark give the same answers, row by row: to queries of the page, to views and to those of documents.

The page and the summary are in `make test`; each view, recipe and query of a document by itself is in `make soak`.

The lake is this machine's engine's. What the answers must be, other tests say of DuckDB's alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hindsight.jobs import check_quality
from hindsight.jobs.asking.asking import spark_asker
from hindsight.jobs.asking.config_lint import lint
from hindsight.jobs.asking.incident_story import story as told_story
from hindsight.jobs.asking.message_life import messages
from hindsight.jobs.asking.message_told import as_values, told
from hindsight.jobs.asking.open_drift import NothingJudgedError, judged_until, open_incidents
from hindsight.jobs.asking.run_summary import summary
from hindsight.jobs.engines.asker import Asker, BadQueryError, as_records, records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.sql_views import views
from hindsight.jobs.explaining.explain_row import NotOneRowError, explain
from hindsight.jobs.report.report_parts import parts
from hindsight.jobs.report.report_queries import report_data
from hindsight.jobs.running.run_context import NoSuchDatesError, RunContext
from hindsight.schemas import TABLES
from tests.pipeline.random_tables import random_lake
from tests.pipeline.supposed import supposed_short
from tests.pipeline.test_explanations import NOT_ONE_ROW, REDONE
from tests.pipeline.test_for_readers import entries
from tests.pipeline.test_open_drift import CHECKED, checked_at, twice
from tests.pipeline.test_story_of_the_capture import examples

ROOT = Path(__file__).parent.parent.parent
QUERIES = sorted(path.stem for path in (ROOT / "jobs/report/queries").glob("*.sql"))
# Of the page's queries, those that only tell the others what to ask for, and what is for pages of single groups.
AHEAD, BESIDE = {"dates", "stretch", "fleet_span"}, {"owners"}
# What the whole capture has nothing of.
NOTHING = {
    *("refused", "refused_lines", "checks", "failed_checks", "publications"),
    *("assignments", "doubts", "route_changes", "routes_missing"),
}
DOCUMENTS = [ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").glob("*.md"))]
ASKED = re.compile(r'hindsight sql (?:--lake lake )?\\?"(SELECT .+?)\\?"', re.DOTALL)
BLOCK = re.compile(r"^```sql\n(.+?);?\n```$", re.MULTILINE | re.DOTALL)
EXPLAINED = {
    "broker_availability_window": "client_id = '127.0.0.1@4.9.8_async' AND broker_name = 'broker-a'",
    "allocation_drift": "consumer_group = 'g_mix' AND code = 'DOUBLE_OWNED' AND broker_name = 'broker-a' "
    "AND queue_id = 2 AND round_at = (SELECT MIN(round_at) FROM allocation_drift WHERE consumer_group = 'g_mix')",
    "send_verdict": "client_id = '127.0.0.1@4.7.1_oneway' AND begin_at = (SELECT MIN(begin_at) FROM send_verdict "
    "WHERE client_id = '127.0.0.1@4.7.1_oneway')",
}


@pytest.fixture(scope="module")
def askers(spark, settings, story) -> Iterator[dict[str, Asker]]:
    """What answers questions about the story, on each engine."""
    lake = LocalLake(str(story), retention_days=settings.delta.retention_days)
    with supposed_short(story, settings):
        yield {"local": LocalAsker(lake), "spark": spark_asker(spark, str(story), settings)}
        spark.sql("USE default")


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.soak
@pytest.mark.parametrize("name", [view.name for view in views()])
def test_a_view_has_the_same_rows_and_columns(askers, name):
    found = {engine: records(asker, f"SELECT * FROM {name}") for engine, asker in askers.items()}
    assert in_any_order(found["local"]) == in_any_order(found["spark"])
    names = {engine: asker.answer(f"SELECT * FROM {name}", 1).schema.names for engine, asker in askers.items()}
    (view,) = (view for view in views() if view.name == name)
    assert names["local"] == names["spark"] == list(view.columns)


@pytest.fixture(scope="module")
def pages(askers, settings):
    return {engine: report_data(asker, settings.report) for engine, asker in askers.items()}


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in AHEAD | BESIDE])
def test_a_query_of_the_page_has_the_same_rows_in_the_same_order(pages, name):
    assert pages["local"][name] == pages["spark"][name]
    assert pages["local"][name] or name in NOTHING


def test_the_rest_of_the_page_is_the_same(pages):
    assert pages["local"] == pages["spark"]
    assert pages["local"]["dates"] == {"first": "2026-11-21", "last": "2026-11-21"}


def test_pages_of_single_groups_and_brokers_say_the_same(askers, pages):
    made = {
        engine: parts(asker, pages[engine] | {"groups": pages[engine]["groups"][:1]})
        for engine, asker in askers.items()
    }
    assert made["local"] == made["spark"]
    assert {heading for part in made["local"] for heading, _, _ in part.lists} >= {"Topics", "Incidents", "Rebalances"}
    assert any(rows for part in made["local"] for heading, _, rows in part.lists if heading.startswith("Owners"))


def test_the_summary_is_the_same(askers):
    told = {engine: list(summary(asker)) for engine, asker in askers.items()}
    assert told["local"] == told["spark"] and len(told["local"]) > 30


def test_lint_finds_the_same(askers):
    one, other = (lint(asker, ()) for asker in askers.values())
    assert one == other and len({row["code"] for row in one}) > 3


def test_the_life_of_a_message_is_told_alike(askers):
    query = "SELECT msg_id FROM send_attempt WHERE outcome = 'SEND_OK' ORDER BY begin_at, msg_id LIMIT 1"
    (picked,) = records(next(iter(askers.values())), query)
    lives = {name: messages(asker, picked["msg_id"], by_key=False, late_s=60, days=1) for name, asker in askers.items()}
    one, other = ([*map(as_values, found)] for found in lives.values())
    assert one == other and one[0]["attempts"] and one[0]["groups"]
    texts = [[line for each in lives[name] for line in told(each, asker)] for name, asker in askers.items()]
    assert texts[0] == texts[1]


def test_an_incident_s_story_is_the_same(askers):
    of_each = []
    for asker in askers.values():
        incident, *_ = records(asker, "SELECT * FROM drift_incident ORDER BY opened_at, incident_id LIMIT 1")
        of_each.append(list(told_story(asker, incident)))
    assert of_each[0] == of_each[1] and len(of_each[0]) > 15


@pytest.mark.parametrize("group", ["*", "g_s*", "g_idle"])
def test_open_incidents_are_the_same(askers, group):
    found = {engine: (judged_until(a, group=group), open_incidents(a, group=group)) for engine, a in askers.items()}
    assert found["local"] == found["spark"] and found["local"][1]


@pytest.mark.soak
@pytest.mark.parametrize("picked", [{"group": "g_none"}, {"cluster": "none"}])
def test_of_groups_that_nobody_judged_nothing_is_said(askers, picked):
    for asker in askers.values():
        assert open_incidents(asker, **picked) == []
        with pytest.raises(NothingJudgedError, match="none"):
            judged_until(asker, **picked)


@pytest.mark.soak
@pytest.mark.parametrize(("table", "where"), [*EXPLAINED.items(), *REDONE])
def test_an_explanation_is_the_same(askers, table, where):
    told = {
        engine: [(s.title, s.words, s.text()) for s in explain(asker, table, where)] for engine, asker in askers.items()
    }
    assert told["local"] == told["spark"] and len(told["local"]) > 3


@pytest.mark.soak
@pytest.mark.parametrize(("where", "told"), NOT_ONE_ROW)
def test_a_condition_that_does_not_pick_one_row_is_refused_by_both(askers, where, told):
    for asker in askers.values():
        with pytest.raises(NotOneRowError, match=told):
            explain(asker, "broker_availability_window", where)


@pytest.mark.soak
@pytest.mark.parametrize(("sql", "all_rows", "promised"), entries())
def test_a_query_of_the_cookbook_gives_the_same_rows(askers, sql, all_rows, promised):
    answers = {engine: asker.answer(sql).read_all() for engine, asker in askers.items()}
    found = {engine: as_records(answer) for engine, answer in answers.items()}
    assert (
        found["local"] == found["spark"] if all_rows else in_any_order(found["local"]) == in_any_order(found["spark"])
    )
    assert answers["local"].column_names == answers["spark"].column_names == promised[0]


@pytest.mark.soak
@pytest.mark.parametrize("query", examples())
def test_the_example_in_each_views_header_runs_on_spark_too(askers, query):
    askers["spark"].answer(query, 1).read_all()


@pytest.mark.soak
@pytest.mark.parametrize("name", [*(view.name for view in views()), *TABLES])
def test_every_column_has_the_same_comment(askers, name):
    told = {engine: records(asker, f"DESCRIBE TABLE {name}") for engine, asker in askers.items()}
    local, spark = (
        {row["col_name"]: row["comment"] for row in rows if not row["col_name"].startswith("#")}
        for rows in told.values()
    )
    assert local == spark and all(local.values())


@pytest.mark.soak
def test_published_tables_pass_the_same_checks(askers):
    found = {engine: check_quality.run(asker, RunContext("landing"), CHECKED) for engine, asker in askers.items()}
    local, spark = (in_any_order(results) for results in found.values())
    assert local == spark and all(result["success"] for result in found["spark"])


@pytest.mark.soak
def test_only_rows_of_the_dates_asked_for_are_checked_on_spark(spark, settings, story, tmp_path):
    windows = tmp_path / "lake" / "broker_availability_window"
    shutil.copytree(story / "broker_availability_window", windows)
    twice(windows)
    try:
        asker = spark_asker(spark, f"{tmp_path}/lake", settings)
        assert (checked_at(asker, 21), checked_at(asker, 22)) == (False, True)
        with pytest.raises(NoSuchDatesError, match="2026-11-20"):
            checked_at(asker, 20)
    finally:
        spark_asker(spark, str(story), settings)  # a session has names for one lake: the story's again


def asked_in_documents() -> list[Any]:
    texts = [(path, path.read_text(encoding="utf-8")) for path in DOCUMENTS]
    found = [(path, query) for path, text in texts for query in ASKED.findall(text)]
    # The cookbook's blocks have a test of their own.
    found += [(path, query) for path, text in texts if path.name != "cookbook.md" for query in BLOCK.findall(text)]
    return [
        pytest.param(" ".join(query.split()), _may_be_empty(path, query), id=f"{path.name} {n}")
        for n, (path, query) in enumerate(found)
    ]


def _may_be_empty(path: Path, query: str) -> bool:
    """The capture has no refused line and no such verdict; some questions are about another capture."""
    of_others = "quarantine" in query or "verdict = 'unknown'" in query
    return of_others or path.name in ("operators-questions.md", "broker-assignment.md")


DOES_MORE = (
    "CREATE TABLE kept AS SELECT 1 AS a",
    "CREATE TEMPORARY VIEW mine AS SELECT 1 AS a",
    "DROP VIEW current_drift",
    "INSERT INTO quarantine SELECT * FROM quarantine",
    "WITH q AS (SELECT * FROM quarantine) INSERT INTO quarantine SELECT * FROM q",
    "DELETE FROM quarantine",
    "INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT 1 AS a",
    "SET spark.sql.shuffle.partitions = 7",
    "CACHE TABLE quarantine",
)


def test_spark_only_reads_too(askers, tmp_path):
    for query in DOES_MORE:
        with pytest.raises(BadQueryError, match="a lake is only read"):
            askers["spark"].answer(query.format(folder=tmp_path / "written"))
    assert not list(tmp_path.iterdir())
    for query in ("DESCRIBE TABLE quarantine", "SHOW VIEWS", "EXPLAIN SELECT 1", "VALUES (1)", "FROM quarantine"):
        assert askers["spark"].answer(query).read_all().num_columns


def test_the_documents_have_queries():
    assert len(asked_in_documents()) >= 14


@pytest.mark.soak
@pytest.mark.parametrize(("query", "may_be_empty"), asked_in_documents())
def test_a_query_of_the_documents_runs_as_it_stands_and_gives_the_same_rows(askers, query, may_be_empty):
    found = {engine: records(asker, query) for engine, asker in askers.items()}
    assert in_any_order(found["local"]) == in_any_order(found["spark"])
    assert found["local"] or may_be_empty


@pytest.fixture(scope="module", params=[1, 2, 5])
def random_askers(spark, settings, tmp_path_factory, request):
    """Of tables with few values, any of them null, where it may: what a capture does not have, ties among it."""
    lake = random_lake(str(tmp_path_factory.mktemp("random")), seed=request.param)
    yield {"local": LocalAsker(lake), "spark": spark_asker(spark, lake.root, settings)}
    spark.sql("USE default")


@pytest.mark.soak
@pytest.mark.parametrize("name", [view.name for view in views()])
def test_a_view_over_random_rows_has_the_same_rows(random_askers, name):
    found = {engine: records(asker, f"SELECT * FROM {name}") for engine, asker in random_askers.items()}
    assert in_any_order(found["local"]) == in_any_order(found["spark"])


@pytest.mark.soak
def test_a_page_of_random_rows_is_the_same(random_askers, settings):
    pages = {engine: report_data(asker, settings.report) for engine, asker in random_askers.items()}
    for name, rows in pages["spark"].items():
        assert pages["local"][name] == rows, name
    told = {engine: list(summary(asker)) for engine, asker in random_askers.items()}
    assert told["local"] == told["spark"]
