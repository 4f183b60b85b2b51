"""Two runs that nothing disturbs, the second with more of the same: what disturbed ones must end in."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.spark_runner import lake_and_runner
from hindsight.jobs.run_pipeline import JOBS, job_of
from hindsight.jobs.running.run_context import RunContext
from tests.conftest import CAPTURES
from tests.pipeline.interrupted_lake import Seen, after_each_write, is_published_whole, published, seen, without_empty

Batch = dict[str, bytes]
Run = Callable[[Path, Path], object]


@dataclass
class Undisturbed:
    """The states between their writes, what each run ended in, and after how many writes."""

    root: Path
    states: list[tuple[str, Path]] = field(default_factory=list)
    runs: list[Seen] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def after_first(self) -> Path:
        """A copy of the lake between the runs."""
        return self.root / "after-1"

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def states_of_second(self) -> list[tuple[str, Path]]:
        """Those after each write of the second run."""
        return self.states[self.writes[0] :]

    def nth_write(self, write: str) -> int:
        """Which write of the second run, from 1, the first one so named is."""
        return min(n for n, (name, _) in enumerate(self.states_of_second, 1) if name == write)

    def keep(self, lake, write: str, table) -> None:
        copy = self.root / "states" / str(len(self.states))
        shutil.copytree(lake.root, copy)
        self.states.append((f"{write} {table.name}", copy))


def two_runs(pipeline: Run, root: Path, batches: list[Batch]) -> Undisturbed:
    done = Undisturbed(root)
    for batch in batches:
        for name, content in batch.items():
            _land(done.landing, name, content)
        with after_each_write(done.keep):
            pipeline(done.landing, done.lake)
        done.runs.append(seen(done.lake))
        done.writes.append(len(done.states) - sum(done.writes))
        shutil.copytree(done.lake, root / f"after-{len(done.runs)}")
    return done


def lines(path: str, first: int, last: int) -> bytes:
    """Of a capture."""
    with gzip.open(CAPTURES / path) as found:
        return b"".join(list(found)[first:last])


def _land(landing: Path, name: str, content: bytes) -> None:
    folder, _, rest = name.partition("/")
    path = landing / folder / "cluster=oracle" / rest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def run_on_spark(job: Any, spark: SparkSession, settings: Settings, context: RunContext, lake: Path | str) -> Any:
    """A job's module run on Spark; what it did."""
    return job.run_on(*lake_and_runner(spark, settings, context, str(lake)), settings, context)


def on_spark(spark: SparkSession, settings: Settings, jobs: Iterable[str] = tuple(JOBS)) -> Run:
    """The pipeline's jobs, or some, on Spark."""

    def run(landing: Path, lake: Path) -> None:
        for job in jobs:
            run_on_spark(job_of(job), spark, settings, RunContext(str(landing)), lake)

    return run


def is_healed_by_a_rerun(run: Run, done: Undisturbed, lake: Path) -> bool:
    """Whether a plain run of the second batch ends in what the undisturbed one did, published as a whole."""
    run(done.landing, lake)
    same = without_empty(seen(lake)) == without_empty(done.runs[1])
    return same and bool(published(lake)) and is_published_whole(lake, done.runs[1])
