"""Settings of all tests, the pipeline on this machine's engine, and one Spark session a process for what needs one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark  # noqa: F401  # loaded before Great Expectations, which else has nothing for Spark in this process
import pytest
from hypothesis import settings as hypothesis_settings

# No test is timed: on a busy machine an example takes as long as it takes.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")

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
"spark.hadoop.fs.s3a.secret.key" = "hush-2718281828"
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark bears a mark; its files begin first: they take long, and the processes shall end together."""
    with_spark = [item for item in items if "spark" in getattr(item, "fixturenames", ())]
    for item in with_spark:
        item.add_marker(pytest.mark.spark)
    first = {item.path for item in with_spark}
    items.sort(key=lambda item: item.path not in first)


@pytest.fixture(scope="session")
def settings_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "tests.toml"
    path.write_text(TEST_SETTINGS, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def settings(settings_file):
    from hindsight.conf.settings_file import load_settings

    return load_settings(settings_file)


@pytest.fixture(scope="session")
def spark(settings) -> Iterator:
    from hindsight.jobs.running.spark_session import spark_session

    with spark_session(settings, app_name="tests", master="local[2]") as session:
        yield session


@pytest.fixture
def pipeline(settings) -> Callable[..., None]:
    """Run the four jobs of the pipeline on a landing folder and a lake, on this machine's engine."""
    from tests.pipeline.local_runs import run_here

    return lambda landing, lake, own=settings: run_here(own, landing, lake)
