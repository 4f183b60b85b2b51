"""The lake without a JVM: what it stores, replaces, deletes and refuses, beside a list of rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hindsight.jobs.engines import changed_files, local_lake, stored_table
from hindsight.jobs.engines.arrow_columns import NullInColumnError, chosen, no_rows
from hindsight.jobs.engines.arrow_lake import ConcurrentWriteError
from hindsight.jobs.engines.changed_files import MOST_SMALL_FILES
from hindsight.jobs.engines.lake_rows import DataFile, Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.stored_table import stored_table as open_table
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import NoLocalEngineError
from hindsight.jobs.lake.table_schema import WrongSchemaError, stored_schema
from hindsight.schemas import DRIFT_INCIDENT, INGESTED_FILE, PUBLICATION, QUARANTINE, TABLES, TOPIC_ROUTE
from hindsight.schemas.column_types import ArrayType, StructField, StructType
from tests.engines.random_rows import CLUSTERS, DAY, DAYS, HOSTILE, as_text, rows
from tests.random_examples import examples

AT = [ClusterDate(cluster, day) for cluster in CLUSTERS for day in DAYS]


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    return LocalLake(str(tmp_path / "a lake's own ü"), retention_days=7)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_is_as_its_contract_says(lake, table):
    lake.create(table)
    made = DeltaTable(lake.path(table))
    assert json.loads(made.schema().to_json()) == json.loads(stored_schema(table).json())
    about = made.metadata()
    assert (about.description, about.partition_columns) == (table.comment, ["event_date"] if table.dated else [])
    assert about.configuration == {
        "delta.enableDeletionVectors": "false",
        "delta.logRetentionDuration": "interval 7 days",
        "delta.deletedFileRetentionDuration": "interval 7 days",
    }
    assert (made.protocol().min_reader_version, made.protocol().min_writer_version) == (1, 2)


@given(st.data())
@examples(7, 30)
@pytest.mark.parametrize("table", [TOPIC_ROUTE, DRIFT_INCIDENT, PUBLICATION, INGESTED_FILE], ids=lambda t: t.name)
def test_rows_are_read_as_they_were_stored(table, data):
    with TemporaryDirectory() as root:
        lake = LocalLake(root, retention_days=7)
        pieces = data.draw(st.lists(rows(table), max_size=3))
        for piece in pieces:
            lake.append(table, piece)
        assert as_text(lake.rows(table)) == sorted(text for piece in pieces for text in as_text(piece))
        assert sum(file.rows for file in lake.files(table)) == sum(map(len, pieces))


@given(rows(TOPIC_ROUTE), st.booleans(), st.booleans())
def test_texts_that_come_as_codes_are_the_same_texts(drawn, by_differences, is_earlier):
    """Arrow reads none as codes that is stored by differences, and a file of an earlier contract has a column less."""
    with TemporaryDirectory() as root:
        folder, names = LocalLake(root, retention_days=7).folder(TOPIC_ROUTE), TOPIC_ROUTE.schema.names
        place = Path(folder.root, TOPIC_ROUTE.name, "written")
        place.parent.mkdir()
        encoding = {"column_encoding": {"topic": "DELTA_BYTE_ARRAY"}} if by_differences else {}
        coded = [name for name in drawn.column_names if pa.types.is_string(drawn.schema.field(name).type)]
        written = drawn.drop_columns("source") if is_earlier else drawn
        dictionaries = [name for name in written.column_names if name not in encoding.get("column_encoding", ())]
        pq.write_table(written, place, use_dictionary=dictionaries, **encoding)
        file = DataFile("written", 0, None, None)
        found = [*folder.pieces(file, names, as_codes=coded)]
        plain = pa.concat_tables([no_rows(TOPIC_ROUTE), *(piece.cast(no_rows(TOPIC_ROUTE).schema) for piece in found)])
        assert plain == folder.read(file)
        for piece in found:
            kinds = {name: piece.schema.field(name).type for name in coded}
            assert pa.types.is_dictionary(kinds["cluster"]) and pa.types.is_dictionary(kinds["topic"]) != by_differences
            assert pa.types.is_dictionary(kinds["source"]) != is_earlier


@given(rows(TOPIC_ROUTE), rows(TOPIC_ROUTE), st.sets(st.sampled_from(AT)))
@examples(12, 50)
def test_replacing_dates_of_clusters_leaves_all_others(before, after, dates):
    with TemporaryDirectory() as root:
        lake = LocalLake(root, retention_days=7)
        lake.append(TOPIC_ROUTE, before)
        where = Where(dates=dates)
        fresh = chosen(after, where)
        lake.replace_dates(TOPIC_ROUTE, fresh, dates)
        stays = [row for row in before.to_pylist() if ClusterDate(row["cluster"], row["event_date"]) not in dates]
        assert as_text(lake.rows(TOPIC_ROUTE)) == sorted([*map(repr, stays), *as_text(fresh)])
        assert as_text(lake.rows(TOPIC_ROUTE, where=where)) == as_text(fresh)
        if len(fresh) < len(after):
            with pytest.raises(ValueError, match="same dates"):
                lake.replace_dates(TOPIC_ROUTE, after, dates)


@given(rows(QUARANTINE), st.sets(st.sampled_from(HOSTILE)))
@examples(12, 50)
def test_rows_of_hostile_names_are_found_replaced_and_deleted_and_no_others(drawn, names):
    with TemporaryDirectory() as root:
        lake = LocalLake(root, retention_days=7)
        lake.append(QUARANTINE, drawn)
        where = Where(values={"source_file": names})
        of_names = [row for row in drawn.to_pylist() if row["source_file"] in names]
        assert as_text(lake.rows(QUARANTINE, where=where)) == sorted(map(repr, of_names))
        lake.replace_files(QUARANTINE, pa.Table.from_pylist(of_names, schema=drawn.schema), "source_file", names)
        assert as_text(lake.rows(QUARANTINE)) == as_text(drawn)
        version = lake.version(QUARANTINE)
        lake.delete(QUARANTINE, where)
        others = [row for row in drawn.to_pylist() if row["source_file"] not in names]
        assert as_text(lake.rows(QUARANTINE)) == sorted(map(repr, others))
        assert lake.version(QUARANTINE) == version + bool(of_names)


@given(rows(QUARANTINE), st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))
def test_rows_before_an_instant_are_deleted(drawn, at):
    with TemporaryDirectory() as root:
        lake = LocalLake(root, retention_days=7)
        lake.append(QUARANTINE, drawn)
        at = at.replace(tzinfo=UTC)
        lake.delete(QUARANTINE, Where(before={"ingested_at": at}))
        assert as_text(lake.rows(QUARANTINE)) == sorted(repr(r) for r in drawn.to_pylist() if r["ingested_at"] >= at)


@pytest.fixture
def routes(lake) -> pa.Table:
    row = {"cluster": "c", "event_date": DAY, "collector": "", "topic": "t", "broker_name": "b", "perm": 6}
    row |= {"read_queue_nums": 4, "write_queue_nums": 4, "has_master": True, "is_static_topic": False}
    row |= {"captured_at": datetime(2026, 1, 5, tzinfo=UTC), "source": "s", "source_file": "f", "source_line": 1}
    row |= {"ingested_at": datetime(2026, 1, 5, tzinfo=UTC), "run_id": "r"}
    return pa.Table.from_pylist([row])


def test_replacing_from_an_instant_on_leaves_what_is_earlier_in_the_same_file(lake, routes):
    """Statistics say that all rows of the file are of the date: they do not say which are earlier."""
    (earlier,) = routes.to_pylist()
    since = earlier["captured_at"] + timedelta(hours=1)
    lake.append(TOPIC_ROUTE, pa.Table.from_pylist([earlier, earlier | {"captured_at": since}]))
    (file,) = lake.files(TOPIC_ROUTE)
    assert (file.cluster, file.rows) == ("c", 2)
    date = ClusterDate("c", DAY)
    lake.replace_since(TOPIC_ROUTE, no_rows(TOPIC_ROUTE), [date], "captured_at", {date: since})
    assert lake.rows(TOPIC_ROUTE, ["captured_at"]).to_pylist() == [{"captured_at": earlier["captured_at"]}]


def test_a_null_where_the_contract_has_none_is_refused_and_nothing_is_stored(lake, routes):
    lake.append(TOPIC_ROUTE, routes)
    with pytest.raises(NullInColumnError, match="topic_route: perm may not be null"):
        lake.append(TOPIC_ROUTE, routes.drop(["perm"]))
    assert lake.version(TOPIC_ROUTE) == 1


def test_what_is_broken_off_before_the_commit_leaves_the_version_before(lake, routes, monkeypatch):
    lake.append(TOPIC_ROUTE, routes)
    with monkeypatch.context() as broken:
        broken.setattr(DeltaTable, "create_write_transaction", lambda *_, **__: 1 / 0)
        for write in (lake.append, lambda *a: lake.replace_dates(*a, [ClusterDate("c", DAY)])):
            with pytest.raises(ZeroDivisionError):
                write(TOPIC_ROUTE, routes)
    assert (lake.version(TOPIC_ROUTE), len(lake.rows(TOPIC_ROUTE))) == (1, 1)
    lake.append(TOPIC_ROUTE, routes)
    assert len(lake.rows(TOPIC_ROUTE)) == 2


@pytest.mark.parametrize("write", ["store", "replace_dates", "update", "delete"])
def test_what_rests_on_rows_that_another_run_has_changed_meanwhile_is_refused(lake, routes, monkeypatch, write):
    lake.append(TOPIC_ROUTE, routes)
    commit = LocalLake._commit

    def after_another(self, *args, **named):
        with monkeypatch.context() as undisturbed:
            undisturbed.setattr(LocalLake, "_commit", commit)
            LocalLake(lake.root, retention_days=7).append(TOPIC_ROUTE, routes)
        commit(self, *args, **named)

    monkeypatch.setattr(LocalLake, "_commit", after_another)
    of_write = {
        "store": (routes, None, [DAY], 1),
        "replace_dates": (routes, [ClusterDate("c", DAY)]),
        "update": (routes, ["perm"], [DAY]),
        "delete": (Where(values={"cluster": ["c"]}),),
    }
    with pytest.raises(ConcurrentWriteError, match=r"another run has written to .*topic_route"):
        getattr(lake, write)(TOPIC_ROUTE, *of_write[write])
    assert len(lake.rows(TOPIC_ROUTE)) == 2


def test_what_was_read_before_another_run_wrote_is_not_stored(lake, routes):
    lake.append(TOPIC_ROUTE, routes)
    with pytest.raises(ConcurrentWriteError, match=r"another run has written to .*topic_route"):
        lake.store(TOPIC_ROUTE, routes, None, [DAY], 0)
    assert len(lake.rows(TOPIC_ROUTE)) == 1


def test_an_append_stands_beside_what_another_run_appends_meanwhile(lake, routes, monkeypatch):
    lake.create(TOPIC_ROUTE)
    early = lake.opened(TOPIC_ROUTE)
    LocalLake(lake.root, retention_days=7).append(TOPIC_ROUTE, routes)
    monkeypatch.setattr(lake, "opened", lambda _: early)
    lake.append(TOPIC_ROUTE, routes)
    assert len(LocalLake(lake.root, retention_days=7).rows(TOPIC_ROUTE)) == 2


def test_a_lake_that_is_held_opens_each_table_once_and_sees_its_own_commits(lake, routes, monkeypatch):
    LocalLake(lake.root, retention_days=7).append(TOPIC_ROUTE, routes)
    opened = []
    monkeypatch.setattr(stored_table, "stored_table", lambda *of: opened.append(of[0]) or open_table(*of))
    lake.hold(lambda: None)
    for count in (2, 3, 4):
        lake.append(TOPIC_ROUTE, routes)
        assert (len(lake.rows(TOPIC_ROUTE)), lake.version(TOPIC_ROUTE)) == (count, count)
    lake.delete(TOPIC_ROUTE, Where(values={"cluster": ["c"]}))
    assert (len(lake.rows(TOPIC_ROUTE)), lake.exists(QUARANTINE)) == (0, False)
    lake.append(QUARANTINE, no_rows(QUARANTINE))
    assert opened.count(lake.path(TOPIC_ROUTE)) == 1


@given(st.data())
@examples(2, 5)
@pytest.mark.parametrize("table", [TOPIC_ROUTE, INGESTED_FILE], ids=lambda t: t.name)
def test_the_commit_that_makes_small_files_too_many_makes_them_one(table, data):
    drawn = data.draw(st.lists(rows(table, min_size=1, max_size=3), min_size=2, max_size=3))
    with TemporaryDirectory() as root:
        lake, expected = LocalLake(root, retention_days=7), []
        for count in range(40):
            lake.append(table, drawn[count % len(drawn)])
            expected += as_text(drawn[count % len(drawn)])
            if count == 25:
                lake.delete(table, Where(values={"cluster": CLUSTERS[:1]}))
                expected = as_text(lake.rows(table))
            of_days = Counter(file.event_date for file in lake.files(table))
            assert max(of_days.values(), default=0) <= MOST_SMALL_FILES
        assert as_text(lake.rows(table)) == sorted(expected)
        assert as_text(LocalLake(root, retention_days=7).rows(table)) == sorted(expected)


def test_many_rows_in_few_bytes_are_put_together_once(lake, routes, monkeypatch):
    """What a day's commits cost would grow with the day otherwise: rows that are much alike never fill a file."""
    monkeypatch.setattr(changed_files, "_SMALL_ROWS", 100)
    large: set[str] = set()
    for count in range(1, 61):
        lake.append(TOPIC_ROUTE, pa.concat_tables([routes.slice(0, 1)] * 30))
        files = {file.path: file for file in lake.files(TOPIC_ROUTE)}
        assert large <= files.keys()
        large |= {path for path, file in files.items() if not changed_files.is_small(file)}
        assert len(files) - len(large) <= MOST_SMALL_FILES
        assert sum(file.rows for file in files.values()) == 30 * count
    assert large


