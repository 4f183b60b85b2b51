"""The commands that ask a lake: without Spark, in the forms that people and machines read, and at a prompt."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from hindsight.conf.failure import DONE, DRIFT_FOUND, RUN_FAILED, WRONG_USAGE
from hindsight.jobs.asking.sql_output import write_answer
from hindsight.jobs.asking.sql_prompt import NameCompleter, ask
from hindsight.jobs.command_line import COMMANDS, app_of
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.publication_record import begin_commits
from hindsight.schemas import DRIFT_INCIDENT, GROUP_ROUND, QUALITY_RESULT, TABLES
from tests.commands import command
from tests.pipeline.random_tables import one_row, random_lake
from tests.without_spark import check_without_spark

ROOT = Path(__file__).parent.parent
AT = datetime(2026, 1, 5, 10, 0, 0, 250_000, UTC)
INCIDENT = {
    "cluster": "c",
    "consumer_group": "g",
    "severity": "HIGH",
    "root_cause": "UNEXPLAINED",
    "cause_key": "",
    "state": "OPEN",
    "opened_at": AT,
    "codes": ["ORPHAN_QUEUE"],
    "sentence": "a queue has no owner.",
    "event_date": AT.date(),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> LocalLake:
    """An open incident of a judged round."""
    made = LocalLake(str(tmp_path_factory.mktemp("lake")), retention_days=7)
    made.append(DRIFT_INCIDENT, one_row(DRIFT_INCIDENT, **INCIDENT))
    judged = {"cluster": "c", "consumer_group": "g", "round_at": AT, "verdict": "drift", "event_date": AT.date()}
    made.append(GROUP_ROUND, one_row(GROUP_ROUND, **judged))
    return made


def hindsight(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return command(*arguments, given=given or "")


QUERY = "SELECT consumer_group, codes, opened_at, severity = 'HIGH' AS severe, lag_now, 0.5 AS half FROM open_incidents"


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        (("drift",), DONE),
        (("drift", "--json", "--fail-on", "high"), DRIFT_FOUND),
        (("drift", "--group", "nobody"), WRONG_USAGE),
        (("sql", QUERY), DONE),
        (("sql", "SELECT * FROM open_incident"), WRONG_USAGE),
        (("sql", "SELECT * FROM drift_incident VERSION AS OF 0", "--json"), DONE),
        (("explain", "allocation_drift", "topic = 'x'"), WRONG_USAGE),
        (("check", "--table", "group_round"), DONE),
        (("check", "--table", "send_attempt"), WRONG_USAGE),
        (("check", "--from", "2025-01-01", "--to", "2025-01-02"), WRONG_USAGE),
        (("render-report",), DONE),
        (("render-report", "--from", "2025-01-01", "--to", "2025-01-02"), WRONG_USAGE),
    ],
    ids=str,
)
def test_what_is_asked_needs_no_spark(lake, arguments, ends):
    check_without_spark(*arguments, "--lake", lake.root, ends=ends)


@pytest.mark.parametrize("command", ["drift", "sql", "explain", "check", "render-report"])
def test_help_needs_no_spark(command):
    check_without_spark(command, "--help", ends=DONE)


HEAVY = {
    *("great_expectations", "prompt_toolkit", "pandas", "pyspark", "rich", "pyarrow", "deltalake", "duckdb"),
    *("jinja2", "hindsight.conf.settings", "hindsight.udfs.logs.client_log_events", "prometheus_client"),
    *("hindsight.udfs.landing.landing_formats", "hindsight.udfs.formats.mqadmin_lines"),
}


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends, of those that take long."""
    code = f"""
import sys; from hindsight.jobs.command_line import main
try: main()
finally: print(sorted({HEAVY!r} & sys.modules.keys()))
"""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("asked", [("drift",), ("sql", "SELECT * FROM open_incidents")], ids=str)
def test_a_question_loads_what_reads_tables_and_nothing_else(lake, asked):
    cuts_lines = {"rich"} if asked == ("drift",) else set()
    assert loaded_by(*asked, "--lake", lake.root) == {"pyarrow", "deltalake", "duckdb"} | cuts_lines


def test_a_run_loads_what_it_needs(tmp_path):
    """One that finds nothing new needs no engine, one that does neither Spark nor readers of other formats."""
    places = ("--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake"))
    folder = tmp_path / "landing/producer_hook/cluster=c"
    folder.mkdir(parents=True)
    needless = HEAVY - {"pyarrow", "deltalake", "duckdb", "jinja2"}
    known = {"hindsight.conf.settings", "hindsight.udfs.landing.landing_formats"}
    sample = ROOT / "data_samples/producer_hook/cluster=oracle/producer_4.7.1_laton.jsonl.gz"
    lines = gzip.decompress(sample.read_bytes()).splitlines(keepends=True)[:9]
    for name in ("a.jsonl", "b.jsonl"):  # rows that meet are compared
        (folder / name).write_bytes(b"".join(lines))
        assert loaded_by("run-pipeline", *places) & needless == known
    assert loaded_by("run-pipeline", *places) == known


