"""`hindsight top`: what keys do, what a hostile name shows, and the whole of it on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console

from hindsight.jobs.commands import top_command
from hindsight.jobs.commands.top_command import PANELS, Panel, Top, _keys, asked_panels
from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.terminal import legible
from hindsight.schemas import QUEUE_PROGRESS
from hindsight.schemas.arrow_types import arrow_schema
from tests.pipeline.test_quality_gate import sound
from tests.test_asking_commands import INCIDENT, hindsight, lake  # noqa: F401  (a fixture)
from tests.test_terminal import NAME

ROOT = Path(__file__).parent.parent
ROWS = [["HIGH", "g_one", "a"], ["LOW", f"[bold red]{NAME}消费组", "b"]]


def view() -> Top:
    made = Top(lambda incident: [f"opened {incident}", NAME])
    made.panels["Incidents of groups"] = Panel(["severity", "group", "incident_id"], ROWS)
    made.panels["Groups by lag"] = Panel(["group", "messages"], [["g_one", "7"]])
    return made


def drawn(top: Top, width: int = 80) -> list[str]:
    page = StringIO()
    Console(file=page, width=width, color_system=None).print(top.shown(24))
    return page.getvalue().splitlines()


def test_names_are_text_and_every_line_fits():
    top = view()
    assert any("[bold red]" in line and "\\u001b" in line for line in drawn(top, 200))
    for keys in ("", "j", "\n"):
        for key in keys:
            top.press("open" if key == "\n" else key)
        assert all(cell_len(line) <= 80 and line == legible(line) for line in drawn(top))


def test_keys_choose_a_panel_filter_rows_and_open_one():
    top = view()
    for key in ("/", "O", "N", "E", "x", "erase", "open"):
        top.press(key)
    assert top.rows() == ROWS[:1] and any("Filter: ONE" in line for line in drawn(top))
    top.press("open")
    assert any("opened a" in line for line in drawn(top))
    top.press("back")
    assert top.filter == "ONE" and not any("opened" in line for line in drawn(top))
    top.press("back")
    assert top.rows() == ROWS
    top.press("j")
    top.press("open")
    assert any("opened b" in line for line in drawn(top))
    top.press("3")
    top.press("open")
    assert any("messages: 7" in line for line in drawn(top))
    top.press("tab")
    top.press("open")
    assert any("nothing" in line for line in drawn(top))
    assert not top.ended
    top.press("q")
    assert top.ended


def test_into_a_pipe_it_is_printed_once(lake):  # noqa: F811
    done = hindsight("top", "--lake", lake.root)
    assert done.returncode == 0, done.stderr
    assert [name for name in PANELS if f"{name}: " not in done.stdout] == []
    assert INCIDENT["sentence"] in done.stdout


def test_on_a_terminal_keys_open_an_incident_and_end_it(lake):  # noqa: F811
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "top", "--lake", lake.root]
    with subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as process:
        said = b""
        for awaited, key in ((b"Incidents of groups (1)", b"\r"), (b"drift_incident", b"\x1b"), (b"severity", b"q")):
            while awaited not in said:
                assert process.poll() is None, said
                said += os.read(ours, 4096) if select.select([ours], [], [], 1)[0] else b""
            said = b""
            os.write(ours, key)
        while process.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                os.read(ours, 4096)
        assert process.returncode == 0, process.stderr.read()
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_keys_that_come_together_are_pressed_one_by_one(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        with _keys() as next_key:
            os.write(ours, b"/1\r\x1b[B\x1b\x1b[Aq\t")
            assert [next_key(10) for _ in range(8)] == ["/", "1", "open", "j", "back", "k", "q", "tab"]
            assert next_key(0) is None
    os.close(ours)


def test_groups_of_equal_lag_keep_their_places(tmp_path):
    stored, at = LocalLake(str(tmp_path / "lake"), retention_days=7), datetime(2026, 1, 5, tzinfo=UTC)
    own = {"captured_at": at, "round_at": at, "event_date": at.date(), "broker_offset": 9, "consumer_offset": 2}
    own |= {"lag": 7, "cluster": "c", "topic": "T", "broker_name": "b", "queue_id": 0}
    rows = [sound(QUEUE_PROGRESS, **own, consumer_group=f"g{number:02}") for number in reversed(range(40))]
    stored.append(QUEUE_PROGRESS, pa.Table.from_pylist(rows, arrow_schema(QUEUE_PROGRESS)))
    shown = [row[1] for row in asked_panels(LocalAsker(stored))["Groups by lag"].rows]
    assert len(shown) > 5 and shown == sorted(shown) and shown[0] == "g00"


def test_lags_are_those_of_the_last_minutes_and_only_the_last_dates_are_read(tmp_path, monkeypatch):
    stored = LocalLake(str(tmp_path / "lake"), retention_days=7)
    last = datetime(2026, 1, 5, 0, 2, tzinfo=UTC)
    for number, at in enumerate((last - timedelta(days=9), last - timedelta(minutes=4), last)):
        own = {"captured_at": at, "round_at": at, "event_date": at.date(), "broker_offset": 9, "consumer_offset": 2}
        own |= {"consumer_group": f"g{number}", "lag": 7, "cluster": "c", "topic": "T"}
        own |= {"broker_name": "b", "queue_id": 0}
        row = sound(QUEUE_PROGRESS, **own)
        stored.append(QUEUE_PROGRESS, pa.Table.from_pylist([row], arrow_schema(QUEUE_PROGRESS)))
    asker = LocalAsker(stored)
    assert {row[1] for row in asked_panels(asker)["Groups by lag"].rows} == {"g1", "g2"}
    asked = []
    monkeypatch.setattr(top_command, "records", lambda _, text: asked.append(text) or records(asker, text))
    asked_panels(asker)
    lags = next(text for text in asked if "consume_delay" in text)
    assert lags.count("event_date >= DATE '2026-01-04'") == 2
    (plan,) = asker.answer(f"EXPLAIN {lags}", 1).read_all().column(1).to_pylist()
    assert "2026-01-04" in plan
