"""Every format of data_samples through the real jobs: what is stored of each file equals a count of its text."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from hindsight.conf.settings_file import SettingsError
from tests.lake_rows import LakeRows
from tests.pipeline import damaged_files
from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import FORMATS


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


@pytest.fixture(scope="module")
def table(formats):
    """Rows of a table that come from the samples and meet a condition."""
    rows = LakeRows(formats / "lake")
    return lambda name, where="TRUE": rows(name, f"cluster <> '{damaged_files.CLUSTER}' AND ({where})")


def stored(table, name: str, folder: str, column: str | None = None) -> Counter:
    """Rows of a table by source file and, where given, by a column's value."""
    rows = table(name, f"source_file LIKE '{folder}/%'")
    return Counter((row.source_file, row[column]) if column else row.source_file for row in rows)


def sample_files(formats: Path, folder: str) -> dict[str, Path]:
    """The samples of one format by their names in the tables; mqadmin's list of commands is none of its outputs."""
    landing = formats / "landing"
    return {
        str(path.relative_to(landing)): path
        for path in sorted((landing / folder).rglob("*"))
        if path.is_file() and path.name != "commands.jsonl" and f"cluster={damaged_files.CLUSTER}" not in path.parts
    }


def written(formats: Path, folder: str, *patterns: str) -> Counter:
    """How often a pattern occurs in the text of each file; a file without it is left out."""
    texts = {name: text_of(path) for name, path in sample_files(formats, folder).items()}
    return +Counter({name: sum(len(re.findall(p, text)) for p in patterns) for name, text in texts.items()})


def test_every_line_of_every_file_is_accounted_for(formats, table):
    files = {row.file: row for row in table("ingested_file")}
    for name, path in (entry for folder in FORMATS for entry in sample_files(formats, folder).items()):
        row = files.pop(name)
        assert row.read == len(text_of(path).splitlines()), path
        assert row.read == row.stored + row.duplicate + row.ignored + row.quarantined, path
        assert (row.quarantined, row.duplicate, row.complete) == (0, 0, True), path
    assert {Path(name).name: (r.stored, r.quarantined, r.complete) for name, r in files.items()} == {
        "part-0.parquet": (9, 1, True),
        "damaged.parquet": (0, 1, False),
    }


def test_what_a_person_would_refuse_is_all_that_is_refused(formats, table):
    assert sorted(row.reason_code for row in table("quarantine")) == ["NOT_PARQUET", "UNKNOWN_VALUE"]
    assert Counter(json.loads((formats / "before.json").read_text())).keys() == {
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
def test_records_are_as_many_as_the_text_says(formats, table, folder, name, kind, patterns):
    expected = written(formats, folder, *patterns)
    found = stored(table, name, folder, "kind" if kind else None)
    assert expected
    assert ({file: n for (file, k), n in found.items() if k == kind} if kind else found) == expected


def test_sends_of_traces_are_as_many_as_different_records_say(formats, table):
    """One ASYNC send of the capture left the same record twice, in one body."""
    (path,) = (formats / "landing" / "trace_topic").rglob("*.gz")
    records = re.findall(r"Pub\\u0001.*?\\u0002", text_of(path))
    assert (len(records), len(set(records))) == (1730, 1729)
    assert len(table("send_attempt", "source = 'trace_topic'")) == 1729


def test_brokers_of_traces_are_named_by_the_routes_that_came_later(table):
    rows = table("send_attempt", "source = 'trace_topic'")
    assert {(row.broker_address, row.broker_name) for row in rows} == {
        ("127.0.0.1:20911", "broker-a"),
        ("127.0.0.1:20931", "broker-b"),
        ("127.0.0.1:20951", "broker-c"),
    }


def test_outputs_of_mqadmin_are_taken_when_the_list_of_commands_says(table):
    (captured_at,) = {row.captured_at for row in table("consumer_heartbeat", "collector = 'mqadmin'")}
    assert captured_at == datetime(2026, 11, 21, 9, 33, 11, 125_000)
    assert table("snapshot_capture", "collector = 'mqadmin' AND round_at IS NULL") == []


def test_windows_from_traces_are_partial_and_claim_no_failure(table):
    replayed = table("producer_replay", "client_id LIKE 'process %'")
    assert {(tuple(r.sources), r.verdict, r.certainty) for r in replayed} == {(("trace_topic",), "replayed", "partial")}
    windows = table("broker_availability_window", "client_id LIKE 'process %'")
    assert {(w.certainty, w.trigger_kind) for w in windows} == {("partial", "latency")}
    assert table("send_verdict", "client_id LIKE 'process %'") == []


def test_a_rule_that_is_not_known_is_wrong_usage(settings, tmp_path):
    folder = tmp_path / "landing" / "canonical_sends" / "cluster=c"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    wrong = settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"rules": {"NO_RULE": "flag"}})})
    with pytest.raises(SettingsError, match="NO_RULE"):
        run_here(wrong, tmp_path / "landing", tmp_path / "lake", ["ingest_send_records"])
