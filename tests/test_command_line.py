"""What the command line says: to a person on a terminal, to a machine elsewhere, and to somebody who mistyped."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hindsight.jobs.lake.lake_lease import LeaseFolder, take
from hindsight.jobs.lake.small_files import LocalStore
from hindsight.jobs.running.own_release import own_build, own_release
from hindsight.jobs.running.run_context import DateRange, Step
from hindsight.jobs.running.run_metrics import write_metrics
from tests.commands import command

ROOT = Path(__file__).parent.parent
STEP = """
import logging
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.running.terminal import start_log
start_log()
context = RunContext("landing", run_id="run-1")
try:
    with context.step("a_job") as step:
        tell("published", cluster="c", date="2026-01-05", rows=12345)
        logging.getLogger("a_library").info("nobody needs this")
        logging.getLogger("a_library").warning("beware of %s", "the dog")
        step.facts["rows"] = 7
        if FAILS:
            raise OSError("secret")
except OSError:
    pass
"""


def hindsight(*arguments: str) -> tuple[int, str]:
    done = command(*arguments)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("hindsight maint", 1, ["maintain"]),
        ("hindsight drift --fail", 2, ["--fail-on"]),
        ("hindsight watch --run-mi", 2, ["--run-minutes"]),
    ],
)
def test_a_shell_completes_commands_and_their_options(line: str, word: int, expected: list[str]) -> None:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(word), "_HINDSIGHT_COMPLETE": "complete_bash"}
    program = "import sys; sys.argv = ['hindsight']; from hindsight.jobs.command_line import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_an_error_names_the_help_of_its_own_command_and_the_lake_may_stand_in_the_environment(tmp_path: Path) -> None:
    program = "import sys; sys.argv = ['hindsight', 'drift']; from hindsight.jobs.command_line import main; main()"
    without = {name: value for name, value in os.environ.items() if name != "HINDSIGHT_LAKE"}
    said = [
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        ).stderr
        for env in (without, {**without, "HINDSIGHT_LAKE": str(tmp_path / "none")})
    ]
    assert "--lake" in said[0] and said[0].endswith("(see hindsight drift --help)\n")
    assert "--lake" not in said[1] and str(tmp_path / "none") in said[1]


def test_the_release_is_said() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hindsight.jobs.command_line", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == f"hindsight {own_release()} (build {own_build()})\n"


def logged(*, fails: bool = False) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-c", f"FAILS = {fails}\n{STEP}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


def on_a_terminal(code: str) -> tuple[str, str]:
    """What stderr shows there, and what stdout holds, which is none."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 4096):
                said += chunk
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        assert process.wait(timeout=60) == 0
    return said.decode().replace("\r\n", "\n"), printed


def test_elsewhere_each_event_is_a_line_of_json_with_run_and_job():
    begins, published, warned, ends = logged()
    assert {line["run_id"] for line in (begins, published, warned, ends)} == {"run-1"}
    assert {line["job"] for line in (begins, published, warned, ends)} == {"a_job"}
    assert [line["event"] for line in (begins, published, warned, ends)] == [
        "begins",
        "published",
        "beware of the dog",
        "ends",
    ]
    assert (published["cluster"], published["date"], published["rows"]) == ("c", "2026-01-05", 12345)
    assert warned["level"] == "warning"
    assert ends["rows"] == 7 and ends["seconds"] >= 0
    assert ends["at"].endswith("Z")


def test_a_job_that_fails_says_so_without_what_it_read():
    *_, fails = logged(fails=True)
    assert (fails["event"], fails["error"]) == ("fails", "OSError")
    assert "secret" not in json.dumps(fails)


def test_on_a_terminal_the_same_is_said_in_words():
    said = on_a_terminal(f"FAILS = False\n{STEP}")[0].splitlines()
    assert said[:3] == [
        "a_job: begins",
        "a_job: published (cluster c, date 2026-01-05, rows 12,345)",
        "a_job: beware of the dog",
    ]
    assert said[3].startswith("a_job: ends (rows 7, seconds ")


