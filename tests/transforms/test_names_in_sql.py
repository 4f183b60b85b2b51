"""Text from data and settings is a literal in SQL: nothing of it is executed, nothing replaced."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.spark_asker import SparkAsker
from hindsight.jobs.engines.spark_sql import sql_text
from hindsight.jobs.explaining.explain_row import NotOneRowError, explain
from hindsight.jobs.explaining.explanation import same
from hindsight.schemas import QUARANTINE, TABLES
from tests.hostile_texts import HOSTILE


@pytest.fixture
def substituting(spark):
    """A session in which Spark would put variables in place of their names, as it does by default."""
    before = spark.conf.get("spark.sql.variable.substitute")
    spark.conf.set("spark.sql.variable.substitute", "true")
    yield spark
    spark.conf.set("spark.sql.variable.substitute", before)


def test_every_text_comes_back_as_it_was(substituting):
    row = substituting.sql(f"SELECT {', '.join(map(sql_text, HOSTILE))}").first()
    assert tuple(row) == HOSTILE
    assert substituting.sql("SELECT '${env:HOME}'").first()[0] == os.environ["HOME"]  # what it is held against


def test_a_query_of_ones_own_is_taken_as_it_is_written(spark):
    assert spark.sql("SELECT '${env:HOME}' AS a").first().a == "${env:HOME}"


def test_a_condition_on_a_row_s_own_values_picks_that_row(substituting, tmp_path):
    frame = substituting.createDataFrame([(text, n) for n, text in enumerate(HOSTILE)], "name string, n int")
    frame.createOrReplaceTempView("hostile_names")
    asker = SparkAsker(substituting, Lake(substituting, str(tmp_path), retention_days=7))
    assert picked_by_name(asker) == list(range(len(HOSTILE)))


def test_it_picks_that_row_without_spark_too(tmp_path):
    asker = LocalAsker(LocalLake(str(tmp_path), retention_days=7))
    asker.name("hostile_names", pa.table({"name": HOSTILE, "n": list(range(len(HOSTILE)))}))
    assert picked_by_name(asker) == list(range(len(HOSTILE)))


def picked_by_name(asker) -> list[int]:
    each = (f"SELECT n FROM hostile_names WHERE {same(asker, {'name': text}, 'name')}" for text in HOSTILE)
    return [row["n"] for row in records(asker, " UNION ALL ".join(each))]


def test_rows_of_files_with_hostile_names_are_replaced_and_no_others(substituting, tmp_path):
    """As ingestion does it; Spark's own replacement made such a write fail, with the variable's value in the error."""
    lake = Lake(substituting, str(tmp_path / "a lake's own ü"), retention_days=7)
    rows = substituting.createDataFrame([(text,) for text in HOSTILE], "source_file string").withColumns(
        {name: F.lit("x") for name in ("cluster", "format", "reason_code", "detail", "raw_text", "run_id")}
        | {name: F.lit(1) for name in ("line_number", "byte_start", "byte_end")}
        | {"ingested_at": F.current_timestamp()}
    )
    for _ in range(2):
        lake.replace_files(QUARANTINE, rows, "source_file", HOSTILE)
    assert lake.read(QUARANTINE).count() == len(HOSTILE)


def test_a_condition_that_would_end_its_query_is_refused(spark, tmp_path):
    local, lake = LocalAsker(LocalLake(str(tmp_path), retention_days=7)), Lake(spark, str(tmp_path), retention_days=7)
    for name in ("send_verdict", "quarantine"):
        lake.read(TABLES[name]).createOrReplaceTempView(name)
    for asker in (local, SparkAsker(spark, lake)):
        for condition in ("1 = 1) UNION SELECT (", "1 = 1; DROP TABLE quarantine", "1 = 1; SELECT 1 WHERE true", "'"):
            with pytest.raises(NotOneRowError, match="cannot be read"):
                explain(asker, "send_verdict", condition)
    for name in ("send_verdict", "quarantine"):
        spark.catalog.dropTempView(name)
