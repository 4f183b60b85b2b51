"""Makes the Spark session, and says in one sentence why it cannot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from hindsight.conf.settings import Settings
from hindsight.jobs.running.delta_jars import PACKAGES, SparkEnvironmentError, delta_jars, spark_defaults
from hindsight.jobs.running.interrupts import kept
from hindsight.jobs.running.places import is_submitted

_JAVA_NEEDED = 17
_JAVA_HELP = f"install Java {_JAVA_NEEDED} or newer (Debian: openjdk-17-jre-headless) or set JAVA_HOME to one"


@contextmanager
def spark_session(settings: Settings, *, app_name: str, master: str | None = None) -> Iterator[SparkSession]:
    """A session with Delta, stopped at the end.

    Instants come to the driver as UTC, whatever zone the machine is in.
    ``master`` is set only where the command line names one: in code it would silently override spark-submit's.
    Raises: SparkEnvironmentError: no Java, an old one, no interpreter for the workers, no way to the Delta jars.
    """
    count_time_in_utc()
    started_by_submit, one_machine = is_submitted(), is_on_one_machine(master)
    local = one_machine and not started_by_submit
    if not started_by_submit:
        check_java()
        check_worker_python()
    if one_machine:
        # The worker's interpreter is `python3` from PATH otherwise, which need not have pandas.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    for name, value in spark_defaults().items():
        if name != PACKAGES:
            builder = builder.config(name, value)
    if not started_by_submit:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in delta_jars()))
    if master is not None:
        builder = builder.master(master)
    if local:
        builder = _local(builder, settings)
    try:
        with kept():
            spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkEnvironmentError(f"Spark did not start: {error}. Run with `java -version` to check Java.") from error
    # The snapshot of a Delta table is small; 50 tasks to read it cost more than the table. A cluster may differ.
    spark.conf.set("spark.databricks.delta.snapshotPartitions", "2")
    try:
        yield spark
    finally:
        spark.stop()


def count_time_in_utc() -> None:
    """Make UTC this process's zone: PySpark gives the driver instants as local times without one."""
    os.environ["TZ"] = "UTC"
    time.tzset()


def is_on_one_machine(master: str | None) -> bool:
    """Whether Spark runs, or would run, on this machine alone; ``master``: what the command line names."""
    return (_submitted_master() if is_submitted() else master or "local").startswith("local")


def _submitted_master() -> str:
    """The master that spark-submit was given: it stands in the JVM's properties only."""
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    return str((jvm and jvm.java.lang.System.getProperty("spark.master")) or "")


def _local(builder: SparkSession.Builder, settings: Settings) -> SparkSession.Builder:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log4j = str(files("hindsight.conf").joinpath("log4j2.properties"))
    options = {
        # Rows that are kept in memory are all old to G1, which then marks the heap for as long as they live.
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC -Dlog4j2.configurationFile=file:{log4j}",
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.sql.shuffle.partitions": str(settings.spark.shuffle_partitions),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.ui.enabled": "false",
        # Each column expression would ask the JVM thrice more, to name its line in an error.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # With a handful of partitions there is nothing to adapt, and each adaptation prints the whole plan.
        "spark.sql.adaptive.enabled": "false",
        **settings.spark.options,
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder


def check_java() -> None:
    """Refuse a missing or too old Java with one sentence."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    if java is None or not shutil.which(java):
        raise SparkEnvironmentError(f"no Java was found ({where}); {_JAVA_HELP}.")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkEnvironmentError(f"{java} cannot be run ({error}); {_JAVA_HELP}.") from error
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise SparkEnvironmentError(f"{java} -version printed no version ({said.strip()[:100]!r}); {_JAVA_HELP}.")
    if int(version.group(1)) < _JAVA_NEEDED:
        raise SparkEnvironmentError(f"{java} is Java {version.group(1)}, which is too old; {_JAVA_HELP}.")


def check_worker_python() -> None:
    """Refuse a worker interpreter that does not exist."""
    python = os.environ.get("PYSPARK_PYTHON")
    if python and not shutil.which(python):
        raise SparkEnvironmentError(
            f"PYSPARK_PYTHON is {python!r}, which cannot be run; set it to a Python with pandas and pyarrow."
        )
