"""Pages in a real Chromium at 1440, 390 and 2560 px: no complaint, no request, no overflow, no name that runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hindsight.jobs.report.report_page import page
from hindsight.jobs.report.report_queries import report_data
from tests.page.browser import NO_CHROMIUM, WIDTHS, broken_words, chromium, looked_at, main, started_browser, violations
from tests.page.hostile import NAMES, hostile_data

BROKERS, PRODUCERS = 200, 2000
COLUMNS = """CURRENT_TIMESTAMP() AS computed_at, 'r' AS run_id, 'c' AS cluster, DATE'2026-11-21' AS event_date,
    'pg' AS producer_group, CONCAT('10.0.', p DIV 250, '.', p % 250, '@producer-', p) AS client_id,
    TIMESTAMP'2026-11-21 00:00:00' AS started_at, 'P498' AS profile, 'certain' AS certainty"""
# what is written on, in px of CSS: a centimetre of margin at each side
SHEETS = {"A4": 718, "Letter": 740}
in_chromium = pytest.mark.skipif(chromium() is None, reason=NO_CHROMIUM)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    pytest.importorskip("playwright")
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    pytest.importorskip("playwright")
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    path.write_text(page(hostile_data()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def fewer(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fewer") / "report.html"
    path.write_text(page(hostile_data(NAMES[-1:])), encoding="utf-8")
    return path


def test_without_a_browser_the_check_says_so_in_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "report.html").write_text("<p>")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(str(tmp_path / "report.html")) == 3
    assert capsys.readouterr().err.strip() == NO_CHROMIUM


@in_chromium
@pytest.mark.soak
def test_the_check_sees_an_error_a_request_and_an_overflow(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta name=viewport content='width=device-width'><div style='width:3000px'>wide</div>"
        "<script>console.error('told'); fetch('http://127.0.0.1:9/'); nothing()</script>"
    )
    for width in WIDTHS.values():
        with looked_at(browser, bad, width) as (_, said):
            wrong = "\n".join(said)
        assert [
            what
            for what in ("console error", "nothing is not", "http://127.0.0.1:9/", "wider than")
            if what not in wrong
        ] == []


@in_chromium
@pytest.mark.parametrize("width", WIDTHS.values())
def test_hostile_names_are_drawn_as_text_and_do_not_run(browser, hostile, width):
    with looked_at(browser, hostile, width) as (tab, said):
        for button in (
            "rows=producer",
            "columns=fit",
            "columns=wide",
            "zoom=in",
            "zone=local",
            "zoom=all",
            "rows=broker",
        ):
            tab.evaluate(f"document.querySelector('[data-{button}]').click()")
            tab.wait_for_timeout(100)
        drawn = tab.evaluate("[...document.querySelectorAll('#timeline title')].map(n => n.textContent)")
        assert {name for name in NAMES if not any(text.startswith(name) for text in drawn)} == set()
        members = tab.evaluate("[...document.querySelectorAll('#matrix-members bdi')].map(n => n.textContent)")
        assert members == [NAMES[0], f"{NAMES[0]}2"]
        titles = tab.evaluate("[...document.querySelectorAll('#fleet-strips title')].map(n => n.textContent)")
        assert titles == list(NAMES)
        tab.evaluate("document.querySelector('#fleet-strips .mark').dispatchEvent(new PointerEvent('pointerenter'))")
        told = tab.evaluate("document.querySelector('#fleet-told').textContent")
        assert told.startswith(NAMES[0]) and "1 of 2 active producers refused it (50 %)" in told
        assert "3 more could not be judged" in told
        for name in NAMES:
            tab.fill("#find", name)
            assert tab.evaluate("[...document.querySelectorAll('#found a')].map(n => n.textContent)"), name
        assert tab.evaluate("document.querySelectorAll('img').length") == 0
        assert said == []


@in_chromium
def test_its_own_policy_lets_the_drawings_be_made_and_all_is_laid_out_after(browser, hostile):
    skipped = "[...document.querySelectorAll('section')].some(n => getComputedStyle(n).contentVisibility !== 'visible')"
    with looked_at(browser, hostile, 1440, bare=False) as (tab, said):
        assert said == []
        assert [tab.locator(f"#{chart} svg").count() for chart in ("timeline", "matrix", "fleet-strips")] == [1, 1, 1]
        assert not tab.evaluate(skipped)


@in_chromium
@pytest.mark.parametrize("names", ["fewer", pytest.param("hostile", marks=pytest.mark.soak)])
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("light", 2560), ("dark", 1440)])
def test_axe_finds_nothing_serious_at_other_widths_and_in_the_dark(request, browser, names, scheme, width):
    """Only colours are others in the dark; rows of other names are drawn alike, so that one of each kind will do."""
    with looked_at(browser, request.getfixturevalue(names), width, scheme=scheme) as (tab, _):
        assert violations(tab) == []


@in_chromium
def test_axe_finds_nothing_serious(browser, hostile):
    with looked_at(browser, hostile, 1440) as (tab, _):
        assert violations(tab) == []


@in_chromium
@pytest.mark.parametrize("sheet", SHEETS.values(), ids=SHEETS)
def test_on_paper_nothing_runs_off_the_sheet_and_what_colour_says_stays(browser, hostile, sheet):
    beyond = f"n => n.getBoundingClientRect().right > {sheet}"
    with looked_at(browser, hostile, 1440) as (tab, _):
        tab.emulate_media(media="print")
        tab.set_viewport_size({"width": sheet, "height": 1000})
        tab.wait_for_timeout(300)
        tables = "document.querySelectorAll('table')"
        assert tab.evaluate(f"{tables}.length") > 10
        assert tab.evaluate(f"[...{tables}].filter({beyond}).map(n => n.closest('section').id)") == []
        assert tab.evaluate("document.documentElement.scrollWidth") == sheet
        assert tab.evaluate(f"[...document.querySelectorAll('.chart svg')].filter({beyond}).length") == 0
        assert tab.evaluate("getComputedStyle(document.querySelector('.severity')).printColorAdjust") == "exact"


@pytest.fixture(scope="module")
def with_usual_names(browser, tmp_path_factory) -> Iterator:
    """A page with names as clusters have them, of several words, wherever it has a table."""
    data = hostile_data()
    for row in (*data["rebalances"], *data["groups"], *data["failures"], *data["producers"]):
        row |= {
            "cluster": "DefaultCluster",
            "consumer_group": "please_rename_unique_group_name_4",
            "topic": "TopicTest",
        }
        row |= {"broker_name": "broker-a", "trigger_kind": "subscription_changed", "client_version": "5.3.3"}
        row |= {"client_id": "10.20.30.40@22341#2503479679860", "failed_with": "RemotingTooMuchRequestException"}
        row |= {"producer_group": "order_service_producer", "strategy": "AVG_BY_CIRCLE", "reasons": ["not recorded"]}
    path = tmp_path_factory.mktemp("usual") / "report.html"
    path.write_text(page(data | {"rounds": [], "cells": []}), encoding="utf-8")
    with looked_at(browser, path, 1440) as (tab, _):
        yield tab


@in_chromium
@pytest.mark.parametrize(
    ("media", "width"),
    [*(("print", width) for width in SHEETS.values()), *(("screen", width) for width in WIDTHS.values())],
)
def test_names_of_tables_go_on_in_the_next_line_between_words(with_usual_names, media, width):
    with_usual_names.emulate_media(media=media)
    with_usual_names.set_viewport_size({"width": width, "height": 1000})
    assert broken_words(with_usual_names) == []
    assert with_usual_names.evaluate("document.documentElement.scrollWidth") == width


@in_chromium
def test_a_drawing_is_as_wide_as_the_sheet_while_it_is_printed(browser, hostile):
    drawings = "[...document.querySelectorAll('#timeline svg, #fleet-strips svg')]"
    widths = f"{drawings}.map(n => n.getAttribute('viewBox').split(' ')[2])"
    with looked_at(browser, hostile, 1440) as (tab, _):
        on_screen = tab.evaluate(widths)
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert set(tab.evaluate(widths)) == {"678"}
        tab.evaluate("dispatchEvent(new Event('afterprint'))")
        assert tab.evaluate(widths) == on_screen and float(on_screen[0]) > 1000


@in_chromium
def test_the_keyboard_alone_leads_from_the_top_to_an_incident_s_evidence(browser, hostile):
    with looked_at(browser, hostile, 1440) as (tab, _):
        here = "document.activeElement"
        tab.keyboard.press("Tab")
        assert tab.evaluate(f"{here}.className") == "skip"
        tab.keyboard.press("Enter")
        tab.wait_for_function(f"{here}.id === 'now'")  # the page moves the focus itself, once it is told of the address
        for _ in range(4):  # the first incident's fold, which opens; then the link in it
            tab.keyboard.press("Tab")
            if tab.evaluate(f"{here}.tagName") == "SUMMARY":
                break
        tab.keyboard.press("Enter")
        tab.keyboard.press("Tab")
        assert tab.evaluate(f"{here}.textContent") == "Its history and evidence"
        tab.keyboard.press("Enter")
        tab.wait_for_function(f"{here}.id === 'incident-0'")
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        assert tab.evaluate(
            f"{here}.tagName === 'SUMMARY' && {here}.parentElement.open && {here}.textContent"
        ).endswith("evidence")


@in_chromium
def test_a_drawing_is_one_stop_of_the_tabulator_and_arrows_go_on(browser, hostile):
    with looked_at(browser, hostile, 1440) as (tab, _):
        for chart in ("timeline", "matrix", "fleet-strips"):
            assert tab.evaluate(f"document.querySelectorAll('#{chart} [tabindex=\"0\"]').length") == 1, chart
        tab.focus("#fleet-strips [tabindex='0']")
        tab.keyboard.press("ArrowRight")
        assert "1 of 2 active producers" in tab.evaluate("document.activeElement.getAttribute('aria-label')")


@in_chromium
def test_the_time_shown_stands_in_the_address_and_zooms_drawings_and_lists(browser, hostile):
    bars = "document.querySelectorAll('#timeline .mark').length"
    rows = "[...document.querySelectorAll('#incidents li[id]')].filter(n => !n.hidden).length"
    with looked_at(browser, hostile, 1440) as (tab, said):
        drawn, listed = tab.evaluate(bars), tab.evaluate(rows)
        tab.fill("#time input >> nth=0", "2026-11-21T09:25:00")
        tab.wait_for_url("**from=*")
        address = tab.url
        assert "from=2026-11-21T09%3A25%3A00" in address and said == []
        assert tab.evaluate(bars) < drawn and tab.evaluate(rows) < listed == len(NAMES)
        assert "rows of lists are of another time" in tab.text_content("#time-left")
        after = tab.evaluate(bars)
    with looked_at(browser, hostile, 1440, query=address[address.index("?") :] + "&zone=local") as (tab, _):
        assert tab.evaluate(bars) == after
        assert tab.get_attribute("[data-zone=local]", "aria-pressed") == "true"


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
def test_a_large_fleet_stays_small_and_says_what_is_left_out(large):
    assert large.stat().st_size < 2_000_000
    html = large.read_text(encoding="utf-8")
    assert "6,000 of 400,000 windows of the timeline are shown." in html
    assert "200 of 5,000 findings about producers and brokers are shown." in html


@in_chromium
@pytest.mark.soak
def test_a_large_fleet_can_be_looked_at(browser, large):
    with looked_at(browser, large, 1440) as (looked, said):
        assert said == []
        assert looked.evaluate("document.querySelectorAll('#timeline .row').length") == 41
        looked.evaluate("document.querySelector('#timeline .row-open').dispatchEvent(new MouseEvent('click'))")
        rows = looked.evaluate("[...document.querySelectorAll('#timeline .row')].map(n => n.textContent)")
        assert any("Show more: 40 of" in row for row in rows)
        assert any("of its 2000 windows are on this page, the longest" in row for row in rows)
        assert looked.evaluate("document.querySelectorAll('#fleet-strips .broker').length") == 40
        looked.evaluate("document.querySelector('#fleet-strips button').click()")
        assert looked.evaluate("document.querySelectorAll('#fleet-strips .broker').length") == 80
