"""A run that finds nothing new leaves the page as it is; one that finds anything, or was broken off, does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hindsight.jobs import render_report
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.run_context import DateRange, RunContext
from hindsight.schemas import QUALITY_RESULT, SEND_ATTEMPT

LEFT = "left as it is"


def asker_of(lake: Path) -> LocalAsker:
    return LocalAsker(LocalLake(str(lake), retention_days=7))


@pytest.fixture
def refreshed(settings, producers, tmp_path):
    """Whether a refresh replaces the page."""
    lake = tmp_path / "lake"
    shutil.copytree(producers.lake, lake)
    context = RunContext(str(producers.landing))

    def refresh(with_settings=settings) -> bool:
        page = lake / "report.html"
        if page.exists():
            page.write_text(LEFT)
        assert Path(render_report.refreshed(asker_of(lake), with_settings, context)) == page
        return page.read_text() != LEFT

    refresh.lake = lake
    return refresh


def test_a_page_that_shows_what_the_tables_hold_is_left_as_it_is(settings, refreshed):
    assert refreshed()
    assert not refreshed()
    (refreshed.lake / "report.html").unlink()
    assert refreshed()
    checks = LocalLake(str(refreshed.lake), retention_days=7)
    checks.append(QUALITY_RESULT, checks.rows(QUALITY_RESULT).slice(0, 1))
    assert refreshed()
    assert not refreshed()
    more = settings.report.model_copy(update={"rows": settings.report.rows + 1})
    assert refreshed(settings.model_copy(update={"report": more}))
    assert refreshed()


def test_after_a_page_of_some_dates_the_next_run_makes_one_of_all(settings, producers, refreshed):
    lake = LocalLake(str(refreshed.lake), retention_days=7)
    (day,) = {*lake.rows(SEND_ATTEMPT, ["event_date"])["event_date"].to_pylist()}
    context = RunContext(str(producers.landing), DateRange(day, day))
    render_report.written(LocalAsker(lake), settings, context)
    assert refreshed()
    assert not refreshed()


def test_a_page_whose_run_ended_before_it_was_noted_is_made_anew(settings, tmp_path, monkeypatch):
    context, page = RunContext(""), tmp_path / "report.html"
    render_report.refreshed(asker_of(tmp_path), settings, context)
    note = LocalLake.note

    def killed(lake, name, text):
        if text is not None:
            raise KeyboardInterrupt
        note(lake, name, text)

    more = settings.report.model_copy(update={"rows": settings.report.rows + 1})
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(LocalLake, "note", killed)
        render_report.written(asker_of(tmp_path), settings.model_copy(update={"report": more}), context)
    page.write_text(LEFT)
    render_report.refreshed(asker_of(tmp_path), settings, context)
    assert page.read_text() != LEFT
