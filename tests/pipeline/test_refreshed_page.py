"""A run that finds nothing new leaves the page as it is; one that finds anything, or was broken off, does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs import render_report
from jobs.delta_tables import Lake
from jobs.run_context import DateRange, RunContext
from schemas import SEND_ATTEMPT
from schemas.bookkeeping import QUALITY_RESULT

LEFT = "left as it is"


@pytest.fixture
def refreshed(spark, settings, producers, tmp_path):
    """Whether a refresh replaces the page."""
    lake = tmp_path / "lake"
    shutil.copytree(producers.lake, lake)
    context = RunContext(str(producers.landing))

    def refresh(with_settings=settings) -> bool:
        page = lake / "report.html"
        if page.exists():
            page.write_text(LEFT)
        assert Path(render_report.refresh(spark, with_settings, context, str(lake))) == page
        return page.read_text() != LEFT

    refresh.lake = lake
    return refresh


def test_a_page_that_shows_what_the_tables_hold_is_left_as_it_is(spark, settings, refreshed):
    assert refreshed()
    assert not refreshed()
    (refreshed.lake / "report.html").unlink()
    assert refreshed()
    checks = Lake(spark, str(refreshed.lake), retention_days=7)
    checks.append(QUALITY_RESULT, checks.read(QUALITY_RESULT).limit(1))
    assert refreshed()
    assert not refreshed()
    more = settings.report.model_copy(update={"rows": settings.report.rows + 1})
    assert refreshed(settings.model_copy(update={"report": more}))
    assert refreshed()


def test_after_a_page_of_some_dates_the_next_run_makes_one_of_all(spark, settings, producers, refreshed):
    (day,) = {row.event_date for row in Lake(spark, str(refreshed.lake), retention_days=7).read(SEND_ATTEMPT).collect()}
    context = RunContext(str(producers.landing), DateRange(day, day))
    render_report.run(spark, settings, context, str(refreshed.lake))
    assert refreshed()
    assert not refreshed()


def test_a_page_whose_run_ended_before_it_was_noted_is_made_anew(spark, settings, tmp_path, monkeypatch):
    context, page = RunContext(""), tmp_path / "report.html"
    render_report.refresh(spark, settings, context, str(tmp_path))
    note = Lake.note

    def killed(lake, name, text):
        if text is not None:
            raise KeyboardInterrupt
        note(lake, name, text)

    more = settings.report.model_copy(update={"rows": settings.report.rows + 1})
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Lake, "note", killed)
        render_report.run(spark, settings.model_copy(update={"report": more}), context, str(tmp_path))
    page.write_text(LEFT)
    render_report.refresh(spark, settings, context, str(tmp_path))
    assert page.read_text() != LEFT