def test_progress_is_shown_on_the_terminal_and_leaves_stdout_alone():
    code = """
import time
from types import SimpleNamespace as Spark
from hindsight.jobs.running.terminal import progress
stage = Spark(name="scan parquet", numTasks=8, numCompletedTasks=3)
tracker = Spark(getActiveStageIds=lambda: [7], getStageInfo={7: stage}.get)
with progress(Spark(statusTracker=lambda: tracker)):
    time.sleep(1.5)
    print("a row", flush=True)
"""
    said, printed = on_a_terminal(code)
    assert "3 of 8 tasks, stages: scan parquet" in said
    assert "a row" not in said and printed == "a row\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run-pipelin",), "'run-pipeline'"),
        (("run-pipeline", "--landng", "x", "--lake", "y"), "--landing"),
        (("run-pipeline", "--landing", "x", "--lake", "y", "--from", "2026-02-01", "--to", "2026-01-31"), "is after"),
        (("run-pipeline", "--landing", "x", "--lake", "y", "--from", "yesterday"), "yesterday"),
        (("run-pipeline", "--landing", "x", "--lake", "y", "--metrics", "nowhere/m.prom"), "'nowhere'"),
        (("drift", "--lake", "nowhere"), "no lake at 'nowhere'"),
    ],
)
def test_who_mistypes_is_told_the_nearest_right_one_at_once(arguments, told):
    code, said = hindsight(*arguments)
    assert code == 64
    assert told in said and len(said.splitlines()) == 1


def test_ctrl_c_stops_a_run_at_once_and_in_one_sentence(tmp_path):
    command = ("run-pipeline", "--landing", "data_samples", "--lake", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-m", "hindsight.jobs.command_line", *command],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # who runs the tests in the background ignores Ctrl-C, and so would the run
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        before = next(line for line in process.stderr if '"reads files"' in line)
        os.killpg(process.pid, signal.SIGINT)
        *_, said = process.stderr.read().splitlines()
        assert process.wait(timeout=60) == 130
    assert json.loads(before)["job"] == "ingest_send_records"
    assert said == "hindsight: interrupted; a rerun takes up where this run stopped"


def test_a_run_on_a_lake_that_another_process_holds_ends_with_75_and_one_sentence(tmp_path):
    take(LeaseFolder("the lake", LocalStore(tmp_path / "_lease")), "the-first-run")
    code, said = hindsight("maintain", "--lake", str(tmp_path))
    assert code == 75
    sentence = said.splitlines()[-1]
    assert sentence.startswith(f"hindsight: {tmp_path} is being written by another run: run the-first-run, process")
    assert f"process {os.getpid()} on " in sentence


def test_instants_are_those_of_utc_wherever_the_machine_is():
    code = (
        "from hindsight.jobs.running.spark_session import count_time_in_utc; from datetime import datetime; "
        "count_time_in_utc(); print(datetime.fromtimestamp(0))"
    )
    elsewhere = {**os.environ, "TZ": "Asia/Shanghai"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=elsewhere, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1970-01-01 00:00:00\n"


def test_the_metrics_file_is_open_metrics_and_holds_what_each_job_told(tmp_path):
    file = tmp_path / "hindsight.prom"
    file.write_text("of an earlier run")
    steps = [
        Step("ingest_send_records", {"files": 3, "read": 120, "seconds": 1.5}),
        Step("rebuild_availability", {"dates": 2, "seconds": 30.25}),
        Step("render_report", {"page": "lake/report.html", "seconds": 4.0}),
    ]
    write_metrics(file, steps)
    families = {family.name: family for family in text_string_to_metric_families(file.read_text())}
    samples = {
        (s.name, s.labels["job"]): s.value for family in families.values() for s in family.samples if "job" in s.labels
    }
    assert samples == {
        ("hindsight_job_files", "ingest_send_records"): 3,
        ("hindsight_job_read", "ingest_send_records"): 120,
        ("hindsight_job_seconds", "ingest_send_records"): 1.5,
        ("hindsight_job_dates", "rebuild_availability"): 2,
        ("hindsight_job_seconds", "rebuild_availability"): 30.25,
        ("hindsight_job_seconds", "render_report"): 4.0,
    }
    (ended,) = families["hindsight_run_end_timestamp_seconds"].samples
    assert 0 <= time.time() - ended.value < 60
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


DAYS = st.none() | st.dates(date(2025, 1, 1), date(2026, 12, 31))


@given(DAYS, DAYS, st.integers(-3, 3))
def test_a_range_of_dates_holds_its_ends_and_what_lies_between(first, last, step):
    asked = DateRange(first, last)
    assert asked.is_given == (first is not None or last is not None)
    for end in filter(None, (first, last)):
        day = end + timedelta(days=step)
        assert (day in asked) == ((first is None or first <= day) and not asked.ends_before(day))
        assert asked.ends_before(day) == (last is not None and day > last)