def test_files_are_listed_in_the_order_of_their_commits(lake, routes):
    for count in range(1, 8):
        lake.append(TOPIC_ROUTE, pa.concat_tables([routes] * count))
    for one in (lake, LocalLake(lake.root, retention_days=7)):
        assert [file.rows for file in one.files(TOPIC_ROUTE)] == [*range(1, 8)]


def test_rows_of_a_file_of_several_clusters_count_for_each_of_them(lake, routes):
    other = routes.set_column(0, "cluster", pa.array(["d"]))
    lake.append(TOPIC_ROUTE, pa.concat_tables([routes, routes, other]))
    lake.append(TOPIC_ROUTE, other)
    assert [file.cluster for file in lake.files(TOPIC_ROUTE)] == [None, "d"]
    counted = lake.counted(TOPIC_ROUTE, ["cluster"]).sort_by("cluster").to_pylist()
    assert counted == [{"cluster": "c", "rows": 2}, {"cluster": "d", "rows": 2}]


def test_what_was_appended_meanwhile_stays_beside_small_files_that_are_made_one(lake, routes, monkeypatch):
    for _ in range(MOST_SMALL_FILES - 1):
        lake.append(TOPIC_ROUTE, routes)
    before = lake.version(TOPIC_ROUTE)
    found = changed_files.too_many_small

    def after_another(*given):
        with monkeypatch.context() as undisturbed:
            undisturbed.setattr(local_lake, "too_many_small", lambda *_: [])
            LocalLake(lake.root, retention_days=7).append(TOPIC_ROUTE, routes)
        return found(*given)

    monkeypatch.setattr(changed_files, "MOST_SMALL_FILES", 2)
    monkeypatch.setattr(local_lake, "too_many_small", after_another)
    lake.append(TOPIC_ROUTE, routes)
    assert (lake.version(TOPIC_ROUTE), len(lake.rows(TOPIC_ROUTE))) == (before + 2, MOST_SMALL_FILES + 1)