def test_what_lists_the_commands_loads_none_of_them():
    assert loaded_by("--help") <= {"rich"}  # which draws it


def test_each_command_is_listed_with_its_own_help():
    for name, listed in COMMANDS.items():
        found = typer.main.get_command(app_of(name))
        command = getattr(found, "commands", {name: found})[name]
        assert command.get_short_help_str(1000) == listed.help, name


def test_spark_answers_only_where_it_is_asked_for(lake, tmp_path):
    """There is no Java where this looks for it."""
    without_java = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    for asked in (("--engine", "spark"), ("--master", "local[1]")):
        done = command("drift", "--lake", lake.root, *asked, env=without_java)
        assert (done.returncode, "Java" in done.stderr) == (RUN_FAILED, True), done.stderr
    done = command("drift", "--lake", lake.root, env=without_java)
    assert (done.returncode, done.stderr) == (DONE, "")


def test_an_incident_is_told_with_its_cause_what_to_do_and_where_its_evidence_is(lake):
    told = hindsight("drift", "--lake", lake.root).stdout.splitlines()
    assert told[:5] == [
        "As of the last judged round, 2026-01-05 10:00:00 UTC:",
        "",
        "HIGH  g (c), since 2026-01-05 10:00:00",
        "    a queue has no owner.",
        "    cause: UNEXPLAINED; found: ORPHAN_QUEUE",
    ]
    assert told[5].startswith("    next: Remove the difference between the members.")
    assert max(map(len, told)) <= 80
    evidence = told[-1].split()[1:]
    assert hindsight(*evidence[1:], "--lake", lake.root).stdout.startswith("== The row of drift_incident ==")
    no_id = hindsight("explain", "nothing", "--lake", lake.root)
    assert no_id.returncode == WRONG_USAGE and "there is no incident 'nothing'" in " ".join(no_id.stderr.split())
    (row,) = map(json.loads, hindsight("drift", "--lake", lake.root, "--json").stdout.splitlines())
    assert (row["opened_at"], row["codes"], row["lag_now"]) == ("2026-01-05T10:00:00.250000Z", ["ORPHAN_QUEUE"], None)


def test_drift_of_a_run_that_was_broken_off_is_not_taken_for_the_truth(tmp_path):
    made = random_lake(str(tmp_path), seed=3)
    begin_commits(made, "flag_allocation_drift", [ClusterDate("c", AT.date())])
    done = hindsight("drift", "--lake", str(tmp_path))
    assert done.returncode == RUN_FAILED and "rerun hindsight run-pipeline" in done.stderr


def test_an_answer_is_a_table_json_csv_or_parquet(lake, tmp_path):
    table = hindsight("sql", QUERY, "--lake", lake.root).stdout.splitlines()
    assert table == [
        "+--------------+--------------+----------------------+------+-------+----+",
        "|consumer_group|codes         |opened_at             |severe|lag_now|half|",
        "+--------------+--------------+----------------------+------+-------+----+",
        "|g             |[ORPHAN_QUEUE]|2026-01-05 10:00:00.25|true  |NULL   |0.5 |",
        "+--------------+--------------+----------------------+------+-------+----+",
    ]
    expected = {"consumer_group": "g", "codes": ["ORPHAN_QUEUE"], "opened_at": "2026-01-05T10:00:00.250000Z"}
    expected |= {"severe": True, "lag_now": None, "half": 0.5}
    (line,) = hindsight("sql", QUERY, "--lake", lake.root, "--json").stdout.splitlines()
    assert json.loads(line) == expected
    (fields,) = csv.DictReader(io.StringIO(hindsight("sql", QUERY, "--lake", lake.root, "--format", "csv").stdout))
    assert fields == {
        "consumer_group": "g",
        "codes": '["ORPHAN_QUEUE"]',
        "opened_at": "2026-01-05T10:00:00.250000Z",
        "severe": "true",
        "lag_now": "",
        "half": "0.5",
    }
    of_a_sheet = "SELECT '=HYPERLINK(1)' AS a, -1 AS b, '10.0.0.1@x' AS c"
    formula = hindsight("sql", of_a_sheet, "--lake", lake.root, "--format", "csv").stdout
    assert formula == "a,b,c\n'=HYPERLINK(1),-1,10.0.0.1@x\n"
    file = tmp_path / "answer.parquet"
    done = hindsight("sql", QUERY, "--lake", lake.root, "--format", "parquet", "--output", str(file))
    assert (done.returncode, done.stdout) == (DONE, "")
    stored = pq.read_table(file)
    assert stored.schema.field("opened_at").type == pa.timestamp("us", "UTC")
    assert stored.to_pylist()[0]["codes"] == ["ORPHAN_QUEUE"]
    piped = command("sql", QUERY, "--lake", lake.root, "--format", "parquet", text=False).stdout
    assert pq.read_table(io.BytesIO(piped)) == stored


