"""Pages in a real Chromium at 1440 and 390 px: no console error, no request, no overflow, no name that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindsight.jobs.report.report_page import page
from hindsight.jobs.report.report_queries import report_data
from tests.chromium import WIDTHS, check, main, tab
from tests.page.hostile import NAMES, hostile_data

BROKERS, PRODUCERS = 200, 2000
COLUMNS = """CURRENT_TIMESTAMP() AS computed_at, 'r' AS run_id, 'c' AS cluster, DATE'2026-11-21' AS event_date,
    'pg' AS producer_group, CONCAT('10.0.', p DIV 250, '.', p % 250, '@producer-', p) AS client_id,
    TIMESTAMP'2026-11-21 00:00:00' AS started_at, 'P498' AS profile, 'certain' AS certainty"""


def test_without_a_browser_the_check_says_so_in_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "report.html").write_text("<p>")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(str(tmp_path / "report.html")) == 3
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line == "no Chromium was found on PATH; install one (Debian: apt-get install chromium)."


@pytest.mark.soak
def test_the_check_sees_an_error_a_request_and_an_overflow(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta name=viewport content='width=device-width'><div style='width:2000px'>wide</div>"
        "<script>console.error('told'); fetch('http://127.0.0.1:9/'); nothing()</script>"
    )
    wrong = "\n".join(check(bad))
    for what in (
        "console error",
        "nothing is not defined",
        "asked the network for http://127.0.0.1:9/",
        "2008 px wide",
    ):
        assert wrong.count(what) >= len(WIDTHS), wrong


@pytest.mark.soak
@pytest.mark.parametrize("width", WIDTHS.values())
def test_hostile_names_are_drawn_as_text_and_do_not_run(tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(page(hostile_data()), encoding="utf-8")
    with tab() as looked:
        looked.open(path, width)
        for button in (
            "[data-rows=producer]",
            "[data-columns=fit]",
            "[data-columns=wide]",
            "[data-zoom=in]",
            "[data-rows=broker]",
        ):
            looked.value(f"document.querySelector('{button}').click()")
        drawn = looked.value("[...document.querySelectorAll('#timeline title')].map(n => n.textContent)")
        assert {name for name in NAMES if not any(text.startswith(name) for text in drawn)} == set()
        members = looked.value("[...document.querySelectorAll('#matrix-members bdi')].map(n => n.textContent)")
        assert members == [NAMES[0], f"{NAMES[0]}2"]
        titles = looked.value("[...document.querySelectorAll('#fleet-strips title')].map(n => n.textContent)")
        assert titles == list(NAMES)
        looked.value("document.querySelector('#fleet-strips .mark').dispatchEvent(new PointerEvent('pointerenter'))")
        told = looked.value("document.querySelector('#fleet-told').textContent")
        assert told.startswith(NAMES[0]) and "1 of 2 active producers refused it (50 %)" in told
        assert "3 more could not be judged" in told
        assert looked.value("document.querySelectorAll('img').length") == 0
        assert not [e for e in looked.events if e.get("method") == "Page.javascriptDialogOpening"]
        assert looked.complaints() == [] and looked.overflow() == []


def fleet_minutes(spark):
    """A day of them, in each of which another share of the producers refused a broker."""
    return spark.sql(
        f"""SELECT {COLUMNS}, TIMESTAMP'2026-11-21 00:00:00' + MAKE_DT_INTERVAL(0, 0, m) AS minute_at,
        CONCAT('broker-', b) AS broker_name, {PRODUCERS}L AS active, (m * 31 + b * 17) % {PRODUCERS} AS isolating,
        0L AS isolating_at_least, {PRODUCERS}L AS isolating_at_most, m % 7 AS active_unknown, 0L AS active_off,
        60000L AS attempts
        FROM (SELECT id % {BROKERS} AS b, id DIV {BROKERS} AS m, 0L AS p FROM RANGE({BROKERS} * 1440))"""
    )


def findings(spark):
    """More of them than the page lists."""
    return spark.sql(
        f"""SELECT {COLUMNS}, 'OVER_ISOLATION' AS code, 'MEDIUM' AS severity, 'b' AS broker_name,
        CONCAT('producer-', p) AS subject, TIMESTAMP'2026-11-21 01:00:00' AS `from`, ARRAY('e') AS evidence,
        CONCAT('producer-', p, ' held b not available.') AS sentence FROM (SELECT id AS p FROM RANGE(5000))"""
    )


@pytest.fixture(scope="module")
def large(spark, settings, tmp_path_factory) -> Path:
    """200 brokers, each isolated once by each of 2,000 producers: 400,000 windows, a day of minutes, 5,000 findings."""
    from hindsight.jobs.engines.delta_tables import Lake
    from hindsight.jobs.engines.local_asker import LocalAsker
    from hindsight.jobs.engines.local_lake import LocalLake
    from hindsight.schemas import TABLES

    root = tmp_path_factory.mktemp("large")
    lake = Lake(spark, str(root), retention_days=7)
    replayed = spark.sql(
        f"""SELECT {COLUMNS}, '4.9.8' AS client_version, true AS latency_fault_enabled, false AS detector_enabled,
        NAMED_STRUCT('client_version', '4.9.8', 'latency_fault_enabled', true, 'detector_enabled', false,
          'latency_max_ms', ARRAY(0L), 'not_available_ms', ARRAY(0L)) AS recorded,
        'replayed' AS verdict, ARRAY() AS reasons, 1000L AS attempts, ARRAY('producer_hook') AS sources,
        TIMESTAMP'2026-11-21 23:00:00' AS last_attempt_at
        FROM (SELECT id AS p FROM RANGE({PRODUCERS}))"""
    )
    windows = spark.sql(
        f"""SELECT *, window_start + MAKE_DT_INTERVAL(0, 0, 0, 30 + p % 570) AS window_end FROM (
        SELECT {COLUMNS}, p, CONCAT('broker-', b) AS broker_name, 'unavailable' AS state, 'expired' AS end_reason,
        false AS continues_previous, 'latency' AS trigger_kind, 3000L AS trigger_latency_ms, 30000L AS not_available_ms,
        1L AS attempts, TIMESTAMP'2026-11-21 00:00:00' + MAKE_DT_INTERVAL(0, 0, 0, (p * 37 + b * 311) % 80000)
        AS window_start FROM (SELECT id % {BROKERS} AS b, id DIV {BROKERS} AS p FROM RANGE({BROKERS * PRODUCERS})))"""
    )
    lake.append(TABLES["fleet_minute"], fleet_minutes(spark))
    lake.append(TABLES["producer_finding"], findings(spark))
    lake.append(TABLES["producer_replay"], replayed)
    lake.append(TABLES["broker_availability_window"], windows)
    asker = LocalAsker(LocalLake(str(root), retention_days=7))
    path = root / "report.html"
    path.write_text(page(report_data(asker, settings.report)), encoding="utf-8")
    return path


@pytest.mark.soak
def test_a_large_fleet_stays_under_10_mb_and_says_what_is_left_out(large):
    assert large.stat().st_size < 10_000_000
    html = large.read_text(encoding="utf-8")
    assert "20,000 of 400,000 windows of the timeline are shown." in html
    assert "300 of 5,000 findings about producers and brokers are shown." in html


@pytest.mark.soak
def test_a_large_fleet_can_be_looked_at(large):
    assert check(large) == []
    with tab() as looked:
        looked.open(large, 1440)
        assert looked.value("document.querySelectorAll('#timeline .row').length") == 41
        looked.value("document.querySelector('#timeline .row-open').dispatchEvent(new MouseEvent('click'))")
        rows = looked.value("[...document.querySelectorAll('#timeline .row')].map(n => n.textContent)")
        assert any("Show more: 40 of 100 lanes are drawn" in row for row in rows)
        assert any("100 of its 2000 windows are on this page, the longest" in row for row in rows)
        assert looked.value("document.querySelectorAll('#fleet-strips .broker').length") == 40
        assert looked.value("document.querySelector('#fleet-strips .broker').querySelectorAll('.mark').length") == 240
        looked.value("document.querySelector('#fleet-strips button').click()")
        assert looked.value("document.querySelectorAll('#fleet-strips .broker').length") == 80
