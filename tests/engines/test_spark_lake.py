"""The lake on Spark beside the one without a JVM: the same writes leave the same rows, and the same is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PythonException

from hindsight.conf.failure import RUN_FAILED
from hindsight.jobs.engines import delta_tables
from hindsight.jobs.engines.arrow_columns import NullInColumnError, chosen
from hindsight.jobs.engines.arrow_lake import ConcurrentWriteError
from hindsight.jobs.engines.data_files import rows_in
from hindsight.jobs.engines.delta_tables import ForeignProtocolError, Lake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.runner import Blob
from hindsight.jobs.engines.spark_runner import SparkRunner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import qualified
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.schemas import TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from tests.engines.random_rows import CLUSTERS, DAYS, as_text, rows
from tests.random_examples import SOAKING

AT = [ClusterDate(cluster, day) for cluster in CLUSTERS for day in DAYS]
INSTANTS = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
# A smaller example of a failure would take Spark minutes.
FEW = settings(
    max_examples=5 if SOAKING else 1,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)


def is_drawn(*pieces: pa.Table) -> bool:
    """Whether rows differ: the first example of all, with the least of each value, says too little to be the one."""
    return all(len({repr(row) for row in piece.to_pylist()}) > 1 for piece in pieces)


@FEW
@given(before=st.lists(rows(TOPIC_ROUTE), min_size=1, max_size=2), after=rows(TOPIC_ROUTE), data=st.data())
def test_the_same_writes_leave_the_same_rows(spark, before, after, data):
    assume(is_drawn(after, *before))
    dates, since = data.draw(st.sets(st.sampled_from(AT), min_size=1)), data.draw(INSTANTS)
    going = dict.fromkeys(data.draw(st.sets(st.sampled_from(sorted(dates)))), since)
    gone = Where(values={"cluster": data.draw(st.sets(st.sampled_from(CLUSTERS)))})
    meeting = [Where(dates=[at], since={"captured_at": going[at]} if at in going else {}) for at in dates]
    is_meant = [any(len(chosen(after.slice(n, 1), where)) for where in meeting) for n in range(len(after))]
    fresh = after.filter(pa.array(is_meant, pa.bool_()))
    found = []
    for make in (lambda root: Lake(spark, root, retention_days=7), lambda root: LocalLake(root, retention_days=7)):
        with TemporaryDirectory() as root:
            lake = make(root)
            for piece in before:
                lake.append(TOPIC_ROUTE, piece)
            seen = [as_text(lake.rows(TOPIC_ROUTE))]
            lake.replace_since(TOPIC_ROUTE, fresh, dates, "captured_at", going)
            seen.append(as_text(lake.rows(TOPIC_ROUTE)))
            lake.delete(TOPIC_ROUTE, gone)
            seen.append(as_text(lake.rows(TOPIC_ROUTE)))
            files = lake.files(TOPIC_ROUTE, DAYS[:1], ("captured_at", since))
            others = LocalLake(root, retention_days=7).files(TOPIC_ROUTE, DAYS[:1], ("captured_at", since))
            assert sorted(files) == sorted(others)
            found.append(seen)
    assert found[0] == found[1]


def told(rows: pa.Table) -> Iterator[Blob]:
    for place in range(len(rows)):
        yield Blob(TOPIC_ROUTE.name, 0, place, rows.slice(place, 1))


@FEW
@given(rows(TOPIC_ROUTE, min_size=1))
def test_what_kernels_gave_is_staged_by_workers_and_published_as_it_stands(spark, drawn):
    assume(is_drawn(drawn))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a worker cannot import a test
    with TemporaryDirectory() as root:
        lake, here = Lake(spark, root, retention_days=7), LocalLake(root, retention_days=7)
        made = SparkRunner(spark).each(told, [drawn.slice(0, 3), drawn.slice(3)])
        lake.add_candidates(TOPIC_ROUTE, made.rows(TOPIC_ROUTE.name, arrow_schema(TOPIC_ROUTE)), first=True)
        assert as_text(rows_in(lake.folder(TOPIC_ROUTE), lake.candidates(TOPIC_ROUTE))) == as_text(drawn)
        assert lake.frame(TOPIC_ROUTE, lake.candidates(TOPIC_ROUTE)).count() == len(drawn)
        assert len(lake.rows(TOPIC_ROUTE)) == 0
        dates = dict.fromkeys(map(ClusterDate, drawn["cluster"].to_pylist(), drawn["event_date"].to_pylist()), 0)
        here._candidates[TOPIC_ROUTE.name] = lake.candidates(TOPIC_ROUTE)
        columns = {TOPIC_ROUTE: ["topic", "perm"]}
        digests = lake.candidate_digests(columns)
        assert digests == here.candidate_digests(columns) and {at for at, _ in digests[TOPIC_ROUTE]} == {*dates}
        assert lake.candidate_dates(TOPIC_ROUTE, Where(values={"cluster": CLUSTERS[:1]})) == {
            at for at in dates if at.cluster == CLUSTERS[0]
        }
        lake.replace_dates(TOPIC_ROUTE, lake.candidates(TOPIC_ROUTE), dates)
        assert as_text(here.rows(TOPIC_ROUTE)) == as_text(lake.rows(TOPIC_ROUTE)) == as_text(drawn)
        assert {file.path for file in here.files(TOPIC_ROUTE)} == {file.path for file in lake.candidates(TOPIC_ROUTE)}


@pytest.fixture
def one_route() -> pa.Table:
    row = {"cluster": "c", "event_date": DAYS[0], "collector": "", "topic": "t", "broker_name": "b", "perm": 6}
    row |= {"read_queue_nums": 4, "write_queue_nums": 4, "has_master": True, "is_static_topic": False}
    row |= {"source": "s", "source_file": "f", "source_line": 1, "run_id": "r"}
    row |= dict.fromkeys(("captured_at", "ingested_at"), datetime(2026, 1, 5, tzinfo=UTC))
    return pa.Table.from_pylist([row])


def test_rows_that_spark_reads_are_those_that_this_process_reads(spark, tmp_path, one_route, monkeypatch):
    """It reads few, Spark many; a condition is a text of SQL to the one, and none to the other."""
    lake, at = Lake(spark, str(tmp_path), retention_days=7), datetime(2026, 1, 5, tzinfo=UTC)
    known = one_route.to_pylist()[0]
    kinds = [*product(CLUSTERS[:2], DAYS[:2], ("o'brien", "a\\"))]
    every = [
        {**known, "cluster": cluster, "event_date": day, "topic": topic, "captured_at": at + timedelta(hours=hour)}
        for hour, (cluster, day, topic) in enumerate(kinds)
    ]
    lake.append(TOPIC_ROUTE, pa.Table.from_pylist(every, one_route.schema))
    conditions = [
        Where(),
        Where(values={"topic": ["o'brien"], "event_date": DAYS[:1]}),
        Where(values={"topic": []}),
        Where(before={"captured_at": at + timedelta(hours=5)}),
        Where(dates=[ClusterDate(CLUSTERS[1], DAYS[1])], since={"captured_at": at + timedelta(hours=3)}),
    ]

    def read() -> list[list[str]]:
        found = [lake.rows(TOPIC_ROUTE, ["topic", "captured_at"], where) for where in conditions]
        return [as_text(rows) for rows in (*found, lake.counted(TOPIC_ROUTE, ["cluster"], conditions[-1]))]

    here = read()
    monkeypatch.setattr(delta_tables, "_LITTLE_BYTES", -1)
    assert [len(rows) for rows in here] == [8, 2, 0, 5, 2, 1]
    assert read() == here


@pytest.mark.parametrize("meanwhile", ["before the commit", "while it is made"])
@pytest.mark.parametrize("write", ["replace_dates", "delete"])
def test_what_rests_on_rows_that_another_run_has_changed_meanwhile_is_refused(
    spark, tmp_path, one_route, monkeypatch, write, meanwhile
):
    lake, other = Lake(spark, str(tmp_path), retention_days=7), LocalLake(str(tmp_path), retention_days=7)
    lake.append(TOPIC_ROUTE, one_route)
    if meanwhile == "before the commit":
        commit = Lake._commit

        def after_another(self, *args, **named):
            other.append(TOPIC_ROUTE, one_route)
            commit(self, *args, **named)

        monkeypatch.setattr(Lake, "_commit", after_another)
    else:  # when what it rests on was looked at
        actions = delta_tables._actions
        monkeypatch.setattr(
            delta_tables, "_actions", lambda *of: (other.append(TOPIC_ROUTE, one_route), actions(*of))[1]
        )
    of_write = {
        "replace_dates": (one_route, [ClusterDate("c", DAYS[0])]),
        "delete": (Where(values={"cluster": ["c"]}),),
    }
    with pytest.raises(ConcurrentWriteError, match=r"another run has written to .*topic_route"):
        getattr(lake, write)(TOPIC_ROUTE, *of_write[write])
    assert len(other.rows(TOPIC_ROUTE)) == 2


def test_an_append_stands_beside_what_another_run_appends_meanwhile(spark, tmp_path, one_route, monkeypatch):
    lake, other = Lake(spark, str(tmp_path), retention_days=7), LocalLake(str(tmp_path), retention_days=7)
    lake.create(TOPIC_ROUTE)
    actions = delta_tables._actions
    monkeypatch.setattr(delta_tables, "_actions", lambda *of: (other.append(TOPIC_ROUTE, one_route), actions(*of))[1])
    lake.append(TOPIC_ROUTE, one_route)
    assert len(lake.rows(TOPIC_ROUTE)) == 2


def test_a_null_where_the_contract_has_none_is_refused_and_nothing_is_stored(spark, tmp_path, one_route, capsys):
    lake = Lake(spark, str(tmp_path), retention_days=7)
    lake.append(TOPIC_ROUTE, one_route)
    for rows_of in (lambda rows: rows, lambda rows: spark.createDataFrame(rows)):
        with pytest.raises((NullInColumnError, PythonException), match="topic_route: perm may not be null"):
            lake.append(TOPIC_ROUTE, rows_of(one_route.drop(["perm"])))
    assert (lake.version(TOPIC_ROUTE), len(lake.rows(TOPIC_ROUTE))) == (1, 1)
    assert exit_code(lambda: lake.append(TOPIC_ROUTE, spark.createDataFrame(one_route.drop(["perm"])))) == RUN_FAILED
    assert capsys.readouterr().err.startswith("hindsight: a worker failed: NullInColumnError: topic_route: perm may")


def test_a_table_whose_files_alone_do_not_tell_its_rows_is_refused(spark, tmp_path, one_route):
    """Somebody else's DELETE took a row away by a deletion vector: its file still holds it."""
    lake = Lake(spark, str(tmp_path), retention_days=7)
    lake.append(TOPIC_ROUTE, pa.concat_tables([one_route, one_route.set_column(0, "cluster", pa.array(["d"]))]))
    place = f"delta.`{lake.path(TOPIC_ROUTE)}`"
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {place} WHERE cluster = 'd'")
    of_d = Where(values={"cluster": ["d"]})
    for read, *asked in (("files",), ("rows", ["cluster"]), ("counted", ["cluster"]), ("delete", of_d)):
        again = Lake(spark, str(tmp_path), retention_days=7)
        with pytest.raises(ForeignProtocolError, match=r"topic_route has Delta's reader protocol 3 .* DROP FEATURE"):
            getattr(again, read)(TOPIC_ROUTE, *asked)


def test_a_plain_path_is_a_place_of_spark_s_own_store(spark, tmp_path):
    """Which workers do not know: to them it would be a folder of their own machine."""
    options = spark._jsc.hadoopConfiguration()
    own, nobody = options.get("fs.defaultFS"), "hdfs://127.0.0.1:9"
    options.set("fs.defaultFS", nobody)
    try:
        assert qualified(spark, "/lake") == f"{nobody}/lake"
        assert qualified(spark, f"file:{tmp_path}") == f"file:{tmp_path}"
    finally:
        options.set("fs.defaultFS", own)
    assert qualified(spark, str(tmp_path)) == str(tmp_path)
