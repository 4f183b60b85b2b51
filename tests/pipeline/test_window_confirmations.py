"""What the clients of 5.3.3 wrote of their fault tables, against the windows that were replayed for them.

Their threads bear the producer's name there (`laton-t0`), so the log itself says whose a line is.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta

import pyarrow.compute as pc
import pytest

from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.sql_views import view_texts
from hindsight.schemas import BROKER_AVAILABILITY_WINDOW, CLIENT_EVENT, SEND_ATTEMPT
from hindsight.udfs.producer.window_confirmations import (
    WRITER,
    tells_of_faults,
    window_confirmations,
    windows_of_writers,
)
from tests.lake_rows import LakeRows

NAMED = re.compile(r"(\w+)-t\d+")


@pytest.fixture(scope="module")
def told(rows):
    return rows("window_confirmation")


def test_every_line_of_a_fault_table_is_told_of_once(rows, told):
    lines = rows("client_event", "kind IN ('broker_isolated', 'broker_unreachable', 'broker_reachable')", "kind")
    assert Counter(row.kind for row in told) == Counter(row.kind for row in lines)
    assert len(told) == 84


def test_every_replayed_window_of_these_clients_stands_in_their_log(rows):
    rates = {(r.client_id.split("_")[1], r.state): r for r in rows("window_match_rate")}
    assert {key: (r.windows, r.confirmed) for key, r in rates.items()} == {
        ("laton", "unavailable"): (10, 10),
        ("async", "unavailable"): (5, 5),
        ("detect", "unavailable"): (11, 11),
        ("detect", "unreachable"): (5, 5),
    }
    assert max(r.within_ms for r in rates.values()) <= 3


def test_a_window_of_which_no_line_shows_the_opening_is_not_confirmed(story, told):
    """The view over lines of which those of one window tell of later updates only."""
    query = view_texts()["window_match_rate"].partition("AS SELECT")[2].rstrip().rstrip(";")
    laton = [row for row in told if (row.client_id or "").endswith("laton")]
    first = f"client_id = '{laton[0].client_id}' AND window_start = TIMESTAMP'{min(r.window_start for r in laton)}'"
    shows = f"CASE WHEN {first} THEN 'lasted' ELSE shows END AS shows"
    rows = LakeRows(story)
    later = rows.asker.answer(f"SELECT * REPLACE ({shows}) FROM window_confirmation").read_all()
    rows.asker.name("window_confirmation", later)
    rates = rows.ask(f"SELECT * FROM (SELECT {query}) WHERE client_id = '{laton[0].client_id}'")
    assert [(r.windows, r.confirmed, r.share) for r in rates] == [(10, 9, 0.9)]


def test_a_line_is_given_to_the_producer_whose_thread_wrote_it(told):
    for row in told:
        named = NAMED.fullmatch(row.thread)
        if row.client_id is not None:
            producer = row.client_id.split("_")[1]
            assert producer == named[1] if named else producer in ("async", "detect")


def test_only_lines_of_a_producer_without_a_record_show_nothing(told):
    """No hook was in `short` of 5.3.3; the selector's lines are those of `oneway`, whose failures no hook sees."""
    silent = Counter(re.sub(r"[-_]t?\d+$", "", row.thread) for row in told if row.shows == "nothing")
    assert silent == {"short": 27, "NettyClientSelector": 5}


def test_the_detector_ends_a_window_before_a_send_shows_it(told):
    ended = [row for row in told if row.kind == "broker_reachable"]
    assert [(row.broker_name, row.shows, row.client_id[-6:]) for row in sorted(ended, key=lambda r: r.logged_at)] == [
        ("broker-b", "ended", "detect"),
        ("broker-c", "ended", "detect"),
    ]
    assert all(row.offset_ms < 0 for row in ended)


def test_a_log_whose_clock_is_off_confirms_no_window(rows, settings):
    lake = rows.asker.lake
    events = lake.rows(CLIENT_EVENT)
    later = pc.add(events["logged_at"], timedelta(milliseconds=200))
    late = events.set_column(events.column_names.index("logged_at"), "logged_at", later)
    lines = tells_of_faults(conformed_rows(late, CLIENT_EVENT))
    windows = windows_of_writers(lake.rows(BROKER_AVAILABILITY_WINDOW))
    threads = lake.rows(SEND_ATTEMPT, ["producer_group", "client_id", "thread"])
    writers = threads.rename_columns({"thread": "writer"}).select(WRITER.names).cast(WRITER)
    shown = window_confirmations(lines, windows, writers, within_ms=settings.confirmation.within_ms)
    assert len(shown) == 84 and Counter(shown["shows"].to_pylist())["opened"] == 0
