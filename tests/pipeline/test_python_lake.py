"""A lake from Python: every table and view in every form, only what is picked, and nothing written; its page runs."""

from __future__ import annotations

import doctest
import hashlib
import math
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

from hindsight import Lake
from hindsight.conf.failure import ExpectedError
from hindsight.jobs.asking.open_drift import HalfPublishedError, NothingJudgedError
from hindsight.jobs.asking.python_lake import NoLakeError, NotInstalledError
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.sql_views import columns_by_name, views
from hindsight.jobs.engines.stored_table import UnreadableTableError
from hindsight.jobs.explaining.explain_row import explain
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import NoLocalEngineError
from hindsight.jobs.publishing.publication_record import begin_commits
from hindsight.schemas import DRIFT_INCIDENT, GROUP_ROUND, QUARANTINE, SEND_ATTEMPT, TABLES
from tests.pipeline.random_tables import one_row, random_lake
from tests.random_examples import SOAKING

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "python.md"
AT = datetime(2026, 1, 5, 10, 0, 0, 250_000, UTC)
DAY = AT.date()


def incident(at: datetime = AT, **values: Any) -> pa.Table:
    given = {"cluster": "c", "consumer_group": "g", "severity": "HIGH", "state": "OPEN", "opened_at": at}
    return one_row(DRIFT_INCIDENT, **given | {"event_date": at.date(), "sentence": "a queue has no owner."} | values)


@pytest.fixture
def stored(tmp_path) -> LocalLake:
    """Incidents of two clusters and three dates, one of them without a lag; a round was judged."""
    made = LocalLake(str(tmp_path / "lake"), retention_days=7)
    made.append(DRIFT_INCIDENT, incident(lag_now=2**53 + 1))
    made.append(DRIFT_INCIDENT, incident(AT + timedelta(days=1), cluster="it's d", severity="LOW"))
    made.append(DRIFT_INCIDENT, incident(AT + timedelta(days=2), consumer_group="h"))
    judged = {"cluster": "c", "consumer_group": "g", "round_at": AT, "verdict": "drift", "event_date": DAY}
    made.append(GROUP_ROUND, one_row(GROUP_ROUND, **judged))
    return made


@pytest.fixture
def lake(stored) -> Lake:
    return Lake(stored.root)


def answers(lake: Lake) -> dict[str, Any]:
    return {name: lake.table(name) for name in lake.tables} | {name: lake.view(name) for name in lake.views}