def test_every_tenth_version_is_a_checkpoint(lake, routes):
    """As a lake has whose tables were made by an earlier release, without a property that says so."""
    for _ in range(23):
        lake.append(TOPIC_ROUTE, routes)
    log = Path(lake.path(TOPIC_ROUTE), "_delta_log")
    assert sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")) == [10, 20]
    for version in range(20):
        (log / f"{version:020}.json").unlink()
    assert len(LocalLake(lake.root, retention_days=7).rows(TOPIC_ROUTE)) == 23


def test_a_table_of_another_contract_is_refused(lake, routes):
    lake.create(TOPIC_ROUTE)
    other = LocalLake(lake.root, retention_days=7)
    DeltaTable(lake.path(TOPIC_ROUTE)).alter.add_columns([Field("of_tomorrow", PrimitiveType("long"))])
    for use in (other.create, other.rows, other.files):
        with pytest.raises(WrongSchemaError, match="of_tomorrow is not known"):
            use(TOPIC_ROUTE)


@pytest.mark.parametrize("feature", ["delta.enableDeletionVectors", "delta.enableChangeDataFeed"])
def test_a_table_with_a_feature_that_only_spark_knows_is_refused_with_the_way_out(lake, routes, feature):
    lake.append(TOPIC_ROUTE, routes)
    DeltaTable(lake.path(TOPIC_ROUTE)).alter.set_table_properties({feature: "true"})
    for use in (lake.rows, lake.version, LocalLake(lake.root, retention_days=7).create):
        with pytest.raises(NoLocalEngineError, match="--engine spark"):
            use(TOPIC_ROUTE)


