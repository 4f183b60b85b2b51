"""Decides whether Spark compiles what it plans: for few rows the code takes far longer to make than it saves.

Interpreted and compiled plans give the same rows. Measured on one machine, ingesting sends and rebuilding took
50 and 53 s interpreted for 4,000 lines and 116 and 135 s for 150,000; compiled, 60 and 76 s and 85 and 99 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

_COMPILED_FROM_LINES = 30_000  # somewhat below the 35,000 and 56,000 at which these lines cross
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted_plans(spark: SparkSession) -> Iterator[Callable[[int], None]]:
    """Interpret what is planned within, until the function that this gives is told of many landed lines."""
    usual = {name: str(spark.conf.get(name)) for name in _INTERPRETED}

    def plan_for(lines: int) -> None:
        if lines >= _COMPILED_FROM_LINES:
            _configure(spark, usual)

    _configure(spark, _INTERPRETED)
    try:
        yield plan_for
    finally:
        _configure(spark, usual)


def _configure(spark: SparkSession, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        spark.conf.set(name, value)
