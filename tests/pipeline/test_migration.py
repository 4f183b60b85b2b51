"""A lake that an earlier release wrote is carried on with; one that is no earlier state of the contracts is refused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hindsight.conf.failure import RUN_FAILED
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.lake.table_schema import WrongSchemaError, later_columns, stored_schema
from hindsight.jobs.publishing.publication import Derivation, publish
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import DRIFT_INCIDENT, INGESTED_FILE, PUBLICATION, QUALITY_RESULT, TOPIC_ROUTE, Table
from hindsight.schemas.column_types import of_json
from tests.pipeline.interrupted_lake import is_published_whole
from tests.pipeline.local_runs import OF_PRODUCERS
from tests.pipeline.test_quality_gate import DAY, sound
from tests.pipeline.undisturbed_runs import is_healed_by_a_rerun, on_spark


@pytest.fixture
def lake(spark, tmp_path) -> Lake:
    return Lake(spark, str(tmp_path / "lake"), retention_days=7)


def without(columns: StructType, *names: str) -> StructType:
    """The columns of an earlier contract; a dot leads into the structs of an array."""
    fields = []
    for field in columns.fields:
        inner = [name.removeprefix(f"{field.name}.") for name in names if name.startswith(f"{field.name}.")]
        kind = field.dataType
        if inner:
            kind = type(kind)(without(kind.elementType, *inner))
        if field.name not in names:
            fields.append(StructField(field.name, kind, field.nullable, field.metadata))
    return StructType(fields)


def made(lake: Lake, table: Table, columns: StructType, rows: Sequence[dict[str, Any]] = ()) -> None:
    frame = lake.spark.createDataFrame([[row[name] for name in columns.names] for row in rows], columns)
    frame.write.format("delta").partitionBy(*(["event_date"] if table.dated else [])).save(lake.path(table))


def test_a_column_that_came_later_is_null_in_earlier_rows_and_stored_with_later_ones(spark, lake):
    before = without(stored_schema(TOPIC_ROUTE), "master_address", "order_topic_conf")
    made(lake, TOPIC_ROUTE, before, [sound(TOPIC_ROUTE, topic="early")])
    (early,) = lake.read(TOPIC_ROUTE).collect()
    assert list(early.asDict()) == TOPIC_ROUTE.columns.names and early.master_address is None
    assert lake.version(TOPIC_ROUTE) == 0
    late = sound(TOPIC_ROUTE, topic="late", master_address="10.0.0.1:10911")
    lake.append(TOPIC_ROUTE, spark.createDataFrame([late], stored_schema(TOPIC_ROUTE)))
    stored = {row.topic: row.master_address for row in lake.read(TOPIC_ROUTE).collect()}
    assert stored == {"early": None, "late": "10.0.0.1:10911"}
    comments = {field.name: field.metadata.get("comment") for field in lake.read(TOPIC_ROUTE).schema}
    assert comments == TOPIC_ROUTE.comment_of
    assert lake.version(TOPIC_ROUTE) == 2
    Lake(spark, lake.root, retention_days=7).create(TOPIC_ROUTE)
    assert lake.version(TOPIC_ROUTE) == 2


def test_a_field_within_a_column_may_come_later_too(lake):
    field = DRIFT_INCIDENT.columns["findings"].dataType.elementType.names[0]
    before = without(stored_schema(DRIFT_INCIDENT), f"findings.{field}")
    made(lake, DRIFT_INCIDENT, before)
    assert lake.read(DRIFT_INCIDENT).collect() == []
    lake.create(DRIFT_INCIDENT)
    assert later_columns(lake.read(DRIFT_INCIDENT).schema, DRIFT_INCIDENT, "") == []
    assert field in lake.read(DRIFT_INCIDENT).schema["findings"].dataType.elementType.names


def changed(columns: StructType, name: str, kind) -> StructType:
    return StructType([StructField(f.name, kind if f.name == name else f.dataType) for f in columns.fields])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (changed(stored_schema(TOPIC_ROUTE), "perm", StringType()), "column perm is string, expected int"),
        (StructType([*stored_schema(TOPIC_ROUTE), StructField("of_tomorrow", LongType())]), "of_tomorrow is not known"),
        (without(stored_schema(TOPIC_ROUTE), "topic"), "column topic is absent, and may not be null"),
    ],
    ids=["another type", "a later release", "a required column"],
)
def test_what_is_no_earlier_contract_is_refused_and_left_as_it_is(lake, columns, said, capsys):
    made(lake, TOPIC_ROUTE, columns)
    for use in (lake.create, lake.read):
        with pytest.raises(WrongSchemaError, match=said):
            use(TOPIC_ROUTE)
    assert exit_code(lambda: lake.create(TOPIC_ROUTE)) == RUN_FAILED
    (sentence,) = capsys.readouterr().err.splitlines()
    assert lake.path(TOPIC_ROUTE) in sentence and "build the lake again" in sentence
    assert lake.version(TOPIC_ROUTE) == 0


def a_route(lake: Lake, settings: str, table: Table = TOPIC_ROUTE) -> int:
    """Publish one route; how many dates were computed."""
    route = sound(TOPIC_ROUTE, cluster="c", topic=settings)
    rows = lake.spark.createDataFrame([route], stored_schema(TOPIC_ROUTE))
    derivation = Derivation("a_job", ("f",), (), (table,), (), settings, lambda _: {TOPIC_ROUTE.name: rows})
    return publish(lake, RunContext("landing"), derivation).dates


@pytest.fixture
def with_a_file(spark, lake, monkeypatch) -> Lake:
    monkeypatch.setattr("hindsight.jobs.publishing.publication.check", lambda *_: None)
    file = sound(INGESTED_FILE, cluster="c", format="f", event_dates=[DAY])
    lake.append(INGESTED_FILE, spark.createDataFrame([file], stored_schema(INGESTED_FILE)))
    return lake


@pytest.mark.soak
def test_the_newest_publication_is_the_last_one_whatever_the_clock_said(with_a_file, monkeypatch):
    """The clock goes back an hour between two runs, and the settings back to what they were after both."""
    lake, clock = with_a_file, [datetime(2026, 1, 6, 12, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return clock[0]

    monkeypatch.setattr("hindsight.jobs.publishing.publication_record.datetime", Clock)
    assert (a_route(lake, "early"), a_route(lake, "early")) == (1, 0)
    clock[0] = clock[0].replace(hour=11)
    assert (a_route(lake, "late"), a_route(lake, "late")) == (1, 0)
    assert a_route(lake, "early") == 1
    assert [row.topic for row in lake.read(TOPIC_ROUTE).collect()] == ["early"]
    published = lake.read(PUBLICATION).orderBy("number").collect()
    assert [(row.number, row.published_at.hour) for row in published] == [(1, 12), (2, 11), (3, 11)]


def uncounted(spark, lake: Lake) -> Lake:
    """The lake as the release before left it: neither publications nor checks had numbers."""
    for table in (PUBLICATION, QUALITY_RESULT):
        rows = lake.read(table).drop("number").localCheckpoint()
        rows.write.format("delta").option("overwriteSchema", "true").mode("overwrite").save(lake.path(table))
    return Lake(spark, lake.root, retention_days=7)


@pytest.mark.soak
def test_publications_that_were_not_counted_are_older_than_those_that_are(spark, with_a_file):
    lake = with_a_file
    assert (a_route(lake, "early"), a_route(lake, "late")) == (1, 1)
    again = uncounted(spark, lake)
    assert (a_route(again, "late"), a_route(again, "early")) == (0, 1)
    assert {row.number for row in again.read(PUBLICATION).collect()} == {None, 1}
    assert a_route(again, "early") == 0


@pytest.mark.soak
def test_a_whole_run_carries_on_with_a_lake_of_the_release_before(spark, settings, producers, tmp_path):
    root = shutil.copytree(producers.after_first, tmp_path / "lake")
    lake = uncounted(spark, Lake(spark, str(root), retention_days=7))
    assert is_published_whole(root, producers.runs[0])
    assert is_healed_by_a_rerun(on_spark(spark, settings, OF_PRODUCERS), producers, root)
    assert {row.number for row in lake.read(PUBLICATION).collect()} == {None, 1}
    assert {row.number is None for row in lake.read(QUALITY_RESULT).collect()} == {True, False}


@pytest.mark.soak
def test_dates_whose_commits_were_not_published_are_computed_anew_though_the_settings_are_back(
    with_a_file, monkeypatch
):
    """Broken off between the commit of the table and that of the publication, then run with the settings before."""
    lake = with_a_file
    assert a_route(lake, "early") == 1
    with monkeypatch.context() as patched:
        patched.setattr(lake, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            a_route(lake, "late")
    assert [row.topic for row in lake.read(TOPIC_ROUTE).collect()] == ["late"]
    assert (a_route(lake, "early"), a_route(lake, "early")) == (1, 0)
    assert [row.topic for row in lake.read(TOPIC_ROUTE).collect()] == ["early"]


@pytest.mark.soak
def test_dates_are_computed_anew_when_a_table_has_gained_a_column(with_a_file):
    lake = with_a_file
    assert (a_route(lake, "early"), a_route(lake, "early")) == (1, 0)
    wider = StructType([*TOPIC_ROUTE.columns, StructField("since_then", LongType(), True, {"comment": "Later."})])
    later, lake = replace(TOPIC_ROUTE, schema=of_json(wider.json())), Lake(lake.spark, lake.root, retention_days=7)
    assert (a_route(lake, "early", later), a_route(lake, "early", later)) == (1, 0)
    assert [row.since_then for row in lake.read(later).collect()] == [None]
