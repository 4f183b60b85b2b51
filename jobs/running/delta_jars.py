"""Finds the Delta jars, or fetches them once from the Maven repository that Spark's Ivy knows.

``python -m hindsight.jobs.running.delta_jars`` puts them beside the environment's own Spark jars. Whatever is started
from there, `spark-submit` included, then has Delta without a look-up at every start.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from hindsight.conf.failure import ExpectedError

PACKAGES = "spark.jars.packages"


class SparkEnvironmentError(ExpectedError):
    """Raised when the machine lacks what Spark needs; the message says what to do."""


def spark_defaults() -> dict[str, str]:
    """The options of conf/spark-defaults.conf."""
    text = files("hindsight.conf").joinpath("spark-defaults.conf").read_text(encoding="utf-8")
    lines = (line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {name: value.strip() for name, value in lines}


def delta_jars() -> list[Path]:
    """The jars that Spark must be given; none where they stand beside its own.

    Raises: SparkEnvironmentError: they are nowhere on this machine and cannot be fetched, or are not the known ones.
    """
    if _jars_of_spark():
        return []
    if not _cached_jars():
        _fetch()
    return [verified(jar) for jar in _cached_jars()]


def verified(jar: Path) -> Path:
    """The jar, if it has the bytes that conf/delta-jars.sha256 pins.

    Raises: SparkEnvironmentError: it has not; whatever it holds would run with all that hindsight may do.
    """
    pinned = files("hindsight.conf").joinpath("delta-jars.sha256").read_text(encoding="utf-8").splitlines()
    if f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}" not in pinned:
        raise SparkEnvironmentError(f"{jar} is not the jar that conf/delta-jars.sha256 pins; delete it and run again.")
    return jar


def _jars_of_spark() -> list[Path]:
    _, artifact, version = _coordinates()
    return list((_spark_home() / "jars").glob(f"*{artifact}-{version}.jar"))


def _cached_jars() -> list[Path]:
    """The io.delta jars of an Ivy cache: they are all that is needed, Spark brings what they rest on."""
    group, artifact, version = _coordinates()
    for cache in (_own_cache() / "jars", *Path.home().glob(".ivy2*/jars")):
        if (cache / f"{group}_{artifact}-{version}.jar").exists():
            return sorted(cache.glob(f"{group}_*-{version}.jar"))
    return []


def _own_cache() -> Path:
    """Where this module has Ivy keep what it fetches: Java's idea of the home folder may differ from the shell's."""
    return Path.home() / ".cache" / "hindsight" / "ivy"


def _coordinates() -> tuple[str, str, str]:
    group, artifact, version = spark_defaults()[PACKAGES].split(":")
    return group, artifact, version


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _fetch() -> None:
    """Let spark-submit resolve the package around an empty program, its talk kept from the terminal."""
    package = spark_defaults()[PACKAGES]
    with TemporaryDirectory() as folder:
        nothing = Path(folder, "nothing.py")
        nothing.write_text("", encoding="utf-8")
        submit = [str(_spark_home() / "bin" / "spark-submit"), "--master", "local[1]", "--packages", package]
        submit += ["--conf", f"spark.jars.ivy={_own_cache()}"]
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(
            [*submit, str(nothing)], capture_output=True, text=True, check=False, env=environment, timeout=900
        )
    if done.returncode != 0 or not _cached_jars():
        unreachable = "unresolved dependency" in done.stderr or "UnknownHost" in done.stderr
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        why = "no Maven repository can be reached" if unreachable else last[:200]
        raise SparkEnvironmentError(
            f"the Delta jars ({package}) could not be fetched: {why}; connect this machine to a Maven repository once, "
            f"or copy the jars into {_spark_home() / 'jars'}."
        )


def install() -> None:
    """Copy the jars beside Spark's own."""
    for jar in delta_jars():
        shutil.copy(jar, _spark_home() / "jars" / jar.name)


if __name__ == "__main__":
    try:
        install()
    except SparkEnvironmentError as error:
        sys.exit(str(error))
