"""One Spark session for all tests that need one, and places for lakes and landing folders."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark  # noqa: F401  # loaded before Great Expectations, which else has nothing for Spark in this process
import pytest
from hypothesis import settings as hypothesis_settings
from xdist.scheduler import LoadFileScheduling

# No test is timed: on a busy machine an example takes as long as it takes.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")

os.environ["TZ"] = "UTC"
time.tzset()

# The main module of a pytest-xdist worker has no file, from which pyspark.sql.connect takes it for a doctest of its own
# and exits.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__

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


# Lakes are made once a process, and dear: who reads one runs where it is made. pytest-xdist's own groups do not hold
# under pytest 9.2. A name that is part of a test's id; the first group counts.
MADE_ONCE = {
    "story": (
        "test_asking_on_both_engines.py",
        "test_explanations.py",
        "test_for_readers.py",
        "test_open_drift.py",
        "test_story_of_the_capture.py",
        "test_window_confirmations.py",
        "::test_running_again_on_a_whole_capture_writes_nothing",
        "::test_a_secret_of_the_settings_is_in_no_file_of_a_capture_s_lake",
    ),
    "commanded": ("test_nothing_new.py", "::test_a_secret_of_the_settings_is_neither_told_nor_on_the_page"),
    "formats": (
        "test_bad_input.py",
        "test_formats_of_the_samples.py",
        "test_maintain.py",
        "::test_running_again_on_every_format_writes_nothing",
    ),
    "producers": (
        "test_faults_of_the_machine.py",
        "test_kills.py",
        "test_migration.py",
        "test_refreshed_page.py",
        "test_spark_plans.py",
        "::test_any_arrival_of_a_producer_s_lines_gives_the_same_tables",
    ),
}
WITH_SPARK = ("tests/pipeline/", "tests/transforms/", "tests/engines/test_both_engines.py")


class WhereLakesAre(LoadFileScheduling):
    """Tests of a file run in one process, and so do those that share a lake."""

    def _split_scope(self, nodeid: str) -> str:
        return _lake_of(nodeid) or super()._split_scope(nodeid)


def _lake_of(nodeid: str) -> str | None:
    return next((lake for lake, readers in MADE_ONCE.items() if any(name in nodeid for name in readers)), None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WhereLakesAre:
    return WhereLakesAre(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that the processes end at about the same time."""
    for item in items:
        used = MADE_ONCE.keys() & set(getattr(item, "fixturenames", ()))
        if used - {_lake_of(item.nodeid)}:
            raise pytest.UsageError(f"{item.nodeid} uses {', '.join(used)}: name it there in MADE_ONCE")
    items.sort(key=lambda item: 0 if _lake_of(item.nodeid) else 1 if item.nodeid.startswith(WITH_SPARK) else 2)


@pytest.fixture(scope="session")
def settings_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "tests.toml"
    path.write_text(TEST_SETTINGS, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def settings(settings_file):
    from conf.settings_file import load_settings

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