@given(rows(QUARANTINE, min_size=1))
def test_statistics_of_a_file_bound_every_value_of_it(drawn):
    with TemporaryDirectory() as root:
        (file,) = LocalLake(root, retention_days=7).folder(QUARANTINE).stage(drawn)
    stats = json.loads(file.stats)
    assert (stats["numRecords"], file.rows) == (len(drawn), len(drawn))
    assert {"line_number", "ingested_at"} <= stats["minValues"].keys() & stats["maxValues"].keys()
    for name in drawn.column_names:
        assert stats["nullCount"][name] == 0
        shown = drawn.column(name).to_pylist()
        least, most = (bound(stats[of].get(name)) for of in ("minValues", "maxValues"))
        assert least is None or least <= min(shown)
        assert most is None or most >= max(shown)


def bound(told):
    """A bound as a value of its column: instants stand there in milliseconds."""
    try:
        return datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return told


def without(columns: StructType, path: str) -> StructType:
    """The columns without one, which may be nested in a list."""
    head, _, rest = path.partition(".")
    fields = []
    for field in columns.fields:
        if field.name != head:
            fields.append(field)
        elif rest:
            kind = ArrayType(without(field.dataType.elementType, rest))
            fields.append(StructField(field.name, kind, field.nullable, field.metadata))
    return StructType(fields)


