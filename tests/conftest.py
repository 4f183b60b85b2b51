"""Settings of all tests, the pipeline on this machine's engine, and one Spark session a process for what needs one."""

from __future__ import annotations

import gc
import os
import readline  # noqa: F401  # here, so that it does not set what is taken out below again
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyspark  # noqa: F401  # loaded before Great Expectations, which else has nothing for Spark in this process
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.random_examples import SOAKING

# No test is timed: on a busy machine an example takes as long as it takes, its drawing too. Other examples are for
# soak: what `make test` says of a commit, it says again.
hypothesis_settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=100 if SOAKING else 25,
    derandomize=not SOAKING,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("untimed")

os.environ["TZ"] = "UTC"
time.tzset()

# What commands say goes into a pipe here; the process that begins the tests may have told its terminal's size.
for of_terminal in ("COLUMNS", "LINES"):
    os.environ.pop(of_terminal, None)
    os.unsetenv(of_terminal)  # readline sets them behind Python's back

GOLDEN = Path(__file__).parent / "golden"
CAPTURES = GOLDEN / "captures"

# Where most of what needs Spark is; a file that is not named starts one more session.
OF_SPARK = (
    "tests/engines/test_both_engines.py",
    "tests/engines/test_change_of_engine.py",
    "tests/engines/test_publication.py",
    "tests/engines/test_runners.py",
    "tests/engines/test_spark_lake.py",
    "tests/pipeline/test_asking_on_both_engines.py",
    "tests/pipeline/test_kills.py",
    "tests/pipeline/test_migration.py",
    "tests/pipeline/test_spark_plans.py",
    "tests/scenarios/test_what_if.py",
    "tests/test_lake_lease.py",
    "tests/test_terminal.py",
    "tests/transforms/",
)
LEFT_OUT = "a test of Spark was left out"

# Compiling plans costs more than running them on the tests' small frames; so do the JVM's second compiler and its
# verifier, a tenth of what Spark's tests take. With room from the start on it collects garbage a sixth as often.
TEST_SETTINGS = """
[spark]
shuffle_partitions = 1
driver_memory = "3g"
[spark.options]
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.codegen.wholeStage" = "false"
"spark.default.parallelism" = "1"
"spark.driver.extraJavaOptions" = "-XX:+UseSerialGC -Xms1500m -Xmn900m -XX:MetaspaceSize=300m \
-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m \
-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"spark.hadoop.fs.s3a.secret.key" = "hush-2718281828"
"""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs Spark begins first: it takes longest. Without Java it is left out; the last lines say so."""
    why = _why_no_spark()
    for item in filter(_needs_spark, items):
        if why:
            item.add_marker(pytest.mark.skip(reason=f"{LEFT_OUT}: {why}"))
    items.sort(key=lambda item: not _needs_spark(item))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """File by file, as ``loadfile`` does, but those of Spark in one process: to start and warm another takes long."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "spark" if file.startswith(OF_SPARK) and not _why_no_spark() else file

        def remove_node(self, node: Any) -> str | None:
            """The test that ended its process; the rest is for another (xdist's gives out what was done)."""
            work = self.assigned_work.pop(node).items()
            left = [(scope, test) for scope, unit in work for test, is_done in unit.items() if not is_done]
            for scope, test in left[1:]:
                self.workqueue.setdefault(scope, {})[test] = False
            return left[0][1] if left else None

        def _reschedule(self, node: Any) -> None:
            """Until it has two tests, or knows that no more will come: a process with one test waits for another."""
            super()._reschedule(node)
            if not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


def _needs_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


def pytest_itemcollected(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker(pytest.mark.random)


def pytest_collection_finish() -> None:
    """What stands by then stays until the end: to look through half a million objects takes long."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Then libraries find theirs again, and clear them away."""
    gc.unfreeze()


@cache
def _why_no_spark() -> str:
    """Why no session can be started here; nothing where one can."""
    from hindsight.jobs.running.spark_session import SparkEnvironmentError, check_java

    try:
        check_java()
    except SparkEnvironmentError as error:
        return str(error)
    return ""


def pytest_terminal_summary(terminalreporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [report for report in skipped if LEFT_OUT in str(report.longrepr)]
    if left_out:
        files = Counter(report.nodeid.partition("::")[0] for report in left_out)
        terminalreporter.section("tests of Spark that were left out")
        for file, count in sorted(files.items()):
            terminalreporter.write_line(f"{count:4} {file}")
        terminalreporter.write_line(f"{len(left_out)} tests: {_why_no_spark()} Then `make test` runs them too.")


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


@pytest.fixture(scope="session")
def sampled(settings, tmp_path_factory) -> Path:
    """Root of a lake of ``data_samples``."""
    from tests.made_once import made_once
    from tests.pipeline.local_runs import run_here
    from tests.pipeline.sample_files import SAMPLES

    return made_once(tmp_path_factory, "sampled", lambda root: run_here(settings, SAMPLES, root / "lake")) / "lake"


@pytest.fixture
def pipeline(settings) -> Callable[..., None]:
    """Run the four jobs of the pipeline on a landing folder and a lake, on this machine's engine."""
    from tests.pipeline.local_runs import run_here

    return lambda landing, lake, own=settings: run_here(own, landing, lake)
