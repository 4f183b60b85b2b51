"""Runs of one process that share workers and open tables, and what they do not hand on."""

from __future__ import annotations

import gc
import multiprocessing
import os

import pyarrow as pa
import pytest

from bench.day import land
from hindsight.conf.failure import DONE, RUN_FAILED
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.watch_command import run_pipeline
from hindsight.jobs.engines.kept_between_runs import KeptBetweenRuns
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.opened import opened_here
from hindsight.jobs.engines.runner import Blob
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import INGESTED_FILE

MOST_LEFT = 300  # objects in cycles, of a command line: the page of six groups alone has 800 rows


def who(task):
    yield Blob("who", 0, 0, pa.table({"pid": [os.getpid()]}))


def run(root, tasks=2, error=None):
    """The lake of a run, and the processes that worked for it."""
    with opened_here(str(root), load_settings(None), RunContext("landing")) as (lake, runner, _):
        pids = {pid for table in runner.each(who, list(range(tasks))).tables("who") for pid in table["pid"].to_pylist()}
        if error:
            raise error
    return lake, pids


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


def alive():
    return {child.pid for child in multiprocessing.active_children()}


def test_a_run_goes_on_with_the_workers_and_tables_of_the_one_before(tmp_path):
    before = alive()
    with KeptBetweenRuns():
        first, workers = run(tmp_path / "lake")
        kept = alive() - before
        again, same = run(tmp_path / "lake")
        assert again is first and workers | same <= kept and os.getpid() not in workers
        assert alive() - before == kept
        elsewhere, _ = run(tmp_path / "other")
        assert elsewhere is not first
    assert alive() == before
    apart, _ = run(tmp_path / "lake")
    assert apart is not first and alive() == before


def test_a_run_that_needs_no_workers_ends_them(tmp_path):
    before = alive()
    with KeptBetweenRuns():
        run(tmp_path)
        assert alive() > before
        assert run(tmp_path, tasks=1)[1] == {os.getpid()}
        assert alive() == before


def test_what_a_run_that_failed_had_open_is_not_handed_on(tmp_path):
    before = alive()
    with KeptBetweenRuns():
        first, _ = run(tmp_path)
        with pytest.raises(ValueError, match="went wrong"):
            run(tmp_path, error=ValueError("went wrong"))
        assert alive() == before
        assert run(tmp_path)[0] is not first
    assert alive() == before


def test_no_new_lake_is_made_where_that_of_the_run_before_is_gone(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("hindsight.jobs.run_pipeline._page", lambda *_: "")  # nobody looks at it
    place, lake = tmp_path / "landing", tmp_path / "lake"
    words = ["--landing", str(place), "--lake", str(lake)]
    with KeptBetweenRuns():
        for number in range(2):
            land(place, number, 1, lines=20)
            assert run_pipeline(words) == DONE
        lake.rename(tmp_path / "away")
        for number in (2, 3):
            land(place, number, 1, lines=20)
            assert run_pipeline(words) == RUN_FAILED and not lake.exists()
            assert "has no tables any more: it was moved or removed" in capfd.readouterr().err
        (tmp_path / "away").rename(lake)
        assert run_pipeline(words) == DONE
    assert len(LocalLake(str(lake), retention_days=7).rows(INGESTED_FILE)) == 8
    lake.rename(tmp_path / "away")
    with KeptBetweenRuns():  # another process makes one
        assert run_pipeline(words) == DONE and lake.exists()


def test_a_dear_page_rests_and_is_made_when_it_is_due_though_nothing_is_new(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hindsight.jobs.engines.kept_between_runs._DEAR_CPU_S", -1)
    monkeypatch.setattr("hindsight.jobs.engines.kept_between_runs._REST", 1e9)
    landing, page = tmp_path / "landing", tmp_path / "lake" / "report.html"

    def runs_over(number=None):
        """Whether a run makes the page."""
        if number is not None:
            land(landing, number, 1, lines=5)
        page.exists() and page.write_text("left")
        assert run_pipeline(["--landing", str(landing), "--lake", str(tmp_path / "lake"), "--json"]) == 0
        assert str(page) in capsys.readouterr().out
        return page.read_text() != "left"

    with KeptBetweenRuns() as kept:
        assert runs_over(0)
        assert not runs_over(1) and not runs_over()
        kept.page_made(-1)
        assert kept.page_is_due() and runs_over()
        assert not kept.owes_page and not runs_over()
    assert runs_over(2) and runs_over(3)


def test_a_run_leaves_none_of_the_rows_that_it_made(tmp_path):
    words = ["--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")]
    gc.disable()
    try:
        with KeptBetweenRuns():
            land(tmp_path / "landing", 0, 2, lines=20, groups=6)
            assert run_pipeline(words) == 0
            assert "cells" in (tmp_path / "lake" / "report.html").read_text()
            left = gc.collect()
    finally:
        gc.enable()
    assert left < MOST_LEFT, left
