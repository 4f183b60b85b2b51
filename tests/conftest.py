"""One Spark session for all tests that need one, and places for lakes and landing folders."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ["TZ"] = "UTC"
time.tzset()

GOLDEN = Path(__file__).parent / "golden"
CAPTURES = GOLDEN / "captures"

# Compiling plans costs more than running them on the tests' small frames.
TEST_SETTINGS = """
[spark]
shuffle_partitions = 1
driver_memory = "3g"
[spark.options]
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.codegen.wholeStage" = "false"
"spark.default.parallelism" = "1"
"spark.driver.extraJavaOptions" = "-XX:+UseSerialGC"
"""


@pytest.fixture(scope="session")
def settings_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "tests.toml"
    path.write_text(TEST_SETTINGS, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def settings(settings_file):
    from conf.settings import load_settings

    return load_settings(settings_file)


@pytest.fixture(scope="session")
def spark(settings) -> Iterator:
    from jobs.spark_session import spark_session

    with spark_session(settings, app_name="tests", master="local[2]") as session:
        yield session


@pytest.fixture
def pipeline(spark, settings) -> Callable[[Path, Path], None]:
    """Run the four jobs of the pipeline on a landing folder and a lake."""
    from jobs import flag_allocation_drift, ingest_consumer_snapshots, ingest_send_records, rebuild_availability
    from jobs.run_context import RunContext

    def run(landing: Path, lake: Path) -> None:
        context = RunContext(str(landing))
        for job in (ingest_send_records, ingest_consumer_snapshots, rebuild_availability, flag_allocation_drift):
            job.run(spark, settings, context, str(lake))

    return run
