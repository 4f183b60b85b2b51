"""What answers without Spark: which files it opens, what names mean, and what it says of a query that is wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hindsight.jobs.engines.asker import BadQueryError, query, records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.lake_place import NoLocalEngineError
from hindsight.jobs.lake.table_schema import WrongSchemaError
from hindsight.jobs.report.report_queries import by_bucket_and_in_all
from hindsight.schemas import DRIFT_INCIDENT, QUARANTINE, SEND_ATTEMPT, TABLES, TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.schemas.column_types import ArrayType, StructField, StructType
from tests.engines.random_rows import HOSTILE
from tests.engines.test_local_lake import without
from tests.pipeline.random_tables import one_row, random_lake

ROOT = Path(__file__).parent.parent.parent
DAY = date(2026, 1, 5)
AT = datetime(2026, 1, 5, 23, 59, 59, 999_000, UTC)


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    return LocalLake(str(tmp_path), retention_days=7)


def refused(file: str) -> pa.Table:
    return one_row(QUARANTINE, source_file=file)


def route(at: datetime) -> pa.Table:
    return one_row(TOPIC_ROUTE, event_date=at.date(), captured_at=at)


def test_the_page_s_percentiles_are_those_of_single_attempts(lake):
    draw, begin = random.Random(5), datetime(2026, 1, 5, tzinfo=UTC)
    spread = {"few": [3, 550], "many": range(10_000), "one": [7]}
    made = [
        {
            "begin_at": begin + timedelta(seconds=draw.randrange(3600)),
            "broker_name": (broker := draw.choice([*spread])),
            "latency_ms": draw.choice(spread[broker]),
            "outcome": draw.choice(["SEND_OK", "EXCEPTION", "FLUSH_DISK_TIMEOUT"]),
        }
        for _ in range(2_000)
    ]
    schema = arrow_schema(SEND_ATTEMPT)
    row = one_row(SEND_ATTEMPT, event_date=DAY, cluster="c").to_pylist()[0]
    lake.append(SEND_ATTEMPT, pa.Table.from_pylist([row | each for each in made], schema=schema))
    values = {"of_dates": f"event_date = DATE'{DAY}'", "begin": int(begin.timestamp() * 1000), "send_step": 600_000}
    found: dict[tuple[str, int | None], list[dict]] = {}
    for each in made:
        bucket = int((each["begin_at"] - begin).total_seconds() // 600)
        for key in (bucket, None):
            found.setdefault((each["broker_name"], key), []).append(each)
    expected = []
    for (broker, bucket), own in sorted(
        found.items(), key=lambda each: (each[0][0], -1 if each[0][1] is None else each[0][1])
    ):
        latencies, outcomes = sorted(each["latency_ms"] for each in own), Counter(each["outcome"] for each in own)
        p50, p99 = (latencies[-(-percent * len(own) // 100) - 1] for percent in (50, 99))  # at rank ceil(0.99 n)
        counts = {"attempts": len(own), "failed": outcomes["EXCEPTION"], "not_ok": outcomes["FLUSH_DISK_TIMEOUT"]}
        expected.append({"cluster": "c", "broker_name": broker, "bucket": bucket, **counts, "p50": p50, "p99": p99})
    assert len(expected) == 18 + 3
    rows = records(LocalAsker(lake), query("queries", "sends").format(**values))
    assert rows == expected
    drawn, totals = by_bucket_and_in_all(rows, 2)
    in_all = sorted((row for row in rows if row["bucket"] is None), key=lambda row: -row["failed"])
    assert drawn == [row for row in rows if row["bucket"] is not None]
    assert totals == [row | {"of_all": 3} for row in in_all[:2]]


def test_every_table_and_view_has_a_name_and_is_empty_where_nothing_was_stored_and_nothing_is_made(lake, tmp_path):
    asker = LocalAsker(lake)
    for name, table in TABLES.items():
        answer = asker.answer(f"SELECT * FROM {name}").read_all()
        assert (answer.column_names, len(answer)) == (table.schema.names, 0)
    listed = {row["name"] for row in records(asker, "SHOW TABLES")}
    assert listed >= TABLES.keys() | {"current_drift", "open_incidents"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["lag_now", "findings.code"])
def test_a_column_that_came_later_is_null_in_earlier_rows(lake, path):
    parts = dict.fromkeys(DRIFT_INCIDENT.schema["findings"].dataType.elementType.names)
    full = one_row(DRIFT_INCIDENT, lag_now=7, findings=[parts | {"code": "ORPHAN_QUEUE"}])
    lake.append(replace(DRIFT_INCIDENT, schema=without(DRIFT_INCIDENT.schema, path)), full)
    (found,) = records(LocalAsker(lake), "SELECT lag_now, findings FROM drift_incident")
    assert found["lag_now"] == (None if path == "lag_now" else 7)
    assert found["findings"][0]["code"] == (None if path == "findings.code" else "ORPHAN_QUEUE")


def test_nested_columns_are_told_by_their_names_in_whichever_order_they_are_stored(lake):
    """Spark adds a column that came later to the end of a stored struct."""
    columns = DRIFT_INCIDENT.schema
    backwards = ArrayType(StructType(columns["findings"].dataType.elementType.fields[::-1]))
    fields = [StructField(f.name, backwards, f.nullable, f.metadata) if f.name == "findings" else f for f in columns]
    parts = dict.fromkeys(columns["findings"].dataType.elementType.names)
    row = one_row(DRIFT_INCIDENT, findings=[parts | {"code": "ORPHAN_QUEUE", "topic": "T"}])
    lake.append(replace(DRIFT_INCIDENT, schema=StructType(fields)), row)
    (found,) = records(LocalAsker(lake), "SELECT findings FROM drift_incident")
    assert found["findings"] == [parts | {"code": "ORPHAN_QUEUE", "topic": "T"}]


def test_a_table_of_another_release_is_refused(lake):
    write_deltalake(lake.path(QUARANTINE), pa.table({"cluster": ["c"], "of_tomorrow": [1]}))
    with pytest.raises(WrongSchemaError, match="of_tomorrow is not known"):
        LocalAsker(lake).answer("SELECT * FROM quarantine")
    assert LocalAsker(lake).answer("SELECT * FROM send_attempt").read_all().num_rows == 0


def test_files_of_other_dates_are_not_opened(lake):
    """The file of one date is gone; a query of the other does not notice."""
    for n in range(2):
        lake.append(TOPIC_ROUTE, route(AT + timedelta(days=n)))
    asker = LocalAsker(lake)
    (gone,) = (file for file in lake.files(TOPIC_ROUTE) if file.event_date == DAY)
    (Path(lake.path(TOPIC_ROUTE)) / gone.path).unlink()
    query = "SELECT captured_at FROM topic_route WHERE event_date = DATE'2026-01-06'"
    assert records(asker, query) == [{"captured_at": (AT + timedelta(days=1)).replace(tzinfo=None)}]
    with pytest.raises(BadQueryError):
        records(asker, "SELECT captured_at FROM topic_route WHERE event_date = DATE'2026-01-05'")


def test_instants_are_those_of_utc_wherever_the_machine_is(lake):
    lake.append(TOPIC_ROUTE, route(AT))
    query = """SELECT captured_at, CAST(captured_at AS DATE) AS day,
        captured_at = TIMESTAMP'2026-01-05 23:59:59.999' AS it FROM topic_route"""
    code = f"""if True:
        from hindsight.jobs.engines.asker import records
        from hindsight.jobs.engines.local_asker import LocalAsker
        from hindsight.jobs.engines.local_lake import LocalLake
        from hindsight.jobs.report.report_queries import plain
        (row,) = records(LocalAsker(LocalLake({lake.root!r}, retention_days=7)), {query!r})
        print(row["captured_at"], row["day"], row["it"], plain(row["captured_at"]))"""
    elsewhere = {**os.environ, "TZ": "Asia/Shanghai"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=elsewhere, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"2026-01-05 23:59:59.999000 2026-01-05 True {round(AT.timestamp() * 1000)}\n", done.stderr


def test_a_table_can_be_asked_as_it_was(lake):
    lake.append(QUARANTINE, refused("a"))
    lake.append(QUARANTINE, refused("b"))
    asker = LocalAsker(lake)
    for then, files in (("VERSION AS OF 0", []), ("version as of 1", ["a"]), ("VERSION AS OF 2", ["a", "b"])):
        query = f"SELECT source_file FROM quarantine {then} AS q ORDER BY source_file"
        assert [row["source_file"] for row in records(asker, query)] == files
    both = "SELECT COUNT(*) AS n FROM quarantine JOIN quarantine VERSION AS OF 1 AS e USING (source_file)"
    assert records(asker, both) == [{"n": 1}]
    assert records(asker, "SELECT 'quarantine VERSION AS OF 1' AS text") == [{"text": "quarantine VERSION AS OF 1"}]
    now = datetime.now(UTC).isoformat()
    assert len(records(asker, f"SELECT * FROM quarantine TIMESTAMP AS OF '{now}'")) == 2
    for wrong, told in (("quarantine VERSION AS OF 9", "no version '9'"), ("nowhere VERSION AS OF 1", "nowhere")):
        with pytest.raises(BadQueryError, match=told):
            asker.answer(f"SELECT * FROM {wrong}")


def test_columns_are_described_with_what_they_mean(lake):
    for statement in ("DESCRIBE TABLE quarantine", "desc quarantine;", 'DESCRIBE "quarantine"'):
        told = {row["col_name"]: row["comment"] for row in records(LocalAsker(lake), statement)}
        assert told == QUARANTINE.comment_of
    told = {row["col_name"]: row for row in records(LocalAsker(lake), "DESCRIBE current_drift")}
    assert told["round_at"]["comment"] == "The group's latest round with a verdict, UTC"
    assert told["round_at"]["data_type"] == "timestamp with time zone"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM send_atempt", "no table or view 'send_atempt'; there is send_attempt,"),
        ("SELECT * FROM zzz", "no table or view 'zzz'; there is allocation_drift, "),
        (
            "SELECT brokr_name FROM send_attempt",
            "where the query asks for it; there is broker_name",
        ),
        ("SELECT s.brokr_name FROM send_attempt AS s", "no column 'brokr_name'"),
        ("SELECT zzz FROM send_attempt", "DESCRIBE TABLE <name> lists"),
        ("SELCT 1", "syntax error at or near"),
        ("SELECT 1; SELECT 2", "one SQL statement"),
        ("", "one SQL statement"),
        ("SELECT CAST('x' AS INT)", "Could not convert"),
        ("INSERT INTO quarantine SELECT * FROM quarantine", "only read"),
    ],
)
def test_a_query_that_is_wrong_is_told_in_one_sentence_with_what_is_near(lake, query, told):
    with pytest.raises(BadQueryError) as raised:
        LocalAsker(lake).answer(query).read_all()
    assert told in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_no_extension_is_fetched(lake):
    asker = LocalAsker(lake)
    set_to = records(
        asker,
        "SELECT name, value FROM duckdb_settings() WHERE name LIKE '%load_known_ext%' OR name LIKE '%install_known%'",
    )
    assert len(set_to) == 2 and {row["value"] for row in set_to} == {"false"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("MAX_BY(item, place)", None),  # the row with the highest place has no item
        ("MIN_BY(item, place)", "a"),
        ("MAX_BY(item, IF(item IS NULL, NULL, (place, item)))", "c"),
        ("ARRAY_SORT(COLLECT_SET(item))", ["a", "c"]),
        ("SIZE(COLLECT_LIST(item))", 3),
        ("COLLECT_SET(IF(place > 9, item, NULL))", []),
        ("COUNT_IF(item = 'a')", 2),
        ("ARRAY_JOIN(SLICE(ARRAY_SORT(COLLECT_LIST(item)), 2, 2), '-')", "a-c"),
        ("TRY_ELEMENT_AT(COLLECT_SET(item), 9)", None),
        ("MAX(UNIX_MILLIS(TIMESTAMP'1970-01-01 00:00:00.0019'))", 1),
        ("MAX(SIZE(SEQUENCE(2, 4)))", 3),
    ],
)
def test_spark_s_names_mean_what_spark_means(lake, expression, value):
    rows = "(VALUES ('a', 1), ('a', 2), ('c', 3), (NULL, 4)) AS t(item, place)"
    assert records(LocalAsker(lake), f"SELECT {expression} AS found FROM {rows}") == [{"found": value}]


def test_nulls_come_first_as_in_spark(lake):
    for order, expected in (("n", [None, 1, 2]), ("n DESC", [2, 1, None])):
        found = records(LocalAsker(lake), f"SELECT n FROM (VALUES (1), (NULL), (2)) AS t(n) ORDER BY {order}")
        assert [row["n"] for row in found] == expected


def test_every_text_comes_back_as_it_was(lake):
    asker = LocalAsker(lake)
    for text in HOSTILE:
        assert records(asker, f"SELECT {asker.literal(text)} AS text") == [{"text": text}]


def test_a_table_with_a_feature_that_only_spark_knows_is_refused(lake):
    lake.create(TOPIC_ROUTE)
    DeltaTable(lake.path(TOPIC_ROUTE)).alter.set_table_properties({"delta.minWriterVersion": "3"})
    with pytest.raises(NoLocalEngineError, match="--engine spark"):
        LocalAsker(LocalLake(lake.root, retention_days=7)).answer("SELECT * FROM topic_route")


def test_every_view_and_every_query_of_the_page_answers_on_random_rows(tmp_path):
    from hindsight.conf.settings_file import load_settings
    from hindsight.jobs.engines.sql_views import views
    from hindsight.jobs.report.report_page import page
    from hindsight.jobs.report.report_queries import report_data

    asker = LocalAsker(random_lake(str(tmp_path), seed=2))
    for view in views():
        answer = asker.answer(f"SELECT * FROM {view.name}").read_all()
        assert answer.column_names == list(view.columns)
        # Wider sums are no type of a table: other readers get doubles of them.
        assert [field for field in answer.schema if pa.types.is_decimal(field.type)] == []
    page(report_data(asker, load_settings(None).report))


DOES_MORE = [
    "COPY (SELECT 1) TO '{file}'",
    "CREATE TABLE kept AS SELECT 1 AS a",
    "DROP VIEW current_drift",
    "INSERT INTO quarantine SELECT * FROM quarantine",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "ATTACH '{file}' AS other",
    "SET threads = 1",
    "PRAGMA enable_profiling",
    "EXPORT DATABASE '{file}'",
    "LOAD json",
]


@pytest.mark.parametrize("query", DOES_MORE)
def test_what_does_more_than_ask_is_refused_and_does_nothing(lake, tmp_path, query):
    file = tmp_path / "written"
    with pytest.raises(BadQueryError, match="a lake is only read"):
        LocalAsker(lake).answer(query.format(file=file))
    assert not file.exists()


ASKS = [
    "SELECT 1",
    "WITH a AS (SELECT 1 AS b) FROM a",
    "VALUES (1)",
    "DESCRIBE quarantine",
    "SUMMARIZE quarantine",
    "SHOW TABLES",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT (SELECT 'a' AS name, 1 AS many) ON name USING sum(many)",
]


@pytest.mark.parametrize("query", ASKS)
def test_every_way_to_ask_is_answered(lake, query):
    assert len(LocalAsker(lake).answer(query).read_all())
