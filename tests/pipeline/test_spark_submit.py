"""The shipped archive on separate workers: spark-submit from another directory, the project not installed for them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CAPTURES
from tests.pipeline.lake_contents import contents

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "cluster=oracle"


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
def archive(tmp_path_factory):
    """The archive as `make zip` makes it."""
    made = tmp_path_factory.mktemp("dist") / "hindsight.zip"
    source = tmp_path_factory.mktemp("source")
    for package in ("conf", "schemas", "udfs", "jobs"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "zipfile", "-c", str(made), "conf", "schemas", "udfs", "jobs"]
    subprocess.run(command, cwd=source, check=True)
    return made


@pytest.fixture(scope="module")
def without_the_project(tmp_path_factory):
    """An interpreter that has the third-party packages, and not the project, wherever it is started."""
    import venv

    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    installed = Path(next(p for p in sys.path if p.endswith("site-packages")))
    for entry in installed.iterdir():
        if "hindsight" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


@pytest.mark.soak
def test_separate_workers_find_the_code_in_the_archive_and_make_the_same_tables(
    spark, pipeline, landing, archive, without_the_project, tmp_path
):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHONPATH", "SPARK"))}
    environment |= {"PYSPARK_PYTHON": str(without_the_project), "SPARK_LOCAL_IP": "127.0.0.1"}
    outside = subprocess.run(
        [str(without_the_project), "-c", "import udfs"], cwd="/", env=environment, capture_output=True, check=False
    )
    assert outside.returncode != 0, "the workers' interpreter must not have the project"
    submit = [
        str(Path(sys.executable).parent / "spark-submit"),
        "--master",
        "local-cluster[2,1,1024]",
        "--conf",
        "spark.sql.shuffle.partitions=2",
        "--conf",
        "spark.sql.adaptive.enabled=false",
        "--py-files",
        str(archive),
        str(ROOT / "jobs" / "run_pipeline.py"),
        "--landing",
        str(landing),
        "--lake",
        str(tmp_path / "cluster"),
    ]
    done = subprocess.run(submit, cwd="/", env=environment, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Consumer groups that drift" in done.stdout
    pipeline(landing, tmp_path / "local")
    expected = contents(spark, tmp_path / "local")
    assert any(json.loads(row).get("verdict") for row in expected["group_round"])
    assert contents(spark, tmp_path / "cluster") == expected
