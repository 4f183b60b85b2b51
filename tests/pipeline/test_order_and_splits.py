"""Any split of the input, any order of arrival, any rerun: the same contents as one run over everything."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

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
    from jobs import flag_allocation_drift, ingest_consumer_snapshots, ingest_send_records, rebuild_availability
    from jobs.run_context import RunContext

    root = tmp_path_factory.mktemp("one_run")
    for name, lines in inputs.items():
        write(root / "landing", name, lines)
    context = RunContext(str(root / "landing"))
    for job in (ingest_send_records, ingest_consumer_snapshots, rebuild_availability, flag_allocation_drift):
        job.run(spark, settings, context, str(root / "lake"))
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


@pytest.mark.soak
def test_files_split_in_three_and_arriving_in_any_order_give_the_same_tables(
    spark, pipeline, inputs, one_run, tmp_path
):
    """The snapshot file is cut between a marker and its captures; starts, callbacks and markers arrive last."""
    for part in (2, 0, 1):
        for name, lines in inputs.items():
            cuts = [0, len(lines) // 3, 2 * len(lines) // 3, len(lines)]
            if name.startswith("admin_snapshots"):
                after_marker = [i + 1 for i, line in enumerate(lines) if b'"kind":"round"' in line]
                cuts[1:3] = after_marker[4], after_marker[9]
            if name.startswith("client_log"):  # a log is rolled between records, not inside a stack trace
                stamped = [i for i, line in enumerate(lines) if line[:2] == b"20"]
                cuts[1:3] = (next(i for i in stamped if i >= cut) for cut in cuts[1:3])
            folder, _, rest = name.partition("/")
            write(tmp_path / "landing", f"{folder}/{part}/{rest}", lines[cuts[part] : cuts[part + 1]])
        pipeline(tmp_path / "landing", tmp_path / "lake")
    actual = contents(spark, tmp_path / "lake", with_sources=False)
    assert_equal(actual, contents(spark, one_run / "lake", with_sources=False))


@pytest.mark.soak
def test_the_same_records_in_two_files_are_stored_once(spark, pipeline, inputs, one_run, tmp_path):
    for name, lines in inputs.items():
        write(tmp_path / "landing", name, lines)
        folder, _, rest = name.partition("/")
        write(tmp_path / "landing", f"{folder}/again/{rest}", lines)
    pipeline(tmp_path / "landing", tmp_path / "lake")
    actual = contents(spark, tmp_path / "lake", with_sources=False)
    assert_equal(actual, contents(spark, one_run / "lake", with_sources=False))
    files = spark.read.format("delta").load(f"{tmp_path}/lake/ingested_file").collect()
    assert all(f.read == f.stored + f.duplicate + f.ignored + f.quarantined for f in files)
    assert sum(f.duplicate for f in files) == sum(f.stored for f in files)
