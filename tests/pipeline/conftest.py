"""Lakes made once for all tests that only read them: of a whole real capture, of every format, of two runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.asker import Asker
from tests.commands import command
from tests.conftest import CAPTURES
from tests.lake_rows import LakeRows
from tests.made_once import made_once
from tests.pipeline.asked_lake import asked_lake  # noqa: F401  (a fixture)
from tests.pipeline.damaged_files import write_damaged_files
from tests.pipeline.local_runs import OF_PRODUCERS, run_here
from tests.pipeline.sample_files import SAMPLES, SETTINGS, write_samples
from tests.pipeline.undisturbed_runs import Undisturbed, lines, two_runs

ROOT = SAMPLES.parent


@pytest.fixture(scope="session")
def story(settings, tmp_path_factory) -> Path:
    """Root of the lake."""

    def make(root: Path) -> None:
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
        run_here(settings, landing, root / "lake")

    return made_once(tmp_path_factory, "story", make) / "lake"


@pytest.fixture(scope="session")
def rows(story) -> LakeRows:
    """The tables and views of the story."""
    return LakeRows(story)


@pytest.fixture(scope="session")
def asker(rows) -> Asker:
    """What answers questions about the story."""
    return rows.asker


@pytest.fixture(scope="session")
def formats(settings_file, tmp_path_factory) -> Path:
    """Root of a landing folder and a lake: the samples of every format, and damaged files in a cluster of their own.

    Files arrive in an unkind order: traces before the routes that name their brokers, mqadmin's output before the list
    that says when it was taken (``before.json``: why lines were refused until then).
    """

    def make(root: Path) -> None:
        landing = root / "landing"
        write_samples(landing)
        write_damaged_files(landing)
        told = next((landing / "mqadmin").rglob("commands.jsonl"))
        commands = told.read_bytes()
        told.unlink()
        (root / "settings.toml").write_text(settings_file.read_text() + SETTINGS)
        settings = load_settings(root / "settings.toml")

        run_here(settings, landing, root / "lake", ("ingest_send_records", "ingest_consumer_snapshots"))
        refused = LakeRows(root / "lake")("quarantine", "cluster <> 'damaged'", "reason_code")
        (root / "before.json").write_text(json.dumps([row.reason_code for row in refused]))
        told.write_bytes(commands)
        run_here(settings, landing, root / "lake", ("ingest_consumer_snapshots", "rebuild_availability"))

    return made_once(tmp_path_factory, "formats", make)


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
    return command(*arguments, env={**os.environ, **environment})


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
def producers(settings, tmp_path_factory) -> Undisturbed:
    """One producer; the second file overlaps the first, so it has rows to compare and dates to compute anew."""
    hook = "producers/producer_4.7.1_short.jsonl.gz"
    batches = [{"producer_hook/a.jsonl": lines(hook, 0, 200)}, {"producer_hook/b.jsonl": lines(hook, 100, 300)}]
    return two_runs(partial(run_here, settings, jobs=OF_PRODUCERS), tmp_path_factory.mktemp("producers"), batches)


@pytest.fixture(scope="session")
def both_sides(settings, tmp_path_factory) -> Undisturbed:
    """Producers and consumers, in two runs."""
    hook, rounds = "producers/producer_4.7.1_short.jsonl.gz", "consumers/admin_snapshots.jsonl.gz"
    batches = [
        {"producer_hook/a.jsonl": lines(hook, 0, 200), "admin_snapshots/a.jsonl": lines(rounds, 0, 60)},
        {"producer_hook/b.jsonl": lines(hook, 100, 300), "admin_snapshots/b.jsonl": lines(rounds, 60, 120)},
    ]
    return two_runs(partial(run_here, settings), tmp_path_factory.mktemp("both"), batches)
