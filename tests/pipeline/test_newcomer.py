"""What a person on a fresh machine meets: one clear sentence, no stack trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HINDSIGHT = str(Path(sys.executable).parent / "hindsight")


def hindsight(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "JAVA_HOME"))}
    return subprocess.run(
        [HINDSIGHT, *arguments], capture_output=True, text=True, check=False, timeout=300, env=base | environment
    )


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.fixture
def run(tmp_path) -> tuple[str, ...]:
    """The pipeline on a landing folder with one file."""
    folder = tmp_path / "landing" / "heartbeat" / "cluster=c"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").touch()
    places = ("--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "nolake"))
    return ("run-pipeline", *places, "--engine", "spark")


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr and "at org.apache" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def test_a_missing_java_is_one_sentence(run, tmp_path):
    done = hindsight(*run, JAVA_HOME=str(tmp_path))
    assert done.returncode == 3
    assert "no Java was found" in sentence(done) and "install Java 17 or newer" in sentence(done)


def test_an_old_java_is_one_sentence(run, tmp_path):
    done = hindsight(*run, JAVA_HOME=str(fake_java(tmp_path, "11.0.2")))
    assert done.returncode == 3
    assert "is Java 11, which is too old" in sentence(done)


def test_a_missing_interpreter_on_the_workers_is_one_sentence(run):
    done = hindsight(*run, PYSPARK_PYTHON="/no/such/python")
    assert done.returncode == 3
    assert "PYSPARK_PYTHON is '/no/such/python', which cannot be run" in sentence(done)


@pytest.mark.spark  # it is Spark's own start that asks
def test_no_route_to_the_jars_is_one_sentence(tmp_path, monkeypatch):
    """Spark without the Delta jars, an empty Ivy cache, and no repository to ask."""
    from hindsight.jobs.running import delta_jars

    monkeypatch.setattr(delta_jars, "_jars_of_spark", list)
    monkeypatch.setattr(delta_jars.Path, "home", classmethod(lambda cls: tmp_path))
    closed = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Duser.home={tmp_path} {closed}")
    with pytest.raises(
        delta_jars.SparkEnvironmentError, match="could not be fetched: no Maven repository can be reached"
    ):
        delta_jars.delta_jars()


def test_a_mistyped_command_names_the_nearest():
    done = hindsight("run-pipelin")
    assert done.returncode == 64
    assert "Did you mean 'run-pipeline'" in sentence(done)


def test_a_mistyped_setting_names_the_nearest(run, tmp_path):
    settings = tmp_path / "own.toml"
    settings.write_text("[replay]\ncarry_dais = 3\n")
    done = hindsight(*run, "--settings", str(settings))
    assert done.returncode == 64
    assert "unknown key 'replay.carry_dais'; did you mean 'carry_days'?" in sentence(done)