@pytest.mark.parametrize("path", ["lag_now", "findings.code"])
@given(rows(DRIFT_INCIDENT, min_size=1), rows(DRIFT_INCIDENT, min_size=1))
@settings(max_examples=5)
def test_a_column_that_came_later_is_null_in_earlier_rows_and_whole_in_later_ones(path, early, late):
    """A nested one stands last in the table, and in the middle of the contract."""
    before = replace(DRIFT_INCIDENT, schema=without(DRIFT_INCIDENT.schema, path))
    with TemporaryDirectory() as root:
        LocalLake(root, retention_days=7).append(before, early)
        expected = early.to_pylist()
        for row in expected:
            row |= {"lag_now": None} if path == "lag_now" else {}
            for finding in row["findings"] if path != "lag_now" else ():
                if finding:
                    finding["code"] = None
        assert as_text(LocalLake(root, retention_days=7).rows(DRIFT_INCIDENT)) == sorted(map(repr, expected))
        lake = LocalLake(root, retention_days=7)
        with capture_logs() as told:
            lake.append(DRIFT_INCIDENT, late)
            lake.append(DRIFT_INCIDENT, late.slice(0, 0))
        assert [(line["event"], line["table"], line["columns"]) for line in told] == [
            ("columns came later", "drift_incident", path)
        ]
        assert as_text(lake.rows(DRIFT_INCIDENT)) == sorted([*map(repr, expected), *as_text(late)])
        stored = json.loads(DeltaTable(lake.path(DRIFT_INCIDENT)).schema().to_json())["fields"]
        comments = {field["name"]: field["metadata"]["comment"] for field in stored}
        assert comments == DRIFT_INCIDENT.comment_of


def commented_otherwise(columns: StructType) -> StructType:
    """The columns with other comments, nested ones too."""
    fields = []
    for field in columns.fields:
        kind = field.dataType
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
            kind = ArrayType(commented_otherwise(kind.elementType), kind.containsNull)
        fields.append(StructField(field.name, kind, field.nullable, {"comment": "As an earlier release had it."}))
    return StructType(fields)


@pytest.mark.parametrize("path", ["lag_now", "findings.code"])
def test_columns_are_added_to_a_table_whose_comments_were_others(path, tmp_path):
    columns = commented_otherwise(without(DRIFT_INCIDENT.schema, path))
    LocalLake(str(tmp_path), retention_days=7).create(replace(DRIFT_INCIDENT, schema=columns))
    lake = LocalLake(str(tmp_path), retention_days=7)
    lake.create(DRIFT_INCIDENT)
    stored = {field.name: field.metadata["comment"] for field in lake.opened(DRIFT_INCIDENT).schema().fields}
    assert stored.keys() == DRIFT_INCIDENT.comment_of.keys()
    assert {name for name, said in stored.items() if said != "As an earlier release had it."} == (
        {"lag_now"} if path == "lag_now" else set()
    )
