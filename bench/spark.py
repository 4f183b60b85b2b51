"""The Spark session of contestants: the one that the command line would start."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from typing import Any

from pyspark.sql import SparkSession

from bench.contest import MASTER, ONE_MACHINE
from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.spark_runner import lake_and_runner
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.spark_session import spark_session


def session() -> SparkSession:
    """A session that lasts as long as the process."""
    kept = ExitStack()
    atexit.register(kept.close)
    master = os.environ.get(MASTER, ONE_MACHINE)
    return kept.enter_context(spark_session(load_settings(None), app_name="bench", master=master))


def run_on_spark(job: Any, settings: Settings, context: RunContext, lake: str) -> Any:
    """A job's module run in the session; what it did."""
    return job.run_on(*lake_and_runner(session(), settings, context, lake), settings, context)


def stages_s() -> list[float]:
    """What each stage that has ended since the last call takes by itself, on the cores there are; the longest first.

    That is the time of its tasks shared evenly, or its longest task; not how long it stood, for it may have waited for
    others.
    """
    context: Any = session().sparkContext
    store = context._jsc.sc().statusStore()
    none = context._jvm.java.util.ArrayList()
    listed = store.stageList(none, False, False, _doubles(context), none)
    stages = {s.stageId(): s for s in map(listed.apply, range(listed.size())) if s.completionTime().isDefined()}
    fresh = stages.keys() - _told
    _told.update(fresh)
    executors = store.executorList(True)
    cores = sum(executors.apply(n).totalCores() for n in range(executors.size()))
    return sorted((_alone_s(context, store, stages[n], cores) for n in fresh), reverse=True)


def _alone_s(context: Any, store: Any, stage: Any, cores: int) -> float:
    summary = store.taskSummary(stage.stageId(), stage.attemptId(), _doubles(context, 1.0))
    longest_ms = summary.get().executorRunTime().apply(0) if summary.isDefined() else 0.0
    return float(max(longest_ms, stage.executorRunTime() / cores)) / 1e3


def _doubles(context: Any, *values: float) -> Any:
    array = context._gateway.new_array(context._jvm.double, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array


_told: set[int] = set()
