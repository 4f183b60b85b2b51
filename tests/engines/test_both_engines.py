"""What one engine writes the other reads and goes on writing, and other readers see the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines import delta_tables
from hindsight.jobs.engines.arrow_lake import ConcurrentWriteError
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.engines.spark_runner import SparkRunner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange, RunContext
from hindsight.schemas import QUARANTINE, SEND_ATTEMPT, TABLES, TOPIC_ROUTE
from hindsight.udfs.values.row_hashes import groups_of
from tests.engines.random_rows import CLUSTERS, DAYS, HOSTILE, as_text, rows
from tests.engines.test_intake import JOBS, contents
from tests.pipeline.test_order_and_splits import cuts_of, write
from tests.pipeline.test_order_and_splits import inputs as inputs  # a fixture
from tests.random_examples import drawn_once

DRAWN = count()
OF_KEYS = (
    "send_attempt",
    *(pytest.param(name, marks=pytest.mark.soak) for name in ("producer_instance", "queue_ownership")),
)

# Dated and not, with maps, lists of structs and parts; others, and each the other way round, are for the soak.
_SOON = {("publication", "local"), ("drift_incident", "spark")}
EACH_FIRST = [
    pytest.param(table, first, id=f"{name}-{first}", marks=[] if (name, first) in _SOON else pytest.mark.soak)
    for name, table in TABLES.items()
    for first in ("local", "spark")
]


@pytest.fixture
def engines(spark, tmp_path, monkeypatch) -> Callable[..., dict[str, Any]]:
    """Both engines on one lake, as two runs that come one after the other; what is little Spark reads too."""
    monkeypatch.setattr(delta_tables, "_LITTLE_BYTES", -1)

    def runs(root: str = "lake") -> dict[str, Any]:
        place = str(tmp_path / root)
        return {"local": LocalLake(place, retention_days=7), "spark": Lake(spark, place, retention_days=7)}

    return runs


@pytest.mark.parametrize(("table", "first"), EACH_FIRST)
def test_each_reads_what_the_other_wrote_and_goes_on(engines, table, first):
    second = {"local": "spark", "spark": "local"}[first]

    @drawn_once(*[rows(table, min_size=1)] * 3)
    def drawn(*pieces):
        root = f"lake-{next(DRAWN)}"
        for writer, piece in zip((first, second, first), pieces, strict=True):
            engines(root)[writer].append(table, piece)
        expected = sorted(text for piece in pieces for text in as_text(piece))
        for lake in engines(root).values():
            assert as_text(lake.rows(table)) == expected
            names = [table.key[0], table.columns.names[-1]]
            assert lake.rows(table, names).column_names == names
        local, spark = (lake.files(table) for lake in engines(root).values())
        assert local == spark and sum(file.rows for file in local) == len(expected)
        seen_by_others(engines(root)["local"].path(table), len(expected))

    drawn()


def seen_by_others(path: str, count: int) -> None:
    stored = DeltaTable(path)
    assert (stored.protocol().min_reader_version, stored.protocol().min_writer_version) == (1, 2)
    with duckdb.connect() as reader:
        reader.register("rows", stored.to_pyarrow_dataset())
        assert reader.sql("SELECT COUNT(*) FROM rows").fetchall() == [(count,)]
    assert polars.scan_delta(path).collect().height == count


def test_the_table_of_one_is_the_table_of_the_other(engines, spark, tmp_path):
    """As created: schema with comments, properties, partitions and protocol."""
    told = {}
    for name, lake in engines().items():
        for table in (TOPIC_ROUTE, QUARANTINE):
            lake.root = str(tmp_path / name)
            lake.create(table)
            about = spark.sql(f"DESCRIBE DETAIL delta.`{lake.path(table)}`").drop("id", "createdAt", "lastModified")
            schema = spark.read.format("delta").load(lake.path(table)).schema.json()
            told.setdefault(table.name, []).append((about.drop("location", "clusterByAuto").collect(), schema))
    for one, other in told.values():
        assert one == other


def test_every_reader_reads_columns_that_are_written_by_their_differences(engines):
    many = 5_000

    @drawn_once(rows(SEND_ATTEMPT, min_size=1))
    def drawn(piece):
        attempts = pa.concat_tables([piece.slice(0, 1)] * many)
        dice = random.Random(1)
        changed = {
            "source_line": pa.array(dice.sample(range(-(1 << 60), 1 << 60), many)),
            "msg_id": pa.array([f"{dice.choice(('', 'é', '7F00'))}{n:X}" for n in range(many)]),
            "callback_end_at": pa.array([None if n % 3 else dice.randrange(1 << 50) for n in range(many)], pa.int64()),
        }
        for name, values in changed.items():
            place = attempts.schema.get_field_index(name)
            attempts = attempts.set_column(place, name, values.cast(attempts.schema.types[place]))
        lakes = engines(f"lake-{next(DRAWN)}")
        lakes["local"].append(SEND_ATTEMPT, attempts)
        path = lakes["local"].path(SEND_ATTEMPT)
        stored = next(Path(path).glob("*/*.parquet"))
        written = pq.ParquetFile(stored).metadata.row_group(0)
        columns = [written.column(n) for n in range(written.num_columns)]
        assert {c.path_in_schema for c in columns if any("DELTA" in each for each in c.encodings)} == changed.keys()
        expected = as_text(attempts)
        assert all(as_text(lake.rows(SEND_ATTEMPT)) == expected for lake in lakes.values())
        wanted = [attempts[name].to_pylist() for name in ("source_line", "msg_id")]
        expected = sorted(zip(*wanted, strict=True))
        with duckdb.connect() as reader:
            assert sorted(reader.sql(f"SELECT source_line, msg_id FROM '{stored}'").fetchall()) == expected
        assert sorted(polars.scan_delta(path).select("source_line", "msg_id").collect().rows()) == expected

    drawn()


@pytest.mark.parametrize("name", OF_KEYS)
def test_rows_that_come_and_rows_that_change_are_stored_alike(spark, tmp_path, monkeypatch, name):
    """And files are those of the newest version, each time; Spark runs no job for them: its commits list so few."""
    table, asked = TABLES[name], Mock(wraps=delta_tables._files_of)
    monkeypatch.setattr(delta_tables, "_files_of", asked)

    def files_hold(lake, count: int) -> bool:
        return all(sum(file.rows for file in lake.files(table, dates)) == count for dates in (None, DAYS))

    @drawn_once(*[rows(table, min_size=4, max_size=9)] * 3, st.sets(st.integers(0, 8), min_size=1, max_size=3))
    def drawn(before, come, others, numbers):
        before, come = alone(before, before.slice(0, 0), table), alone(come, before, table)
        places = sorted({number % len(before) for number in numbers})
        changed = with_others(before.take(pa.array(places)), others, table)
        kept = before.take(pa.array([at for at in range(len(before)) if at not in places], pa.int64()))
        expected = sorted(text for piece in (kept, come, changed) for text in as_text(piece))
        root = tmp_path / f"{next(DRAWN)}"
        for lake in (LocalLake(f"{root}/l", retention_days=7), Lake(spark, f"{root}/s", retention_days=7)):
            lake.append(table, before)
            assert files_hold(lake, len(before))
            lake.store(table, come, changed, DAYS, lake.version(table))
            assert as_text(lake.rows(table)) == expected and files_hold(lake, len(expected))
            with pytest.raises(ConcurrentWriteError, match="another run has written to"):
                lake.store(table, come, None, DAYS, 1)
            assert as_text(lake.rows(table)) == expected

    drawn()
    assert asked.call_count == 0


def alone(found: pa.Table, beside: pa.Table, table) -> pa.Table:
    """One row of each key, and none of a key that is ``beside``."""
    groups = groups_of(pa.concat_tables([beside.select(table.key), found.select(table.key)]), table.key).of_row
    own = groups[len(beside) :]
    first = [at for at, group in enumerate(own) if group not in {*groups[: len(beside)], *own[:at]}]
    return found.take(pa.array(first, pa.int64()))


def with_others(found: pa.Table, others: pa.Table, table) -> pa.Table:
    """The rows with what other rows hold outside the key."""
    columns = [found[name] if name in table.key else others[name].slice(0, len(found)) for name in found.column_names]
    return pa.table(columns, schema=found.schema)


@pytest.mark.soak  # test_local_lake.py says it of this machine's engine
def test_conditions_of_hostile_names_pick_the_same_rows_in_both(engines):
    @given(rows(QUARANTINE, min_size=10), rows(TOPIC_ROUTE, min_size=10), st.data())
    @settings(max_examples=3, suppress_health_check=list(HealthCheck))
    def drawn(refused, routes, data):
        lakes = engines(f"a lake's own ü {next(DRAWN)}")
        names = data.draw(st.sets(st.sampled_from(HOSTILE), min_size=4))
        at = data.draw(st.sets(st.sampled_from([ClusterDate(c, d) for c in CLUSTERS for d in DAYS]), min_size=2))
        for writer, table, piece in (("local", QUARANTINE, refused), ("spark", TOPIC_ROUTE, routes)):
            lakes[writer].append(table, piece)
        for table, where in (
            (QUARANTINE, Where(values={"source_file": names, "line_number": {1, 0}})),
            (QUARANTINE, Where(values={"source_file": names})),
            (QUARANTINE, Where(before={"ingested_at": refused["ingested_at"][0].as_py()})),
            (TOPIC_ROUTE, Where(dates=at)),
            (TOPIC_ROUTE, Where(dates=[])),
            (TOPIC_ROUTE, Where(dates=at, values={"event_date": DAYS[:1]})),
        ):
            local, spark = (as_text(lake.rows(table, where=where)) for lake in lakes.values())
            assert local == spark
        chosen = lakes["local"].rows(TOPIC_ROUTE, where=Where(dates=at))
        for lake in lakes.values():
            before = as_text(lake.rows(TOPIC_ROUTE))
            lake.replace_dates(TOPIC_ROUTE, chosen, at)
            assert as_text(lakes["spark"].rows(TOPIC_ROUTE)) == before

    drawn()


@pytest.mark.soak  # splits on both engines
def test_landing_files_are_taken_in_alike_and_a_lake_may_change_engine_meanwhile(engines, spark, inputs, tmp_path):
    """Half of each file, then all of it, then a reread of what is known, each by the other engine than before."""
    cuts = {
        name: [0, *(cut for cut in cuts_of(name, lines) if cut <= len(lines) / 2)] for name, lines in inputs.items()
    }
    halves = {name: lines[: max(cuts[name])] for name, lines in inputs.items()}
    runs = [halves, inputs, inputs]
    told: dict[str, list[Any]] = {"local": [], "spark": []}
    for number, files in enumerate(runs):
        for name, lines in files.items():
            if lines:
                write(tmp_path / f"{number}", name, lines)
        context = RunContext(str(tmp_path / f"{number}"), DateRange(first=DAYS[0]) if number == 2 else EVERY_DATE)
        for first in told:
            name = first if number % 2 == 0 else {"local": "spark", "spark": "local"}[first]
            lake = engines(first)[name]
            with LocalRunner(1) as local:
                runner = local if name == "local" else SparkRunner(spark)
                told[first] += [job.run_on(lake, runner, load_settings(None), context) for job in JOBS]
    assert told["local"] == told["spark"]
    assert told["local"][0].stored and told["local"][2].duplicate == 0 and told["local"][4].stored
    one, other = (contents(engines(first)["local"]) for first in told)
    assert one == other
