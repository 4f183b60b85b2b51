"""The batches that a worker makes of landing files, plain lines as columns, versus the lines one by one."""

from __future__ import annotations

import gzip
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from conf.settings_file import load_settings
from jobs import landing_files
from jobs.landing_files import LINE_COLUMNS, record_schema
from jobs.landing_lines import parse_file
from jobs.landing_survey import LandingFile
from jobs.read_options import read_options
from schemas import MESSAGE_TRACE, PRODUCER_INSTANCE, SEND_ATTEMPT
from tests.captures.test_damaged_lines import LINES
from tests.readers.line_checks import damaged

FED = (MESSAGE_TRACE, PRODUCER_INSTANCE, SEND_ATTEMPT)
SCHEMA = to_arrow_schema(StructType([*LINE_COLUMNS.fields, *(StructField(t.name, record_schema(t)) for t in FED)]))
FLAGGED = frozenset(table.name for table in FED)


@pytest.mark.parametrize("name", ["producer_hook", "trace_topic", "canonical_sends"])
@pytest.mark.parametrize("end", [".jsonl", ".jsonl.gz"])
def test_a_worker_s_batches_hold_each_line_of_a_file_once(tmp_path, name, end):
    random = Random(7)
    lines = [damaged(random, LINES[name]) if n % 9 == 0 else random.choice(LINES[name]) for n in range(6_000)]
    raw = b"".join([b'{"type":"select","ts":1}\n', *lines])
    path = tmp_path / name / "cluster=c" / f"a{end}"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(raw) if end.endswith("gz") else raw)
    file = LandingFile("c", name, str(path.relative_to(tmp_path)), path.stat().st_size)
    options = read_options(str(tmp_path), load_settings(None))
    task = pa.RecordBatch.from_pylist([{"file": file._asdict()}])
    batches = list(landing_files._reader(options, SCHEMA)(iter([task])))
    found = [row for batch in batches for row in batch.to_pylist()]
    one_by_one = landing_files._rows(file, parse_file(file, options, FLAGGED), options.max_raw_text_chars)
    expected = pa.RecordBatch.from_pylist(one_by_one, schema=SCHEMA).to_pylist()
    assert ignored(found) == ignored(expected)
    assert stored(found) == stored(expected)
    assert refused(found) == refused(expected) != []


def ignored(rows: list[dict]) -> int:
    return sum(row["lines"] for row in rows if row["ignored"])


def stored(rows: list[dict]) -> list[dict]:
    """Of a row of a table nobody asks for the bytes."""
    of_tables = [row | {"byte_start": None, "byte_end": None} for row in rows if any(row[t.name] for t in FED)]
    return sorted(of_tables, key=lambda row: (row["line_number"], -row["lines"]))


def refused(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["reason_code"]]
