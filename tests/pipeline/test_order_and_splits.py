"""Any split of the input, any order of arrival, any rerun: the same contents as one run over everything."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pytest
from pyarrow import parquet

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.run_pipeline import JOBS
from tests.conftest import CAPTURES, GOLDEN
from tests.lake_rows import LakeRows
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import OF_PRODUCERS, run_here
from tests.pipeline.sample_files import SAMPLES, canonical_sends

CLUSTER = "cluster=oracle"
# What no line of the inputs tells, and what only `hindsight events` writes.
NOT_TOLD_HERE = {
    *("lost_lines", "consumer_recording", "topic_status", "topic_config", "subscription_group", "schedule_progress"),
    "broker_status",
    *("pop_assignment", "message_request_mode", "broker_assignment", "incident_event"),
}
Inputs = dict[str, list[bytes]]


def lines_of(path: Path) -> list[bytes]:
    return gzip.open(path).read().splitlines(keepends=True)


def whole(sends: pa.Table) -> list[bytes]:
    """A Parquet file, which cannot be cut."""
    file = pa.BufferOutputStream()
    parquet.write_table(sends, file)
    return [file.getvalue().to_pybytes()]


def canonical_routes() -> list[bytes]:
    nums = {"read_queue_nums": 8, "write_queue_nums": 8, "perm": 6, "has_master": True}
    at = 1_795_252_689_347
    rows = [{"captured_at": at + n * 30_000, "topic": "Own", "broker_name": "broker-a", **nums} for n in range(20)]
    return [json.dumps(row).encode() + b"\n" for row in rows]


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    """Landing file -> lines, of every format: producers of three modes, fourteen rounds, logs, what mqadmin printed."""
    snapshots = lines_of(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz")
    markers = [i for i, line in enumerate(snapshots) if b'"kind":"round"' in line]
    rounds = [i for n, i in enumerate(markers) if n % 5 == 0]
    chosen = [line for i in rounds for line in snapshots[i : next(m for m in [*markers, len(snapshots)] if m > i)]]
    logs, producers = CAPTURES / "consumers" / "client_logs", CAPTURES / "producers"
    printed = SAMPLES / "mqadmin" / CLUSTER
    return {
        "producer_hook/sync.jsonl": lines_of(producers / "producer_4.7.1_short.jsonl.gz")[:1500],
        "producer_hook/async.jsonl": lines_of(producers / "producer_4.9.8_async.jsonl.gz")[:1500],
        "admin_snapshots/rounds.jsonl": chosen,
        "client_log/a/rocketmq_client.log": lines_of(logs / "consumer_4.7.1" / "rocketmq_client.log.gz"),
        "client_log/b/rocketmq_client.log": lines_of(logs / "consumer_a5" / "rocketmq_client.log.gz"),
        "client_log/c/rocketmq_client.log": lines_of(producers / "client_logs" / "5.3.3" / "rocketmq_client.log.gz"),
        "canonical_sends/own.parquet": whole(canonical_sends()),
        "trace_topic/trace.jsonl": lines_of(CAPTURES / "trace_topic" / "trace_4.7.1_4.9.8_5.3.3.jsonl.gz"),
        "broker_log/broker-b.log": lines_of(CAPTURES / "broker_logs" / "broker-b.log.gz")[-600:],
        "heartbeat/heartbeats.jsonl": (GOLDEN / "heartbeats" / "heartbeat_5.3.3.jsonl").read_bytes().splitlines(True),
        "canonical_snapshots/topic_route/routes.jsonl": canonical_routes(),
        **{f"mqadmin/{path.relative_to(printed)}": [path.read_bytes()] for path in files_in(printed)},
    }


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write(landing: Path, name: str, lines: list[bytes]) -> None:
    folder, _, rest = name.partition("/")
    path = landing / folder / CLUSTER / rest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))


@pytest.fixture(scope="module")
def one_run(settings, inputs, tmp_path_factory):
    root = tmp_path_factory.mktemp("one_run")
    for name, lines in inputs.items():
        write(root / "landing", name, lines)
    run_here(settings, root / "landing", root / "lake")
    return root


def differences(lake: Path, expected: Path) -> dict[str, tuple[int, int]]:
    """The tables that two lakes do not have in common, with how many rows either holds."""
    found, wanted = (contents(place, with_sources=False) for place in (lake, expected))
    return {name: (len(found[name]), len(rows)) for name, rows in wanted.items() if found[name] != rows}


@pytest.mark.soak
def test_there_is_something_to_compare(one_run):
    found = contents(one_run / "lake")
    empty = {name for name, rows in found.items() if not rows}
    assert empty == NOT_TOLD_HERE, {name: len(rows) for name, rows in found.items()}


def commits(lake: Path) -> dict[str, int]:
    return {folder.parent.name: len(list(folder.glob("*.json"))) for folder in lake.glob("*/_delta_log")}


def test_running_again_on_a_whole_capture_writes_nothing(pipeline, story, tmp_path):
    lake = shutil.copytree(story, tmp_path / "lake")
    pipeline(story.parent / "landing", lake)
    assert commits(lake) == commits(story)


def test_running_again_on_every_format_writes_nothing(formats, tmp_path):
    """Damaged files too; its jobs are all but that of the drift."""
    lake, settings = shutil.copytree(formats / "lake", tmp_path / "lake"), load_settings(formats / "settings.toml")
    run_here(settings, formats / "landing", lake, [job for job in JOBS if job != "flag_allocation_drift"])
    assert commits(lake) == commits(formats / "lake")


def arrivals(rng: random.Random, inputs: Inputs, jobs: Sequence[str]) -> list[tuple[dict, list[str]]]:
    """Batches: landing files by name, each some lines of an input, and the jobs that run after; in any order."""
    batches = [({}, rng.sample(jobs, rng.randint(1, len(jobs)))) for _ in range(rng.randint(2, len(jobs)))]
    for name, lines in inputs.items():
        places = cuts_of(name, lines)
        cuts = [0, *sorted(rng.sample(places, min(len(places), rng.randint(0, 2)))), len(lines)]
        for part, (begin, end) in enumerate(pairwise(cuts)):
            for copy in range(rng.choice([1, 1, 1, 2]) if places else 1):
                files, _ = rng.choice(batches)
                files[landed_as(name, part, copy) if places else name] = (name, begin, end)
    return batches


def cuts_of(name: str, lines: list[bytes]) -> list[int]:
    """Where a file may be cut: a log between records, of which none is equal to one before. Such count as copies."""
    if not name.startswith(("client_log", "broker_log")):
        return list(range(1, len(lines)))
    last = {line: i for i, line in enumerate(lines) if begins_record(line)}
    reach = accumulate((last.get(line, 0) for line in lines), max)
    return [
        i for i, (far, line) in enumerate(zip(reach, lines[1:], strict=False), 1) if far < i and begins_record(line)
    ]


def begins_record(line: bytes) -> bool:
    """Lines of a stack trace do not."""
    return line.startswith(b"20")


def landed_as(name: str, part: int, copy: int) -> str:
    """A part of a file in a folder of its own; of a log as a file that was rotated: its path tells whose it is."""
    path = PurePosixPath(name)
    if name.startswith(("client_log", "broker_log")):
        return f"{name}.{part}{copy}"
    return str(path.parent / f"{part}-{copy}" / path.name)


def arrive(settings, root: Path, inputs: Inputs, jobs: Sequence[str], seed: int) -> None:
    """Cut anywhere, late, some lines in two files; jobs run in any order meanwhile, and once in theirs at the end."""
    for files, chosen in [*arrivals(random.Random(seed), inputs, jobs), ({}, jobs)]:
        for path, (name, begin, end) in files.items():
            write(root / "landing", path, inputs[name][begin:end])
        run_here(settings, root / "landing", root / "lake", chosen)


def every_line_is_accounted_for(lake: Path) -> bool:
    ledger = LakeRows(lake)("ingested_file")
    return bool(ledger) and all(f.read == f.stored + f.duplicate + f.ignored + f.quarantined for f in ledger)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_any_arrival_of_the_files_gives_the_same_tables(settings, inputs, one_run, tmp_path, seed):
    arrive(settings, tmp_path, inputs, list(JOBS), seed)
    assert differences(tmp_path / "lake", one_run / "lake") == {}
    assert every_line_is_accounted_for(tmp_path / "lake")


def test_any_arrival_of_a_producer_s_lines_gives_the_same_tables(settings, producers, tmp_path):
    """The same with the lines of one producer, of which a hundred are in two files anyway."""
    hooks = files_in(producers.landing / "producer_hook")
    inputs = {f"producer_hook/{file.name}": file.read_bytes().splitlines(keepends=True) for file in hooks}
    arrive(settings, tmp_path, inputs, OF_PRODUCERS, seed=5)
    assert differences(tmp_path / "lake", producers.lake) == {}
    assert every_line_is_accounted_for(tmp_path / "lake")
