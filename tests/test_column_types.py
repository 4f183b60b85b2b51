"""The contracts' own types say what Spark's say, and need no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import types as spark_types

from hindsight.schemas import TABLES
from hindsight.schemas.column_types import of_json

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_columns_are_told_as_spark_tells_them_and_come_back(table):
    of_spark = spark_types.StructType.fromJson(json.loads(table.schema.json()))
    assert table.columns == of_spark
    assert (table.schema.json(), table.schema.simpleString()) == (of_spark.json(), of_spark.simpleString())
    assert of_json(of_spark.json()) == table.schema


def test_a_type_of_no_contract_is_told_as_it_is_stored():
    columns = of_json('{"type":"struct","fields":[{"name":"a","type":"decimal(9,2)","nullable":true,"metadata":{}}]}')
    assert columns.simpleString() == "struct<a:decimal(9,2)>"


def test_contracts_and_a_lake_without_spark_load_nothing_of_it():
    code = (
        "import sys, hindsight.schemas; "
        "import hindsight.jobs.engines.local_lake, hindsight.jobs.engines.local_runner; "
        "import hindsight.jobs.lake.lake_lease; "
        "import hindsight.jobs.publishing.publication_record, hindsight.jobs.publishing.quality_gate; "
        "print({'pyspark', 'py4j', 'delta'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
