"""Kernels in this process, in workers, in Spark's: the same blobs, in order; errors with their text; nothing left."""

from __future__ import annotations

import multiprocessing
import sys

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.engines.runner import Blob, KernelFailedError
from tests.random_examples import examples

TASKS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 9))), max_size=4
)


def cut(task):
    for name, key, place, value in task:
        yield Blob(name, key, place, pa.table({"value": [value], "text": pa.array([name]).dictionary_encode()}))


def gather(key, given):
    for name in "ab":
        rows = [row for again in range(2) for table in given.tables(name) for row in table["value"].to_pylist()]
        within = [row for table in given.tables(name, -1, 2) for row in table["value"].to_pylist()]
        said = {"key": [key], "name": [name], "rows": [rows], "within": [within], "places": [given.places(name)]}
        yield Blob("gathered", -key, 0, pa.table(said))


def fail(task):
    yield Blob("fine", 0, 0, pa.table({"n": [1]}))
    raise ZeroDivisionError(f"task {task} went wrong")


def echo(rows):
    yield Blob("echo", 0, 0, rows)


@pytest.fixture(scope="module", params=[1, 2])
def runner(request):
    with LocalRunner(request.param) as made:
        yield made


def expected(tasks):
    every = [blob for task in tasks for blob in task]
    for key in sorted({key for _, key, _, _ in every}, reverse=True):
        for name in "ab":
            own = sorted((blob for blob in every if blob[:2] == (name, key)), key=lambda blob: blob[2])
            yield {
                "key": key,
                "name": name,
                "rows": 2 * [value for *_, value in own],
                "within": [value for *_, place, value in own if -1 <= place < 2],
                "places": sorted({place for *_, place, _ in own}),
            }


@examples(5, 20)
@given(tasks=TASKS)
def test_all_blobs_of_a_key_meet_in_order_of_place_then_of_task(runner, tasks):
    gathered = runner.by_key(gather, runner.each(cut, tasks))
    assert [row for table in gathered.tables("gathered") for row in table.to_pylist()] == list(expected(tasks))


def test_blobs_of_several_runs_meet_and_those_of_a_name_can_be_picked(runner):
    first, second = (runner.each(cut, [[("a", 1, place, place), ("b", 1, 7, 7)]]) for place in (2, 1))
    both, of_a = runner.by_key(gather, first, second), runner.by_key(gather, runner.together(first, second).of("a"))
    assert [table["rows"].to_pylist() for table in both.tables("gathered")] == [[[1, 2, 1, 2]], [[7, 7, 7, 7]]]
    assert [table["rows"].to_pylist() for table in of_a.tables("gathered")] == [[[1, 2, 1, 2]], [[]]]


def test_rows_of_a_table_are_gone_over_piece_by_piece(runner):
    pieces = [pa.table({"n": [1, 2]}), pa.table({"n": [3]})]
    made = runner.over(echo, iter(pieces)).rows("echo", pa.schema([("n", pa.int32())]))
    assert [table["n"].to_pylist() for table in made] == [[1, 2], [3]]


def test_a_table_of_parts_with_dictionaries_of_their_own_comes_whole(runner):
    parts = [pa.table({"t": pa.array(texts).dictionary_encode()}) for texts in (["x", "y"], ["z"])]
    rows = pa.concat_tables(parts)
    assert next(runner.each(echo, [rows]).tables("echo")).to_pylist() == rows.to_pylist()


def test_a_large_blob_goes_in_parts(runner, monkeypatch):
    monkeypatch.setattr("hindsight.jobs.engines.runner._MOST_BYTES", 800)
    rows = pa.table({"n": list(range(1_000))})
    parts = list(runner.each(echo, [rows]).tables("echo"))
    assert len(parts) == 10
    assert pa.concat_tables(parts) == rows


def test_without_rows_a_blob_still_has_its_columns(runner):
    rows = pa.table({"n": pa.array([], pa.int64())})
    assert list(runner.each(echo, [rows]).tables("echo")) == [rows]


def test_an_error_of_a_worker_comes_with_its_text(runner):
    with pytest.raises(KernelFailedError, match="ZeroDivisionError: task 7 went wrong"):
        runner.each(fail, [7, 8])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_nothing_is_left_when_the_driver_is_interrupted(error):
    before = set(multiprocessing.active_children())
    with pytest.raises(error), LocalRunner(2) as made:
        folder = made._folder.path
        made.each(cut, [[("a", 1, 1, 1)], [("a", 1, 1, 1)]])
        assert list(folder.iterdir())
        raise error
    assert not folder.exists()
    assert set(multiprocessing.active_children()) == before


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks=TASKS)
def test_spark_gives_what_this_machine_gives(spark, tasks):
    from hindsight.jobs.engines.spark_runner import SparkRunner
    from hindsight.jobs.engines.spark_workers import opened

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a worker cannot import a test
    made = SparkRunner(spark)
    gathered = made.by_key(gather, made.each(cut, tasks))
    assert [row for table in gathered.tables("gathered") for row in table.to_pylist()] == list(expected(tasks))
    rows = opened(gathered.rows("gathered", pa.schema([("key", pa.int64()), ("name", pa.string())])))
    assert sorted(map(tuple, rows.collect())) == sorted((row["key"], row["name"]) for row in expected(tasks))
