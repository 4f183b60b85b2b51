"""The shipped archive on separate workers: spark-submit from another directory, the project not installed for them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from hindsight.conf.failure import RUN_FAILED
from tests.conftest import CAPTURES
from tests.pipeline.lake_contents import contents
from tests.pipeline.undisturbed_runs import run_on_spark
from tests.processes import below
from tests.stores.s3_server import S3Server, s3_server

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "cluster=oracle"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def landing(tmp_path_factory):
    root = tmp_path_factory.mktemp("submit") / "landing"
    hook = root / "producer_hook" / CLUSTER
    hook.mkdir(parents=True)
    with gzip.open(CAPTURES / "producers" / "producer_4.7.1_short.jsonl.gz") as lines:
        (hook / "a.jsonl").write_bytes(b"".join(next(lines) for _ in range(600)))
    snapshots = root / "admin_snapshots" / CLUSTER
    snapshots.mkdir(parents=True)
    with gzip.open(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz") as lines:
        (snapshots / "s.jsonl").write_bytes(b"".join(next(lines) for _ in range(90)))
    return root


@pytest.fixture(scope="module")
def in_one_process(spark, settings, landing, tmp_path_factory):
    """What the tables must hold: the contents of a lake that the tests' own session made."""
    from hindsight.jobs.run_pipeline import JOBS, job_of
    from hindsight.jobs.running.run_context import RunContext

    lake = tmp_path_factory.mktemp("local") / "lake"
    for job in map(job_of, JOBS):
        run_on_spark(job, spark, settings, RunContext(str(landing)), lake)
    expected = contents(lake)
    assert any(json.loads(row).get("verdict") for row in expected["group_round"])
    return expected


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive as `make zip` makes it."""
    made = tmp_path_factory.mktemp("dist") / "hindsight.zip"
    source = tmp_path_factory.mktemp("source")
    for package in ("hindsight", "conf", "data_samples", "docs", "schemas", "udfs", "jobs"):
        shutil.copytree(ROOT / package, source / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "zipfile", "-c", str(made), "hindsight"]
    subprocess.run(command, cwd=source, check=True)
    return made


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Of workers whose interpreter has the third-party packages, and not the project, wherever it is started."""
    import venv

    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    installed = Path(next(p for p in sys.path if p.endswith("site-packages")))
    for entry in installed.iterdir():
        if "hindsight" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    python = str(folder / "bin" / "python")
    given = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHONPATH", "SPARK"))}
    given |= {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    outside = subprocess.run([python, "-c", "import hindsight"], cwd="/", env=given, capture_output=True, check=False)
    assert outside.returncode != 0, "the workers' interpreter must not have the project"
    return given


@dataclass(frozen=True)
class Submission:
    """``spark-submit`` of the whole pipeline."""

    environment: dict[str, str]
    archive: Path
    landing: Path

    def start(self, master: str, lake: Path | str, log: Path, **options: str) -> subprocess.Popen[bytes]:
        """The process, its output in ``log``; ``options``: those of Spark, by their names."""
        wanted = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false", **options}
        with log.open("wb") as output:
            return subprocess.Popen(
                [
                    str(Path(sys.executable).parent / "spark-submit"),
                    *("--master", master),
                    *(word for name, value in wanted.items() for word in ("--conf", f"{name}={value}")),
                    *("--py-files", str(self.archive)),
                    str(ROOT / "jobs" / "run_pipeline.py"),
                    *("--landing", str(self.landing), "--lake", str(lake)),
                ],
                cwd="/",
                env=self.environment,
                stdout=output,
                stderr=output,
            )


@pytest.fixture(scope="module")
def submission(environment, archive, landing) -> Submission:
    return Submission(environment, archive, landing)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def standalone(environment, tmp_path) -> Iterator[str]:
    """A master and two workers, each a process of its own, which listen on loopback only."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy, place = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = [f"{deploy}.worker.Worker", *place, "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
    commands = [[f"{deploy}.master.Master", *place, "--port", str(port)], [*worker, url], [*worker, url]]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with ExitStack() as ended, (tmp_path / "standalone.log").open("wb") as log:
        for command in commands:
            process = subprocess.Popen([spark_class, *command], cwd=tmp_path, env=environment, stdout=log, stderr=log)
            ended.callback(process.wait)
            ended.callback(process.terminate)
        yield url


@pytest.fixture(params=["local-cluster", "standalone"])
def master(request) -> str:
    return LOCAL_CLUSTER if request.param == "local-cluster" else request.getfixturevalue("standalone")


def test_separate_workers_find_the_code_in_the_archive_and_make_the_same_tables(
    spark, submission, in_one_process, master, tmp_path
):
    process = submission.start(master, tmp_path / "lake", tmp_path / "log")
    code = process.wait(timeout=1500)
    said = (tmp_path / "log").read_text()
    assert code == 0, said[-3000:]
    assert "Consumer groups that drift" in said
    assert contents(tmp_path / "lake") == in_one_process


@pytest.fixture
def store(tmp_path) -> Iterator[S3Server]:
    """An S3 server of this machine."""
    with s3_server(tmp_path) as server:
        yield server


def test_a_lake_on_an_s3_store_holds_the_same_tables(spark, submission, in_one_process, store, tmp_path):
    run = submission.start("local[2]", "s3a://bucket/lake", tmp_path / "log", **store.options)
    code = run.wait(timeout=2400)
    assert code == 0, (tmp_path / "log").read_text()[-3000:]
    store.copy("lake", tmp_path / "copy")
    assert contents(tmp_path / "copy") == in_one_process
    # The lease was taken and given back there, too.
    (last,) = sorted((tmp_path / "copy" / "_lease").iterdir())[-1:]
    assert json.loads(last.read_text())["released"] is True


def kill_an_executor(run: subprocess.Popen[bytes], lake: Path) -> None:
    """While tables are derived, what the executors keep is most."""
    executors: list[int] = []
    while run.poll() is None and not (executors and any(lake.glob("producer_replay/event_date=*"))):
        executors = [pid for pid, command in below(run.pid) if "CoarseGrainedExecutorBackend" in command]
        time.sleep(0.05)
    assert run.poll() is None, "the run was over before an executor could be killed"
    os.kill(executors[0], signal.SIGKILL)


@pytest.mark.parametrize("outlives", [False, True])
def test_a_killed_executor_costs_the_run_at_most(spark, pipeline, submission, in_one_process, tmp_path, outlives):
    """With a folder for what is staged, not even that."""
    lake, log = tmp_path / "lake", tmp_path / "log"
    options = {"spark.checkpoint.dir": (tmp_path / "staged").as_uri()} if outlives else {}
    run = submission.start(LOCAL_CLUSTER, lake, log, **options)
    kill_an_executor(run, lake)
    code = run.wait(timeout=1500)
    said = log.read_text()
    assert "Lost executor" in said
    assert code == 0 or (code == RUN_FAILED and not outlives), said[-3000:]
    assert code == 0 or "\nhindsight: an executor was lost" in said
    pipeline(submission.landing, lake)
    assert contents(lake) == in_one_process
