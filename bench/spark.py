"""The Spark session of contestants: the one that the command line would start."""

from __future__ import annotations

import atexit
from contextlib import ExitStack

from pyspark.sql import SparkSession

from conf.settings_file import load_settings
from jobs.spark_session import spark_session

_MASTER = "local[*]"


def session() -> SparkSession:
    """A session that lasts as long as the process."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(spark_session(load_settings(None), app_name="bench", master=_MASTER))
