"""Lakes made once for all tests that only read them: of a whole real capture, of every format, of two runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conf.settings_file import load_settings
from jobs.engines.asker import Asker
from tests.conftest import CAPTURES
from tests.pipeline.damaged_files import write_damaged_files
from tests.pipeline.sample_files import SAMPLES, SETTINGS, write_samples
from tests.pipeline.undisturbed_runs import Undisturbed, jobs_of, lines, two_runs

ROOT = SAMPLES.parent


@pytest.fixture(scope="session")
def story(spark, settings, tmp_path_factory) -> Path:
    """Root of the lake."""
    from jobs import flag_allocation_drift, ingest_consumer_snapshots, ingest_send_records, rebuild_availability
    from jobs.run_context import RunContext

    root = tmp_path_factory.mktemp("story")
    landing = root / "landing"
    hooks = landing / "producer_hook" / "cluster=oracle"
    hooks.mkdir(parents=True)
    for recorded in (CAPTURES / "producers").glob("producer_*"):
        shutil.copy(recorded, hooks)
    logs = landing / "client_log" / "cluster=oracle"
    shutil.copytree(CAPTURES / "consumers" / "client_logs", logs)
    shutil.copytree(CAPTURES / "producers" / "client_logs", logs / "producers")
    snapshots = landing / "admin_snapshots" / "cluster=oracle"
    snapshots.mkdir(parents=True)
    shutil.copy(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz", snapshots)
    context = RunContext(str(landing))
    for job in (ingest_send_records, ingest_consumer_snapshots, rebuild_availability, flag_allocation_drift):
        job.run(spark, settings, context, str(root / "lake"))
    return root / "lake"


@pytest.fixture(scope="module")
def views(spark, settings, story) -> Iterator[list[str]]:
    """Names of the views, which are in place for this module, tables too."""
    from jobs.delta_tables import Lake
    from jobs.sql_views import create_views

    yield create_views(spark, Lake(spark, str(story), retention_days=settings.delta.retention_days))
    spark.sql("USE default")


@pytest.fixture(scope="module")
def askers(spark, settings, story) -> Iterator[dict[str, Asker]]:
    """What answers questions about the story, on each engine."""
    from jobs.asking import spark_asker
    from jobs.engines.local_asker import LocalAsker
    from jobs.engines.local_lake import LocalLake

    yield {
        "local": LocalAsker(LocalLake(str(story), retention_days=settings.delta.retention_days)),
        "spark": spark_asker(spark, str(story), settings),
    }
    spark.sql("USE default")


@pytest.fixture(params=["local", "spark"])
def asker(askers, request) -> Asker:
    """The one and the other."""
    return askers[request.param]


@pytest.fixture(scope="session")
def formats(spark, settings_file, tmp_path_factory) -> Path:
    """Root of a landing folder and a lake: the samples of every format, and damaged files in a cluster of their own.

    Files arrive in an unkind order: traces before the routes that name their brokers, mqadmin's output before the list
    that says when it was taken (``before.json``: why lines were refused until then).
    """
    from jobs import ingest_consumer_snapshots, ingest_send_records, rebuild_availability
    from jobs.run_context import RunContext

    root = tmp_path_factory.mktemp("formats")
    landing = root / "landing"
    write_samples(landing)
    write_damaged_files(landing)
    told = next((landing / "mqadmin").rglob("commands.jsonl"))
    commands = told.read_bytes()
    told.unlink()
    (root / "settings.toml").write_text(settings_file.read_text() + SETTINGS)
    settings = load_settings(root / "settings.toml")

    def run(*jobs):
        for job in jobs:
            job.run(spark, settings, RunContext(str(landing)), str(root / "lake"))

    run(ingest_send_records, ingest_consumer_snapshots)
    refused = spark.read.format("delta").load(f"{root}/lake/quarantine").where("cluster <> 'damaged'").collect()
    (root / "before.json").write_text(json.dumps([row.reason_code for row in refused]))
    told.write_bytes(commands)
    run(ingest_consumer_snapshots, rebuild_availability)
    return root


@dataclass(frozen=True)
class Commanded:
    """What the command itself did on a landing folder and a lake, which it made."""

    landing: Path
    lake: Path
    arguments: tuple[str, ...]
    done: subprocess.CompletedProcess[str]

    def again(self, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return _command(*self.arguments, *more, **environment)


def _command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jobs.command_line", *arguments]
    given = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def commanded(settings_file, tmp_path_factory) -> Commanded:
    """A run on heartbeats, of which one line is none."""
    root = tmp_path_factory.mktemp("commanded")
    heartbeats = root / "landing" / "heartbeat" / "cluster=c"
    heartbeats.mkdir(parents=True)
    (sample,) = (SAMPLES / "heartbeat" / "cluster=example").iterdir()
    (heartbeats / sample.name).write_bytes(sample.read_bytes() + b"no heartbeat\n")
    places = ("--landing", str(root / "landing"), "--lake", str(root / "lake"))
    arguments = ("run-pipeline", *places, "--settings", str(settings_file))
    done = _command(*arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return Commanded(root / "landing", root / "lake", arguments, done)


@pytest.fixture(scope="session")
def producers(spark, settings, tmp_path_factory) -> Undisturbed:
    """One producer; the second file overlaps the first, so it has rows to compare and dates to compute anew."""
    hook = "producers/producer_4.7.1_short.jsonl.gz"
    batches = [{"producer_hook/a.jsonl": lines(hook, 0, 200)}, {"producer_hook/b.jsonl": lines(hook, 100, 300)}]
    return two_runs(jobs_of("producer", spark, settings), tmp_path_factory.mktemp("producers"), batches)


@pytest.fixture(scope="session")
def both_sides(spark, settings, tmp_path_factory) -> Undisturbed:
    """Producers and consumers, in two runs."""
    hook, rounds = "producers/producer_4.7.1_short.jsonl.gz", "consumers/admin_snapshots.jsonl.gz"
    batches = [
        {"producer_hook/a.jsonl": lines(hook, 0, 200), "admin_snapshots/a.jsonl": lines(rounds, 0, 60)},
        {"producer_hook/b.jsonl": lines(hook, 100, 300), "admin_snapshots/b.jsonl": lines(rounds, 60, 120)},
    ]
    return two_runs(jobs_of("both", spark, settings), tmp_path_factory.mktemp("both"), batches)