def test_a_table_shows_a_hundred_rows_and_says_that_there_are_more_and_a_machine_gets_all(lake):
    many = "SELECT * FROM range(250)"
    shown = hindsight("sql", many, "--lake", lake.root).stdout.splitlines()
    assert (len(shown), shown[-1]) == (3 + 100 + 2, "only showing top 100 rows")
    few = hindsight("sql", many, "--lake", lake.root, "--limit", "2").stdout.splitlines()
    assert few[3:] == ["|0    |", "|1    |", "+-----+", "only showing top 2 rows"]
    whole = hindsight("sql", many, "--lake", lake.root, "--limit", "250").stdout.splitlines()
    assert whole[-1] == "+-----+"
    for form, heads in (("--json", 0), ("--format=csv", 1)):
        lines = hindsight("sql", many, "--lake", lake.root, form).stdout.splitlines()
        assert len(lines) == 250 + heads
        lines = hindsight("sql", many, "--lake", lake.root, form, "--limit", "3").stdout.splitlines()
        assert len(lines) == 3 + heads
    assert hindsight("sql", many, "--lake", lake.root, "--json", "--format=csv").returncode == WRONG_USAGE


def test_parquet_is_not_written_to_a_terminal(lake):
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "hindsight.jobs.command_line",
        "sql",
        QUERY,
        "--lake",
        lake.root,
        "--format",
        "parquet",
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == WRONG_USAGE and "--output" in done.stderr


def test_nested_values_and_wide_sums_are_whole_in_every_form(capsys):
    rows = pa.table(
        {
            "n": pa.array([2**70 + 1], pa.decimal128(38, 0)),
            "s": [{"a": None, "b": [True]}],
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    write_answer(rows.to_reader(), "table", None)
    assert f"|{2**70 + 1}|{{null, [true]}}|{{1}}|" in capsys.readouterr().out.replace(" |", "|")
    write_answer(rows.to_reader(), "json", None)
    assert json.loads(capsys.readouterr().out) == {"n": 2**70 + 1, "s": {"a": None, "b": [True]}, "m": {"k": 1}}


def test_a_query_may_come_through_a_pipe(lake):
    assert "|7  |" in hindsight("sql", "--lake", lake.root, given="SELECT 7 AS n\n").stdout


def test_a_wrong_name_is_told_with_what_is_near_in_one_line(lake):
    done = hindsight("sql", "SELECT * FROM open_incident", "--lake", lake.root)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (WRONG_USAGE, "", 1)
    assert "'open_incident'; there is open_incidents" in done.stderr


def test_checks_are_stored_and_one_that_fails_ends_with_2(tmp_path):
    made = LocalLake(str(tmp_path), retention_days=7)
    made.append(DRIFT_INCIDENT, one_row(DRIFT_INCIDENT, **INCIDENT | {"state": "UNHEARD_OF"}))
    done = hindsight("check", "--lake", str(tmp_path), "--json")
    assert done.returncode == 2 and "critical expectation(s) failed" in done.stderr
    stored = made.rows(QUALITY_RESULT).to_pylist()
    assert [row["success"] for row in stored] == [json.loads(line)["success"] for line in done.stdout.splitlines()]
    assert not all(row["success"] for row in stored) and {row["job"] for row in stored} == {"check_quality"}


# -- the prompt ----------------------------------------------------------------------------------------------------


def completions(text: str) -> list[str]:
    return [found.text for found in NameCompleter().get_completions(Document(text), CompleteEvent())]


def test_tables_views_and_the_columns_of_those_that_are_named_are_completed():
    assert completions("SELECT * FROM open_in") == ["open_incidents"]
    assert completions("SELECT * FROM SEND_V") == ["send_verdict"]
    assert completions("SELECT trigger_lat") == ["trigger_latency_ms"]
    assert completions("SELECT * FROM send_verdict WHERE trigger_lat") == []
    assert "admissible" in completions("SELECT * FROM send_verdict WHERE adm")
    assert completions("SEL") == ["SELECT"]
    assert completions("SELECT ") == []


def test_queries_are_asked_until_there_are_no_more_and_a_wrong_one_is_told(capsys):
    from hindsight.jobs.engines.asker import no_table

    asked = []

    def answer(query: str) -> None:
        asked.append(query)
        if "nowhere" in query:
            raise no_table("nowhere")

    with create_pipe_input() as typed:
        typed.send_text("SELECT 1;\nSELECT *\nFROM nowhere;\n\nSELECT 2;\nexit\nSELECT 3;\n")
        ask(answer, PromptSession(input=typed, output=DummyOutput()))
    assert asked == ["SELECT 1;", "SELECT *\nFROM nowhere;", "SELECT 2;"]
    assert "there is no table or view 'nowhere'" in capsys.readouterr().out


def test_without_a_query_a_terminal_gets_a_prompt(lake):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "sql", "--lake", lake.root]
    with subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.write(ours, b"SELECT 40 + 2 AS answer;\rexit\r")
        assert process.wait(timeout=60) == DONE
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 1 << 16):
                said += piece
        except OSError:  # the other end is closed
            pass
    assert b"|answer|" in said and b"|42    |" in said


def test_names_of_the_prompt_are_those_of_the_contracts():
    assert NameCompleter()._columns.keys() >= TABLES.keys()
