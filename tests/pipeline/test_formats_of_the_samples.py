"""Every format of data_samples through the real jobs: what is stored of each file equals a count of its text.

Files arrive in an unkind order: traces before the routes that name their brokers, mqadmin's output before the list
that says when it was taken. One lake serves all tests of this module; they only read.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from conf.settings import SettingsError, load_settings

SAMPLES = Path(__file__).parent.parent.parent / "data_samples"
FORMATS = ("trace_topic", "admin_snapshots", "client_log", "broker_log", "heartbeat", "mqadmin")
BEGIN = datetime(2026, 11, 21, 9, 18, 12, 980_000, UTC)
# The trace's producers are known by no other source here, so the settings say what they are.
SETTINGS = """
[[replay.override]]
client_version = "5.3.3"
latency_fault_enabled = true
"""


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def canonical_sends() -> pa.Table:
    rows = [
        {
            "producer_group": "pg_own",
            "client_id": "10.0.0.1@7",
            "topic": "T",
            "broker_name": "broker-a",
            "queue_id": n % 4,
            "mode": "SYNC",
            "begin_at": BEGIN,
            "end_at": BEGIN.replace(microsecond=990_000),
            "outcome": "SEND_OK" if n < 9 else "NO_SUCH_STATUS",
            "msg_id": f"7F00000100070000000000000A1B2C3D{n:04X}",
        }
        for n in range(10)
    ]
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def root(spark, settings_file, tmp_path_factory):
    from jobs import ingest_consumer_snapshots, ingest_send_records, rebuild_availability
    from jobs.run_context import RunContext

    root = tmp_path_factory.mktemp("formats")
    landing = root / "landing"
    for name in FORMATS:
        shutil.copytree(SAMPLES / name, landing / name)
    own = landing / "canonical_sends" / "cluster=oracle"
    own.mkdir(parents=True)
    parquet.write_table(canonical_sends(), own / "part-0.parquet")
    (own / "damaged.parquet").write_bytes((own / "part-0.parquet").read_bytes()[:300])
    told = next((landing / "mqadmin").rglob("commands.jsonl"))
    commands = told.read_bytes()
    told.unlink()
    (root / "settings.toml").write_text(settings_file.read_text() + SETTINGS)
    settings = load_settings(root / "settings.toml")

    def run(*jobs):
        for job in jobs:
            job.run(spark, settings, RunContext(str(landing)), str(root / "lake"))

    run(ingest_send_records, ingest_consumer_snapshots)
    (root / "before.json").write_text(
        json.dumps([r.reason_code for r in spark.read.format("delta").load(f"{root}/lake/quarantine").collect()])
    )
    told.write_bytes(commands)
    run(ingest_consumer_snapshots, rebuild_availability)
    return root


@pytest.fixture(scope="module")
def table(spark, root):
    return lambda name: spark.read.format("delta").load(f"{root}/lake/{name}")


def stored(table, name: str, folder: str, column: str | None = None) -> Counter:
    """Rows of a table by source file and, where given, by a column's value."""
    rows = table(name).where(f"source_file LIKE '{folder}/%'").select("source_file", *([column] if column else []))
    return Counter(tuple(row) if column else row.source_file for row in rows.collect())


def written(root, folder: str, *patterns: str) -> Counter:
    """How often a pattern occurs in the text of each file; a file without it is left out."""
    found: Counter = Counter()
    for path in sorted((root / "landing" / folder).rglob("*")):
        if path.is_file() and path.name != "commands.jsonl":
            counts = [len(re.findall(pattern, text_of(path))) for pattern in patterns]
            found[str(path.relative_to(root / "landing"))] += sum(counts)
    return +found


def test_every_line_of_every_file_is_accounted_for(root, table):
    files = {row.file: row for row in table("ingested_file").collect()}
    for path in (p for name in FORMATS for p in (root / "landing" / name).rglob("*") if p.is_file()):
        if path.name == "commands.jsonl":
            continue
        row = files.pop(str(path.relative_to(root / "landing")))
        assert row.read == len(text_of(path).splitlines()), path
        assert row.read == row.stored + row.duplicate + row.ignored + row.quarantined, path
        assert (row.quarantined, row.duplicate, row.complete) == (0, 0, True), path
    assert {Path(name).name: (r.stored, r.quarantined, r.complete) for name, r in files.items()} == {
        "part-0.parquet": (9, 1, True),
        "damaged.parquet": (0, 1, False),
    }


def test_what_a_person_would_refuse_is_all_that_is_refused(root, table):
    assert sorted(row.reason_code for row in table("quarantine").collect()) == ["NOT_PARQUET", "UNKNOWN_VALUE"]
    assert Counter(json.loads((root / "before.json").read_text())).keys() == {
        "NO_CAPTURE_TIME",
        "NOT_PARQUET",
        "UNKNOWN_VALUE",
    }


