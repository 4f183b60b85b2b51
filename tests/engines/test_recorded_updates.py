"""What an explanation redoes of a fault table: attempts of traces too, of the sources that the replay went by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.explaining.explain_row import explain
from hindsight.schemas import BROKER_AVAILABILITY_WINDOW, PRODUCER_REPLAY, SEND_ATTEMPT
from tests.pipeline.random_tables import one_row

AT = datetime(2026, 1, 5, 10, tzinfo=UTC)
END = AT + timedelta(milliseconds=700)
PRODUCER = {"cluster": "c", "event_date": AT.date(), "producer_group": "g", "client_id": "p"}
LADDERS = {
    "latency_max_ms": [50, 100, 550, 1000, 2000, 3000, 15000],
    "not_available_ms": [0, 0, 30000, 60000, 120000, 180000, 600000],
}


def updates(root, sources, attempts):
    """The lines of the updates that explain a window from ``END`` on, each with how long it holds the broker, ms."""
    lake = LocalLake(str(root), retention_days=7)
    replay = {
        "started_at": None,
        "verdict": "replayed",
        "profile": "P43",
        "detector_enabled": False,
        "sources": sources,
    }
    lake.append(PRODUCER_REPLAY, one_row(PRODUCER_REPLAY, **PRODUCER, **replay, **LADDERS))
    window = {
        "broker_name": "b",
        "state": "unavailable",
        "window_start": END,
        "profile": "P43",
        "end_reason": "expired",
    }
    until = END + timedelta(seconds=30)
    lake.append(BROKER_AVAILABILITY_WINDOW, one_row(BROKER_AVAILABILITY_WINDOW, **PRODUCER, **window, window_end=until))
    own = {
        "broker_name": "b",
        "begin_at": AT,
        "end_at": END,
        "source_file": "f",
        "latency_ms": 700,
        "outcome": "SEND_OK",
    }
    rows = [
        one_row(SEND_ATTEMPT, **PRODUCER, **own, source=source, mode=mode, source_line=line, msg_id=f"m{line}")
        for line, (source, mode) in enumerate(attempts)
    ]
    lake.append(SEND_ATTEMPT, pa.concat_tables(rows))
    sections = explain(LocalAsker(lake), "broker_availability_window", "broker_name = 'b'")
    (found,) = [section.rows for section in sections if section.title.startswith("The producer's updates")]
    return [(row["line"], row["not_available_ms"]) for row in found]


@pytest.mark.parametrize("mode", [None, "SYNC"])
def test_an_attempt_without_mode_tells_what_a_sync_one_does(tmp_path, mode):
    assert updates(tmp_path, ["trace_topic"], [("trace_topic", mode)]) == [("f:0", 30_000)]


def test_attempts_of_a_source_that_the_replay_left_aside_are_not_shown(tmp_path):
    attempts = [("producer_hook", "SYNC"), ("trace_topic", None)]
    assert updates(tmp_path, ["producer_hook"], attempts) == [("f:0", 30_000)]
