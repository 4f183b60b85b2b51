"""The harness of the benchmarks: what it meters, what it compares, and that its data and its oracle are sound."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import allocation_peers
from bench.allocation_answer import digests
from bench.consumer_tables import write_tables
from bench.contest import Contestant, Outcome, Round, Target, disagreements
from bench.process_tree import JVM, PYTHON, Meter
from bench.record import row_count, targets
from schemas import QUEUE_OWNERSHIP
from udfs.allocation import MessageQueue, allocate

BUSY = "import time\nend = time.process_time() + 0.5\nheld = bytearray(80 << 20)\nwhile time.process_time() < end: pass"


def test_cpu_and_memory_of_a_process_that_a_child_started_are_counted():
    busy = f"subprocess.run([sys.executable, '-c', {BUSY!r}])"
    code = f"import subprocess, sys; input(); {busy}; print('done', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        meter = Meter(child.pid)
        meter.start()
        child.stdin.write("begin\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        meter.stop()
        child.stdin.write("end\n")
    assert 0.4 < meter.cpu_s[PYTHON] < 5
    assert meter.wall_s > 0.4
    assert meter.peak[PYTHON] > meter.largest_python > 80 << 20
    assert (meter.cpu_s[JVM], meter.peak[JVM]) == (0, 0)


def outcome(name, *cpu_s, covers=(), answer=None, rows=None):
    rounds = [Round(10 * s, s, 0, 0, 0, 0) for s in cpu_s]
    return Outcome(Contestant(name, "m", covers=covers, rows=rows), rounds, answer or {})


def test_contestants_disagree_only_where_they_cover_the_same_part_of_the_same_data():
    one = outcome("one", covers=("a", "b"), answer={"a": 1, "b": 2})
    assert disagreements([one, outcome("two", covers=("a",), answer={"a": 1, "b": 9})]) == []
    assert disagreements([one, outcome("small", covers=("a",), answer={"a": 5}, rows=9)]) == []
    assert disagreements([one, outcome("two", covers=("b",), answer={"b": 3})]) == ["b: one says 2, two says 3"]
    assert disagreements([outcome("none", covers=("a",))]) == ["a: none says None, none says None"]


@pytest.mark.parametrize(("factor", "word"), [(2.0, "reached"), (1.9, "MISSED")])
def test_a_target_compares_the_best_rounds(factor, word):
    class One:
        targets = (Target("text", "slow", "fast", factor),)

    said = targets(One, [outcome("slow", 9, 4, 6), outcome("fast", 3, 2, 4)])
    assert said == f"- {word}: text. slow / fast: 2.00 (aim {factor:.2f}; pairs 1.50 to 3.00, median 2.00)."


def test_a_contestant_is_credited_with_the_rows_of_the_parts_that_it_covers():
    rows = {None: {"AVG": 6, "CONFIG": 4}}
    assert row_count(outcome("all").contestant, rows) == 10
    assert row_count(outcome("some", covers=("AVG",)).contestant, rows) == 6


def test_equal_seeds_give_equal_tables(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.consumer_tables.GROUPS", 20)
    for place in ("one", "two"):
        write_tables(tmp_path / place, 5_000)
    one, two = (pq.read_table(tmp_path / place / QUEUE_OWNERSHIP.name) for place in ("one", "two"))
    assert one.equals(two)
    assert 4_000 < len(one) < 6_000
    assert one.column_names == QUEUE_OWNERSHIP.columns.names


@pytest.mark.parametrize("members", [1, 3, 7, 12])
def test_the_numpy_peer_gives_each_queue_to_the_owner_that_the_kernel_names(members):
    brokers, each = ("broker-a", "broker-b"), 4
    cids = [f"10.0.0.{n}@1" for n in range(members)]
    rows = []
    for number, strategy in enumerate(("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONSISTENT_HASH")):
        queues = [MessageQueue(f"t{number}", broker, n) for broker in brokers for n in range(each - number)]
        taken = {q: c for c, given in allocate(strategy, queues, cids).items() for q in given}
        rows.append((number, strategy, queues, [taken[q] for q in queues]))
    table = pa.table(
        {
            "snapshot": pa.array([r[0] for r in rows], pa.int64()),
            "strategy": [r[1] for r in rows],
            "topic": [f"t{r[0]}" for r in rows],
            "members": [cids] * len(rows),
            "queues": [[{"broker_name": q.broker_name, "queue_id": q.queue_id} for q in r[2]] for r in rows],
        }
    )
    made = allocation_peers._allocate(table)
    assert made["owners"].to_pylist() == [r[3] for r in rows]
    assert len(digests(made)) == 3
    swapped = made.set_column(0, "snapshot", pa.array(np.arange(len(rows))[::-1], pa.int64()))
    assert digests(swapped)["CONSISTENT_HASH"] != digests(made)["CONSISTENT_HASH"]