def state(root: Path) -> dict[str, str]:
    """Every file below a folder with a digest of its bytes."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def as_a_set(rows: pa.Table) -> list[str]:
    """Rows whose order is promised by nobody."""
    return sorted(map(repr, rows.to_pylist()))


# -- what there is, in every form --------------------------------------------------------------------------------------


def test_tables_and_views_are_named_with_what_they_show(lake):
    assert lake.tables == {table.name: table.comment for table in TABLES.values()}
    assert lake.views["open_incidents"] == "Incidents that are not resolved"
    assert [*lake.views] == [view.name for view in views()]
    assert min(map(len, (*lake.tables.values(), *lake.views.values()))) > 20


def is_same_as_a_stream(answer: Any, rows: pa.Table) -> bool:
    counted = duckdb.sql("SELECT COUNT(*) FROM answer").fetchall()
    return as_a_set(pa.table(answer)) == as_a_set(rows) and counted == [(len(rows),)]


def is_same_in_polars(answer: Any, rows: pa.Table) -> bool:
    frame = answer.polars()
    shown = (frame.shape, frame.columns) == ((len(rows), len(rows.column_names)), rows.column_names)
    return shown and (not len(rows) or frame.null_count().row(0) == tuple(nulls_of(rows)))


def is_same_in_pandas(answer: Any, rows: pa.Table) -> bool:
    table = answer.pandas()
    shown = (table.shape, [*table.columns]) == ((len(rows), len(rows.column_names)), rows.column_names)
    return shown and table.isna().sum().tolist() == nulls_of(rows)


def is_same_on_paper(answer: Any, rows: pa.Table) -> bool:
    lines = repr(answer).count("\n|"), answer._repr_html_().count("<tr>")
    return lines == (min(len(rows), 20) + 1,) * 2


def nulls_of(rows: pa.Table) -> list[int]:
    return [rows[column].null_count for column in rows.column_names]


FORMS = (is_same_as_a_stream, is_same_in_polars, is_same_in_pandas, is_same_on_paper)


@pytest.mark.random
def test_every_table_and_view_is_the_same_in_every_form_and_nothing_is_written(tmp_path):
    """Every second in one form after the other; all in each form in the soak."""
    stored = random_lake(str(tmp_path), seed=7)
    before, versions = state(tmp_path), {name: stored.version(table) for name, table in TABLES.items()}
    lake, with_rows = Lake(tmp_path), set()
    for number, (name, answer) in enumerate(answers(lake).items()):
        rows = answer.arrow()
        assert rows.column_names == columns_by_name()[name], name
        for is_same in FORMS if SOAKING else FORMS[number % 8 : number % 8 + 1]:
            assert is_same(answer, rows), (name, is_same)
        with_rows |= {name} if len(rows) else set()
    assert TABLES.keys() < with_rows and isinstance(lake.open_incidents(), list)
    assert {name: stored.version(table) for name, table in TABLES.items()} == versions
    assert state(tmp_path) == before and len(before) > 2 * len(TABLES)


def test_null_stays_null_and_whole_numbers_keep_their_digits(lake):
    answer = lake.sql("SELECT lag_now, opened_at FROM drift_incident ORDER BY opened_at LIMIT 2")
    assert answer.arrow()["lag_now"].to_pylist() == [2**53 + 1, None]
    assert answer.polars()["lag_now"].to_list() == [2**53 + 1, None]
    frame = answer.pandas()
    assert frame["lag_now"][0] == 2**53 + 1 and frame["lag_now"][1] is pandas.NA
    assert frame["opened_at"][0] == pandas.Timestamp(AT)
    assert not any(isinstance(value, float) and math.isnan(value) for value in frame["lag_now"])


def test_other_libraries_read_an_answer_itself(lake):
    answer = lake.table("drift_incident", columns=["cluster", "lag_now"])
    assert polars.DataFrame(answer).sort("cluster")["cluster"].to_list() == ["c", "c", "it's d"]
    own = duckdb.sql("SELECT cluster, COUNT(*) AS n FROM answer GROUP BY cluster ORDER BY cluster").fetchall()
    assert own == [("c", 2), ("it's d", 1)]


# -- what is picked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("picked", "found"),
    [
        ({}, ["c g 5", "it's d g 6", "c h 7"]),
        ({"cluster": "it's d"}, ["it's d g 6"]),
        ({"cluster": "nobody"}, []),
        ({"dates": "2026-01-06"}, ["it's d g 6"]),
        ({"dates": DAY}, ["c g 5"]),
        ({"dates": ("2026-01-06", None)}, ["it's d g 6", "c h 7"]),
        ({"dates": (None, date(2026, 1, 6))}, ["c g 5", "it's d g 6"]),
        ({"dates": ("2026-01-05", "2026-01-06")}, ["c g 5", "it's d g 6"]),
        ({"where": "severity = 'HIGH'"}, ["c g 5", "c h 7"]),
        ({"where": "severity = 'LOW' OR consumer_group = 'h' -- any", "cluster": "c"}, ["c h 7"]),
        ({"where": "severity = 'HIGH'", "dates": ("2026-01-06", None), "cluster": "c"}, ["c h 7"]),
    ],
)
def test_rows_are_picked_by_condition_date_and_cluster(lake, picked, found):
    rows = lake.table("drift_incident", columns=["cluster", "consumer_group", "event_date"], **picked).arrow()
    shown = {f"{row['cluster']} {row['consumer_group']} {row['event_date'].day}" for row in rows.to_pylist()}
    assert shown == set(found)


def test_a_view_is_picked_from_too_and_keeps_its_order(lake):
    rows = lake.view("open_incidents", columns=["severity", "opened_at"]).arrow()
    assert rows["severity"].to_pylist() == ["HIGH", "HIGH", "LOW"]
    assert lake.view("open_incidents", columns="severity", cluster="it's d").arrow().to_pylist() == [
        {"severity": "LOW"}
    ]


def test_columns_come_in_the_order_asked_for(lake):
    assert lake.table("drift_incident", columns=("state", "cluster")).arrow().column_names == ["state", "cluster"]


def test_files_of_other_dates_stay_closed(stored, lake):
    (gone,) = (file for file in stored.files(DRIFT_INCIDENT) if file.event_date == DAY)
    (Path(stored.path(DRIFT_INCIDENT)) / gone.path).unlink()
    assert lake.table("drift_incident", dates=("2026-01-06", None)).arrow().num_rows == 2
    with pytest.raises(ValueError, match="Failed to open"):
        lake.table("drift_incident").arrow()


def test_a_table_is_read_as_it_was(stored, lake):
    counts = [lake.table("drift_incident", as_of=version).arrow().num_rows for version in range(4)]
    assert counts == [0, 1, 2, 3]
    now = datetime.now(UTC)
    for instant in (now, now.replace(tzinfo=None), now.astimezone()):
        assert lake.table("drift_incident", as_of=instant).arrow().num_rows == 3
    with pytest.raises(ValueError, match="no version '9'"):
        lake.table("drift_incident", as_of=9)
    assert lake.sql("SELECT * FROM drift_incident VERSION AS OF 1").arrow().num_rows == 1


# -- when it is read ---------------------------------------------------------------------------------------------------


def test_an_open_lake_and_an_answer_show_what_a_later_run_has_found(stored, lake):
    answer = lake.view("open_incidents")
    assert len(answer.arrow()) == 3
    stored.append(DRIFT_INCIDENT, incident(AT + timedelta(days=3)))
    assert len(answer.arrow()) == 4


def test_an_answer_may_be_read_piece_by_piece_while_others_are_asked(tmp_path):
    made = LocalLake(str(tmp_path), retention_days=7)
    many = one_row(SEND_ATTEMPT, cluster="c", event_date=DAY).take([0] * 300_000)
    made.append(SEND_ATTEMPT, many)
    lake = Lake(tmp_path)
    answer = lake.table("send_attempt", columns=["cluster"])
    stream = pa.RecordBatchReader.from_stream(answer)
    first = stream.read_next_batch()
    assert 0 < len(first) < len(many)
    assert lake.sql("SELECT COUNT(*) AS n FROM send_attempt").arrow()["n"].to_pylist() == [len(many)]
    assert len(first) + sum(map(len, stream)) == len(many)
    pa.RecordBatchReader.from_stream(answer).read_next_batch()  # and dropped
    assert len(answer.arrow()) == len(many)


def test_several_threads_ask_at_once(lake):
    def asked(_: int) -> tuple[int, int]:
        return len(lake.table("drift_incident").arrow()), len(lake.view("open_incidents").arrow())

    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(asked, range(16))} == {(3, 3)}


def test_a_closed_lake_answers_no_more(stored):
    with Lake(stored.root) as lake:
        answer = lake.table("drift_incident")
        assert len(answer.arrow()) == 3
        stream = pa.RecordBatchReader.from_stream(answer)
    for late in (answer.arrow, lambda: lake.table("drift_incident"), lambda: lake.open_incidents()):
        with pytest.raises(ValueError, match="was closed; open it again"):
            late()
    with pytest.raises(Exception, match="was closed; open it again"):  # never fewer rows without a word
        stream.read_all()


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_the_first_rows_are_shown_as_plain_text_whatever_they_hold(tmp_path):
    made = LocalLake(str(tmp_path), retention_days=7)
    rows = [one_row(QUARANTINE, cluster="c", source_file=f"{n:02}", raw_text="<b>&\x1b[31m") for n in range(21)]
    made.append(QUARANTINE, pa.concat_tables(rows[:20]))
    answer = Lake(tmp_path).sql("SELECT source_file, raw_text FROM quarantine ORDER BY source_file")
    assert r"|19         |<b>&\u001b[31m|" in repr(answer) and "only showing" not in repr(answer)
    assert answer._repr_html_().count("<tr>") == 21 and "first 20" not in answer._repr_html_()
    made.append(QUARANTINE, rows[20])
    html = answer._repr_html_()
    assert "only showing top 20 rows" in repr(answer) and "|20 " not in repr(answer)
    assert html.count("<tr>") == 21 and html.endswith("</table><p>the first 20 rows</p>")
    assert r"<td>&lt;b&gt;&amp;\u001b[31m</td>" in html and "<th>raw_text</th>" in html and "\x1b" not in html


def test_an_answer_without_rows_shows_its_columns(lake):
    empty = lake.table("topic_route", columns=["topic"])
    assert repr(empty) == "+-----+\n|topic|\n+-----+\n+-----+"
    assert empty._repr_html_() == "<table><tr><th>topic</th></tr></table>"
    assert repr(lake) == f"Lake({lake.path!r})"


def test_explain_says_what_the_command_says(story, asker):
    where = "client_id = '127.0.0.1@4.7.1_laton' AND broker_name = 'broker-c' AND end_reason = 'overwritten' LIMIT 1"
    table = "broker_availability_window"
    (start,) = asker.answer(f"SELECT window_start FROM {table} WHERE {where}").read_all()["window_start"].to_pylist()
    one = f"client_id = '127.0.0.1@4.7.1_laton' AND broker_name = 'broker-c' AND window_start = '{start}'"
    told = Lake(story).explain(table, one)
    assert told == "\n\n".join(section.text() for section in explain(asker, table, one))
    assert told.count("\n\n== ") >= 2


def test_open_incidents_are_those_of_the_command(stored, lake):
    assert [(row["cluster"], row["severity"]) for row in lake.open_incidents()] == [
        ("c", "HIGH"),
        ("c", "HIGH"),
        ("it's d", "LOW"),
    ]
    assert [row["opened_at"] for row in lake.open_incidents(group="g", cluster="?")] == [AT.replace(tzinfo=None)]
    assert len(lake.open_incidents(group="h")) == 1  # found where no round has a verdict
    with pytest.raises(NothingJudgedError):
        lake.open_incidents(group="nobody")
    begin_commits(stored, "flag_allocation_drift", [ClusterDate("c", DAY)])
    with pytest.raises(HalfPublishedError):
        lake.open_incidents()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("lake.table('drift_incidents')", "no table or view 'drift_incidents'; there is drift_incident."),
        ("lake.table('zzz')", "no table or view 'zzz'; there is allocation_drift, broker_assignment, "),
        ("lake.table('open_incidents')", r"'open_incidents' is a view: \.view\('open_incidents'\) reads it"),
        ("lake.view('drift_incident')", r"is a table: \.table\("),
        ("lake.view('open_incident')", "there is open_incidents."),
        (
            "lake.table('drift_incident', columns=['sevrity'])",
            "drift_incident has no column 'sevrity'; it has severity.",
        ),
        ("lake.table('drift_incident', columns=['1) FROM x --'])", "no column '1. FROM x --'; it has also, "),
        ("lake.table('drift_incident', where='sevrity = 1')", "no column 'sevrity'"),
        ("lake.table('drift_incident', where='1 = 1); DROP TABLE x; --')", "Parser Error|one SQL statement"),
        ("lake.table('publication', dates='2026-01-05')", "publication has no column 'event_date'"),
        ("lake.table('publication', cluster='c')", "publication has no column 'cluster'"),
        ("lake.table('drift_incident', dates='5.1.2026')", "'5.1.2026' is no UTC date such as"),
        ("lake.table('drift_incident', dates=AT)", "is no UTC date"),
        ("lake.table('drift_incident', dates=('2026-01-06', DAY))", "2026-01-06 is after 2026-01-05"),
        ("lake.sql('SELEC 1')", "Parser Error"),
        ("lake.sql('SELECT * FROM drift_incidnt')", "there is drift_incident"),
        ("lake.sql('SELECT 1; SELECT 2')", "one SQL statement"),
        ("lake.sql('DESCRIBE TABLE nobody')", "no table or view 'nobody'"),
        ("lake.explain('drift_incidnt', 'TRUE')", "'drift_incidnt' cannot be explained; those of drift_incident can"),
        ("lake.explain('drift_incident', 'TRUE')", "picks 3 rows"),
    ],
)
def test_what_cannot_be_understood_is_refused_at_once_with_what_is_near(lake, asked, told):
    with pytest.raises(ValueError, match=told):
        eval(asked, {"lake": lake, "AT": AT, "DAY": DAY})


@pytest.mark.parametrize("path", ["nowhere", "landing", "file"])
def test_where_no_lake_is_it_is_said(tmp_path, path):
    (tmp_path / "landing" / "heartbeat").mkdir(parents=True)
    (tmp_path / "file").touch()
    with pytest.raises(NoLakeError, match=r"no lake at .*hindsight run-pipeline"):
        Lake(tmp_path / path)


def test_a_store_that_only_spark_reaches_is_refused():
    with pytest.raises(NoLocalEngineError, match=r"gs:// is reached by Spark only.*From Python"):
        Lake("gs://bucket/lake")


def test_a_damaged_log_and_one_of_another_writer_are_refused_with_the_way_out(stored, lake):
    (first,) = Path(stored.path(DRIFT_INCIDENT)).glob("_delta_log/*0.json")
    text = first.read_text()
    first.write_text("no JSON")
    with pytest.raises(UnreadableTableError, match=r"drift_incident cannot be opened: .*build the lake again"):
        lake.table("drift_incident")
    assert lake.table("group_round").arrow().num_rows == 1
    features = ",".join(f'"{who}Features":["columnMapping"]' for who in ("reader", "writer"))
    protocol = f'"protocol":{{"minReaderVersion":3,"minWriterVersion":7,{features}'
    first.write_text(re.sub(r'"protocol":\{"min[^}]*', protocol, text))
    with pytest.raises(NoLocalEngineError, match=r"protocol 3, 7.*`hindsight sql` write the answer into a file"):
        lake.table("drift_incident")


def test_without_polars_the_other_forms_are_named(lake, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(NotInstalledError, match=r"pip install polars.*arrow") as refused:
        lake.table("drift_incident").polars()
    assert isinstance(refused.value, (ImportError, ExpectedError))
    assert len(lake.table("drift_incident").pandas()) == 3


# -- what it costs and leaves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{root}/drift_incident/x.parquet'",
        "INSERT INTO drift_incident SELECT * FROM drift_incident",
        "DELETE FROM drift_incident",
        "CREATE TABLE x AS SELECT 1",
        "ATTACH '{root}/x.db'",
        "EXPORT DATABASE '{root}/x'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{root}/x.csv'",
        "SET threads = 1",
    ],
)
def test_what_is_no_question_is_refused_and_does_nothing(stored, lake, statement):
    before = state(Path(stored.root))
    with pytest.raises(ValueError, match=r"only read: ask with SELECT"):
        lake.sql(statement.format(root=stored.root))
    assert state(Path(stored.root)) == before


def test_nothing_is_loaded_before_it_is_needed(stored):
    code = f"""if True:
        import sys
        import hindsight
        assert not {{"pyarrow", "duckdb", "deltalake", "numpy"}} & sys.modules.keys()
        assert sorted(hindsight.__all__) == ["Lake"]
        try:
            hindsight.Sea
        except AttributeError as error:
            print(error)
        from hindsight import Lake
        with Lake({stored.root!r}) as lake:
            print(lake.table("drift_incident").arrow().num_rows, len(lake.open_incidents()))
            shown = lake.sql("SELECT current_setting('enable_progress_bar') AS bar")  # on by default, without a file
            print(shown.arrow()["bar"].to_pylist())
        print(*{{"pyspark", "py4j", "polars", "typer"}} & sys.modules.keys())"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("module 'hindsight' has no attribute 'Sea'\n3 3\n[False]\n\n", "")


# -- its page ----------------------------------------------------------------------------------------------------------


def test_the_page_gives_what_it_says(sampled, monkeypatch):
    """On the lake that a reader makes with ``make demo``."""
    monkeypatch.chdir(sampled.parent)
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 10
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, str(PAGE), str(PAGE), 0)
    told: list[str] = []
    done = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert done.failed == 0, "".join(told)
    assert done.attempted > 25


def test_the_page_names_every_method():
    told = PAGE.read_text(encoding="utf-8")
    named = {name for name in vars(Lake) if not name.startswith("_") and name != "close"}
    assert {f"lake.{name}" for name in named} <= {*re.findall(r"lake\.\w+", told)}
