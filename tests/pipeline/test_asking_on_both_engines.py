"""DuckDB and Spark give the same answers, row by row: to views, to queries of the page, and to those of documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from jobs.engines.asker import records
from jobs.explain_row import explain
from jobs.open_drift import judged_until, open_incidents
from jobs.report_queries import report_data
from jobs.run_summary import summary
from jobs.sql_views import views
from tests.pipeline.random_tables import random_lake

ROOT = Path(__file__).parent.parent.parent
QUERIES = sorted(path.stem for path in (ROOT / "jobs/report/queries").glob("*.sql"))
# Of the page's queries, those that only tell the others what to ask for.
AHEAD = {"dates", "stretch", "fleet_span"}
# What the whole capture has nothing of.
NOTHING = {"refused", "refused_lines", "checks", "failed_checks", "publications"}
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


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


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


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in AHEAD])
def test_a_query_of_the_page_has_the_same_rows_in_the_same_order(pages, name):
    assert pages["local"][name] == pages["spark"][name]
    assert pages["local"][name] or name in NOTHING


def test_the_rest_of_the_page_is_the_same(pages):
    assert pages["local"] == pages["spark"]
    assert pages["local"]["dates"] == {"first": "2026-11-21", "last": "2026-11-21"}


def test_the_summary_is_the_same(askers):
    told = {engine: list(summary(asker)) for engine, asker in askers.items()}
    assert told["local"] == told["spark"] and len(told["local"]) > 30


def test_open_incidents_are_the_same(askers):
    found = {engine: (judged_until(asker), open_incidents(asker)) for engine, asker in askers.items()}
    assert found["local"] == found["spark"] and found["local"][1]


@pytest.mark.parametrize("table", EXPLAINED)
def test_an_explanation_is_the_same(askers, table):
    told = {
        engine: [(s.title, s.words, s.text()) for s in explain(asker, table, EXPLAINED[table])]
        for engine, asker in askers.items()
    }
    assert told["local"] == told["spark"] and len(told["local"]) > 3


def asked_in_documents() -> list[Any]:
    texts = [(path, path.read_text(encoding="utf-8")) for path in DOCUMENTS]
    found = [(path, query) for path, text in texts for query in ASKED.findall(text)]
    # The cookbook's blocks have a test of their own.
    found += [(path, query) for path, text in texts if path.name != "cookbook.md" for query in BLOCK.findall(text)]
    return [pytest.param(" ".join(query.split()), id=f"{path.name} {n}") for n, (path, query) in enumerate(found)]


def test_the_documents_have_queries():
    assert len(asked_in_documents()) >= 14


@pytest.mark.parametrize("query", asked_in_documents())
def test_a_query_of_the_documents_runs_as_it_stands_and_gives_the_same_rows(askers, query):
    found = {engine: records(asker, query) for engine, asker in askers.items()}
    assert in_any_order(found["local"]) == in_any_order(found["spark"])
    assert found["local"] or "quarantine" in query or "verdict = 'unknown'" in query  # the capture has neither


@pytest.fixture(scope="module")
def random_askers(spark, settings, tmp_path_factory):
    """Of tables with few values, any of them null, where it may: what a capture does not have."""
    from jobs.asking import spark_asker
    from jobs.engines.local_asker import LocalAsker

    lake = random_lake(str(tmp_path_factory.mktemp("random")), seed=1)
    yield {"local": LocalAsker(lake), "spark": spark_asker(spark, lake.root, settings)}
    spark.sql("USE default")


@pytest.mark.parametrize("name", [view.name for view in views()])
def test_a_view_over_random_rows_has_the_same_rows(random_askers, name):
    found = {engine: records(asker, f"SELECT * FROM {name}") for engine, asker in random_askers.items()}
    assert in_any_order(found["local"]) == in_any_order(found["spark"])


def test_a_page_of_random_rows_is_the_same(random_askers, settings):
    pages = {engine: report_data(asker, settings.report) for engine, asker in random_askers.items()}
    for name, rows in pages["spark"].items():
        assert pages["local"][name] == rows, name
    told = {engine: list(summary(asker)) for engine, asker in random_askers.items()}
    assert told["local"] == told["spark"]
