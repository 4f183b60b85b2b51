"""What a terminal shows of data: an escape sequence, a forged line or a turned direction stands as visible text."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hindsight.jobs.asking.open_drift import DriftFoundError, told
from hindsight.jobs.asking.sql_output import write_answer
from hindsight.jobs.explaining.explanation import Section
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.terminal import legible, say, wrapped, write, write_json

NAME = "\x1b[2Ja\x9b31mb\u202ec\u2028d\x07e\x7f\nno open incident\r"
SHOWN = "\\u001b[2Ja\\u009b31mb\\u202ec\\u2028d\\u0007e\\u007f\\u000ano open incident\\u000d"
ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 11, 21)


def assert_harmless(text: str, lines: int) -> None:
    assert len(text.splitlines()) == lines
    assert all(line == legible(line) for line in text.split("\n"))


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_and_nothing_else_is_changed(text):
    shown = legible(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert not any(c != "\t" and (c < " " or "\x7f" <= c <= "\x9f") for c in shown)
    if text.isascii() and text.isprintable():
        assert shown == text


def test_open_incidents_are_told_in_their_own_lines_only(capsys):
    incident = {"severity": "HIGH", "cluster": "c", "consumer_group": NAME, "opened_at": NOW, "sentence": NAME}
    incident |= {"root_cause": "GROUP_DOWN", "cause_key": NAME, "codes": ["GROUP_DOWN"], "incident_id": "ab12"}
    write(told([incident], NOW))
    said = capsys.readouterr().out
    assert all(line == legible(line) for line in said.split("\n"))
    # Every line but the first of all and that with the severity is indented: a name makes none that looks like another.
    first, empty, *lines = said.splitlines()
    assert first.startswith("As of") and not empty and lines[0].startswith("HIGH  ")
    assert all(line.startswith("    ") for line in lines[1:])
    assert said.replace("\n", "").replace(" ", "").count(SHOWN.replace(" ", "")) == 3
    write_json([incident])
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["consumer_group"] == NAME  # escaped as JSON does it: a machine reads the name itself
    assert line == legible(line)


@given(st.text(alphabet=st.characters(), max_size=400))
def test_a_wrapped_text_loses_nothing_but_spaces_and_fits(text):
    lines = wrapped(text, "    ")
    assert "".join("".join(lines).split()) == "".join(legible(text).split())
    assert all(cell_len(line) <= 80 for line in lines)


def test_an_explanation_is_told_in_its_own_lines_only(capsys):
    one = {"client_id": NAME, "members": [NAME], "owners": {"a": NAME}}
    for rows, lines in (([one], 4), ([one, one], 4)):
        write(Section("Title", "", rows).text().split("\n"))
        said = capsys.readouterr().out
        assert_harmless(said, lines)
        assert SHOWN in said


def test_what_goes_wrong_is_said_in_one_line(capsys):
    def found() -> None:
        raise DriftFoundError(f"1 open incident(s), in {NAME}")

    assert exit_code(found) == 1
    said = capsys.readouterr().err
    assert_harmless(said, 1)
    assert SHOWN in said


def test_a_stack_trace_is_shown_without_what_a_terminal_obeys(capsys):
    def fails() -> None:
        raise RuntimeError(NAME)

    assert exit_code(fails) == 3
    said = capsys.readouterr().err
    assert "Traceback" in said and SHOWN in said
    assert not set(said) & set("\x1b\x9b\u202e\u2028\x07\r")


def test_a_query_s_rows_and_columns_are_shown_without_what_a_terminal_obeys(capsys):
    rows = pa.table({"name": [NAME], "a\x1bb": [1]})
    write_answer(rows.to_reader(), "table", None, most=10)
    said = capsys.readouterr().out
    assert_harmless(said, 5)
    assert "no open incident" in said and "a\\u001bb" in said


def test_spark_s_own_log_holds_nothing_that_a_terminal_obeys(spark):
    lines = (ROOT / "conf/log4j2.properties").read_text(encoding="utf-8").splitlines()
    (pattern,) = (line.partition(" = ")[2] for line in lines if line.startswith("appender.console.layout.pattern"))
    log4j = spark._jvm.org.apache.logging.log4j
    layout = log4j.core.layout.PatternLayout.newBuilder().withAlwaysWriteExceptions(False)
    layout = layout.withPattern(pattern.replace("\\\\", "\\")).build()
    event = log4j.core.impl.Log4jLogEvent.newBuilder().setLevel(log4j.Level.ERROR).setLoggerName("org.a.Task")
    message = log4j.message.SimpleMessage(f"task failed: {NAME}")
    thrown = spark._jvm.java.lang.RuntimeException(f"quoted {NAME}")
    said = layout.toSerializable(event.setMessage(message).setThrown(thrown).build())
    assert " ERROR Task: task failed: ?[2Ja?31mb?c?d?e?\nno open incident?\n" in said
    assert "RuntimeException: quoted ?[2Ja" in said
    assert not set(said) & set("\x1b\x9b\u202e\u2028\x07\x7f\r")


LOGS = """
import logging
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.running.terminal import start_log
start_log()
tell("found " + NAME, file=NAME)
logging.getLogger("a_library").warning("cannot read %s", NAME)
"""


def test_a_line_of_the_log_is_one_line_whatever_a_name_holds():
    done = subprocess.run(
        [sys.executable, "-c", f"NAME = {NAME!r}\n{LOGS}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found, warned = done.stderr.split("\n")[:-1]
    assert json.loads(found)["file"] == NAME
    assert json.loads(warned)["event"] == f"cannot read {NAME}"
    assert_harmless(done.stderr, 2)


WIDE = "消费组" * 30


@pytest.mark.parametrize("width", [80, 120])
def test_rows_that_are_wider_than_the_terminal_stand_upright_and_fit(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    write_answer(pa.table({"consumer_group": [WIDE, NAME], "n": [1, 2]}).to_reader(), "table", None, most=10)
    said = capsys.readouterr().out
    assert all(cell_len(line) <= width and line == legible(line) for line in said.splitlines())
    assert "".join(said.split()).replace("consumer_group", "").count("消费组") == 30
    assert "- 2 -" in said and "[bold]" not in said


def test_rows_that_fit_are_framed_with_wide_characters_measured(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    write_answer(pa.table({"a": ["消费组", "[red]x"], "b": [1, 2]}).to_reader(), "table", None, most=10)
    lines = capsys.readouterr().out.splitlines()
    assert {cell_len(line) for line in lines} == {cell_len(lines[0])} and "|[red]x|2  |" in lines[-2]


def test_a_pipe_gets_whole_lines_and_a_terminal_lines_that_fit(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    say([f"  {WIDE}", "short"])
    assert capsys.readouterr().out == f"  {WIDE}\nshort\n"
    monkeypatch.setenv("COLUMNS", "80")
    say([f"  {WIDE}", "short"])
    first, *others, last = capsys.readouterr().out.splitlines()
    assert (first.startswith("  消"), last, len(others)) == (True, "short", 2)
    assert all(line.startswith("      ") and cell_len(line) <= 80 for line in others)
    assert all(cell_len(line) <= 80 for line in Section("T", "", [{"a": WIDE, "b": NAME}] * 2).text(80).split("\n"))


def test_severity_has_a_colour_only_where_somebody_looks(monkeypatch, capsys):
    write(["CRITICAL  g", "a CRITICAL b"])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write(["CRITICAL  g", "a CRITICAL b"])
    assert capsys.readouterr().out == "\x1b[1;31mCRITICAL\x1b[0m  g\na CRITICAL b\n"
    monkeypatch.setenv("NO_COLOR", "1")
    write(["CRITICAL  g"])
    assert "\x1b" not in capsys.readouterr().out
