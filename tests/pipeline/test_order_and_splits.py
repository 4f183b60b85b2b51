"""Any split of the input, any order of arrival, any rerun: the same contents as one run over everything."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as property_settings
from hypothesis import strategies as st

from jobs.run_context import RunContext
from jobs.run_pipeline import JOBS
from tests.conftest import CAPTURES, GOLDEN
from tests.pipeline.lake_contents import COMPARED, contents

CLUSTER = "cluster=oracle"


def lines_of(path: Path) -> list[bytes]:
    return gzip.open(path).read().splitlines(keepends=True)


@pytest.fixture(scope="module")
def inputs() -> dict[str, list[bytes]]:
    """Landing folder -> lines: a SYNC and an ASYNC producer, traces, fourteen rounds, logs of clients and a broker."""
    snapshots = lines_of(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz")
    markers = [i for i, line in enumerate(snapshots) if b'"kind":"round"' in line]
    rounds = [i for n, i in enumerate(markers) if n % 5 == 0]
    chosen = [line for i in rounds for line in snapshots[i : next(m for m in [*markers, len(snapshots)] if m > i)]]
    logs, producers = CAPTURES / "consumers" / "client_logs", CAPTURES / "producers"
    return {
        "producer_hook/sync.jsonl": lines_of(producers / "producer_4.7.1_short.jsonl.gz")[:1500],
        "producer_hook/async.jsonl": lines_of(producers / "producer_4.9.8_async.jsonl.gz")[:1500],
        "admin_snapshots/rounds.jsonl": chosen,
        "client_log/a/rocketmq_client.log": lines_of(logs / "consumer_4.7.1" / "rocketmq_client.log.gz"),
        "client_log/b/rocketmq_client.log": lines_of(logs / "consumer_a5" / "rocketmq_client.log.gz"),
        "client_log/c/rocketmq_client.log": lines_of(producers / "client_logs" / "5.3.3" / "rocketmq_client.log.gz"),
        "trace_topic/trace.jsonl": lines_of(CAPTURES / "trace_topic" / "trace_4.7.1_4.9.8_5.3.3.jsonl.gz"),
        "broker_log/broker-b/broker.log": lines_of(CAPTURES / "broker_logs" / "broker-b.log.gz")[-600:],
        "heartbeat/heartbeats.jsonl": (GOLDEN / "heartbeats" / "heartbeat_5.3.3.jsonl").read_bytes().splitlines(True),
    }


def write(landing: Path, name: str, lines: list[bytes]) -> None:
    folder, _, rest = name.partition("/")
    path = landing / folder / CLUSTER / rest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))


@pytest.fixture(scope="module")
def one_run(spark, settings, inputs, tmp_path_factory):
    root = tmp_path_factory.mktemp("one_run")
    for name, lines in inputs.items():
        write(root / "landing", name, lines)
    context = RunContext(str(root / "landing"))
    for run in JOBS.values():
        run(spark, settings, context, str(root / "lake"))
    return root


def assert_equal(actual: dict[str, list], expected: dict[str, list]) -> None:
    for name, rows in expected.items():
        assert actual[name] == rows, f"{name}: {len(actual[name])} rows, expected {len(rows)}"


def test_there_is_something_to_compare(spark, one_run):
    found = contents(spark, one_run / "lake")
    empty = {name for name, rows in found.items() if not rows}
    assert empty == {"quarantine", "pop_assignment"}, {name: len(rows) for name, rows in found.items()}


def test_running_again_changes_nothing(spark, pipeline, one_run):
    before = contents(spark, one_run / "lake")
    versions = {t.name: len(list((one_run / "lake" / t.name / "_delta_log").glob("*.json"))) for t in COMPARED}
    pipeline(one_run / "landing", one_run / "lake")
    assert_equal(contents(spark, one_run / "lake"), before)
    after = {t.name: len(list((one_run / "lake" / t.name / "_delta_log").glob("*.json"))) for t in COMPARED}
    assert after == versions


@st.composite
def arrivals(draw, inputs):
    """Batches: landing files by name, each some lines of an input, and the jobs that run after; in any order."""
    batches = [
        ({}, draw(st.permutations(list(JOBS)))[: draw(st.integers(1, 4))]) for _ in range(draw(st.integers(2, 4)))
    ]
    for name, lines in inputs.items():
        folder, _, rest = name.partition("/")
        places = cuts_of(name, lines)
        cuts = [0, *sorted(draw(st.sets(st.sampled_from(places), max_size=2))), len(lines)]
        for part, (begin, end) in enumerate(pairwise(cuts)):
            for copy in range(draw(st.sampled_from([1, 1, 1, 2]))):
                files, _ = batches[draw(st.integers(0, len(batches) - 1))]
                files[f"{folder}/{part}-{copy}/{rest}"] = (name, begin, end)
    return batches


def cuts_of(name: str, lines: list[bytes]) -> list[int]:
    """Where a file may be cut: a log is rolled between records, not inside a stack trace."""
    return [i for i in range(1, len(lines)) if not name.startswith("client_log") or lines[i][:2] == b"20"]


@pytest.mark.soak
@property_settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_arrival_of_the_files_gives_the_same_tables(spark, settings, inputs, one_run, tmp_path_factory, data):
    """Cut anywhere, late, some lines in two files; jobs run in any order meanwhile, and once in theirs at the end."""
    root = tmp_path_factory.mktemp("arrival")
    for files, jobs in [*data.draw(arrivals(inputs)), ({}, JOBS)]:
        for path, (name, begin, end) in files.items():
            write(root / "landing", path, inputs[name][begin:end])
        for job in jobs:
            JOBS[job](spark, settings, RunContext(str(root / "landing")), str(root / "lake"))
    actual = contents(spark, root / "lake", with_sources=False)
    assert_equal(actual, contents(spark, one_run / "lake", with_sources=False))
    ledger = spark.read.format("delta").load(f"{root}/lake/ingested_file").collect()
    assert all(f.read == f.stored + f.duplicate + f.ignored + f.quarantined for f in ledger)
