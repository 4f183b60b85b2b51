"""The Spark session of contestants: the one that the command line would start."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from typing import Any

from pyspark.sql import SparkSession

from bench.contest import MASTER, ONE_MACHINE
from conf.settings_file import load_settings
from jobs.spark_session import spark_session


def session() -> SparkSession:
    """A session that lasts as long as the process."""
    kept = ExitStack()
    atexit.register(kept.close)
    master = os.environ.get(MASTER, ONE_MACHINE)
    return kept.enter_context(spark_session(load_settings(None), app_name="bench", master=master))


def stages_s() -> list[float]:
    """How long each stage took that has ended since the last call, in their order."""
    context: Any = session().sparkContext
    none = context._jvm.java.util.ArrayList()
    quantiles = context._gateway.new_array(context._jvm.double, 0)
    listed = context._jsc.sc().statusStore().stageList(none, False, False, quantiles, none)
    ended = {s.stageId(): s for s in map(listed.apply, range(listed.size())) if s.completionTime().isDefined()}
    fresh = sorted(ended.keys() - _told)
    _told.update(fresh)
    return [
        (ended[n].completionTime().get().getTime() - ended[n].submissionTime().get().getTime()) / 1e3 for n in fresh
    ]


_told: set[int] = set()