@pytest.mark.parametrize(
    ("folder", "name", "kind", "patterns"),
    [
        ("client_log", "rebalance_result", None, ["rebalanced result changed"]),
        ("client_log", "client_event", "member_not_listed", ["not in cidAll"]),
        ("client_log", "client_event", "send_failed", ["sendKernelImpl exception"]),
        ("client_log", "client_event", "broker_isolated", ["will be isolated for"]),
        ("client_log", "client_event", "broker_unreachable", ["is unreachable, it will not be used"]),
        ("client_log", "client_event", "queue_pull_expired", ["because pull is pause"]),
        ("broker_log", "membership_event", "consumer_connected", ["new consumer connected"]),
        ("broker_log", "membership_event", "consumer_unregistered", [r"unregister a consumer\["]),
        ("broker_log", "membership_event", "consumer_channel_expired", ["remove expired channel from Consumer"]),
        ("heartbeat", "client_heartbeat", None, ["groupName"]),
        ("mqadmin", "queue_progress", None, [r"(?m)^\S+ +broker-[abc] +\d+ +\d+ +\d+ +-?\d+ +\d+ +(?:N/A|2026)"]),
        ("mqadmin", "consumer_heartbeat", None, [r"(?m)^\S+@\S+ +[\d.]+:\d+ +JAVA"]),
        ("mqadmin", "queue_ownership", None, [r"ProcessQueueInfo \["]),
        ("admin_snapshots", "collection_round", None, ['"kind": ?"round"']),
        ("admin_snapshots", "snapshot_capture", "consumerRunningInfo", ['"kind": ?"consumerRunningInfo"']),
        ("admin_snapshots", "snapshot_capture", "producerConnection", ['"kind": ?"producerConnection"']),
        ("admin_snapshots", "snapshot_capture", "topicRoute", ['"kind": ?"topicRoute"']),
    ],
)
def test_records_are_as_many_as_the_text_says(root, table, folder, name, kind, patterns):
    expected = written(root, folder, *patterns)
    found = stored(table, name, folder, "kind" if kind else None)
    assert expected
    assert ({file: n for (file, k), n in found.items() if k == kind} if kind else found) == expected


def test_sends_of_traces_are_as_many_as_different_records_say(root, table):
    """One ASYNC send of the capture left the same record twice, in one body."""
    (path,) = (root / "landing" / "trace_topic").rglob("*.gz")
    records = re.findall(r"Pub\\u0001.*?\\u0002", text_of(path))
    assert (len(records), len(set(records))) == (1730, 1729)
    assert table("send_attempt").where("source = 'trace_topic'").count() == 1729


def test_brokers_of_traces_are_named_by_the_routes_that_came_later(table):
    rows = table("send_attempt").where("source = 'trace_topic'").groupBy("broker_address", "broker_name").count()
    assert {row.broker_address: row.broker_name for row in rows.collect()} == {
        "127.0.0.1:20911": "broker-a",
        "127.0.0.1:20931": "broker-b",
        "127.0.0.1:20951": "broker-c",
    }


def test_outputs_of_mqadmin_are_taken_when_the_list_of_commands_says(table):
    (captured,) = table("consumer_heartbeat").where("collector = 'mqadmin'").select("captured_at").distinct().collect()
    assert captured.captured_at == datetime(2026, 11, 21, 9, 33, 11, 125_000)
    assert table("snapshot_capture").where("collector = 'mqadmin' AND round_at IS NULL").count() == 0


def test_windows_from_traces_are_partial_and_claim_no_failure(table):
    replayed = table("producer_replay").where("client_id LIKE 'process %'")
    assert {(tuple(r.sources), r.verdict, r.certainty) for r in replayed.collect()} == {
        (("trace_topic",), "replayed", "partial")
    }
    windows = table("broker_availability_window").where("client_id LIKE 'process %'").collect()
    assert {(w.certainty, w.trigger_kind) for w in windows} == {("partial", "latency")}
    assert table("send_verdict").where("client_id LIKE 'process %'").count() == 0


def test_a_rule_that_is_not_known_is_wrong_usage(spark, settings, tmp_path):
    from jobs import ingest_send_records
    from jobs.run_context import RunContext

    folder = tmp_path / "landing" / "canonical_sends" / "cluster=c"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    wrong = settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"rules": {"NO_RULE": "flag"}})})
    with pytest.raises(SettingsError, match="NO_RULE"):
        ingest_send_records.run(spark, wrong, RunContext(str(tmp_path / "landing")), str(tmp_path / "lake"))
