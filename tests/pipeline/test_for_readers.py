"""What those who read the tables are promised: the cookbook's answers, explanations, the page, and other readers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from hindsight.jobs import render_report
from hindsight.jobs.engines.asker import Asker, as_records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.report.report_page import page
from hindsight.jobs.report.report_queries import report_data
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES
from tests.pipeline.supposed import supposed_short

COOKBOOK = Path(__file__).parent.parent.parent / "docs" / "cookbook.md"
ENTRY = re.compile(
    r"^## (\d+\. .+?)$.*?```sql\n(.+?)```\n\n(All|Some) rows( of the samples)?:\n\n(.+?)\n\n", re.MULTILINE | re.DOTALL
)


def entries(*, of_samples: bool = False) -> list[Any]:
    """Question, SQL, whether all rows are promised, and the rows that are, the header first.

    ``of_samples``: of those whose rows are those of the samples alone, else of the captures too.
    """
    found = ENTRY.findall(COOKBOOK.read_text(encoding="utf-8") + "\n\n")
    return [
        pytest.param(sql, extent == "All", cells(table), id=question)
        for question, sql, extent, where, table in found
        if bool(where) == of_samples
    ]


def gives(asker: Asker, sql: str, promised: list[list[str]], *, all_rows: bool) -> None:
    """Check that a query gives what a document promises: the columns' names, then rows."""
    answer = asker.answer(sql).read_all()
    rows = [[_shown(value) for value in row.values()] for row in as_records(answer)]
    assert answer.column_names == promised[0]
    assert len(promised) > 1
    assert [row for row in promised[1:] if row not in rows] == [], rows
    assert not all_rows or rows == promised[1:]


def cells(table: str) -> list[list[str]]:
    """The cells of a table in Markdown, the header first."""
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    return [lines[0], *lines[2:]]


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "(none)"
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def test_the_cookbook_has_its_questions():
    asked = re.findall(r"^## \d+\. (.+\?)$", COOKBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(asked)) == len(entries()) + len(entries(of_samples=True)) == 38


@pytest.fixture(scope="module")
def cook(settings, story) -> Iterator[Asker]:
    """What answers the cookbook, beside the what-if that it asks about."""
    with supposed_short(story, settings):
        yield LocalAsker(LocalLake(str(story), retention_days=settings.delta.retention_days))


@pytest.mark.parametrize(("sql", "all_rows", "promised"), entries())
def test_a_query_of_the_cookbook_gives_what_it_promises(cook, sql, all_rows, promised):
    gives(cook, sql, promised, all_rows=all_rows)


# -- the page ------------------------------------------------------------------------------------------------------


def test_the_report_shows_the_drift_of_g_mix_and_every_isolation(settings, rows, story):
    path = Path(render_report.written(rows.asker, settings, RunContext(str(story))))
    html = path.read_text(encoding="utf-8")
    told = json.loads(re.search(r'id="island">(.*?)</script>', html, re.DOTALL).group(1))
    assert (path, list(story.glob(".*report*"))) == (story / "report.html", [])
    (mix,) = [m for m in told["matrices"] if m["consumer_group"] == "g_mix" and m["topic"] == "OracleOrders"]
    assert (mix["drift"], len(mix["at"])) == (68, 68)
    codes = [mix["found"][found][0] for _, alike, *_, found in dict(mix["queues"])["broker-a:2"] for _ in range(alike)]
    assert codes == ["DOUBLE_OWNED"] * 68
    assert len(told["windows"]) == len(rows("broker_availability_window")) > 40
    assert "The members of g_mix share by different strategies" in html
    assert "left-out" not in html


def test_the_report_shows_who_refused_each_broker_minute_by_minute_and_every_finding(settings, rows):
    data = report_data(rows.asker, settings.report)
    html = unescape(page(data))
    refused = rows("fleet_isolation", columns="broker_name, UNIX_MILLIS(minute_at) AS minute, isolating, active")
    step, begin = data["fleet_stretch"]["step"], data["fleet_stretch"]["begin"]
    cells = {(c["broker_name"], begin + c["bucket"] * step): c["worst"] for c in data["fleet_cells"] if c["refused"]}
    shown = {(broker, at, worst["isolating"], worst["active"]) for (broker, at), worst in cells.items()}
    assert step == 60_000  # the record is so short that each cell is a minute
    assert shown == {(r.broker_name, r.minute, r.isolating, r.active) for r in refused}
    assert {broker for broker, *_ in shown} == {"broker-a", "broker-b", "broker-c"}
    told = rows("producer_finding")
    assert len(told) > 20 and [row.sentence for row in told if row.sentence not in html] == []
    ranks = [["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"].index(f["severity"]) for f in data["producer_findings"]]
    assert ranks == sorted(ranks)
    assert sum(row["findings"] for row in data["producer_finding_codes"]) == len(told)


# -- other readers -------------------------------------------------------------------------------------------------


def test_delta_rs_polars_and_duckdb_read_every_table(story):
    """As many rows as the ledger of the table's own log counts."""
    made = [name for name in TABLES if (story / name).exists()]
    assert len(made) >= 20
    for name in made:
        path = f"{story}/{name}"
        stored = DeltaTable(path)
        expected = sum(pa.table(stored.get_add_actions(flatten=True))["num_records"].to_pylist())
        rows = stored.to_pyarrow_dataset()
        assert rows.count_rows() == expected, name
        with duckdb.connect() as reader:
            assert reader.register("rows", rows).sql("SELECT COUNT(*) FROM rows").fetchall() == [(expected,)], name
        assert polars.scan_delta(path).collect().height == expected, name


def test_other_readers_find_the_same_values(rows, story):
    path = f"{story}/broker_availability_window"
    query = """SELECT broker_name, COUNT(*) AS n, CAST(SUM(trigger_latency_ms) AS BIGINT) AS latency,
        MAX(window_start) AS last FROM {} GROUP BY broker_name ORDER BY broker_name"""
    expected = [tuple(row.values()) for row in rows.ask(query.format("broker_availability_window"))]
    with duckdb.connect() as reader:
        reader.execute("SET TimeZone = 'UTC'")
        reader.register("rows", DeltaTable(path).to_pyarrow_dataset())
        found = reader.sql(query.format("rows")).fetchall()
    assert [(*row[:3], row[3].replace(tzinfo=None)) for row in found] == expected
    frame = polars.SQLContext(rows=polars.scan_delta(path)).execute(query.format("rows")).collect()
    assert [(*row[:3], row[3].replace(tzinfo=None)) for row in frame.rows()] == expected
    assert len(expected) == 3
